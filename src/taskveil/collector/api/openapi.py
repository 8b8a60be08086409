"""The OpenAPI document: the JSON of requests and answers, and what it says beside what the routes themselves do."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from taskveil.client.families import FAMILY
from taskveil.client.panels import Panel
from taskveil.client.reading import CLIENT
from taskveil.client.values import LONGEST_TEXT
from taskveil.client.wire import BINARY, JSON, PROBLEM, Report, pack_batch
from taskveil.collector.problems import ProblemType
from taskveil.collector.releases import FRONTIER, OpenFamily, OpenRelease, ReportCost, Together, in_all, merged, so_far
from taskveil.collector.store import StoredRelease
from taskveil.errors import printable
from taskveil.estimates.assumed import Assumption, assumptions

EXAMPLE_RELEASE = "5e" * 32
ReleaseId = Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=[EXAMPLE_RELEASE])]
RoundName = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, examples=["2026-W46"])]
Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    """An object with exactly these keys. It is made from an object with attributes of these names too."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class RoundShape(Shape):
    """A round."""

    name: RoundName
    open: bool
    reports: Count


class GuaranteeShape(Shape):
    """The guarantee for one report, in numbers and in words."""

    epsilon: float
    delta: float
    statement: str
    enforced_by: str


class TogetherShape(Shape):
    """What a person has spent at most in these rounds. Budgets add up."""

    rounds: Count
    reports: Annotated[
        Count,
        Field(description="How many reports a person made at most: one a round, or one in each block of a panel."),
    ]
    epsilon: float
    delta: Annotated[float, Field(description="The probability with which the budgets may fail, added up.")]
    odds: Annotated[str, Field(description="Even odds between two people's records become odds of at most this to 1.")]


class PanelShape(Shape):
    """A person reports in some of the planned rounds: once in each block of consecutive rounds, drawn by the device."""

    reports: Annotated[Count, Field(description="How many blocks there are: reports of one person at most.")]
    rounds: Annotated[list[RoundName], Field(description="The names of all planned rounds, in order.")]
    days: Annotated[Count, Field(description="From one round to the next; 0: rounds have no dates.")]


class ReleaseShape(Shape):
    """A release and its stored reports."""

    id: ReleaseId
    name: str
    method: str
    open: bool
    current: Annotated[str, Field(description="The round for reports that name no round.")]
    rounds: list[RoundShape]
    reports: Count
    guarantee: GuaranteeShape
    so_far: Annotated[TogetherShape, Field(description="All rounds that it has had, also deleted ones.")]
    planned: Annotated[
        TogetherShape | None,
        Field(description="All planned rounds; null if neither the release nor the operator states them."),
    ]
    panel: Annotated[PanelShape | None, Field(description="The rounds that the release plans; null if it plans none.")]
    attributes: list[str]
    outputs: list[str]
    report_bytes: Count
    client_bytes: Count
    estimates: Annotated[bool, Field(description="Whether /v1/estimates works for this release.")]
    assumptions: Annotated[list[Assumption], Field(description="Values that `assume` may have in /v1/estimates.")]
    frontier: Annotated[bool, Field(description="Whether /v1/releases/{id}/frontier works for this release.")]


class MemberShape(Shape):
    """A member of a family: a release of its own."""

    name: str
    id: ReleaseId
    weight: Annotated[int, Field(description="How often devices draw it, in proportion; 1 where people choose.")]
    epsilon: float
    reports: Count


class FamilyShape(ReleaseShape):
    """A family of releases, shown as one: the rounds that all members have, and the sums of their reports."""

    kind: Annotated[str, Field(description="drawn: devices draw the member. chosen: people choose it by its ε.")]
    members: list[MemberShape]


class ReleasesShape(Shape):
    """All releases that the token may see. A family stands for its members."""

    releases: list[FamilyShape | ReleaseShape]
    together: Annotated[
        TogetherShape,
        Field(description="All rounds of all these releases: budgets of different releases add up too."),
    ]


class FatesShape(Shape):
    """How many reports of a release had each fate since the collector started."""

    accepted: Count = 0
    duplicate: Annotated[Count, Field(description="Stored before with the same bytes: they count once.")] = 0
    conflict: Annotated[Count, Field(description="Stored before with other bytes, and refused.")] = 0
    closed: Annotated[Count, Field(description="For a round that had just been closed.")] = 0
    refused: Annotated[Count, Field(description="Reports that no device can have made.")] = 0


class ReleaseStatusShape(Shape):
    """The state of a release or family."""

    id: ReleaseId
    hours_since_report: Annotated[
        int | None, Field(description="Whole hours, from memory; null: none came since the collector started.")
    ]
    fates: FatesShape


class DatabaseShape(Shape):
    """The database and its disk."""

    bytes: Count
    free_bytes: Annotated[int | None, Field(description="Null if the disk is another machine's.")]


class StatusShape(Shape):
    """The state of the collector."""

    hours: Annotated[Count, Field(description="Since this process started.")]
    releases: list[ReleaseStatusShape]
    refused_requests: Annotated[
        Count | None,
        Field(description="Of devices, refused as a whole; null unless the token is for all releases."),
    ]
    database: Annotated[DatabaseShape | None, Field(description="Null unless the token is for all releases.")]
    token_expires: Annotated[datetime | None, Field(description="The token of this request; null: never.")]
    uploads_expire: Annotated[datetime | None, Field(description="The next upload token that expires; null: none.")]


class ForgottenShape(Shape):
    """How many reports were deleted."""

    forgotten: Count


class IntervalShape(Shape):
    """A mean and its interval. Null stands for infinite and for not a number."""

    name: str
    mean: float | None
    low: float | None
    high: float | None
    assumes: Annotated[str | None, Field(description="The assumption of the row; null if it needs none.")]


class MeanShape(IntervalShape):
    """A population mean beside the volunteers' mean. A date is a number of days since 1970."""

    volunteers: float | None
    spread: Annotated[float | None, Field(description="The standard deviation of the volunteers' values.")]
    forged: Annotated[float | None, Field(description="How far 1% of forged reports could move the mean.")]
    kind: str
    unit: str


class DriftShape(Shape):
    """The test whether people differ from the volunteers."""

    p_value: float | None
    raised: bool
    moved: list[str]
    words: str


class RowShape(Shape):
    """A line of the table as text: the entry at a `place` of a `group` (attributes, answers, …)."""

    group: str
    place: Count
    name: str
    estimate: str
    interval: str
    volunteers: str
    forged: Annotated[str, Field(description="How far 1% of forged reports could move it.")]


class BudgetShape(Shape):
    """The number of reports of one release, and the ε of each."""

    reports: Count
    epsilon: float


class CrowdShape(Shape):
    """The central guarantee of a round, for those who see its reports without order, time and sender."""

    release: ReleaseId
    epsilon: float
    delta: float
    reports: Annotated[Count, Field(description="Rounded down to two digits. All must be honest.")]
    local: Annotated[float, Field(description="The ε of a report, which stays the promise.")]
    at_least: Annotated[
        float | None, Field(description="No proof that holds for all codewords gives a smaller ε; null if not known.")
    ]
    statement: str
    assumes: list[str]


class EstimateShape(Shape):
    """Population estimates: the file that `Estimate.to_json` writes, with its table as text."""

    format: str
    reports: Count
    epsilon: Annotated[float, Field(description="The largest budget of one report.")]
    budgets: list[BudgetShape]
    confidence: float
    anytime: Annotated[bool, Field(description="Whether the intervals stay valid however often you look.")]
    releases: list[ReleaseId]
    attributes: list[MeanShape]
    answers: list[MeanShape]
    shares: list[MeanShape]
    frequencies: list[MeanShape]
    reported: list[MeanShape]
    drift: DriftShape
    assumes: Annotated[str | None, Field(description="The assumption of the rows that have one.")]
    notes: list[str]
    members: Annotated[
        dict[str, dict[str, Any]] | None, Field(description="Of a family: the estimate of each member, by name.")
    ] = None
    shares_of_people: Annotated[
        dict[str, float] | None, Field(description="Of a family from which people choose: the weights of its groups.")
    ] = None
    round: Annotated[str | None, Field(description="Null: all rounds together.")]
    crowd: Annotated[
        list[CrowdShape],
        Field(
            description="Of a single round: what all its reports reveal, for the release or each member of a family."
        ),
    ] = []
    rows: list[RowShape]
    since: Annotated[str | None, Field(description="The earlier round.")] = None
    changes: Annotated[
        dict[str, list[IntervalShape]] | None,
        Field(description="The changes since the earlier round, by group. Only with `since`."),
    ] = None


class ResponseShape(Shape):
    """A round of a series, and how many of the people who were to report did."""

    round: RoundName
    reports: Count
    expected: Annotated[float | None, Field(description="Reports that should come; null unless `people` was given.")]
    rate: Annotated[float | None, Field(description="reports/expected.")]
    low: float | None
    high: float | None


class LineShape(Shape):
    """A row over the rounds. Lists are in the order of the rounds; null where a round has no estimate."""

    group: str
    name: str
    title: Annotated[str, Field(description="The name with its unit.")]
    kind: str
    unit: str
    assumes: Annotated[str | None, Field(description="The assumption of the row; null if it needs none.")]
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    volunteers: float | None


class SeriesShape(Shape):
    """Rows over the rounds with bands: the file that `Series.to_json` writes."""

    format: str
    confidence: Annotated[float, Field(description="Of a row's whole band, at all planned rounds at once.")]
    anytime: Annotated[bool, Field(description="Whether the bands stay valid however often you look.")]
    planned: Annotated[Count, Field(description="For how many rounds the bands are valid at once.")]
    reports_per_person: Annotated[int | None, Field(description="With a panel: the reports of a person at most.")]
    rounds: list[ResponseShape]
    rows: list[LineShape]
    statement: str
    notes: list[str]


class ReportShape(Shape):
    """A report in JSON."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    payload: Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]


class ReportsShape(Shape):
    """A body of reports in JSON."""

    version: Literal[1]
    release: ReleaseId
    reports: Annotated[list[ReportShape], Field(min_length=1)]


class RejectedShape(Shape):
    """A report that was refused."""

    place: Annotated[int, Field(description="In the body, from 0.")]
    id: str
    reason: str


class OutcomeShape(Shape):
    """What the collector did with each report of a body. Accepted reports are stored durably."""

    accepted: Count
    duplicate: Annotated[Count, Field(description="Already stored with the same bytes: they count once.")]
    rejected: list[RejectedShape]


class FrontierShape(BaseModel):
    """The losses of designs at several budgets, as `Frontier.to_json` wrote them."""

    clear: float
    constant: float
    rows: list[dict[str, Any]]


class ProblemShape(BaseModel):
    """Why a request was refused (RFC 9457). It never repeats what was sent."""

    type: Annotated[str, Field(json_schema_extra={"enum": [one.document().type for one in ProblemType]})]
    title: str
    status: int
    detail: Annotated[str, Field(description="What you can do.")]


def shape_of(found: OpenRelease | OpenFamily, newest: Mapping[str, StoredRelease]) -> ReleaseShape:
    """A release or family for an answer; `newest` is the state of releases in the store, by id."""
    if isinstance(found, OpenRelease):
        return release_shape(found, newest[found.stored.id])
    family, members = found.family, list(found.members.values())
    stored = merged(family.release_id, [newest[one.stored.id] for one in members])
    shapes = [release_shape(one, newest[one.stored.id]) for one in members]
    return FamilyShape.model_validate(
        {
            **shapes[0].model_dump(),
            "id": stored.id,
            "name": stored.name,
            "method": "family",
            "open": stored.open,
            "current": stored.current,
            "rounds": list(stored.rounds),
            "reports": sum(one.reports for one in shapes),
            "guarantee": family.guarantee,
            **totals(family.guarantee, stored, found.panel),
            "outputs": list(dict.fromkeys(name for one in shapes for name in one.outputs)),
            "report_bytes": max(one.report_bytes for one in shapes),
            "client_bytes": sum(one.client_bytes for one in shapes) + len(found.files[FAMILY]),
            "estimates": all(one.estimates for one in shapes),
            "assumptions": [],
            "frontier": False,
            "kind": family.kind,
            "members": [
                {
                    "name": name,
                    "id": one.id,
                    "weight": family.weights[name],
                    "epsilon": one.guarantee.epsilon,
                    "reports": one.reports,
                }
                for name, one in zip(family.members, shapes, strict=True)
            ],
        }
    )


def totals(budget: ReportCost, stored: StoredRelease, panel: Panel | None) -> dict[str, Together | None]:
    """What the rounds so far and the planned ones add up to for one person, at this budget for each report."""
    planned = in_all(stored, panel)
    return {
        "so_far": Together.of([(budget, *so_far(stored, panel))]),
        "planned": None if planned is None else Together.of([(budget, *planned)]),
    }


def release_shape(found: OpenRelease, stored: StoredRelease) -> ReleaseShape:
    """A release for an answer; `stored` is its newest state in the store."""
    veil = found.veil
    return ReleaseShape.model_validate(
        {
            "id": stored.id,
            "name": stored.name,
            "method": veil.method,
            "open": stored.open,
            "current": stored.current,
            "rounds": list(stored.rounds),
            "reports": stored.reports,
            "guarantee": veil.guarantee,
            **totals(veil.guarantee, stored, found.panel),
            "panel": found.panel,
            "attributes": [printable(name) for name in veil.columns or veil.schema.names],
            "outputs": [] if veil.outputs is None else [printable(name) for name in veil.outputs.names],
            "report_bytes": veil.mechanism.layout.length,
            "client_bytes": sum(len(content) for name, content in found.files.items() if name.startswith(f"{CLIENT}/")),
            "estimates": found.scores is not None,
            "assumptions": list(assumptions(veil)),
            "frontier": FRONTIER in found.files,
        }
    )


_REF = "#/components/schemas/{model}"

ANY = (
    ProblemType.BAD_REQUEST,
    ProblemType.TOO_SLOW,
    ProblemType.TOO_LARGE,
    ProblemType.FAULT,
    ProblemType.UNAVAILABLE,
    ProblemType.STOPPING,
)
"""Problems that every request can have."""
TOKEN = (
    ProblemType.TOKEN_MISSING,
    ProblemType.TOKEN_UNKNOWN,
    ProblemType.TOKEN_EXPIRED,
    ProblemType.TOKEN_WRONG_SCOPE,
    ProblemType.TOKEN_OTHER_RELEASE,
    ProblemType.TOO_MANY,
)
"""Problems of a request that needs a token."""


def problems(*which: ProblemType) -> dict[int | str, dict[str, Any]]:
    """FastAPI's `responses` for these problems and those of `ANY` request, by status."""
    found: dict[int | str, dict[str, Any]] = {}
    for one in dict.fromkeys((*which, *ANY)):
        document = one.document()
        answer = found.setdefault(
            document.status,
            {
                "description": "",
                "content": {PROBLEM: {"schema": {"$ref": _REF.format(model="ProblemShape")}, "examples": {}}},
            },
        )
        answer["description"] = f"{answer['description']} {document.title}.".strip()
        answer["content"][PROBLEM]["examples"][one.name.lower()] = {
            "value": {"type": document.type, "title": document.title, "status": document.status, "detail": ""}
        }
        if document.status in (429, 503):
            answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
        elif document.status == 401:
            answer["headers"] = {"WWW-Authenticate": {"schema": {"type": "string", "enum": ["Bearer"]}}}
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def described(app: FastAPI) -> None:
    """Add the models that routes name only in `problems` and `REPORTS` to the application's OpenAPI document."""
    plain = app.openapi

    def document() -> dict[str, Any]:
        found = plain()
        _, more = models_json_schema([(ProblemShape, "validation"), (ReportsShape, "validation")], ref_template=_REF)
        found["components"]["schemas"] |= more["$defs"]
        return found

    app.openapi = document  # type: ignore[method-assign]


_IDS = ("00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100")
_BATCH = [Report(release=bytes.fromhex(EXAMPLE_RELEASE), id=bytes.fromhex(id), payload=bytes([7])) for id in _IDS]

REPORTS: dict[str, Any] = {
    "security": [{"token": []}],
    "parameters": [
        {
            "name": "round",
            "in": "query",
            "description": "The round of the reports; by default the release's current one.",
            "schema": {"type": "string"},
            "example": "2026-W46",
        }
    ],
    "requestBody": {
        "required": True,
        "description": "One or many reports of one release: bytes as devices make them, or the same in JSON.",
        "content": {
            BINARY: {
                "schema": {"type": "string", "format": "binary"},
                "example": b64encode(pack_batch(_BATCH)).decode(),  # JSON has no bytes
            },
            JSON: {
                "schema": {"$ref": _REF.format(model="ReportsShape")},
                "example": {
                    "version": 1,
                    "release": EXAMPLE_RELEASE,
                    "reports": [{"id": id, "payload": "07"} for id in _IDS],
                },
            },
        },
    },
}
"""The `openapi_extra` of POST /v1/reports, which reads its body itself."""

REPORTS_PROBLEMS = problems(
    ProblemType.NO_REPORTS,
    *TOKEN,
    ProblemType.RELEASE_UNKNOWN,
    ProblemType.ROUND_UNKNOWN,
    ProblemType.ROUND_NOT_PLANNED,
    ProblemType.RELEASE_CLOSED,
    ProblemType.ROUND_CLOSED,
    ProblemType.WRONG_TYPE,
    ProblemType.BUSY,
)
