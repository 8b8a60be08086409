"""Who asks: how routes take a token, and find the release that they are asked about."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from taskveil.server.collector.problems import Problem, ProblemError
from taskveil.server.collector.releases import OpenRelease
from taskveil.server.collector.running import Collector, collector_of
from taskveil.server.collector.store import StoredToken
from taskveil.server.collector.tokens import Scope

_BEARER = HTTPBearer(
    scheme_name="token",
    bearerFormat="tv_<key>_<secret>",
    description="What `taskveil token create` printed: of scope upload, read or admin (which includes both).",
    auto_error=False,
)
"""For the OpenAPI document alone: the header is read by `Tokens.granted`."""

Shown = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]


async def granted(request: Request, scope: Scope) -> StoredToken:
    """The token of a request, if it allows this and does not ask too often; else a ProblemError."""
    collector = collector_of(request)
    token = await collector.granted(request.headers.get("authorization"), scope)
    if token.rate is not None:
        collector.buckets.take(token.key, 1, token.rate)
    return token


async def reader(request: Request, _shown: Shown) -> StoredToken:
    """The token of somebody who may see what reports say."""
    return await granted(request, "read")


async def administrator(request: Request, _shown: Shown) -> StoredToken:
    """The token of somebody who may open, close and forget."""
    return await granted(request, "admin")


Reader = Annotated[StoredToken, Depends(reader)]
Administrator = Annotated[StoredToken, Depends(administrator)]


async def known(collector: Collector, release: str, *rounds: str | None) -> OpenRelease:
    """The release, which has these rounds (None: any), after another look at the store where it seems not to be so."""
    try:
        return _known(collector, release, *rounds)
    except ProblemError:
        await collector.look_again()
        return _known(collector, release, *rounds)


def _known(collector: Collector, release: str, *rounds: str | None) -> OpenRelease:
    found = collector.releases.get(release)
    if not {name for name in rounds if name is not None} <= {one.name for one in found.stored.rounds}:
        raise ProblemError(Problem.ROUND_UNKNOWN, "Its rounds are listed under /v1/releases.")
    return found
