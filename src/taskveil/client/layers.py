"""The parts of encoders: levels, tables of levels, and layers in whole numbers.

An attribute's value first becomes one of 2^20 levels: evenly spaced over a range, or by a table. With even spacing and
a heavy tail, nearly everybody has one of the lowest levels. A table bends the scale: it gives the level at some values,
the knots, and between two knots the level rises in a straight line. A capped scale, a logarithm and ranks are such
tables, so devices need no logarithms, whose last bits differ between machines. Additions, products, divisions and
floors are the same everywhere.

Layers add up whole numbers that are held in doubles. The sums are exact, so the order of summation, the processor and
the language do not matter.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.errors import DataError

LEVELS = 2**20
"""Steps of an attribute's range, and roughly the largest output of a hidden unit."""

MOST_KNOTS = 256
"""In one attribute's table."""

FARTHEST_KNOT = 2.0**1022
"""With this bound, the difference of two knots is less than the largest double."""


def levels(X: Floats, low: Floats, high: Floats) -> Floats:
    """Whole numbers 0 … 2^20: the place of each value between low and high. Values outside are clipped, NaN is the
    middle."""
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
    """One table per attribute: the value knots[i, j] has the level levels[i, j], both of shape (n, k). Neither falls
    along a row. Between two knots, levels lie on a straight line, rounded.

    Values below the first knot and above the last one count as that knot. NaN has the middle level, 2^19. Where a knot
    repeats, the level jumps; the knot itself has the last of its levels.
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

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def __call__(self, X: Floats) -> Floats:
        """Values of any quality (N, n) → whole numbers 0 … 2^20, (N, n)."""
        # After clipping no value is above the last knot: the line that starts there never ends and does not rise.
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


EXACT = 2**53
"""A double holds all integers up to this one exactly."""


def affine(q: Floats, weights: Integers, offset: Integers | Floats) -> Floats:
    """q · weightsᵀ + offset on whole numbers held in doubles: exact, so any order of summation gives the same."""
    return np.asarray(q @ weights.T.astype(np.float64) + offset)


def portable_softmax(z: Floats) -> Floats:
    """Class probabilities, from additions, products and divisions only, which round alike on every machine."""
    shifted = np.maximum(z - z.max(axis=1, keepdims=True), -700.0)
    power = np.floor(shifted * 1.4426950408889634 + 0.5)
    rest = (shifted - power * 0.693147180369123816490) - power * 1.90821492927058770002e-10
    e = np.full_like(rest, 1.0 / 6227020800.0)
    for denominator in (479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1):
        e = e * rest + 1.0 / denominator
    e = np.ldexp(e, power.astype(np.int32))
    total = np.zeros((len(e), 1))
    for column in range(e.shape[1]):
        total = total + e[:, column : column + 1]
    return np.asarray(e / total)


def on_levels(low: Floats, high: Floats, weights: Floats, offset: Floats) -> tuple[Floats, Floats]:
    """The map weights · x + offset as a map of levels: (weights per level, value at level 0)."""
    return weights * ((high - low) / LEVELS), offset + weights @ low


def to_integers(weights: Floats, offset: Floats, largest: Integers) -> tuple[Integers, Integers, Floats]:
    """Integers and power-of-two steps with weights ≈ integers · step. Sums over inputs up to `largest` stay below 2^51,
    so each row uses all the precision that a double can add up exactly."""
    reach = np.abs(weights) @ largest.astype(np.float64) + np.abs(offset)
    # Rounding moves a weight by up to half a step, which must not push the sum past 2^53 either.
    most = min(2.0**51, 2.0**52 - 2.0 * float(largest.sum()))
    step = 2.0 ** np.ceil(np.log2(np.maximum(reach, 1e-280) / most))
    return (
        np.rint(weights / step[:, None]).astype(np.int64),
        np.rint(offset / step).astype(np.int64),
        step,
    )


def check_layer(name: str, weights: Integers, offset: Integers, step: Floats, largest: Integers, outputs: int) -> None:
    """A DataError unless shapes fit, steps are powers of two, and doubles hold every possible sum exactly."""
    shapes = weights.shape == (outputs, len(largest)) and offset.shape == (outputs,) and step.shape == (outputs,)
    if not shapes or weights.dtype != np.int64 or offset.dtype != np.int64:
        raise DataError(f"{name}: weights and offset must be 64-bit integers of matching shapes.")
    reach = np.abs(weights.astype(np.float64)) @ largest.astype(np.float64) + np.abs(offset.astype(np.float64))
    if not (reach < EXACT).all():
        raise DataError(f"{name}: weights are too large for exact sums.")
    if not ((step >= LEAST_STEP) & (step <= LARGEST_STEP) & (np.frexp(step)[0] == 0.5)).all():
        raise DataError(f"{name}: steps must be powers of two between 2^-1000 and 2^900.")
