"""The light maps a device can run, from a record to the latent that will be bounded and randomised.

Encoders compute in whole numbers: every attribute becomes one of 2^20 levels of its range, weights are integers, and no
sum ever leaves the range in which a double holds integers exactly. So a latent does not depend on the
order of summation, the batch size, the processor or the language: a browser computes the same bits.

Nothing here carries any part of the guarantee: a mechanism bounds whatever an encoder computes.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers, check_arrays, own_arrays
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.errors import DataError

LEVELS = 2**20
"""Steps of an attribute's range, and about the largest output of a hidden unit."""

EXACT = 2**53
"""Integers up to here are exact in a double."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearEncoder:
    """φ = (weights · levels(x) + offset) · step, where NaN counts as the middle of its attribute's range.

    Shapes: weights (Z, n), offset (Z,), step (Z,), low and high (n,). Steps are powers of two.
    """

    low: Floats
    high: Floats
    weights: Integers
    offset: Integers
    step: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        latent, width = self.weights.shape
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)))
        check_layer("encoder", self.weights, self.offset, self.step, np.full(width, LEVELS), latent)

    @classmethod
    def of(cls, *, low: Floats, high: Floats, weights: Floats, offset: Floats) -> LinearEncoder:
        """The integer encoder closest to φ = weights · x + offset."""
        per_level, start = on_levels(low, high, weights, offset)
        integers, shift, step = to_integers(per_level, start, np.full(len(low), LEVELS))
        return cls(low=low, high=high, weights=integers, offset=shift, step=step)

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return int(self.weights.shape[1])

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return int(self.weights.shape[0])

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        with np.errstate(all="ignore"):  # ranges too wide or too narrow give NaN, which regions bring inside
            return affine(levels(X, self.low, self.high), self.weights, self.offset) * self.step


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenEncoder:
    """One hidden layer: hᵢ = ⌊max(0, hidden_weights · levels + hidden_offset)ᵢ / 2^hidden_shiftᵢ⌋, then
    φ = (weights · h + skip · levels + offset) · step, and class probabilities of that if `softmax`.

    Shapes: hidden_weights (H, n), hidden_offset and hidden_shift (H,), weights (Z, H), skip (Z, n), offset and step
    (Z,).
    """

    low: Floats
    high: Floats
    hidden_weights: Integers
    hidden_offset: Integers
    hidden_shift: Integers
    weights: Integers
    skip: Integers
    offset: Integers
    step: Floats
    softmax: bool = False

    def __post_init__(self) -> None:
        own_arrays(self)
        hidden, width = self.hidden_weights.shape
        latent = len(self.offset)
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)))
        full = np.full(width, LEVELS)
        check_layer("hidden layer", self.hidden_weights, self.hidden_offset, np.ones(hidden), full, hidden)
        if self.hidden_shift.shape != (hidden,) or not ((self.hidden_shift >= 0) & (self.hidden_shift < 64)).all():
            raise DataError("hidden_shift must hold one whole number from 0 to 63 per hidden unit.")
        if self.weights.shape != (latent, hidden) or self.skip.shape != (latent, width):
            raise DataError("an encoder's output needs a weight for every hidden unit and a skip for every attribute.")
        both = np.hstack([self.weights, self.skip])
        check_layer("output layer", both, self.offset, self.step, np.concatenate([self._largest, full]), latent)

    @property
    def _largest(self) -> Integers:
        """The largest value every hidden unit can take."""
        top = np.maximum(self.hidden_weights, 0).sum(axis=1) * LEVELS + self.hidden_offset
        return np.asarray(np.maximum(top, 0) >> self.hidden_shift)

    @classmethod
    def of(
        cls,
        *,
        low: Floats,
        high: Floats,
        hidden_weights: Floats,
        hidden_offset: Floats,
        weights: Floats,
        offset: Floats,
        skip: Floats | None = None,
        softmax: bool = False,
    ) -> HiddenEncoder:
        """The integer encoder closest to φ = weights · relu(hidden_weights · x + hidden_offset) + skip · x + offset."""
        skip = np.zeros((len(offset), len(low))) if skip is None else skip
        full = np.full(len(low), LEVELS)
        per_level, start = on_levels(low, high, hidden_weights, hidden_offset)
        first, first_offset, first_step = to_integers(per_level, start, full)
        top = np.maximum(np.maximum(first, 0).sum(axis=1) * LEVELS + first_offset, 1)
        shift = np.maximum(np.ceil(np.log2(top)).astype(np.int64) - 20, 0)
        largest = top >> shift
        skip_level, skip_start = on_levels(low, high, skip, offset)
        combined = np.hstack([weights * (first_step * 2.0**shift), skip_level])
        second, second_offset, step = to_integers(combined, skip_start, np.concatenate([largest, full]))
        return cls(
            low=low,
            high=high,
            hidden_weights=first,
            hidden_offset=first_offset,
            hidden_shift=shift,
            weights=second[:, : len(shift)],
            skip=second[:, len(shift) :],
            offset=second_offset,
            step=step,
            softmax=softmax,
        )

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return int(self.hidden_weights.shape[1])

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return len(self.offset)

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        with np.errstate(all="ignore"):  # ranges too wide or too narrow give NaN, which regions bring inside
            q = levels(X, self.low, self.high)
            raw = np.maximum(affine(q, self.hidden_weights, self.hidden_offset), 0.0)
            hidden = np.floor(raw * 2.0**-self.hidden_shift)
            latents = (affine(hidden, self.weights, self.offset) + affine(q, self.skip, np.zeros(1))) * self.step
            return portable_softmax(latents) if self.softmax else latents


Encoder = LinearEncoder | HiddenEncoder


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
