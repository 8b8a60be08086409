"""The information limit of an ε-LDP report, and the loss that it leaves for Gaussian data.

**Claim.** An ε-LDP report Y of an input X carries at most s − 1 − ln s nats, s = ε / (1 − e^−ε), for any X.

**Proof.** Let q(y) = E p(y|X) and r = p(y|X)/q(y). Then I(X; Y) = E over y ~ q of E[r ln r], and for every y: E r = 1,
and r lies in some interval [a, a e^ε]. r ln r is convex, so for given a its mean is largest when r takes the two ends
only. With w the mean that the upper end contributes, E r = 1 gives a = 1 − w c, c = 1 − e^−ε, and E[r ln r] = ln a +
w ε. This is largest where 1 − w c = c/ε, with value ln(c/ε) + ε/c − 1 = s − 1 − ln s. ∎

For Gaussian data the loss of *any* decoder is then at least the distortion at that rate (reverse water-filling,
`gaussian_distortion` in `designs/moments.py`). Other data with the same covariance may allow less, so this bounds no
loss there. Nor is it reached: rate-distortion theory codes many records together, and a report speaks of one.
"""

from __future__ import annotations

import math

from taskveil.veil.veil import as_epsilon


def information_limit(epsilon: float) -> float:
    """The most nats an ε-LDP report can carry: s − 1 − ln s with s = ε / (1 − e^−ε); about ε²/8 for small ε."""
    budget = as_epsilon(epsilon)
    if budget < 1e-3:  # s − 1 ≈ ε/2 + ε²/12, where the difference below would cancel
        return budget**2 / 8
    s = budget / -math.expm1(-budget)
    return s - 1.0 - math.log(s)
