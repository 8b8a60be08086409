"""A scale for attributes with heavy tails, by rank, as tables that a device can run.

A network sees an attribute through its range. When a few people are far out (incomes, rain, waiting times), all others
look alike; ranks bring them apart again. Tables are made from records alone, never from labels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from taskveil.arrays import Bools, Floats
from taskveil.client.layers import FARTHEST_KNOT, LEVELS, MonotoneTables

KNOTS = 64
"""Of every table, at most."""

HEAVY = 3.0
"""Excess kurtosis above which an attribute has a heavy tail: that of the Laplace distribution. A Gaussian has 0, an
exponential 6."""

MOST_TABLES = 256
"""Attributes up to which there are tables: each costs devices a kilobyte."""

TOGETHER = 5
"""People whose mean is a knot, at least."""

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


def tables_for(X: Floats) -> MonotoneTables | None:
    """The tables through which a network sees records (N, n): heavy-tailed attributes by rank, the others as they are.
    None where no attribute has a heavy tail."""
    heavy = heavy_tailed(X)
    if not heavy.any() or X.shape[1] > MOST_TABLES:
        return None
    X = np.clip(X, -FARTHEST_KNOT, FARTHEST_KNOT)  # beyond, differences are infinite
    lines = [ranked(column) if bent else even(column) for column, bent in zip(X.T, heavy, strict=True)]
    count = max(len(knots) for knots, _ in lines)
    padded = [[np.pad(part, (0, count - len(part)), mode="edge") for part in line] for line in lines]
    knots, shares = np.stack(padded, axis=1)
    return MonotoneTables(knots=knots, levels=np.rint(shares * LEVELS).astype(np.int64))


def even(values: Floats) -> Line:
    """From the lowest to the highest in a straight line."""
    return np.array([values.min(), values.max()]), np.array([0.0, 1.0])


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
