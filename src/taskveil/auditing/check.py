"""What a structural check answers: held, broken, or not applicable, and a sentence that says what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["held", "broken", "not applicable"]

ALPHA = 1e-9
"""The chance of a false alarm in each check that compares samples, shared out (Bonferroni) among all it compares."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question, its answer, and a sentence that says what was seen.

    'Held' means that the attack was carried out and failed, 'broken' that it succeeded, 'not applicable' that it could
    not be carried out: that speaks neither for the mechanism nor against it.
    """

    name: str
    outcome: Outcome
    detail: str

    @property
    def passed(self) -> bool:
        """Nothing was found against the mechanism: the check held or does not apply. `outcome` says which."""
        return self.outcome != "broken"

    @classmethod
    def of(cls, name: str, detail: str, *, held: bool) -> Check:
        """The answer of a check that was carried out."""
        return cls(name=name, outcome="held" if held else "broken", detail=detail)

    @classmethod
    def not_applicable(cls, name: str, why: str) -> Check:
        """The answer of a check that could not be carried out, and why."""
        return cls(name=name, outcome="not applicable", detail=f"Not applicable: {why}")
