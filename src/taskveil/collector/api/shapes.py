"""The JSON that is answered, part by part: what the OpenAPI document promises of it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from taskveil.client.reading import CLIENT
from taskveil.collector.releases import FRONTIER, LONGEST_ROUND, OpenRelease
from taskveil.collector.store import StoredRelease
from taskveil.estimates.assumed import Assumption, assumptions

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
    estimates: Annotated[bool, Field(description="Whether its reports together measure something.")]
    assumptions: Annotated[list[Assumption], Field(description="What `assume` may be in /v1/estimates.")]
    frontier: Annotated[bool, Field(description="Whether its losses at other budgets are known.")]


class ReleasesShape(Shape):
    """All releases that the token may see."""

    releases: list[ReleaseShape]


class ForgottenShape(Shape):
    """How many reports were deleted."""

    forgotten: Count


class IntervalShape(Shape):
    """A mean and its limits. Null stands for a number that JSON does not have."""

    name: str
    mean: float | None
    low: float | None
    high: float | None
    assumes: Annotated[str | None, Field(description="The assumption it rests on; null for what reports measure.")]


class MeanShape(IntervalShape):
    """A mean of people, beside the volunteers' own. A date is a number of days since 1970."""

    volunteers: float | None
    spread: Annotated[float | None, Field(description="Of the volunteers' values: their standard deviation.")]
    forged: Annotated[float | None, Field(description="How far 1% of forged reports could move the mean.")]
    kind: str
    unit: str


class DriftShape(Shape):
    """Whether people differ from the volunteers in what is measured."""

    p_value: float | None
    raised: bool
    moved: list[str]
    words: str


class RowShape(Shape):
    """A line of the table, as taskveil prints it: the entry at a `place` of a `group` (attributes, answers, …)."""

    group: str
    place: Count
    name: str
    estimate: str
    interval: str
    volunteers: str
    forged: Annotated[str, Field(description="How far 1% of forged reports could move it.")]


class BudgetShape(Shape):
    """Reports of one release, and ε of each."""

    reports: Count
    epsilon: float


class EstimateShape(Shape):
    """Population estimates: the file that `Estimate.to_json` writes, with its table as text."""

    format: str
    reports: Count
    epsilon: Annotated[float, Field(description="The largest budget of one report.")]
    budgets: list[BudgetShape]
    confidence: float
    anytime: Annotated[bool, Field(description="Whether the limits hold at all times at once.")]
    releases: list[ReleaseId]
    attributes: list[MeanShape]
    answers: list[MeanShape]
    shares: list[MeanShape]
    frequencies: list[MeanShape]
    reported: list[MeanShape]
    drift: DriftShape
    assumes: Annotated[str | None, Field(description="The assumption of the rows that have one.")]
    notes: list[str]
    round: Annotated[str | None, Field(description="Null: all rounds together.")]
    rows: list[RowShape]
    since: Annotated[str | None, Field(description="The earlier round.")] = None
    changes: Annotated[
        dict[str, list[IntervalShape]] | None,
        Field(description="By group, what changed since the earlier round: only where `since` was asked for."),
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
        outputs=[] if veil.outputs is None else list(veil.outputs.names),
        report_bytes=veil.mechanism.layout.length,
        client_bytes=sum(len(content) for name, content in found.files.items() if name.startswith(f"{CLIENT}/")),
        estimates=found.scores is not None,
        assumptions=list(assumptions(veil)),
        frontier=FRONTIER in found.files,
    )
