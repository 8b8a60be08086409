"""Scales for attributes with heavy tails: capped, logarithmic or by rank, each as tables that a device can run.

A network sees an attribute through its range. When a few people are far out (incomes, rain, waiting times), all others
look alike. The three scales here bring them apart again; which one helps is for held-out losses to say, and none is
even tried where no attribute has a heavy tail. Tables are made from records alone, never from labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from taskveil.arrays import Bools, Floats
from taskveil.client.levels import FARTHEST_KNOT, LEVELS, MonotoneTables

KNOTS = 64
"""Of every table: a logarithm over nine powers of ten is then followed to a hundredth of its unit."""

HEAVY = 3.0
"""Excess kurtosis from which on an attribute has a heavy tail: that of the Laplace distribution. A Gaussian has 0, an
exponential 6. It decides nothing yet, it only lets other scales compete."""

MOST_TABLES = 256
"""Attributes up to which tables are tried: each costs devices a kilobyte."""

CAPPED = 0.05
"""The share of people beyond each cap."""

TOGETHER = 5
"""People whose mean is a knot, at least, where knots are made of single people's values."""

Line = tuple[Floats, Floats]
"""Knots and levels (as shares of the highest) of one attribute's table, as many as it needs."""


def heavy_tailed(X: Floats) -> Bools:
    """(n,): which attributes of the records (N, n) have heavy tails. Two values cannot: any scale of them is linear."""
    largest = np.abs(X).max(axis=0)
    Y = X / np.where(largest > 0, largest, 1.0)
    Y = Y - Y.mean(axis=0)
    several = np.array([len(np.unique(column)) > 2 for column in X.T])
    spread = Y.std(axis=0)
    standard = Y / np.where(spread > 0, spread, 1.0)
    return np.asarray(several & ((standard**4).mean(axis=0) - 3.0 > HEAVY))


BEND = "ranked"


def tables_for(X: Floats) -> MonotoneTables | None:
    """The tables through which a network sees records (N, n); None where no attribute has a heavy tail."""
    heavy = heavy_tailed(X)
    if not heavy.any() or X.shape[1] > MOST_TABLES:
        return None
    X = np.clip(X, -FARTHEST_KNOT, FARTHEST_KNOT)  # beyond, differences are infinite
    return _tables(X, heavy, _BENDS[BEND])


def _tables(X: Floats, heavy: Bools, bend: Callable[[Floats], Line]) -> MonotoneTables:
    """The heavy-tailed attributes bent, the others as they are."""
    lines = [bend(column) if bent else even(column) for column, bent in zip(X.T, heavy, strict=True)]
    count = max(len(knots) for knots, _ in lines)
    padded = [[np.pad(part, (0, count - len(part)), mode="edge") for part in line] for line in lines]
    knots, shares = np.stack(padded, axis=1)
    return MonotoneTables(knots=knots, levels=np.rint(shares * LEVELS).astype(np.int64))


def even(values: Floats) -> Line:
    """From the lowest to the highest in a straight line."""
    return np.array([values.min(), values.max()]), np.array([0.0, 1.0])


def capped(values: Floats) -> Line:
    """In a straight line between two quantiles; as it is where they are the same."""
    ends = np.quantile(values, [CAPPED, 1.0 - CAPPED])
    return (ends, np.array([0.0, 1.0])) if ends[0] < ends[1] else even(values)


def logarithmic(values: Floats) -> Line:
    """The logarithm of the distance from the end without the longer tail, plus one unit so that the end itself has one.
    The unit is the distance that a twentieth of those off the end stay below."""
    low, high = values.min(), values.max()
    falling = values.mean() < np.median(values)
    distance = high - values if falling else values - low
    reach = distance.max()
    unit = max(float(np.quantile(distance[distance > 0], 0.05)), 1e-30 * reach)
    shares = np.linspace(0.0, 1.0, KNOTS)
    steps = unit * np.expm1(shares * np.log1p(reach / unit))
    steps[-1] = reach
    return (high - steps[::-1], 1.0 - shares[::-1]) if falling else (low + steps, shares)


def ranked(values: Floats) -> Line:
    """Where the value would stand among people of a Gaussian. Neighbours are taken together by evenly spaced places of
    the bell, at least `TOGETHER` of them: a knot, which anybody can read in a release, is nobody's own value."""
    end = -ndtri(0.5 / len(values))
    ideal = len(values) * ndtr(np.linspace(-end, end, KNOTS + 1)[1:-1])
    cuts = [0]
    for cut in np.rint(ideal).astype(int).tolist():
        if cut - cuts[-1] >= TOGETHER and len(values) - cut >= TOGETHER:
            cuts.append(cut)
    counts = np.diff([*cuts, len(values)])
    places = ndtri((np.arange(len(values)) + 0.5) / len(values))
    means, shares = (np.add.reduceat(part, cuts) / counts for part in (np.sort(values), places))
    knots, tied = np.unique(np.maximum.accumulate(means), return_inverse=True)
    shares = np.bincount(tied, shares * counts) / np.bincount(tied, counts)
    return (knots, (shares - shares[0]) / (shares[-1] - shares[0])) if len(knots) > 1 else even(values)


_BENDS: dict[str, Callable[[Floats], Line]] = {"capped": capped, "logarithmic": logarithmic, "ranked": ranked}
