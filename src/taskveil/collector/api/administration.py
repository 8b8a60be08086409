"""For those who run the collector: open and close releases and rounds, and forget a round for good.

Everything is noted in the journal with the name of the token that asked for it, and with no address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request

from taskveil.collector.api.access import Administrator
from taskveil.collector.api.openapi import TOKEN, problems
from taskveil.collector.api.shapes import ForgottenShape, ReleaseId, ReleaseShape, RoundName, release_shape
from taskveil.collector.journal import journal
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.releases import round_name
from taskveil.collector.running import Collector, collector_of
from taskveil.collector.store import SHOWN_ID_DIGITS, StoredToken
from taskveil.collector.tokens import belongs
from taskveil.errors import DataError

router = APIRouter(tags=["administration"], prefix="/v1/releases/{id}")

Result = TypeVar("Result")
Id = Annotated[ReleaseId, Path(description="The release.")]
Name = Annotated[RoundName, Path(description="The round.")]

_OF_RELEASE = problems(*TOKEN, Problem.RELEASE_UNKNOWN, Problem.INVALID)
_OF_ROUND = problems(*TOKEN, Problem.RELEASE_UNKNOWN, Problem.ROUND_UNKNOWN, Problem.INVALID)
_TO_FORGET = problems(*TOKEN, Problem.RELEASE_UNKNOWN, Problem.ROUND_UNKNOWN, Problem.ROUND_OPEN, Problem.INVALID)


@router.post("/open", summary="Open a release", responses=_OF_RELEASE)
async def open_release(request: Request, token: Administrator, id: Id) -> ReleaseShape:
    """Its open rounds take reports (again)."""
    store = collector_of(request).store
    return await _changed(request, token, id, "opened", partial(store.set_open, id, open=True))


@router.post("/close", summary="Close a release", responses=_OF_RELEASE)
async def close_release(request: Request, token: Administrator, id: Id) -> ReleaseShape:
    """It takes no reports until it is opened again; what was taken stays and can be read."""
    store = collector_of(request).store
    return await _changed(request, token, id, "closed", partial(store.set_open, id, open=False))


@router.put("/rounds/{name}", summary="Open a round", responses=_OF_RELEASE)
async def open_round(request: Request, token: Administrator, id: Id, name: Name) -> ReleaseShape:
    """Open a round, new or closed, and make it the current one. Other rounds stay as they are."""
    belongs(token, id)
    try:
        round_name(name)
    except DataError as error:
        raise ProblemError(Problem.INVALID, f"name: {error}") from None
    store = collector_of(request).store
    return await _changed(request, token, id, f"opened round {name} of", partial(store.open_round, id, name))


@router.post("/rounds/{name}/close", summary="Close a round", responses=_OF_ROUND)
async def close_round(request: Request, token: Administrator, id: Id, name: Name) -> ReleaseShape:
    """The round takes no more reports, and the database is rewritten so that nothing tells in which order they came."""
    store = collector_of(request).store
    return await _changed(request, token, id, f"closed round {name} of", partial(store.close_round, id, name), name)


@router.delete("/rounds/{name}", summary="Forget a round for good", responses=_TO_FORGET)
async def forget_round(
    request: Request,
    token: Administrator,
    id: Id,
    name: Name,
    confirm: Annotated[str, Query(description="The round's name once more: there is no way back.")],
) -> ForgottenShape:
    """Delete a round that takes no more reports, and all that it has, down to the database's files."""
    belongs(token, id)
    if confirm != name:
        raise ProblemError(Problem.INVALID, "confirm: repeat the name of the round that is to be deleted.")
    collector = collector_of(request)
    if (await collector.known(id, name)).stored.takes(name):
        raise ProblemError(Problem.ROUND_OPEN, "Close it first: devices would send their reports again.")
    forgotten = await _done(
        collector, token, id, f"forgot round {name} of", lambda: collector.store.forget_round(id, name)
    )
    return ForgottenShape(forgotten=forgotten)


async def _changed(
    request: Request, token: StoredToken, id: str, what: str, change: Callable[[], None], round: str | None = None
) -> ReleaseShape:
    """Change the store, follow it, note it, and show what the release is now."""
    belongs(token, id)
    collector = collector_of(request)
    await collector.known(id, round)
    await _done(collector, token, id, what, change)
    found = collector.releases.get(id)
    return release_shape(found, found.stored)


async def _done(collector: Collector, token: StoredToken, id: str, what: str, change: Callable[[], Result]) -> Result:
    try:
        result = await asyncio.to_thread(change)
    except KeyError:
        raise ProblemError(Problem.ROUND_UNKNOWN, "It was deleted just now.") from None
    finally:
        await collector.refresh()
    journal.info("Token %s %s release %s….", token.name, what, id[:SHOWN_ID_DIGITS])
    return result
