"""Requests of devices: POST /v1/reports, and a release's client files.

Receiving reports is written for speed: arrays, no models. The client files are public. They stay available while the
release is in the database, open or closed: a device that must send reports again, or a person who wants to check the
guarantee, needs them after the collection too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from taskveil.arrays import Integers
from taskveil.client.families import FAMILY, FAMILY_SIGNATURE
from taskveil.client.reading import CLIENT
from taskveil.client.wire import BINARY, JSON, MAGIC, MOST_POSTED, PATH, Arrived, Checked, arrived, checked
from taskveil.collector.api.common import LARGE_BODY_BYTES, tagged
from taskveil.collector.api.openapi import REPORTS, REPORTS_PROBLEMS, OutcomeShape, ReleaseId, problems
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import OpenFamily, OpenRelease
from taskveil.collector.running import collector_of
from taskveil.collector.store import Fate, StoredToken, Submission
from taskveil.collector.tokens import belongs
from taskveil.errors import WireError

OCTETS = "application/octet-stream"
CONFLICT = "other bytes are stored under this id."

T = TypeVar("T")

_NONE: Integers = np.empty(0, dtype=np.int64)

router = APIRouter()


async def receive(request: Request) -> Response:
    """Store one or many reports of one release, in binary or as JSON. The answer comes after they are on disk.

    A report that is sent twice counts once. If you get no answer, send the same bytes again.
    """
    collector = collector_of(request)
    token = None
    if collector.settings.uploads == "token":
        token = await collector.granted(request.headers.get("authorization"), "upload")
    kind = _kind(request)
    body = await request.body()
    collector.intake.require_room()  # a refusal should cost little
    if len(body) <= LARGE_BODY_BYTES:
        return await _taken(request, token, kind, body, _at_once)
    try:
        async with asyncio.timeout(collector.settings.commit_seconds):
            await collector.large.acquire()
    except TimeoutError:
        raise ProblemError(
            ProblemType.BUSY, "There are many large bodies now. Try again later.", retry_after=2
        ) from None
    try:
        return await _taken(request, token, kind, body, asyncio.to_thread)
    finally:
        collector.large.release()


async def _taken(request: Request, token: StoredToken | None, kind: str, body: bytes, run: Any) -> Response:
    """The answer to a body. `run` runs the functions that read and check it."""
    collector = collector_of(request)
    found = await run(_read, body, kind)
    id = found.release.hex()
    if token is None:
        collector.buckets.take("", len(found), None)
    else:
        belongs(token, id, collector.releases.family_of(id))
        collector.buckets.take(token.key, len(found), token.rate)
    name = request.query_params.get("round") if request.scope["query_string"] else None
    release, round = await collector.taking(id, name)
    worth = await run(checked, found, release.veil.mechanism.layout, release.veil.mechanism.possible)
    fates = _NONE
    if len(worth.numbers):
        fates = await collector.intake.submit(_submission(found, worth, release, round.number))
        if (fates == Fate.CLOSED).any():  # closed a moment ago. Reports that name no round may now belong to another
            await collector.refresh()
            release, round = await collector.taking(id, name)
            fates = await collector.intake.submit(_submission(found, worth, release, round.number))
    collector.metrics.reports(id, fates, len(worth.refused))
    return Response(await run(_outcome, found, worth, fates), media_type=JSON)


async def _at_once(call: Callable[..., T], *args: Any) -> T:
    """Like `asyncio.to_thread`, without a thread, for short calls."""
    return call(*args)


def _kind(request: Request) -> str:
    """The declared type of the body; empty if its first bytes decide."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", BINARY, JSON):
        raise ProblemError(ProblemType.WRONG_TYPE, f"Reports are {BINARY} or {JSON}.")
    return kind


def _read(body: bytes, kind: str) -> Arrived:
    """The reports of a body of this type, not checked yet."""
    if kind and body.startswith(MAGIC) is not (kind == BINARY):
        raise ProblemError(ProblemType.NO_REPORTS, f"The body is not {kind}: declare its type, or none.")
    # Before JSON is parsed: Python would turn 8 MB of "{},{},…" into 300 MB.
    many = 0 if body.startswith(MAGIC) else max(body.count(b"{") - 1, body.count(b",") // 2)
    try:
        if many <= MOST_POSTED and len(found := arrived(body)) <= MOST_POSTED:
            return found
    except WireError as error:
        text = str(error)
        raise ProblemError(ProblemType.NO_REPORTS, text[:1].upper() + text[1:]) from None
    raise ProblemError(ProblemType.TOO_LARGE, f"A body has at most {MOST_POSTED:,} reports: send several.")


def _submission(found: Arrived, worth: Checked, release: OpenRelease, round: int) -> Submission:
    fresh = worth.fresh
    return Submission(
        round=round,
        ids=found.ids[fresh],
        payloads=found.payloads[fresh],
        moments=None if release.stored.counted else partial(release.moments, worth.numbers),
    )


def _outcome(found: Arrived, worth: Checked, fates: Integers) -> bytes:
    """The answer: the fate of each report of the body."""
    counts = np.bincount(fates, minlength=len(Fate)).tolist()
    if counts[Fate.CLOSED]:
        raise ProblemError(ProblemType.ROUND_CLOSED, "It was closed a moment ago. None of these reports was stored.")
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
    PATH,
    receive,
    methods=["POST"],
    summary="Send reports",
    response_model=OutcomeShape,
    responses=REPORTS_PROBLEMS,
    openapi_extra=REPORTS,
    tags=["reports"],
)


class Shortcut:
    """Middleware that passes reports to `receive` without routing, which would take longer than everything else. The
    route above is for the OpenAPI document and for other methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._route = app, next(iter(router.routes))

    async def __call__(self, scope: Scope, receiving: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == PATH:
            scope["route"] = self._route
            await (await receive(Request(scope, receiving)))(scope, receiving, send)
        else:
            await self._app(scope, receiving, send)


OF_FILE: dict[str, Any] = {
    "tags": ["devices"],
    "response_class": Response,
    "responses": {
        200: {
            "description": "The file, as it was registered.",
            "content": {
                JSON: {"schema": {"type": "object"}},
                OCTETS: {"schema": {"type": "string", "format": "binary"}},
            },
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "SHA-256 of the file."}},
        },
        304: {"description": "The device has this file already (If-None-Match)."},
        **problems(ProblemType.RELEASE_UNKNOWN, ProblemType.NOT_FOUND, ProblemType.INVALID),
    },
}


@router.get("/v1/releases/{id}/client/{name}", **OF_FILE, summary="A file that devices run")
async def client_file(
    request: Request,
    id: Annotated[ReleaseId, Path(description="The release.")],
    name: Annotated[str, Path(examples=["manifest.json"])],
) -> Response:
    """A file of the folder client/ of a release. It needs no token; web pages of any origin may fetch it."""
    release = await collector_of(request).known(id)
    return _file(request, release.files, f"{CLIENT}/{name}")


def _file(request: Request, files: Mapping[str, bytes], name: str) -> Response:
    content = files.get(name)
    if content is None:
        raise ProblemError(ProblemType.NOT_FOUND, "The client files are manifest.json and the files that it names.")
    return tagged(request, content, JSON if name.endswith(".json") else OCTETS)


FamilyId = Annotated[ReleaseId, Path(description="The family.")]


@router.get("/v1/releases/{id}/family.json", **OF_FILE, summary="What devices know of a family")
async def family_file(request: Request, id: FamilyId) -> Response:
    """The description of a family. It needs no token; `Client.load` of the browser takes its address."""
    return _file(request, (await _family(request, id)).files, FAMILY)


@router.get("/v1/releases/{id}/family.sig", **OF_FILE, summary="The signature of a family")
async def family_signature(request: Request, id: FamilyId) -> Response:
    """The publisher's signature of the description, if there is one."""
    return _file(request, (await _family(request, id)).files, FAMILY_SIGNATURE)


@router.get("/v1/releases/{id}/{member}/client/{name}", **OF_FILE, summary="A file of a member of a family")
async def member_file(
    request: Request,
    id: FamilyId,
    member: Annotated[str, Path(description="Its name in the family.")],
    name: Annotated[str, Path(examples=["manifest.json"])],
) -> Response:
    """A file of the folder client/ of a member, at its place beside family.json."""
    return _file(request, (await _family(request, id)).files, f"{member}/{CLIENT}/{name}")


async def _family(request: Request, id: str) -> OpenFamily:
    found = await collector_of(request).either(id)
    if not isinstance(found, OpenFamily):
        raise ProblemError(ProblemType.NOT_FOUND, "This is a release of its own, and no family.")
    return found
