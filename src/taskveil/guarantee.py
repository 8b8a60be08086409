"""What is promised, to whom, and enforced by what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from taskveil.client.rounding import rounded_up
from taskveil.errors import BudgetError


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(ε, δ) local differential privacy for one report, for every user and every input.

    P[report(x) ∈ S] ≤ e^ε · P[report(x') ∈ S] + δ for any inputs x, x' and any set S of reports.
    """

    epsilon: float
    delta: float = 0.0
    enforced_by: str
    assumptions: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The promise in words that need no mathematics."""
        exception = f", except with probability {self.delta:g}" if self.delta else ""
        return (
            f"Whatever a person's record contains, no report becomes more than {_times(self.epsilon)} times as "
            f"likely as it would be for any other record{exception} (ε = {rounded_up(self.epsilon)}). "
            f"{self.enforced_by} This holds for one report per person, for every input including malformed ones, and "
            "whatever anyone else knows or computes from the report."
        )


def _times(epsilon: float) -> str:
    """e^ε, rounded up so that the sentence never promises more than the mathematics."""
    if epsilon > 30:
        return f"e^{rounded_up(epsilon)}"
    factor = math.exp(epsilon)
    digits = max(0, 2 - math.floor(math.log10(factor)))
    return f"{math.ceil(factor * 10**digits) / 10**digits:,.{digits}f}"


def as_epsilon(epsilon: Any) -> float:
    """A privacy budget: a finite number above zero."""
    try:
        value = float(epsilon)
    except (TypeError, ValueError) as error:
        raise BudgetError(f"epsilon must be a number, got {epsilon!r}.") from error
    if not (math.isfinite(value) and value > 0):
        raise BudgetError(f"epsilon must be a finite number above zero, got {value}.")
    return value
