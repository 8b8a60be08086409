"""Shares that add up: nearest shares on the simplex, and cross-tables with given margins.

Unbiased shares of rare values may come out below 0, and those of one field in several questions differ a little. Here
each field gets one vector of shares: the mean of what its questions and cross-tables say, weighted by precision, and
then the nearest vector of shares of at least 0 that add up to 1. Every cross-table is then replaced by the nearest
table of at least 0 with these margins (Dykstra's alternating projections). Projections lower the squared error of a
vector, and bias single shares: small ones upwards, others downwards.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats


def on_simplex(shares: Floats, total: float = 1.0) -> Floats:
    """The nearest (k,) of at least 0 that add up to `total`, by the sorted cumulative sums (Duchi et al. 2008)."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(shares) + 1)
    return np.asarray(np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0))


def averaged(shares: Floats, variances: Floats) -> Floats:
    """The mean (k,) of rows (m, k) of estimates, weighted by precision."""
    weights = 1.0 / np.maximum(variances, 1e-300)
    return np.asarray((weights * shares).sum(axis=0) / weights.sum(axis=0))


def with_margins(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest table (a, b) of at least 0 whose sums are `rows` (a,) and `columns` (b,), each of which adds up to 1.

    The nearest table with given sums spreads what its rows and columns lack evenly. Dykstra's method alternates that
    with clipping at 0. What is left after the last round is put right by scaling rows and columns in turn.
    """
    found, left = table.copy(), np.zeros_like(table)
    size, rounds = table.shape, 100 * sum(table.shape)  # a few dozen are usual
    for _ in range(rounds):
        down, across = rows - found.sum(axis=1), columns - found.sum(axis=0)
        if max(np.abs(down).max(), np.abs(across).max()) < 1e-9 and found.min() >= 0.0:
            break
        # Rows and columns lack the same in all, which would count twice.
        moved = found + down[:, None] / size[1] + across / size[0] - down.sum() / (size[0] * size[1])
        found = np.maximum(moved + left, 0.0)
        left = moved + left - found
    for _ in range(rounds):
        found *= (rows / np.maximum(found.sum(axis=1), 1e-300))[:, None]
        found *= columns / np.maximum(found.sum(axis=0), 1e-300)
        if np.abs(rows - found.sum(axis=1)).max() < 1e-12:
            break
    return np.asarray(found)
