"""Who asks: how routes take a token."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from taskveil.collector.running import collector_of
from taskveil.collector.store import StoredToken
from taskveil.collector.tokens import Scope

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
