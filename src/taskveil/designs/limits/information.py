"""The information limit of an ε-LDP report, and the loss that it leaves for Gaussian data.

**Claim.** An ε-LDP report Y of an input X carries at most s − 1 − ln s nats, s = ε / (1 − e^−ε), for any X.

**Proof.** Let q(y) = E p(y|X) and r = p(y|X)/q(y). Then I(X; Y) = E over y ~ q of E[r ln r], and for every y: E r = 1,
and r lies in some interval [a, a e^ε]. r ln r is convex, so for given a its mean is largest when r takes the two ends
only. With w the mean that the upper end contributes, E r = 1 gives a = 1 − w c, c = 1 − e^−ε, and E[r ln r] = ln a +
w ε. This is largest where 1 − w c = c/ε, with value ln(c/ε) + ε/c − 1 = s − 1 − ln s. ∎

For Gaussian data the loss of *any* decoder is then at least the distortion at that rate (reverse water-filling). Other
data with the same covariance may allow less, so this bounds no loss there. Nor is it reached: rate-distortion theory
codes many records together, and a report speaks of one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from taskveil.designs.limits.any_data import positive_variances
from taskveil.guarantee import as_epsilon


def information_limit(epsilon: float) -> float:
    """The most nats an ε-LDP report can carry: s − 1 − ln s with s = ε / (1 − e^−ε); about ε²/8 for small ε."""
    budget = as_epsilon(epsilon)
    if budget < 1e-3:  # s − 1 ≈ ε/2 + ε²/12, where the difference below would cancel
        return budget**2 / 8
    s = budget / -math.expm1(-budget)
    return s - 1.0 - math.log(s)


def water_level(variances: ArrayLike, nats: float) -> float:
    """The level θ with Σ ½ ln⁺(λᵢ/θ) = nats; `variances` above zero."""
    ordered = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    logs = np.log(ordered)
    for active in range(1, len(ordered) + 1):
        level = (logs[:active].sum() - 2.0 * nats) / active
        if active == len(ordered) or level >= logs[active]:
            break
    return math.exp(min(level, logs[0]))


def gaussian_distortion(variances: ArrayLike, nats: float) -> float:
    """The least mean squared error of independent Gaussians with these variances at the given rate: Σ min(λᵢ, θ)."""
    positive = positive_variances(variances)
    return float(np.minimum(positive, water_level(positive, nats)).sum()) if len(positive) else 0.0
