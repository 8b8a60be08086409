"""Layers in whole numbers held in doubles: sums are exact, so their order, processor and language do not matter.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.levels import LEVELS
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.errors import DataError

EXACT = 2**53
"""Integers up to here are exact in a double."""


def affine(q: Floats, weights: Integers, offset: Integers | Floats) -> Floats:
    """q · weightsᵀ + offset on whole numbers held in doubles: exact, so any order of summation gives the same."""
    return np.asarray(q @ weights.T.astype(np.float64) + offset)


def portable_softmax(z: Floats) -> Floats:
    """Class probabilities from additions, products and divisions alone, which round alike on every machine."""
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
    """Integers and power-of-two steps with weights ≈ integers · step, such that sums over inputs up to `largest` stay
    below 2^51: each row uses all the precision a double can add up exactly."""
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
    """Shapes fit, steps are powers of two, and no sum can leave the exact integers of a double."""
    shapes = weights.shape == (outputs, len(largest)) and offset.shape == (outputs,) and step.shape == (outputs,)
    if not shapes or weights.dtype != np.int64 or offset.dtype != np.int64:
        raise DataError(f"{name}: weights and offset must be 64-bit integers of matching shapes.")
    reach = np.abs(weights.astype(np.float64)) @ largest.astype(np.float64) + np.abs(offset.astype(np.float64))
    if not (reach < EXACT).all():
        raise DataError(f"{name}: weights are too large for exact sums.")
    if not ((step >= LEAST_STEP) & (step <= LARGEST_STEP) & (np.frexp(step)[0] == 0.5)).all():
        raise DataError(f"{name}: steps must be powers of two between 2^-1000 and 2^900.")
