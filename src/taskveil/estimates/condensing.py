"""Counts of very many outputs as counts of a few hundred scores, with the same mean and limits that still hold.

A score between two points of a grid is split between them, so that its mean stays: a part t at the upper one and 1 − t
at the lower one. For every hypothesis u = v − ρ w is linear in the score, so its mean stays too and its spread grows by
at most a quarter of a squared step.

- Limits at all times: ln(1 + λ u) is concave, so the wealth of split counts is at most that of the counts themselves,
  by Jensen's inequality. What it rejects, the counts reject.
- Exact limits: split counts are the expectation of counts that were rounded at random, which are counts of bounded
  scores with the same mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers


def condensed(counts: Any, values: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Counts, values and weights (k,) each, of 4√K scores at most for every different weight.

    `counts`, `values` and `weights` (K,) are as of `exact_limits`. Up to 256 scores stay as they are. Different weights
    that are more than a sixteenth of 4√K have a grid of their own. A grid of 64 points or more across twelve standard
    deviations adds less than 1% to a variance.
    """
    n, points = np.asarray(counts, dtype=np.float64), math.isqrt(16 * len(counts))
    if len(n) <= 4 * points:
        return n, values, weights
    places, part, grid = _placed(weights, points // 16 + 2)
    found: list[tuple[Floats, Floats, Floats]] = []
    for number, weight in enumerate(grid.tolist()):
        # What lies below this weight's point and above it, with the part of it that counts here.
        at, above = places == number, places == number - 1
        share = np.where(at, 1.0 - part, np.where(above, part, 0.0))
        some = share > 0
        if some.any():
            own, scores = _split(n[some] * share[some], values[some], points)
            found.append((own, scores, np.full(len(own), weight)))
    first, second, third = (np.concatenate(column) for column in zip(*found, strict=True))
    return first, second, third


def _placed(values: Floats, most: int) -> tuple[Integers, Floats, Floats]:
    """The point of the grid that is not above each value (K,), the part (K,) of the way to the next one, and the grid:
    the values themselves where there are at most so many."""
    grid = np.unique(values)
    if len(grid) > most:
        grid = np.linspace(grid[0], grid[-1], most)
    places = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, max(len(grid) - 2, 0))
    if len(grid) == 1:
        return places, np.zeros(len(values)), grid
    return places, np.clip((values - grid[places]) / (grid[places + 1] - grid[places]), 0.0, 1.0), grid


def _split(counts: Floats, values: Floats, points: int) -> tuple[Floats, Floats]:
    """Counts (k,) at the points (k,) of the values' grid."""
    places, part, grid = _placed(values, points)
    lower, upper = (np.bincount(places, counts * share, len(grid)) for share in (1.0 - part, part))
    return np.asarray(lower + np.append(0.0, upper[:-1]), dtype=np.float64), grid
