"""The guarantee of a veil: ε, δ, and the part of the code that enforces them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from taskveil.client.promise import statement
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
        return statement(self.epsilon, self.delta, self.enforced_by)


def as_epsilon(epsilon: Any) -> float:
    """A privacy budget: a finite number above zero."""
    try:
        value = float(epsilon)
    except (TypeError, ValueError) as error:
        raise BudgetError(f"epsilon must be a number, got {epsilon!r}.") from error
    if not (math.isfinite(value) and value > 0):
        why = getattr(epsilon, "statement", "")  # of a sweep that could name no budget
        raise BudgetError(f"epsilon must be a finite number above zero, got {value}. {why}".rstrip())
    return value
