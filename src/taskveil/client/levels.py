"""From an attribute's value to one of 2^20 levels, where every encoder begins: evenly over a range, or by a table.

Evenly, a heavy tail leaves nearly everybody in the lowest few levels. A table bends the scale instead: it says at some
values, the knots, which level they have, and between two knots the level rises in a straight line. A scale that is
capped, logarithmic or made of ranks is such a table, so devices need no logarithms, whose last bits differ between
machines; additions, products, divisions and floors are alike everywhere.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.errors import DataError

LEVELS = 2**20
"""Steps of an attribute's range, and about the largest output of a hidden unit."""

MOST_KNOTS = 256
"""Of one attribute's table."""

FARTHEST_KNOT = 2.0**1022
"""Two knots differ by less than the largest double."""


def levels(X: Floats, low: Floats, high: Floats) -> Floats:
    """Whole numbers 0 … 2^20: where each value lies between low and high; outside is clipped, NaN is the middle."""
    lost = np.isnan(X)
    if lost.any():
        X = np.where(lost, low + (high - low) / 2, X)
    gain = np.divide(LEVELS, high - low, out=np.zeros_like(low), where=high > low)
    q = np.maximum(X, low)  # one array from here on: in a batch, memory is what takes the time
    np.minimum(q, high, out=q)
    q -= low
    q *= gain
    q += 0.5
    np.floor(q, out=q)
    return np.minimum(q, LEVELS, out=q)


@dataclass(frozen=True, kw_only=True, eq=False)
class MonotoneTables:
    """One table per attribute: a value of `knots` (n, k) has the level at its place in `levels` (n, k). Along a row
    neither falls, and between two knots levels lie on a straight line, rounded.

    Values below the first knot and above the last one count as that knot; NaN has the middle level, 2^19. Where a knot
    repeats, the level jumps, and on the knot itself the last of its levels counts.
    """

    knots: Floats
    levels: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.knots.dtype != np.float64 or self.levels.dtype != np.int64 or self.knots.shape != self.levels.shape:
            raise DataError("tables need 64-bit levels, one for every knot.")
        if self.knots.ndim != 2 or not 1 <= self.knots.shape[1] <= MOST_KNOTS:
            raise DataError(f"tables need 1 to {MOST_KNOTS} knots, as many for every attribute.")
        if not (np.abs(self.knots) <= FARTHEST_KNOT).all() or not (np.diff(self.knots) >= 0).all():
            raise DataError("knots must be finite, within ±2^1022, and must not fall.")
        if not ((self.levels >= 0) & (self.levels <= LEVELS)).all() or not (np.diff(self.levels) >= 0).all():
            raise DataError("levels of a table must lie between 0 and 2^20 and must not fall.")

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return int(self.knots.shape[0])

    @np.errstate(all="ignore")  # whatever the caller asked numpy to raise, no value is an error here
    def __call__(self, X: Floats) -> Floats:
        """Values of any quality (N, n) → whole numbers 0 … 2^20, (N, n)."""
        # Nothing lies above the last knot after clipping: the line that starts there has no end and does not rise.
        lengths = np.diff(self.knots, append=np.inf)
        rises = np.diff(self.levels, append=self.levels[:, -1:])
        q = np.empty(X.shape)
        for column, (knots, levels) in enumerate(zip(self.knots, self.levels, strict=True)):
            values = np.minimum(np.maximum(X[:, column], knots[0]), knots[-1])
            place = np.searchsorted(knots, values, side="right") - 1
            share = (values - knots[place]) / lengths[column, place]
            q[:, column] = levels[place] + np.floor(share * rises[column, place] + 0.5)
        lost = np.isnan(X)
        if lost.any():
            q[lost] = LEVELS // 2
        return q
