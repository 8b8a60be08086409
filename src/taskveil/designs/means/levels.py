"""Levels of latents, and how volunteers spread over them when they are rounded by lot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from taskveil.arrays import Floats, Integers

CANDIDATES = 48
"""Values among which levels are chosen, besides both ends."""

SHARED = 5
"""Volunteers who have a value in common before it may be a level as it is: levels are public, and whoever is alone with
a value is not."""

MARKS = 128
"""Parts of the domain's reach to which other values are rounded first."""

ANYWHERE = 0.02
"""The share of people who may be anywhere, whatever volunteers say: it keeps what others cost within bounds."""

APART = 2**12
"""Levels are at least this part of the range apart: to tell a grid step from the next exactly costs more than rounding
by lot does."""


def best_levels(k: Integers, low: int, high: int, most: int) -> Integers:
    """The `most` levels from `low` to `high` between which volunteers at `k` (N,), all in grid steps, are rounded by
    lot at the least cost in variance; where they have no more values than that, these."""
    public = _public(k, low, high)
    distinct = np.unique(public)
    if len(distinct) > CANDIDATES:
        distinct = np.unique(np.quantile(public, np.linspace(0.0, 1.0, CANDIDATES), method="nearest"))
    places = _apart(np.unique(np.concatenate([[low, high], distinct])))
    if len(places) <= most:
        return places
    # Whoever is at x between levels a < b has variance (x − a)(b − x) after rounding: three sums for each interval.
    x, scale = np.sort(k).astype(np.float64), float(high - low)
    at = np.searchsorted(x, places, side="right")
    counts, sums, squares = (np.append(0.0, np.cumsum((x / scale) ** power))[at] for power in (0, 1, 2))
    a = (places / scale)[:, None]
    costs = (a + a.T) * (sums - sums[:, None]) - (squares - squares[:, None]) - a * a.T * (counts - counts[:, None])
    costs = np.where(places[:, None] < places, costs, np.inf)
    # Dynamic programming: the least cost of reaching each place with so many intervals.
    least, came_from = costs[0], []
    for _ in range(most - 2):
        through = least[:, None] + costs
        came_from.append(through.argmin(axis=0))
        least = through.min(axis=0)
    chosen = [len(places) - 1]
    for before in reversed(came_from):
        chosen.append(int(before[chosen[-1]]))
    return np.unique(np.append(places[chosen], low))


def _public(k: Integers, low: int, high: int) -> Integers:
    """The values k (N,), rounded to marks of the domain where fewer than five volunteers share them."""
    _, which, counts = np.unique(k, return_inverse=True, return_counts=True)
    marks = low + (np.rint((k - low) / max(high - low, 1) * MARKS) * (high - low)).astype(np.int64) // MARKS
    return np.where(counts[which] >= SHARED, k, marks)


def _apart(places: Integers) -> Integers:
    """The first place, the last, and of those between all that are not next to another."""
    least, kept = (places[-1] - places[0]) / APART, [places[0]]
    for place in places[1:-1]:
        if place - kept[-1] >= least and places[-1] - place >= least:
            kept.append(place)
    return np.unique([*kept, places[-1]])


def by_lot(k: Integers, levels: Integers) -> Floats:
    """(N, levels): how probable each level is for whoever is at k (N,), between the first level and the last."""
    below = np.clip(np.searchsorted(levels, k, side="right") - 1, 0, max(0, len(levels) - 2))
    above = np.minimum(below + 1, len(levels) - 1)
    up = (k - levels[below]) / np.maximum(levels[above] - levels[below], 1)
    chances, rows = np.zeros((len(k), len(levels))), np.arange(len(k))
    chances[rows, below] += 1.0 - up
    chances[rows, above] += up
    return chances


def level_prior(chances: Sequence[Floats]) -> Floats:
    """(L,): how probable every choice of one level of each latent is, by the volunteers' `chances` (N, levels) of each.

    Of few volunteers, little is said about choices together: what their latents say one by one is mixed in, and a
    small share that is the same everywhere.
    """
    count = len(chances[0])
    joint = reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(count, -1), chances).mean(axis=0)
    single = reduce(np.outer, [each.mean(axis=0) for each in chances]).ravel()
    few = len(joint) / (len(joint) + count) if len(chances) > 1 else 0.0
    return np.asarray((1.0 - ANYWHERE) * ((1.0 - few) * joint + few * single) + ANYWHERE / len(joint))
