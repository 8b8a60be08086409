"""Requests of operators: open and close releases and rounds, delete a round, health checks and metrics.

Each change is logged with the name of the token, and with no address.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from taskveil.collector.api.common import Administrator, granted
from taskveil.collector.api.openapi import (
    TOKEN,
    ForgottenShape,
    ReleaseId,
    ReleaseShape,
    RoundName,
    problems,
    shape_of,
)
from taskveil.collector.journal import journal
from taskveil.collector.metrics import CONTENT_TYPE
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import OpenFamily, OpenRelease, parts_of, round_name
from taskveil.collector.running import Collector, collector_of
from taskveil.collector.store import SHOWN_ID_DIGITS, StoredToken
from taskveil.collector.tokens import belongs
from taskveil.errors import DataError

router = APIRouter()
administration = APIRouter(tags=["administration"], prefix="/v1/releases/{id}")

Result = TypeVar("Result")
Id = Annotated[ReleaseId, Path(description="The release.")]
Name = Annotated[RoundName, Path(description="The round.")]

_OF_RELEASE = problems(*TOKEN, ProblemType.RELEASE_UNKNOWN, ProblemType.INVALID)
_OF_ROUND = problems(*TOKEN, ProblemType.RELEASE_UNKNOWN, ProblemType.ROUND_UNKNOWN, ProblemType.INVALID)
_TO_FORGET = problems(
    *TOKEN, ProblemType.RELEASE_UNKNOWN, ProblemType.ROUND_UNKNOWN, ProblemType.ROUND_OPEN, ProblemType.INVALID
)


@administration.post("/open", summary="Open a release", responses=_OF_RELEASE)
async def open_release(request: Request, token: Administrator, id: Id) -> ReleaseShape:
    """Let the release take reports in its open rounds."""
    store = collector_of(request).store
    return await _changed(request, token, id, "opened", partial(store.set_open, open=True))


@administration.post("/close", summary="Close a release", responses=_OF_RELEASE)
async def close_release(request: Request, token: Administrator, id: Id) -> ReleaseShape:
    """Take no reports until the release is opened again. Stored reports stay and can be read."""
    store = collector_of(request).store
    return await _changed(request, token, id, "closed", partial(store.set_open, open=False))


@administration.put("/rounds/{name}", summary="Open a round", responses=_OF_RELEASE)
async def open_round(request: Request, token: Administrator, id: Id, name: Name) -> ReleaseShape:
    """Open a new or closed round and make it the current one. Other rounds do not change."""
    collector = collector_of(request)
    belongs(token, id, collector.releases.family_of(id))
    try:
        round_name(name, (await collector.either(id)).panel)
    except DataError as error:
        raise ProblemError(ProblemType.INVALID, f"name: {error}") from None
    store = collector.store
    return await _changed(request, token, id, f"opened round {name} of", lambda one: store.open_round(one, name))


@administration.post("/rounds/{name}/close", summary="Close a round", responses=_OF_ROUND)
async def close_round(request: Request, token: Administrator, id: Id, name: Name) -> ReleaseShape:
    """Take no more reports for the round, and rewrite the database so that it does not show the order of arrival."""
    store = collector_of(request).store
    return await _changed(request, token, id, f"closed round {name} of", lambda one: store.close_round(one, name), name)


@administration.delete("/rounds/{name}", summary="Delete a round for good", responses=_TO_FORGET)
async def forget_round(
    request: Request,
    token: Administrator,
    id: Id,
    name: Name,
    confirm: Annotated[str, Query(description="The round's name again. A deleted round cannot be restored.")],
) -> ForgottenShape:
    """Delete a closed round and its reports, also in the database's files."""
    collector = collector_of(request)
    belongs(token, id, collector.releases.family_of(id))
    if confirm != name:
        raise ProblemError(ProblemType.INVALID, "confirm: repeat the name of the round.")
    found = await collector.either(id, name)
    if any(one.stored.takes(name) for one in parts_of(found)):
        raise ProblemError(ProblemType.ROUND_OPEN, "Close it first: otherwise devices would send their reports again.")
    forgotten = await _done(
        collector, token, found, f"deleted round {name} of", lambda one: collector.store.forget_round(one, name)
    )
    return ForgottenShape(forgotten=sum(forgotten))


async def _changed(
    request: Request, token: StoredToken, id: str, what: str, change: Callable[[str], None], round: str | None = None
) -> ReleaseShape:
    """Change the release, or every member of the family, and log it. Returns it as it is now."""
    collector = collector_of(request)
    belongs(token, id, collector.releases.family_of(id))
    await _done(collector, token, await collector.either(id, round), what, change)
    found = collector.releases.either(id)
    return shape_of(found, {one.stored.id: one.stored for one in parts_of(found)})


async def _done(
    collector: Collector,
    token: StoredToken,
    found: OpenRelease | OpenFamily,
    what: str,
    change: Callable[[str], Result],
) -> list[Result]:
    id = found.stored.id
    try:
        result = await asyncio.to_thread(lambda: [change(one.stored.id) for one in parts_of(found)])
    except KeyError:
        raise ProblemError(ProblemType.ROUND_UNKNOWN, "It was deleted a moment ago.") from None
    finally:
        await collector.refresh()
    journal.info("Token %s %s release %s….", token.name, what, id[:SHOWN_ID_DIGITS])
    return result


router.include_router(administration)


@router.get("/healthz", tags=["health"], summary="Whether the process runs")
async def healthz() -> dict[str, str]:
    """Answers while the process runs."""
    return {"status": "alive"}


@router.get("/readyz", tags=["health"], summary="Whether reports can be stored now")
async def readyz(request: Request) -> dict[str, str]:
    """503 unless the database answers and can be written to."""
    if not await collector_of(request).writable():
        raise ProblemError(ProblemType.UNAVAILABLE, "The database cannot be written to.", retry_after=2)
    return {"status": "ready"}


@router.get(
    "/metrics",
    tags=["health"],
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "In Prometheus' text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(*TOKEN),
    },
)
async def metrics(request: Request) -> Response:
    """Counters of this collector. Programs on the same machine need no token. Others need a read token for all
    releases."""
    if not _from_here(request):
        belongs(await granted(request, "read"), None)
    text = await asyncio.to_thread(request.app.state.metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


def _from_here(request: Request) -> bool:
    """Whether a program on this machine asks for itself: not a proxy for another client, and not a browser for a page
    that reaches us through DNS rebinding."""
    if request.client is None or any(name in request.headers for name in ("forwarded", "x-forwarded-for", "via")):
        return False
    try:
        asked = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        return all(
            ipaddress.ip_address("::1" if name == "localhost" else name).is_loopback
            for name in (request.client.host, asked)
        )
    except ValueError:
        return False
