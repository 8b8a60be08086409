"""What is expected of one statistic before anything is collected, at a budget: its margins, and words for both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri

from taskveil.client.panels import longest_block
from taskveil.designs.over_time import Budget, OverTime
from taskveil.estimates.labels import Label
from taskveil.veil.loss_intervals import CONFIDENCE

UNKNOWN = "unknown"
"""In place of a margin that is wider than the range of the statistic."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What is expected of one statistic at one budget: its value for people like the volunteers, and the `variance` of
    its estimate times the number of people who report.

    `epsilon` is that of one report. Of a plan over time, each person reports `reports` times in its rounds.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"income": tv.Number(0, 100, "k€"), "plan": tv.Category(["Basic", "Pro"])})
        >>> plan = tv.plan(schema, tv.SurveyTask(), people=10_000, epsilons=[1.0, 4.0])
        >>> row = plan.row("income", 1.0)
        >>> row.margin(people=10_000) == plan.margin("income", 1.0)
        True
    """

    label: Label
    epsilon: float
    value: float
    variance: float
    over_time: OverTime | None = None
    reports: int = 1

    @property
    def name(self) -> str:
        """As `tv.estimate` names it."""
        return self.label.name

    @property
    def budget(self) -> Budget:
        """What the plan was asked for: an ε, or a budget over time."""
        return self.epsilon if self.over_time is None else self.over_time

    @property
    def share(self) -> float:
        """The share of people who report in one round; of rounds in blocks of two lengths, in one of a longer block."""
        return 1.0 if self.over_time is None else 1.0 / longest_block(self.reports, self.over_time.total)

    def margin(self, people: int) -> float:
        """Half the width of a 95% interval of one round with so many people, in the unit of the statistic; 0.02 of a
        share."""
        return float(ndtri((1.0 + CONFIDENCE) / 2.0)) * math.sqrt(self.variance / (people * self.share))

    def change(self, people: int, *, block: bool = False) -> float:
        """The margin of the change between two rounds.

        Args:
            people: how many take part.
            block: the rounds are of one block, or devices report once: then no person reports in both.
        """
        apart = self.over_time is not None and (block or self.reports == 1)
        return (math.sqrt(2.0) if apart else 2.0) * self.margin(people)

    def people(self, margin: float) -> int:
        """How many people are needed for that margin."""
        return math.ceil(self.variance / self.share * (float(ndtri((1.0 + CONFIDENCE) / 2.0)) / margin) ** 2)

    @property
    def width(self) -> float:
        """The width of the range in which the statistic lies; 1 for a share."""
        low, high = self.label.bounds
        return high - low if self.label.kind != "share" else 1.0

    def content(self, people: int) -> dict[str, Any]:
        """Its numbers with so many people, as plain data."""
        found = {
            "name": self.name,
            "kind": self.label.kind,
            "unit": self.label.unit,
            "epsilon": self.epsilon,
            "expected": self.value,
            "margin": self.margin(people),
            "people": people,
        }
        if self.over_time is None:
            return found
        changes = {"change_in_block": self.change(people, block=True), "change_between_blocks": self.change(people)}
        return {**found, **budget_content(self.over_time), "reports": self.reports, **changes}


def margin_text(row: Expected, people: int) -> str:
    """A margin in words; one that is wider than the range says nothing, as the interval then would."""
    return reach_text(row, row.margin(people))


def reach_text(row: Expected, margin: float) -> str:
    """A margin of a change or of one round in words."""
    return row.label.reach(margin) if margin < row.width or not row.width else UNKNOWN


def said(budget: Budget) -> str:
    """A budget in words."""
    if isinstance(budget, OverTime):
        each = "" if budget.per_report is None else f" by reports of {budget.per_report:g}"
        return f"lifetime ε = {budget.lifetime:g}{each} in {budget.total} rounds"
    return f"ε = {budget:g}"


def whole(budget: Budget) -> float:
    """What all reports of a budget together cost at most."""
    return budget.lifetime if isinstance(budget, OverTime) else budget


def budget_content(budget: Budget) -> dict[str, Any]:
    """A budget as plain data."""
    if not isinstance(budget, OverTime):
        return {"epsilon": budget}
    return {"lifetime": budget.lifetime, "rounds": budget.total}
