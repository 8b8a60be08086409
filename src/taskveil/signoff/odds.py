"""ε in words that need no mathematics: odds, how sure somebody can become, and whether that is still protection."""

from __future__ import annotations

import math
from typing import Any

from taskveil.client.promise import WEAK, rounded_up, times_as_likely

BEFORE = {0.5: "50%", 0.1: "10%", 0.01: "1%"}
"""How sure somebody is of a fact about a person before they see a report."""


def surer(before: float, epsilon: float) -> float:
    """The largest probability that reports of ε in total can give to a fact that had the probability `before`."""
    return before / (before + (1.0 - before) * math.exp(-epsilon))


def percent(share: float) -> str:
    """A probability in percent with one decimal, rounded up; very large ones as such."""
    return "over 99.9%" if share > 0.999 else f"{math.ceil(round(1000.0 * share, 6)) / 10:.3g}%"


def level(epsilon: float) -> str:
    """ "none", "weak" or "kept": what is left of the protection at this ε.

    None is left if a suspicion of 1% can become a certainty of more than 99%. It is weak from where the promise of a
    report says so itself.
    """
    if surer(0.01, epsilon) > 0.99:
        return "none"
    return "weak" if epsilon > WEAK else "kept"


def meaning(epsilon: float, reports: str) -> str:
    """What an ε means for a person, in two or three sentences; `reports` names what was seen ("one report")."""
    sure, most = percent(surer(0.01, epsilon)), "" if surer(0.01, epsilon) > 0.999 else " at most"
    odds = f"become odds of at most {times_as_likely(epsilon)}"
    if epsilon > 30:
        odds = "can become odds of more than a million million"
    said = (
        f"Somebody who sees {reports} of a person, and was 1% sure of a fact about this person, can become {sure} sure"
        f"{most}. Even odds {odds} to 1."
    )
    judged = {"none": "This is no protection. ", "weak": "This is weak protection. ", "kept": ""}
    return judged[level(epsilon)] + said


def gains(one: float, total: float | None) -> list[dict[str, Any]]:
    """For each degree of certainty before: that after one report, and after all planned ones where they are known."""
    return [
        {
            "before": before,
            "after_one": surer(before, one),
            "after_all": None if total is None else surer(before, total),
        }
        for before in BEFORE
    ]


def budget(epsilon: float) -> str:
    """ε with its sign, rounded up."""
    return f"ε = {rounded_up(epsilon)}"
