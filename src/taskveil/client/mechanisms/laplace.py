"""The Laplace mechanism on a grid: bound the latent, round it, add exact discrete Laplace noise.

**Guarantee.** For any two inputs whatsoever and any set of reports S, P[M(φ) ∈ S] ≤ e^ε · P[M(φ') ∈ S] with
ε = Δ₁ / scale, where Δ₁ is the ℓ1 diameter of the region.

**Why.** (1) `region.enforce` maps every input to an integer vector k with ‖k − k'‖₁ ≤ Δ₁ for any two inputs; the
membership is decided in integers. (2) Each coordinate receives independent noise with P(x) ∝ e^(−|x|/scale) on
the integers, drawn exactly. (3) So for every report r the ratio of probabilities is
e^((‖r − k'‖₁ − ‖r − k‖₁)/scale) ≤ e^(‖k − k'‖₁/scale) ≤ e^(Δ₁/scale), by the triangle inequality.
(4) Rounding to the grid happens before (1) is checked, so it is part of Δ₁ in every coordinate. (5) Reports stay
whole numbers of grid steps, cut off at 45 scales from the region (probability 2^-64), which is post-processing; what
they stand for, times the power-of-two step, is the decoder's business.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.client.mechanisms.base import Mechanism
from taskveil.client.noise import discrete_laplace, discrete_laplace_variance
from taskveil.client.promise import round_up
from taskveil.client.regions import LARGEST, L1Region
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError

SCALES_KEPT = 45
"""Noise beyond this many scales from the region is cut off: e^-45 < 2^-64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Laplace(Mechanism):
    """ε-LDP for every input, ε = region.l1_diameter / scale (`scale` in grid steps)."""

    region: L1Region
    scale: float

    enforced_by: ClassVar[str] = (
        "Every latent is forced into a fixed region in integer arithmetic, then receives exact discrete Laplace noise "
        "from the operating system's entropy."
    )

    def __post_init__(self) -> None:
        if not isinstance(self.region, L1Region):
            raise MechanismError("the region of Laplace noise is a box, a sign region or a diamond.")
        if not (math.isfinite(self.scale) and 2.0**-10 <= self.scale <= LARGEST):
            raise MechanismError(f"the noise scale must lie between 2^-10 and 2^40 grid steps, got {self.scale}.")

    @classmethod
    def calibrated(cls, *, region: L1Region, epsilon: float) -> Laplace:
        """The least noise that keeps `epsilon` on `region`, rounded up."""
        if not (math.isfinite(epsilon) and epsilon >= 2.0**-100):
            raise MechanismError(f"epsilon must be a number above zero that noise can be made for, got {epsilon}.")
        # The smallest double t with diameter / t ≤ epsilon in exact arithmetic; at least 2^-10: never no noise.
        exact = Fraction(max(region.l1_diameter, 1)) / Fraction(epsilon)
        return cls(region=region, scale=max(round_up(exact), 2.0**-10))

    @property
    def epsilon(self) -> float:
        """The privacy loss between the two farthest inputs, rounded up."""
        return round_up(Fraction(self.region.l1_diameter) / Fraction(self.scale))

    @property
    def exact_epsilon(self) -> Decimal:
        """Δ₁/scale in sixty digits."""
        return Context(prec=60).divide(Decimal(self.region.l1_diameter), Decimal(self.scale))

    @property
    def noise_variance(self) -> float:
        """The variance of the noise in every coordinate of a report, in the latent's units."""
        return discrete_laplace_variance(self.scale) * self.region.step**2

    @cached_property
    def layout(self) -> Layout:
        """The region's own reach and 45 scales beyond."""
        beyond = math.ceil(SCALES_KEPT * self.scale)
        low, high = self.region.reach
        return Layout(low=tuple(k - beyond for k in low.tolist()), high=tuple(k + beyond for k in high.tolist()))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → reports (N, Z): whole numbers of grid steps."""
        k = self.region.enforce(latents)
        k += discrete_laplace(self.scale, k.size).reshape(k.shape)
        return np.clip(k, self.layout.low, self.layout.high, out=k)

    def values(self, reports: Integers) -> Array:
        """Grid steps (N, Z) → the latent plus noise, in the latent's units."""
        return np.asarray(reports * self.region.step, dtype=np.float64)

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): −‖r − k‖₁/scale + Z ln((1 − p)/(1 + p)) with p = e^(−1/scale); the cut-off is left out."""
        constant = self.report_width * math.log(math.tanh(0.5 / self.scale))
        distances = [np.abs(reports - k).sum(axis=1, dtype=np.float64) for k in self.region.enforce(latents)]
        return np.asarray(constant - np.stack(distances, axis=1) / self.scale)

    def fault(self, k: Integers) -> str | None:
        """A sentence if two members of the region are farther apart than its diameter; otherwise None."""
        products = k @ _some_signs(k.shape[1])
        seen = int((products.max(axis=0) - products.min(axis=0)).max())
        if seen > self.region.l1_diameter:
            return f"Two latents are {seen} steps apart: more than was charged."
        return None


def _some_signs(dim: int) -> Integers:
    """(dim, S): all sign vectors of up to ten latents, of more the first 512; ‖v‖₁ is the largest s·v over all."""
    codes = np.arange(2 ** min(dim - 1, 9))[:, None] >> np.arange(dim)
    return np.asarray(1 - 2 * (codes & 1)).T
