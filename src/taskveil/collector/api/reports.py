"""POST /v1/reports: what devices send, checked, stored and answered for. Written for speed: arrays, no models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from taskveil.arrays import Integers
from taskveil.client.wire import BINARY, JSON, MAGIC, MOST_POSTED, PATH, Arrived, Checked, arrived, checked
from taskveil.collector.api.openapi import REPORTS
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.releases import OpenRelease
from taskveil.collector.running import collector_of
from taskveil.collector.store import Fate, StoredToken, Submission
from taskveil.collector.tokens import belongs
from taskveil.errors import WireError

LARGE = 2**17
"""Bytes of a body that is read in a thread, so that others are answered meanwhile."""

CONFLICT = "other bytes are stored under this id."

T = TypeVar("T")

_NONE: Integers = np.empty(0, dtype=np.int64)

router = APIRouter(tags=["reports"])


async def receive(request: Request) -> Response:
    """Take one or many reports of one release, in binary or as JSON. The answer comes when they are stored for good.

    What is sent again counts once, so whoever got no answer sends the same bytes again.
    """
    collector = collector_of(request)
    token = None
    if collector.settings.uploads == "token":
        token = await collector.granted(request.headers.get("authorization"), "upload")
    kind = _kind(request)
    body = await request.body()
    collector.intake.require_room()  # whoever is refused should cost little
    if len(body) <= LARGE:
        return await _taken(request, token, kind, body, _at_once)
    try:
        async with asyncio.timeout(collector.settings.commit_seconds):
            await collector.large.acquire()
    except TimeoutError:
        raise ProblemError(Problem.BUSY, "There are many large bodies just now. Come again.", retry_after=2) from None
    try:
        return await _taken(request, token, kind, body, asyncio.to_thread)
    finally:
        collector.large.release()


async def _taken(request: Request, token: StoredToken | None, kind: str, body: bytes, run: Any) -> Response:
    """The answer to a body that is here, read and checked by `run`."""
    collector = collector_of(request)
    found = await run(_read, body, kind)
    id = found.release.hex()
    if token is None:
        collector.buckets.take("", len(found), None)
    else:
        belongs(token, id)
        collector.buckets.take(token.key, len(found), token.rate)
    name = request.query_params.get("round") if request.scope["query_string"] else None
    release, round = await collector.taking(id, name)
    worth = await run(checked, found, release.veil.mechanism.layout, release.veil.mechanism.possible)
    fates = _NONE
    if len(worth.numbers):
        fates = await collector.intake.submit(_submission(found, worth, release, round.number))
        if (fates == Fate.CLOSED).any():  # ended since we looked. Reports that name no round may have another by now
            await collector.refresh()
            release, round = await collector.taking(id, name)
            fates = await collector.intake.submit(_submission(found, worth, release, round.number))
    collector.metrics.reports(id, fates, len(worth.refused))
    return Response(await run(_outcome, found, worth, fates), media_type=JSON)


async def _at_once(call: Callable[..., T], *args: Any) -> T:
    """As `asyncio.to_thread`, for what takes less time than a thread."""
    return call(*args)


def _kind(request: Request) -> str:
    """The declared type of the body, or nothing: then its first bytes tell."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", BINARY, JSON):
        raise ProblemError(Problem.WRONG_TYPE, f"Reports are {BINARY} or {JSON}.")
    return kind


def _read(body: bytes, kind: str) -> Arrived:
    """The reports of a body of this kind, as they came."""
    if kind and body.startswith(MAGIC) is not (kind == BINARY):
        raise ProblemError(Problem.NO_REPORTS, f"This is no {kind}: declare what the body is, or nothing.")
    # Before JSON is read: of 8 MB of "{},{},…" Python makes 300 MB.
    many = 0 if body.startswith(MAGIC) else max(body.count(b"{") - 1, body.count(b",") // 2)
    try:
        if many <= MOST_POSTED and len(found := arrived(body)) <= MOST_POSTED:
            return found
    except WireError as error:
        said = str(error)
        raise ProblemError(Problem.NO_REPORTS, said[:1].upper() + said[1:]) from None
    raise ProblemError(Problem.TOO_LARGE, f"A body has {MOST_POSTED:,} reports at most: send several.")


def _submission(found: Arrived, worth: Checked, release: OpenRelease, round: int) -> Submission:
    fresh = worth.fresh
    return Submission(
        round=round,
        ids=found.ids[fresh],
        payloads=found.payloads[fresh],
        moments=None if release.stored.counted else partial(release.moments, worth.numbers),
    )


def _outcome(found: Arrived, worth: Checked, fates: Integers) -> bytes:
    """The answer: what became of every report of the body."""
    counts = np.bincount(fates, minlength=len(Fate)).tolist()
    if counts[Fate.CLOSED]:  # since we looked
        raise ProblemError(Problem.ROUND_CLOSED, "It has just ended. None of these reports was stored.")
    refused = [(one.place, one.id, one.reason) for one in worth.refused]
    copies = len(found) - len(fates) - len(refused)
    if counts[Fate.CONFLICT]:
        became = np.full(len(found), -1)
        became[worth.fresh] = fates
        other = np.flatnonzero(became[worth.first] == Fate.CONFLICT)  # with their copies in this body
        copies -= len(other) - counts[Fate.CONFLICT]
        refused += [(place, found.ids[place].tobytes(), CONFLICT) for place in other.tolist()]
        refused.sort()
    outcome = {
        "accepted": counts[Fate.ACCEPTED],
        "duplicate": counts[Fate.DUPLICATE] + copies,
        "rejected": [{"place": place, "id": id.hex(), "reason": reason} for place, id, reason in refused],
    }
    return json.dumps(outcome).encode()


router.add_api_route(
    PATH, receive, methods=["POST"], summary="Send reports", response_class=Response, openapi_extra=REPORTS
)


class Straight:
    """Brings reports to `receive` past routing and models, which take more time than everything that it does. The
    route above is what the OpenAPI document and other methods find."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._route = app, next(iter(router.routes))

    async def __call__(self, scope: Scope, receiving: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == PATH:
            scope["route"] = self._route
            await (await receive(Request(scope, receiving)))(scope, receiving, send)
        else:
            await self._app(scope, receiving, send)
