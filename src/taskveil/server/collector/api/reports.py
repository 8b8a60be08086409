"""POST /v1/reports: what devices send, checked, stored and answered for. Written for speed: arrays, no models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from taskveil.arrays import Integers
from taskveil.errors import WireError
from taskveil.server.collector.api.describing import REPORTS
from taskveil.server.collector.problems import Problem, ProblemError
from taskveil.server.collector.releases import OpenRelease
from taskveil.server.collector.running import collector_of
from taskveil.server.collector.store import Fate, Submission
from taskveil.server.collector.tokens import belongs
from taskveil.wire import BINARY, JSON, PATH, Arrived, Checked, arrived, checked

LARGE = 2**17
"""Bytes of a body that is read in a thread, so that others are answered meanwhile."""

MAGIC = b"TV"
"""What binary bodies begin with, and JSON never does."""

CONFLICT = "other bytes are stored under this id."

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
    read = _reader(request)
    body = await request.body()
    found = await asyncio.to_thread(read, body) if len(body) > LARGE else read(body)
    id = found.release.hex()
    if token is None:
        collector.buckets.take("", len(found), None)
    else:
        belongs(token, id)
        collector.buckets.take(token.key, len(found), token.rate)
    name = request.query_params.get("round")
    release = await collector.find(id, name)
    round = release.round(name)
    worth = checked(found, release.veil.mechanism.layout, release.veil.mechanism.possible)
    fates = _NONE
    if len(worth.numbers):
        fates = await collector.intake.submit(_submission(found, worth, release, round.number))
    collector.metrics.reports(id, fates, len(worth.refused))
    return Response(_outcome(found, worth, fates), media_type=JSON)


def _reader(request: Request) -> Callable[[bytes], Arrived]:
    """What reads the body, by its declared type; without one its first bytes tell."""
    declared = request.headers.get("content-type")
    kind = "" if declared is None else declared.partition(";")[0].strip().lower()
    if kind not in ("", BINARY, JSON):
        raise ProblemError(Problem.WRONG_TYPE, f"Reports are {BINARY} or {JSON}.")
    return partial(_read, kind=kind)


def _read(body: bytes, kind: str) -> Arrived:
    """The reports of a body of this kind, as they came."""
    if kind and body.startswith(MAGIC) is not (kind == BINARY):
        raise ProblemError(Problem.NO_REPORTS, f"This is no {kind} with reports.")
    try:
        return arrived(body)
    except WireError as error:
        said = str(error)
        raise ProblemError(Problem.NO_REPORTS, said[:1].upper() + said[1:]) from None


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


router.add_route(PATH, receive, methods=["POST"])  # the first that matches answers: no models on the way
router.add_api_route(  # and this one tells the OpenAPI document of it
    PATH, receive, methods=["POST"], summary="Send reports", response_class=Response, openapi_extra=REPORTS
)
