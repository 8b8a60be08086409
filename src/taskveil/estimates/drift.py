"""Whether people differ from the volunteers in what reports measure: one test, and which rows moved.

Every row k has the reports' estimate and the volunteers' value, and z_k is their difference over its standard error.
The test takes the largest |z_k|. Its distribution where people are like the volunteers is simulated, with the reports'
and the volunteers' sampling errors and the correlations between rows, so the test has the level it states. The same
simulation gives every row a p-value that allows for the number of rows (Westfall and Young's single step): a row is
named only if that is below the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.volunteers import Groups

LEVEL = 0.05
"""How often the test raises an alarm where people are like the volunteers."""
DRAWS = 2000
"""Of the simulation: the level is then right within half a percent."""

_NAMED = 5  # rows in a sentence
_SEED = 0  # the same reports give the same test


@dataclass(frozen=True, kw_only=True)
class Drift:
    """`p_value`: how rare reports so far from the volunteers are where people are like them; `moved`: names of rows
    that moved, the most certain first."""

    p_value: float
    moved: tuple[str, ...]
    words: str

    @property
    def raised(self) -> bool:
        """Whether people differ from the volunteers; one collection in twenty raises this where they do not."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        return self.words


def no_test(words: str) -> Drift:
    """The drift where nothing can be compared."""
    return Drift(p_value=1.0, moved=(), words=words)


def drift_of(z: Floats, simulated: Floats, names: Sequence[str], changes: Sequence[str]) -> Drift:
    """The test of z (t,) against simulated ones (draws, t), for rows of these names; `changes` are sentences."""
    if not len(z):
        return no_test("Nothing that is measured can be compared with the volunteers.")
    most = np.abs(simulated).max(axis=1)
    beyond = (1 + (most[:, None] >= np.abs(z)).sum(axis=0)) / (1 + len(most))
    p_value = float(beyond.min())
    if p_value >= LEVEL:
        return Drift(
            p_value=p_value,
            moved=(),
            words=f"No sign that people differ from the volunteers (p {_said(p_value)}; the test raises at 5%).",
        )
    order = [place for place in np.argsort(-np.abs(z), kind="stable").tolist() if beyond[place] < LEVEL]
    more = f"; and {len(order) - _NAMED} more" if len(order) > _NAMED else ""
    return Drift(
        p_value=p_value,
        moved=tuple(names[place] for place in order),
        words=(
            f"People differ from the volunteers (p {_said(p_value)}; the test raises at 5%): "
            f"{'; '.join(changes[place] for place in order[:_NAMED])}{more}."
        ),
    )


def of_means(gap: Floats, reports: Floats, volunteers: Floats) -> tuple[Floats, Floats]:
    """z (t,) and simulated ones (draws, t) for differences of means (t,) whose errors have the covariances `reports`
    and `volunteers` (t, t)."""
    covariance = reports + volunteers
    error = np.sqrt(np.diag(covariance))
    known = error > 0
    z = np.divide(gap, error, out=np.zeros_like(gap), where=known)
    scale = np.where(known, error, 1.0)
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    root = axes * np.sqrt(np.maximum(values, 0.0))
    return z, np.random.default_rng(_SEED).standard_normal((DRAWS, len(gap))) @ root.T


def of_codes(counts: Integers, base: float, kept: float, cells: Groups) -> tuple[Floats, Floats]:
    """z (K,) and simulated ones (draws, K) for a list of codes.

    Args:
        counts: how often each code came (K,).
        base: the probability of a code that is not favoured.
        kept: how much likelier a favoured code is.
        cells: the volunteers; `measured` (G, K) is the share of each cell that favours each code.
    """
    people, volunteers = int(counts.sum()), int(cells.counts.sum())
    rng = np.random.default_rng(_SEED)
    favoured = cells.together(cells.measured)
    z, null = _compared(counts / people, favoured, base, kept, people, volunteers)
    chances = base + kept * null
    drawn = rng.multinomial(people, chances / chances.sum(), size=DRAWS) / people
    # The volunteers again: who comes is drawn by cells; within a cell, codes are drawn one by one.
    again = rng.multinomial(volunteers, cells.counts / volunteers, size=DRAWS) @ cells.measured / volunteers
    within = cells.together(cells.measured * (1.0 - cells.measured)) / volunteers
    again += np.sqrt(np.maximum(within, 0.0)) * rng.standard_normal(again.shape) + null - favoured
    return z, _compared(drawn, np.clip(again, 0.0, 1.0), base, kept, people, volunteers)[0]


def _compared(
    shares: Floats, favoured: Floats, base: float, kept: float, people: int, volunteers: int
) -> tuple[Floats, Floats]:
    """z (…, K) of codes that came with these `shares` (…, K) and are `favoured` (…, K) by volunteers, and what both
    together say of how many people favour each, were people like the volunteers."""
    seen = (shares - base) / kept
    first = (favoured * volunteers + 0.5) / (volunteers + 1.0)

    def variances(favoured: Floats) -> tuple[Floats, Floats]:
        chance = np.clip(base + kept * favoured, 0.0, 1.0)
        return chance * (1.0 - chance) / people / kept**2, favoured * (1.0 - favoured) / volunteers

    of_people, of_volunteers = variances(first)
    weight = of_volunteers / (of_people + of_volunteers)
    null = np.clip(weight * seen + (1.0 - weight) * favoured, 0.0, 1.0)
    of_people, of_volunteers = variances(np.maximum(null, 0.5 / (volunteers + 1.0)))
    return (seen - favoured) / np.sqrt(of_people + of_volunteers), null


def _said(p_value: float) -> str:
    return f"= {p_value:.2g}" if p_value > 2 / DRAWS else f"< {2 / DRAWS:g}"
