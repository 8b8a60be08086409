"""The Gaussian mechanism on a grid: bound the latents in a ball, round them, add exact discrete Gaussian noise.

**Guarantee.** For any two inputs whatsoever and any set of reports S, P[M(φ) ∈ S] ≤ e^ε · P[M(φ') ∈ S] + δ, where δ is
the mechanism's and ε the number that `epsilon` rounds up.

**Why.** (1) `region.enforce` maps every input to an integer vector k with ‖k − center‖₂² ≤ R, decided in integers. So
‖k − k'‖₂² ≤ 4R for any two inputs. Rounding to the grid happens before, so it is part of R. (2) Each coordinate
receives independent noise with P(x) ∝ e^(−x²/(2·scale²)) on the integers, drawn exactly. (3) For integer vectors, the
Rényi divergence of order α between k + noise and k' + noise is at most α·‖k − k'‖₂²/(2·scale²), for every α > 1
(Canonne, Kamath and Steinke 2020, Proposition 5; divergences of independent coordinates add up). So reports are ρ-zCDP
with ρ = 4R/(2·scale²). (4) `concentrated` says which (ε, δ) follows, for any order α > 1. (5) Reports stay whole
numbers of grid steps, cut off ten scales from the ball (probability below 2^-64 for each), which is post-processing and
costs no δ; what they stand for, times the power-of-two step, is the decoder's business.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.client.concentrated import epsilon_bound, exact_epsilon, largest_rho
from taskveil.client.mechanisms.base import Mechanism
from taskveil.client.noise import discrete_gaussian, discrete_gaussian_mass, discrete_gaussian_variance
from taskveil.client.regions import LARGEST, BallRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussian(Mechanism):
    """(ε, δ)-LDP for every input (`scale` in grid steps).

    `order` is the Rényi order α of the bound, which the designer chose. Every order states a valid ε.
    """

    region: BallRegion
    scale: float
    delta: float = field()  # no default, although the base class has one
    order: float

    enforced_by: ClassVar[str] = (
        "All latents together are forced into a fixed ball in integer arithmetic, then receive exact discrete Gaussian "
        "noise from the operating system's entropy."
    )

    def __post_init__(self) -> None:
        if not isinstance(self.region, BallRegion):
            raise MechanismError("the region of Gaussian noise is a ball.")
        if not (math.isfinite(self.scale) and 2.0**-10 <= self.scale <= LARGEST):
            raise MechanismError(f"the noise scale must lie between 2^-10 and 2^40 grid steps, got {self.scale}.")
        if not self.epsilon > 0:  # δ and the order are checked where it is computed
            raise MechanismError(f"so much noise keeps epsilon = 0 at delta = {self.delta}: choose a smaller delta.")

    @classmethod
    def calibrated(cls, *, region: BallRegion, epsilon: float, delta: float) -> Gaussian:
        """The least noise that keeps (`epsilon`, `delta`) on `region`, by the best order."""
        # Not `not <`: NaN is refused too.
        if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
            raise MechanismError(
                f"epsilon must be above zero and delta lie between 0 and 1, got epsilon = {epsilon}, delta = {delta}."
            )
        rho, order = largest_rho(epsilon, delta)
        if not rho > 0:
            raise MechanismError(f"no noise keeps an epsilon as small as {epsilon} at delta = {delta}.")
        squared = 2 * max(region.squared_radius, 1)

        def keeps(scale: float) -> bool:
            return epsilon_bound(Fraction(squared) / Fraction(scale) ** 2, delta, order) <= epsilon

        low = high = math.sqrt(squared / rho)
        while not keeps(high):
            high *= 1 + 2.0**-30
        while keeps(low):
            low *= 1 - 2.0**-30
        while low < (middle := low + (high - low) / 2) < high:  # until they are neighbours
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return cls(region=region, scale=max(high, 2.0**-10), delta=delta, order=order)

    @property
    def rho(self) -> Fraction:
        """The ρ of zero-concentrated privacy: 2R/scale², exactly."""
        return 2 * self.region.squared_radius / Fraction(self.scale) ** 2

    @cached_property
    def epsilon(self) -> float:
        """The ε at this δ and order, rounded up."""
        return epsilon_bound(self.rho, self.delta, self.order)

    @property
    def exact_epsilon(self) -> Decimal:
        """The same in sixty digits, by other arithmetic."""
        return exact_epsilon(self.rho, self.delta, self.order)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise in every coordinate of a report, in the latent's units."""
        return discrete_gaussian_variance(self.scale) * self.region.step**2

    @cached_property
    def layout(self) -> Layout:
        """The region's own reach and ten scales beyond."""
        beyond = math.ceil(10 * self.scale)  # 2 e^-50 < 2^-64
        low, high = self.region.reach
        return Layout(low=tuple(k - beyond for k in low.tolist()), high=tuple(k + beyond for k in high.tolist()))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, Z) → reports (N, Z): whole numbers of grid steps."""
        k = self.region.enforce(latents)
        k += discrete_gaussian(self.scale, k.size).reshape(k.shape)
        return np.clip(k, self.layout.low, self.layout.high, out=k)

    def values(self, reports: Integers) -> Array:
        """Grid steps (N, Z) → the latent plus noise, in the latent's units."""
        return np.asarray(reports * self.region.step, dtype=np.float64)

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): −‖r − k‖₂²/(2·scale²) − Z ln Σ e^(−x²/(2·scale²)); the cut-off is left out."""
        constant = self.report_width * math.log(discrete_gaussian_mass(self.scale))
        squares = [(((reports - k) / self.scale) ** 2).sum(axis=1) for k in self.region.enforce(latents)]
        return np.asarray(-0.5 * np.stack(squares, axis=1) - constant)

    def fault(self, k: Integers) -> str | None:
        """A sentence if a member of the region lies outside the ball; otherwise None."""
        if not BallRegion.contains(self.region, k).all():  # the ball that was charged, whatever the region lets through
            return "Latents lie outside the ball: two of them may be farther apart than was charged."
        return None
