"""The JSON that is answered, part by part: what the OpenAPI document promises of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from taskveil.client.reading import CLIENT
from taskveil.server.collector.releases import FRONTIER, LONGEST_ROUND, OpenRelease
from taskveil.server.collector.store import StoredRelease

EXAMPLE_RELEASE = "5e" * 32
ReleaseId = Annotated[str, Field(pattern="^[0-9a-f]{64}$", examples=[EXAMPLE_RELEASE])]
RoundName = Annotated[str, Field(min_length=1, max_length=LONGEST_ROUND, examples=["2026-W46"])]
Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    """Everything that is answered has these keys and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RoundShape(Shape):
    """One occasion to report."""

    name: RoundName
    open: bool
    reports: Count


class GuaranteeShape(Shape):
    """What every device is promised for one report, in numbers and in words."""

    epsilon: float
    delta: float
    statement: str
    enforced_by: str


class ReleaseShape(Shape):
    """A release, and how many reports of it are stored."""

    id: ReleaseId
    name: str
    method: str
    open: bool
    current: Annotated[str, Field(description="The round of reports that name none.")]
    rounds: list[RoundShape]
    reports: Count
    guarantee: GuaranteeShape
    attributes: list[str]
    outputs: list[str]
    report_bytes: Count
    client_bytes: Count
    estimates: Annotated[bool, Field(description="Whether volunteers are kept to compare people with.")]
    frontier: Annotated[bool, Field(description="Whether its losses at other budgets are known.")]


class ReleasesShape(Shape):
    """All releases that the token may see."""

    releases: list[ReleaseShape]


class ForgottenShape(Shape):
    """How many reports were deleted."""

    forgotten: Count


class IntervalShape(Shape):
    """A mean, and limits that hold the truth in 95 of 100 collections. None where JSON has no word for a number."""

    name: str
    mean: float | None
    low: float | None
    high: float | None


class MeanShape(IntervalShape):
    """A mean of people, beside the volunteers' own. A date is a number of days since 1970."""

    volunteers: float | None
    spread: Annotated[float | None, Field(description="Of the volunteers' values: their standard deviation.")]
    kind: str
    unit: str


class DriftShape(Shape):
    """How far people are from the volunteers."""

    p_value: float | None
    raised: bool
    moved: list[str]
    words: str


class RowShape(Shape):
    """A line of the table, as taskveil prints it."""

    name: str
    estimate: str
    interval: str
    volunteers: str


class EstimateShape(Shape):
    """What reports say together: the file that `Estimate.to_json` writes, with its table as text."""

    format: str
    reports: Count
    epsilon: float
    confidence: float
    releases: list[ReleaseId]
    attributes: list[MeanShape]
    answers: list[MeanShape]
    shares: list[MeanShape]
    frequencies: list[IntervalShape]
    drift: DriftShape
    assumes: str
    hardly_seen: Annotated[
        list[str], Field(description="Means that reports hardly see: what is said of these is the volunteers' word.")
    ]
    round: Annotated[str | None, Field(description="None: all rounds together.")]
    rows: list[RowShape]
    since: Annotated[str | None, Field(description="The earlier round.")] = None
    changes: Annotated[
        dict[str, list[IntervalShape]] | None,
        Field(description="By kind of mean, what changed since the earlier round: only where `since` was asked for."),
    ] = None


class FrontierShape(BaseModel):
    """The losses of designs at several budgets, as `tv.sweep` found them and `Frontier.to_json` wrote them."""

    clear: float
    constant: float
    rows: list[dict[str, Any]]


def release_shape(found: OpenRelease, stored: StoredRelease) -> ReleaseShape:
    """A release as it is answered; `stored` is what the store says of it now."""
    veil, guarantee = found.veil, found.veil.guarantee
    return ReleaseShape(
        id=stored.id,
        name=stored.name,
        method=veil.method,
        open=stored.open,
        current=stored.current,
        rounds=[RoundShape(name=one.name, open=one.open, reports=one.reports) for one in stored.rounds],
        reports=sum(one.reports for one in stored.rounds),
        guarantee=GuaranteeShape(
            epsilon=guarantee.epsilon,
            delta=guarantee.delta,
            statement=guarantee.statement,
            enforced_by=guarantee.enforced_by,
        ),
        attributes=list(veil.columns or (f"x{place}" for place in range(veil.device.attributes))),
        outputs=[] if veil.reference is None else list(veil.reference.names),
        report_bytes=veil.mechanism.layout.length,
        client_bytes=sum(len(content) for name, content in found.files.items() if name.startswith(f"{CLIENT}/")),
        estimates=veil.reference is not None and found.scores is not None,
        frontier=FRONTIER in found.files,
    )
