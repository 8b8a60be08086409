"""The Laplace mechanism on a grid: bound the latent, round it, add exact discrete Laplace noise.

**Guarantee.** For any two inputs whatsoever and any set of reports S, P[M(φ) ∈ S] ≤ e^ε · P[M(φ') ∈ S] with
ε = Δ₁ / scale, where Δ₁ is the ℓ1 diameter of the region.

**Why.** (1) `region.enforce` maps every input to an integer vector k with ‖k − k'‖₁ ≤ Δ₁ for any two inputs; the
membership is decided in integers. (2) Each coordinate receives independent noise with P(x) ∝ e^(−|x|/scale) on
the integers, drawn exactly. (3) So for every report r the ratio of probabilities is
e^((‖r − k'‖₁ − ‖r − k‖₁)/scale) ≤ e^(‖k − k'‖₁/scale) ≤ e^(Δ₁/scale), by the triangle inequality.
(4) Multiplying by the power-of-two step is post-processing. Rounding to the grid happens before (1)
is checked, so it is part of Δ₁ in every coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import MechanismError
from taskveil.mechanisms.noise import LARGEST_SCALE, discrete_laplace, discrete_laplace_variance
from taskveil.regions import Region

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Laplace:
    """ε-LDP for every input, ε = region.l1_diameter / scale (`scale` in grid steps)."""

    region: Region
    scale: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and 2.0**-10 <= self.scale <= LARGEST_SCALE):
            raise MechanismError(f"the noise scale must lie between 2^-10 and 2^40 grid steps, got {self.scale}.")

    @classmethod
    def calibrated(cls, *, region: Region, epsilon: float) -> Laplace:
        """The least noise that keeps `epsilon` on `region`, rounded up."""
        if not (math.isfinite(epsilon) and epsilon >= 2.0**-100):
            raise MechanismError(f"epsilon must be a number above zero that noise can be made for, got {epsilon}.")
        return cls(region=region, scale=_least_scale(region.l1_diameter, epsilon))

    @property
    def epsilon(self) -> float:
        """The privacy loss between the two farthest inputs."""
        return self.privacy_loss(self.region.l1_diameter)

    def privacy_loss(self, distance: int) -> float:
        """ln of the largest ratio of report probabilities for latents `distance` grid steps apart, rounded up."""
        return round_up(Fraction(distance) / Fraction(self.scale))

    @property
    def latent_dim(self) -> int:
        return self.region.dim

    @property
    def report_width(self) -> int:
        return self.region.dim

    @property
    def noise_variance(self) -> float:
        """The variance of the noise in every coordinate of a report, in the latent's units."""
        return discrete_laplace_variance(self.scale) * self.region.step**2

    def bound(self, latents: Floats) -> Floats:
        """Any floats (N, Z) → what the noise will be added to: inside the region, on the grid."""
        return np.asarray(self.region.enforce(latents) * self.region.step, dtype=np.float64)

    def __call__(self, latents: Floats) -> Floats:
        """Any floats (N, Z) → reports (N, Z): multiples of the grid step."""
        k = self.region.enforce(latents)
        noise = discrete_laplace(self.scale, k.size).reshape(k.shape)
        return np.asarray((k + noise) * self.region.step, dtype=np.float64)


def _least_scale(diameter: int, epsilon: float) -> float:
    """The smallest double t with diameter / t ≤ epsilon in exact arithmetic (at least 1: never no noise)."""
    exact = Fraction(max(diameter, 1)) / Fraction(epsilon)
    return max(round_up(exact), 2.0**-10)


def round_up(exact: Fraction) -> float:
    """The least double that is not below `exact`."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
