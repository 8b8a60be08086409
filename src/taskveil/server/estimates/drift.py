"""How far the people who answered are from the volunteers: a test, what moved, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from taskveil.arrays import Floats
from taskveil.server.estimates.calibration import ALARMS, Calibrated

_NAMED = 5  # that moved are named in words


@dataclass(frozen=True, kw_only=True)
class Drift:
    """`p_value`: how rare reports so far from the volunteers are where people are like them."""

    p_value: float
    moved: tuple[str, ...]
    """Attributes, answers and classes that moved, the most certain first."""
    words: str

    @property
    def raised(self) -> bool:
        """Whether people differ from the volunteers; it is said of one collection in twenty where they do not."""
        return self.p_value < ALARMS

    def __str__(self) -> str:
        return self.words


def drift_of(calibrated: Calibrated, targets: Floats, names: Sequence[str], *, harmless: bool = False) -> Drift:
    """The drift of what is known of the volunteers as `targets` (V, t) under `names`; `harmless` where means rest on
    the reports alone."""
    p_value = calibrated.p_value
    if p_value >= ALARMS:
        return Drift(
            p_value=p_value,
            moved=(),
            words=f"No sign that people differ from the volunteers (p {_said(p_value)}; the test raises at 5%).",
        )
    means, own = calibrated.means(targets), targets.mean(axis=0)
    parts = means.from_volunteers - (targets - own) / len(targets)  # the volunteers' error of the difference
    error = np.sqrt(means.from_reports + (parts**2).sum(axis=0))
    spread = targets.std(axis=0)
    away = np.where(spread > 0, (means.mean - own) / np.where(spread > 0, spread, 1.0), 0.0)
    certainty = np.where(error > 0, np.abs(means.mean - own) / np.where(error > 0, error, 1.0), 0.0)
    order = np.argsort(-certainty, kind="stable")
    moved = []
    for place, column in enumerate(order):  # Holm's steps: 5% for one false name among all
        if 2 * ndtr(-certainty[column]) > ALARMS / (len(names) - place):
            break
        moved.append(int(column))
    told = ", ".join(
        f"{names[column]} {'up' if away[column] > 0 else 'down'} by {abs(away[column]):.2g} standard deviations"
        for column in moved[:_NAMED]
    )
    more = f" and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
    return Drift(
        p_value=p_value,
        moved=tuple(names[column] for column in moved),
        words=(
            f"People differ from the volunteers (p {_said(p_value)}; the test raises at 5%)"
            f"{': ' + told + more if told else ', in nothing that can be named for sure'}. {_advice(harmless)}"
        ),
    )


def _advice(harmless: bool) -> str:
    if harmless:
        return "That does not bias these means; a next round with like=estimate would have smaller errors."
    return (
        "Single answers lean towards the volunteers: design the next round with like=estimate, or with volunteers who "
        "are like these people."
    )


def _said(p_value: float) -> str:
    return f"= {p_value:.2g}" if p_value >= 1e-4 else "< 0.0001"
