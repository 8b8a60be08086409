"""The sets that latents are forced into on the device, in integers. Noise is calibrated to them.

A region lies on a power-of-two grid: the latent φ becomes the integers k = round(φ / step), and a region is a set of
integer vectors with a known diameter. `enforce` maps *any* floats (NaN, infinities, anything an encoder computed)
into that set. A comparison of whole numbers decides at the end, so the diameter holds for every input and the argument
needs no rounding. Rounding to the grid comes first: the diameter is that of the rounded set. The time is bounded too,
for every region: a report that came late, or never, would reveal something about its record.

`BoxRegion`      low ≤ k ≤ high: clips every latent on its own. Diameter: the sum of the widths.
`SignRegion`     lower_s ≤ s·k ≤ upper_s for all 2^(Z−1) sign vectors s: the tightest set around a cloud that has the
                 cloud's own ℓ1 diameter. Any a, b in it have ‖a − b‖₁ = max over s of s·(a − b) ≤ max (upper − lower).
`DiamondRegion`  ‖k − center‖₁ ≤ radius: for many latents, where sign vectors are too many. Diameter: 2·radius.
`BallRegion`     ‖k − center‖₂² ≤ squared_radius: for Gaussian noise. Any a, b in it have ‖a − b‖₂² ≤ 4·squared_radius.

The first three are for Laplace noise, whose diameter is that of ℓ1.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers, Signs, as_floats, blocks, own_arrays, owned
from taskveil.errors import MechanismError

LARGEST = 2**40
"""Latents are held within ±2^40 grid steps, and there are at most 2^16, so no integer sum below overflows 64 bits."""

MOST_LATENTS = 2**16
"""Of a region, and levels of all directions of a lattice: each is computed for every report."""

MOST_SIGNED_LATENTS = 10
"""In a sign region, as many as designs use: 2^9 sign vectors."""

LEAST_STEP, LARGEST_STEP = 2.0**-1000, 2.0**900
"""Bounds of a grid's step: latents divided by it and reports times it neither vanish nor overflow."""

_GENTLE = 4  # passes that undo rounding
_HALVINGS = np.arange(1, 43)[:, None, None]  # offsets stay below 2^42: the last one leaves the center


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
        """How many latents."""
        return len(self.low)

    @property
    def l1_diameter(self) -> int:
        """The largest ℓ1 distance of two members, or an upper bound of it. Noise is scaled to it."""
        return int((self.high - self.low).sum())

    @property
    def l1_radius(self) -> int:
        """The largest ℓ1 distance of a member from the middle of the box."""
        return int(((self.high - self.low + 1) // 2).sum())

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """The least and the largest value of every coordinate."""
        return self.low, self.high

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        """(N,): which rows of k (N, Z) are members."""
        return np.asarray(((k >= self.low) & (k <= self.high)).all(axis=1))

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def enforce(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → integers inside the region (N, Z)."""
        middle = self.low + (self.high - self.low) // 2
        k = _to_grid(latents, self.step, middle)
        np.maximum(k, self.low, out=k)
        return np.minimum(k, self.high, out=k)


class CenteredRegion(ABC):
    """What the regions share that pull latents straight towards their center."""

    step: float
    center: Integers

    @property
    def dim(self) -> int:
        """How many latents."""
        return len(self.center)

    @property
    @abstractmethod
    def farthest(self) -> int:
        """No coordinate of a member is farther from the center's than this."""

    @property
    def reach(self) -> tuple[Integers, Integers]:
        """Bounds of every coordinate."""
        return self.center - self.farthest, self.center + self.farthest

    @abstractmethod
    def contains(self, k: Integers) -> NDArray[np.bool_]:
        """(N,): which rows of k (N, Z) are members."""

    @abstractmethod
    def _share(self, offset: Integers) -> Floats:
        """(N,): how much of the way from the center, along each offset (N, Z), lies inside; more than 1 if all does."""

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def enforce(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → integers inside the region (N, Z), pulled straight towards the center.

        After rounding, rows can lie a few steps outside. So there are up to 46 passes, until `contains` agrees. Passes
        1 to 4 take a 4096th off every coordinate, and at least one step. Only a region thinner than its own rounding
        needs more: passes 5 to 46 halve every coordinate, which ends at the center, and the center is inside.
        """
        offset = _to_grid(latents, self.step, self.center) - self.center
        share = self._share(offset)[:, None]
        offset = np.where(share < 1, np.floor(offset * share + 0.5).astype(np.int64), offset)
        # A report of one record takes all passes at once: its time must not depend on the record. Of many records,
        # those that are inside need no pass, and most of the others need one.
        outside, gentle = np.arange(len(offset)), _GENTLE
        if len(offset) > 1:
            outside, gentle = np.flatnonzero(~self.contains(self.center + offset)), _GENTLE - 1
            offset[outside] = np.sign(offset[outside]) * _closer(np.abs(offset[outside]))
            outside = outside[~self.contains(self.center + offset[outside])]
        for some in blocks(len(outside), len(_HALVINGS) * max(self.dim, 2 ** min(self.dim, MOST_SIGNED_LATENTS))):
            rows = outside[some]
            offset[rows] = self._first_inside(offset[rows], gentle)
        return self.center + offset

    def _first_inside(self, offset: Integers, gentle: int) -> Integers:
        """Every row (N, Z) after the first of these passes that has it inside: none, `gentle` short ones, halvings."""
        short = list(accumulate(range(gentle), lambda size, _: _closer(size), initial=np.abs(offset)))
        ways = np.sign(offset) * np.concatenate([short, short[-1] >> _HALVINGS])
        inside = self.contains((self.center + ways).reshape(-1, self.dim)).reshape(ways.shape[:2])
        never = ~np.asarray(inside.any(axis=0))  # where `contains` never agrees, the row becomes the center
        return np.where(never[:, None], 0, ways[inside.argmax(axis=0), np.arange(len(offset))])


@dataclass(frozen=True, kw_only=True, eq=False)
class SignRegion(CenteredRegion):
    """{k : lower ≤ signs @ k ≤ upper}, with `signs` (M, Z) all sign vectors up to a common sign."""

    step: float
    signs: Signs
    lower: Integers
    upper: Integers
    center: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_grid(self.step, self.lower, self.upper, self.center, latents=self.dim)
        if self.dim > MOST_SIGNED_LATENTS:
            raise MechanismError(f"a sign region has at most {MOST_SIGNED_LATENTS} latents, got {self.dim}.")
        count = 2 ** (self.dim - 1)
        shaped = self.signs.shape == (count, self.dim) and len(self.lower) == len(self.upper) == count
        if (
            not shaped
            or (np.abs(self.signs) != 1).any()
            or len(np.unique(self.signs * self.signs[:, :1], axis=0)) < count
        ):
            raise MechanismError("a sign region needs a lower and an upper bound for every sign vector.")
        if not self.contains(self.center[None, :]).all():
            raise MechanismError("the center of a sign region must lie inside it.")

    @property
    def l1_diameter(self) -> int:
        """The largest ℓ1 distance of two members, or an upper bound of it. Noise is scaled to it."""
        return int((self.upper - self.lower).max())

    @property
    def farthest(self) -> int:
        """No coordinate of a member is farther from the center's than this."""
        return self.l1_diameter

    @property
    def l1_radius(self) -> int:
        """The largest ℓ1 distance of a member from the center, or an upper bound of it."""
        start = self.signs.astype(np.int64) @ self.center
        return int(np.maximum(self.upper - start, start - self.lower).max())

    @cached_property
    def _columns(self) -> Floats:
        """The sign vectors as columns (Z, M): products of whole numbers below 2^42 with them are exact in doubles."""
        return owned(self.signs.T.astype(np.float64))

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds (M,) in doubles, which hold them exactly."""
        return owned(self.lower.astype(np.float64)), owned(self.upper.astype(np.float64))

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        """(N,): which rows of k (N, Z) are members."""
        # Members have |kᵢ| ≤ ‖k‖₁ = max s·k ≤ 2^40, so clipping at 2^41 keeps all others outside.
        products = np.minimum(np.maximum(k, -2 * LARGEST), 2 * LARGEST).astype(np.float64) @ self._columns
        lower, upper = self._bounds
        return np.asarray(((products >= lower) & (products <= upper)).all(axis=1))

    def _share(self, offset: Integers) -> Floats:
        """The share of the way at which the first face is met; a product of 0 means no movement towards that face."""
        products = offset.astype(np.float64) @ self._columns
        start = self.center.astype(np.float64) @ self._columns
        lower, upper = self._bounds
        space = np.where(products > 0, upper - start, lower - start)
        return np.asarray(np.where(products != 0, space / np.where(products != 0, products, 1), 1.0).min(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class DiamondRegion(CenteredRegion):
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
    def l1_diameter(self) -> int:
        """The largest ℓ1 distance of two members, or an upper bound of it. Noise is scaled to it."""
        return 2 * self.radius

    @property
    def farthest(self) -> int:
        """No coordinate of a member is farther from the center's than this."""
        return self.l1_diameter

    @property
    def l1_radius(self) -> int:
        """The largest ℓ1 distance of a member from the center."""
        return self.radius

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        """(N,): which rows of k (N, Z) are members."""
        # Members have |kᵢ| ≤ 2^41, so clipping at 2^42 keeps all others outside, and sums exact.
        within = np.minimum(np.maximum(k, -4 * LARGEST), 4 * LARGEST)
        return np.asarray(np.abs(within - self.center).sum(axis=1) <= self.radius)

    def _share(self, offset: Integers) -> Floats:
        """The radius over the length of the way."""
        return np.asarray(self.radius / np.maximum(np.abs(offset).sum(axis=1), 1))


@dataclass(frozen=True, kw_only=True, eq=False)
class BallRegion(CenteredRegion):
    """{k : ‖k − center‖₂² ≤ squared_radius}."""

    step: float
    center: Integers
    squared_radius: int

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_grid(self.step, self.center, latents=self.dim)
        if not 0 <= self.squared_radius <= 2**52:
            raise MechanismError(f"a ball region needs a squared radius from 0 to 2^52, got {self.squared_radius}.")

    @property
    def farthest(self) -> int:
        """No coordinate of a member is farther from the center's than this."""
        return math.isqrt(self.squared_radius)

    def contains(self, k: Integers) -> NDArray[np.bool_]:
        """(N,): which rows of k (N, Z) are members, decided exactly.

        Members have offsets within ±2^26, so clipping keeps all others outside, and every square is exact. A sum of
        squares is exact up to 2^53. Once a sum has been rounded it is 2^53 at least, and adding squares never makes it
        smaller.
        """
        within = np.minimum(np.maximum(k, -4 * LARGEST), 4 * LARGEST) - self.center
        most = self.farthest + 1
        squares = np.minimum(np.maximum(within, -most), most).astype(np.float64) ** 2
        return np.asarray(squares.sum(axis=1) <= self.squared_radius)

    def _share(self, offset: Integers) -> Floats:
        """The radius over the length of the way. Squares are added up in order, so that every client finds the same."""
        squares = np.cumsum(offset.astype(np.float64) ** 2, axis=1)[:, -1]
        return np.asarray(np.sqrt(self.squared_radius / np.maximum(squares, 1)))


L1Region = BoxRegion | SignRegion | DiamondRegion
"""Those with an ℓ1 diameter."""
Region = L1Region | BallRegion


def _to_grid(latents: Floats, step: float, fallback: Integers) -> Integers:
    """Nearest grid integers, NaN → `fallback`. `step` is a power of two, so the division is exact.

    The encoder's numbers become plain doubles first: half precision would overflow at ±2^40, and noise would not be
    added to masked values.
    """
    scaled = as_floats(latents) / step  # huge values become infinite and are clipped next
    lost = np.isnan(scaled)
    if lost.any():
        np.copyto(scaled, fallback, where=lost)
    np.minimum(scaled, LARGEST, out=scaled)
    np.maximum(scaled, -LARGEST, out=scaled)
    # floor(v + ½) rather than rint: the same rule in every language a client is written in.
    scaled += 0.5
    return np.floor(scaled, out=scaled).astype(np.int64)


def _closer(size: Integers) -> Integers:
    """Distances less a 4096th, and less at least one step where there is one to go."""
    return np.asarray(np.maximum(size - np.maximum(size >> 12, 1), 0))


def _check_grid(step: float, *bounds: Integers, latents: int) -> None:
    if latents > MOST_LATENTS:
        raise MechanismError(f"a region has at most {MOST_LATENTS} latents, got {latents}.")
    if not (LEAST_STEP <= step <= LARGEST_STEP and math.frexp(step)[0] == 0.5):
        raise MechanismError(f"the grid step must be a power of two between 2^-1000 and 2^900, got {step}.")
    for bound in bounds:
        shaped = bound.dtype == np.int64 and bound.ndim == 1 and len(bound) > 0
        # Not |bound|: the absolute value of −2^63 is −2^63.
        if not shaped or (bound < -LARGEST).any() or (bound > LARGEST).any():
            raise MechanismError(f"region bounds must be 64-bit integers within ±{LARGEST}.")
