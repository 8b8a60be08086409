"""Where a latent may lie, enforced on the device in integers: what Laplace noise is calibrated to.

A region lives on a power-of-two grid: the latent φ becomes the integers k = round(φ / step), and a region is a set
of integer vectors with a known ℓ1 diameter. `enforce` maps *any* floats (NaN, infinities, whatever an encoder
computed) into that set and the last word is an integer comparison, so the diameter holds for every input with no
floating point in the argument. Rounding is inside: the diameter is that of the rounded set.

`BoxRegion`      low ≤ k ≤ high: clips every latent on its own. Diameter: the sum of the widths.
`SignRegion`     lower_s ≤ s·k ≤ upper_s for all 2^(Z−1) sign vectors s: the tightest set around a cloud that has the
                 cloud's own ℓ1 diameter. Any a, b in it have ‖a − b‖₁ = max over s of s·(a − b) ≤ max (upper − lower).
`DiamondRegion`  ‖k − center‖₁ ≤ radius: for many latents, where sign vectors are too many. Diameter: 2·radius.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers, Signs, own_arrays
from taskveil.errors import MechanismError

LARGEST = 2**40
"""Latents are held within ±2^40 grid steps, and there are at most 2^16, so no integer sum below overflows 64 bits."""

MOST_LATENTS = 2**16


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxRegion:
    """{k : low ≤ k ≤ high}."""

    step: float
    low: Integers
    high: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_grid(self.step, self.low, self.high, latents=self.dim)
        if self.low.shape != self.high.shape or (self.low > self.high).any():
            raise MechanismError("a box region needs low ≤ high in every coordinate.")

    @property
    def dim(self) -> int:
        return len(self.low)

    @property
    def l1_diameter(self) -> int:
        return int((self.high - self.low).sum())

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """The least and the largest value of every coordinate."""
        return self.low, self.high

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        return np.asarray(((k >= self.low) & (k <= self.high)).all(axis=1))

    def enforce(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → integers inside the region (N, Z)."""
        middle = self.low + (self.high - self.low) // 2
        k = _to_grid(latents, self.step, middle)
        np.maximum(k, self.low, out=k)
        return np.minimum(k, self.high, out=k)


@dataclass(frozen=True, kw_only=True, eq=False)
class SignRegion:
    """{k : lower ≤ signs @ k ≤ upper}, with `signs` (M, Z) all sign vectors up to a common sign."""

    step: float
    signs: Signs
    lower: Integers
    upper: Integers
    center: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_grid(self.step, self.lower, self.upper, self.center, latents=self.dim)
        every_sign = self.signs.shape == (2 ** (self.dim - 1), self.dim) and len(
            np.unique(self.signs * self.signs[:, :1], axis=0)
        ) == len(self.signs)
        if not (every_sign and (np.abs(self.signs) == 1).all() and len(self.lower) == len(self.signs)):
            raise MechanismError("a sign region needs a lower and an upper bound for every sign vector.")
        if not self.contains(self.center[None, :]).all():
            raise MechanismError("the center of a sign region must lie inside it.")

    @property
    def dim(self) -> int:
        return len(self.center)

    @property
    def l1_diameter(self) -> int:
        return int((self.upper - self.lower).max())

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """Bounds of every coordinate: no member is farther from the center than the diameter."""
        return self.center - self.l1_diameter, self.center + self.l1_diameter

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        products = k @ self.signs.T.astype(np.int64)
        return np.asarray(((products >= self.lower) & (products <= self.upper)).all(axis=1))

    def enforce(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → integers inside the region (N, Z), pulled straight towards the center."""
        k = _to_grid(latents, self.step, self.center)
        signs = self.signs.T.astype(np.int64)
        products = (k - self.center) @ signs
        room = np.where(products > 0, self.upper - self.center @ signs, self.lower - self.center @ signs)
        # How far along the way out the first face is met; 0/0 means not moving towards that face at all.
        reach = np.where(products != 0, room / np.where(products != 0, products, 1), 1.0).min(axis=1)
        return _pull_inside(k, self.center, np.minimum(reach, 1.0), self.contains)


@dataclass(frozen=True, kw_only=True, eq=False)
class DiamondRegion:
    """{k : ‖k − center‖₁ ≤ radius}."""

    step: float
    center: Integers
    radius: int

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_grid(self.step, self.center, latents=self.dim)
        if not 0 <= self.radius <= LARGEST:
            raise MechanismError(f"a diamond region needs a radius from 0 to {LARGEST}, got {self.radius}.")

    @property
    def dim(self) -> int:
        return len(self.center)

    @property
    def l1_diameter(self) -> int:
        return 2 * self.radius

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """Bounds of every coordinate: no member is farther from the center than the diameter."""
        return self.center - self.l1_diameter, self.center + self.l1_diameter

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        return np.asarray(np.abs(k - self.center).sum(axis=1) <= self.radius)

    def enforce(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → integers inside the region (N, Z), pulled straight towards the center."""
        k = _to_grid(latents, self.step, self.center)
        length = np.abs(k - self.center).sum(axis=1)
        share = np.where(length > self.radius, self.radius / np.maximum(length, 1), 1.0)
        return _pull_inside(k, self.center, share, self.contains)


Region = BoxRegion | SignRegion | DiamondRegion


def _to_grid(latents: Floats, step: float, fallback: Integers) -> Integers:
    """Nearest grid integers, NaN → `fallback`. `step` is a power of two, so the division is exact."""
    with np.errstate(over="ignore", invalid="ignore"):  # huge becomes infinite, which is clipped next
        scaled = latents / step
    lost = np.isnan(latents)
    if lost.any():
        np.copyto(scaled, fallback, where=lost)
    np.minimum(scaled, LARGEST, out=scaled)
    np.maximum(scaled, -LARGEST, out=scaled)
    # floor(v + ½) rather than rint: the same rule in every language a client is written in.
    scaled += 0.5
    return np.floor(scaled, out=scaled).astype(np.int64)


def _pull_inside(
    k: Integers, center: Integers, share: Floats, contains: Callable[[Integers], NDArray[np.bool_]]
) -> Integers:
    """center + share·(k − center), then integer steps towards the center until `contains` agrees."""
    offset = k - center
    moved = np.floor(offset * share[:, None] + 0.5).astype(np.int64)
    offset = np.where((share < 1)[:, None], moved, offset)
    outside = ~contains(center + offset)
    while outside.any():
        # Rounding left these a few steps outside; every pass brings every coordinate closer to the center.
        rows = offset[outside]
        offset[outside] = rows - np.sign(rows) * np.maximum(np.abs(rows) >> 12, np.abs(rows) > 0)
        outside = ~contains(center + offset)
    return np.asarray(center + offset)


def _check_grid(step: float, *bounds: Integers, latents: int) -> None:
    if latents > MOST_LATENTS:
        raise MechanismError(f"a region has at most {MOST_LATENTS} latents, got {latents}.")
    if not (np.isfinite(step) and step > 0 and np.frexp(step)[0] == 0.5):
        raise MechanismError(f"the grid step must be a power of two, got {step}.")
    for bound in bounds:
        shaped = bound.dtype == np.int64 and bound.ndim == 1 and len(bound) > 0
        # Not |bound|: the absolute value of −2^63 is −2^63.
        if not shaped or (bound < -LARGEST).any() or (bound > LARGEST).any():
            raise MechanismError(f"region bounds must be 64-bit integers within ±{LARGEST}.")
