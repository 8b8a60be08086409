"""Requests of people who read: releases, estimates, and all reports as a file."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from taskveil.client.wire import JSON, PATH
from taskveil.collector.api.common import Reader
from taskveil.collector.api.openapi import (
    TOKEN,
    DatabaseShape,
    EstimateShape,
    FatesShape,
    FrontierShape,
    ReleaseId,
    ReleasesShape,
    ReleaseStatusShape,
    RoundName,
    SeriesShape,
    StatusShape,
    TogetherShape,
    problems,
    shape_of,
)
from taskveil.collector.estimating import EstimateRequest, SeriesRequest
from taskveil.collector.exporting import TYPES, Format, exported
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import FRONTIER, OpenFamily, OpenRelease, Together, parts_of
from taskveil.collector.running import Collector, collector_of
from taskveil.collector.store import SHOWN_ID_DIGITS, StoredToken
from taskveil.collector.tokens import belongs
from taskveil.estimates.assumed import Assumption

router = APIRouter(tags=["reading"])

OfRelease = Annotated[ReleaseId, Query(description="The release.")]
OfRound = Annotated[RoundName | None, Query(description="One round; by default all together.")]


def known_parameters(request: Request) -> None:
    """ProblemError if a parameter is unknown or repeated: a mistyped one would give the answer to another question."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    given = [name for name, _ in request.query_params.multi_items()]
    if not set(given) <= set(known) or len(given) > len(set(given)):
        raise ProblemError(ProblemType.INVALID, f"The parameters are {', '.join(known)}, each at most once.")


_ASKED = (
    *(*TOKEN, ProblemType.RELEASE_UNKNOWN),
    *(ProblemType.ROUND_UNKNOWN, ProblemType.ROUND_NOT_PLANNED, ProblemType.INVALID),
)


@router.get(
    "/v1/releases", summary="Releases and their rounds", response_model=ReleasesShape, responses=problems(*TOKEN)
)
async def releases(request: Request, token: Reader) -> ReleasesShape:
    """All releases that the token is for, with the number of stored reports of each round. The members of a family are
    listed in it, and by themselves only for a token of the member."""
    collector = collector_of(request)
    stored = {one.id: one for one in await asyncio.to_thread(collector.store.releases)}
    found = [collector.releases.either(id) for id in _visible(collector, token)]
    listed = [shape_of(one, stored) for one in found if {part.stored.id for part in parts_of(one)} <= stored.keys()]
    total = Together.of((one.guarantee, one.so_far.rounds, one.so_far.reports) for one in listed)
    return ReleasesShape(releases=listed, together=TogetherShape.model_validate(total))


@router.get("/v1/status", summary="State of the collector", response_model=StatusShape, responses=problems(*TOKEN))
async def status(request: Request, token: Reader) -> StatusShape:
    """What to look at: when reports came last (to the hour), refused and repeated reports, refused requests, the
    database's size, free disk space, and when tokens expire."""
    collector = collector_of(request)
    arrivals, tokens = collector.arrivals, collector.tokens
    arrivals.look(await asyncio.to_thread(collector.store.releases))
    counted = await asyncio.to_thread(collector.metrics.fates)
    size = await asyncio.to_thread(collector.store.size) if token.release is None else None
    refused = await asyncio.to_thread(collector.metrics.refused_requests, PATH) if token.release is None else None

    def shown(id: str) -> ReleaseStatusShape:
        parts = [one.stored.id for one in parts_of(collector.releases.either(id))]
        fates = sum((counted.get(part[:SHOWN_ID_DIGITS], Counter()) for part in parts), Counter[str]())
        return ReleaseStatusShape(id=id, hours_since_report=arrivals.since(parts), fates=FatesShape(**fates))

    return StatusShape(
        hours=arrivals.hours,
        releases=[shown(id) for id in _visible(collector, token)],
        refused_requests=refused,
        database=None if size is None else DatabaseShape(bytes=size[0], free_bytes=size[1]),
        token_expires=token.expires,
        uploads_expire=tokens.uploads_expire(token.release),
    )


def _visible(collector: Collector, token: StoredToken) -> list[str]:
    """The ids of the releases and families that a token may see, in the order in which they were registered."""
    ids: dict[str, None] = {}
    for one in collector.releases.all():
        family = collector.releases.family_of(one.stored.id)
        id = family if family is not None and token.release != one.stored.id else one.stored.id
        if token.release in (None, id):
            ids[id] = None
    return list(ids)


@router.get(
    "/v1/releases/{id}/frontier",
    summary="Losses at other budgets",
    response_model=FrontierShape,
    responses=problems(*TOKEN, ProblemType.RELEASE_UNKNOWN, ProblemType.NOT_FOUND, ProblemType.INVALID),
)
async def frontier(
    request: Request, token: Reader, id: Annotated[ReleaseId, Path(description="The release.")]
) -> Response:
    """The losses of designs at several privacy budgets, if a frontier.json was registered with the release."""
    collector = collector_of(request)
    belongs(token, id, collector.releases.family_of(id))
    release = await collector.known(id)
    with contextlib.suppress(KeyError, ValueError, TypeError, RecursionError):
        content = json.loads(release.files[FRONTIER])
        # Not the losses of single records, which a file may hold by mistake.
        shown = {name: content[name] for name in ("clear", "constant", "rows")}
        return Response(json.dumps(shown, allow_nan=False), media_type=JSON)
    raise ProblemError(ProblemType.NOT_FOUND, "No frontier.json that tv.sweep(…).to_json wrote came with this release.")


@router.get(
    "/v1/estimates",
    summary="Population estimates",
    response_model=EstimateShape,
    responses=problems(*_ASKED, ProblemType.TOO_FEW, ProblemType.BUSY),
    dependencies=[Depends(known_parameters)],
)
async def estimates(
    request: Request,
    token: Reader,
    release: OfRelease,
    round: OfRound = None,
    since: Annotated[RoundName | None, Query(description="An earlier round: what changed since then.")] = None,
    anytime: Annotated[
        bool, Query(description="True: the intervals stay valid however often you look. False: for one look.")
    ] = True,
    assume: Annotated[
        Assumption | None, Query(description="Add rows that rest on this assumption; needs anytime=false.")
    ] = None,
) -> Response:
    """The result of `tv.estimate`: means and shares with intervals, beside the volunteers' values. Without `round`,
    people who reported in several rounds are counted several times. An estimate that takes t seconds may be up to
    10 t seconds old."""
    if since is not None and round in (None, since):
        raise ProblemError(ProblemType.INVALID, "since: name two different rounds, as round and since.")
    collector, found = await _asked(request, token, release, anytime, assume, round, since)
    asked = EstimateRequest(round=round, since=since, anytime=anytime, assume=assume)
    return Response(await collector.estimates.answer(found, asked), media_type=JSON)


async def _asked(
    request: Request, token: StoredToken, release: str, anytime: bool, assume: Assumption | None, *rounds: str | None
) -> tuple[Collector, OpenRelease | OpenFamily]:
    """The collector, and the release with these rounds; a ProblemError if the token or the assumption does not allow
    the estimate."""
    collector = collector_of(request)
    belongs(token, release, collector.releases.family_of(release))
    if assume is not None and anytime:
        raise ProblemError(ProblemType.INVALID, "assume: rows with an assumption need anytime=false.")
    found = await collector.either(release, *rounds)
    if assume is not None and not isinstance(found, OpenRelease):
        raise ProblemError(ProblemType.INVALID, "assume: name one member of the family as release.")
    return collector, found


@router.get(
    "/v1/estimates/series",
    summary="Population estimates over the rounds",
    response_model=SeriesShape,
    responses=problems(*TOKEN, ProblemType.RELEASE_UNKNOWN, ProblemType.INVALID, ProblemType.TOO_FEW, ProblemType.BUSY),
    dependencies=[Depends(known_parameters)],
)
async def series(
    request: Request,
    token: Reader,
    release: OfRelease,
    people: Annotated[
        int | None, Query(ge=1, description="How many people take part: adds expected reports and response rates.")
    ] = None,
    anytime: Annotated[
        bool, Query(description="True: the bands stay valid however often you look. False: for one look a round.")
    ] = True,
    assume: Annotated[
        Assumption | None, Query(description="Add rows that rest on this assumption; needs anytime=false.")
    ] = None,
) -> Response:
    """The result of `tv.estimate` of all rounds: every row over the rounds, with bands that are valid at all planned
    rounds at once. Planned are the rounds of the release's panel, or those that the operator stated, or those so far.
    It is kept like the estimates of /v1/estimates."""
    collector, found = await _asked(request, token, release, anytime, assume)
    asked = SeriesRequest(people=people, anytime=anytime, assume=assume)
    return Response(await collector.estimates.answer(found, asked), media_type=JSON)


@router.get(
    "/v1/export",
    summary="All reports as a file",
    response_class=Response,
    responses={
        200: {
            "description": "As `taskveil privatize` writes it, with a column `round`, in the order of random ids.",
            "content": {
                TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
                TYPES["csv"].partition(";")[0]: {"schema": {"type": "string"}},
            },
        },
        **problems(*_ASKED, ProblemType.BUSY),
    },
    dependencies=[Depends(known_parameters)],
)
async def export(
    request: Request,
    token: Reader,
    release: OfRelease,
    round: OfRound = None,
    format: Annotated[Format, Query(description="Of the file.")] = "parquet",
) -> Response:
    """All reports of a release or a round, as CSV, or as Parquet for `taskveil estimate` and `taskveil decode`."""
    collector = collector_of(request)
    belongs(token, release, collector.releases.family_of(release))
    found = await collector.known(release, round)
    pieces = exported(found.veil, collector.store, round, format)
    try:
        first = await asyncio.to_thread(next, pieces)  # a store that fails at once gets a problem document
    except KeyError:
        raise ProblemError(ProblemType.ROUND_UNKNOWN, "It was deleted a moment ago.") from None
    name = f"reports-{release[:SHOWN_ID_DIGITS]}.{format}"
    return _Pieces(first, pieces, TYPES[format], {"Content-Disposition": f'attachment; filename="{name}"'})


class _Pieces(StreamingResponse):
    """Sends the parts of an iterator, and closes it even if the client leaves early."""

    def __init__(self, first: bytes, rest: Iterator[bytes], kind: str, headers: dict[str, str]) -> None:
        super().__init__(chain([first], rest), media_type=kind, headers=headers)
        self._rest = rest

    async def __call__(self, *connection: Any) -> None:
        try:
            await super().__call__(*connection)
        finally:
            await asyncio.to_thread(self._rest.close)  # type: ignore[attr-defined]
