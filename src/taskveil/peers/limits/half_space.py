"""What the best single report can say about Gaussian data: the bound that is tight for small budgets.

**Claim.** For Gaussian task outputs of variances λ₁ ≥ λ₂ ≥ …, an ε-LDP report lowers the loss, over all directions
together, by at most λ₁ h², h = max over t of (e^ε − 1) φ(t) / (1 + (e^ε − 1) Q(t)); φ and Q are the standard normal's
density and upper tail.

**Proof.** As in `any_data.py` the loss falls by the mean over y ~ q of Σ λᵢ (E[r gᵢ])², g standard normal. (1) That is
at most λ₁ ‖E[r g]‖²: no direction weighs more than the first. (2) ‖E[r g]‖ = E[r v·g] for the unit vector v along E[r
g], and v·g is a standard normal variable. (3) r has mean 1 and lies in some [a, a e^ε]. For given a, E[r v·g] is
largest when r = a e^ε where v·g is above some t and r = a elsewhere (the bathtub principle: mass moved to where v·g is
larger only helps). Mean 1 makes a = 1/(1 + (e^ε − 1) Q(t)), and E[r v·g] = a (e^ε − 1) φ(t). (4) So every y
contributes at most λ₁ h², and a mean is no larger than the largest. ∎

All reports would have to be the best one at once, each about a direction of its own; that is possible only in the
limit of many equal directions. For ε → 0, λ₁ h² ≈ λ₁ ε²/(2π), and one bit about the sign of the first direction
reaches it.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

from taskveil.veil.veil import as_epsilon


def log_expm1(epsilon: float) -> float:
    """ln(e^ε − 1), without overflow or cancellation."""
    return epsilon + math.log(-math.expm1(-epsilon))


def half_space_reduction(epsilon: float) -> float:
    """h²: what an ε-LDP report can take off the loss at most, when the largest Gaussian variance is 1.

    The derivative of the quotient vanishes where it equals t, so h is the solution of t (1 + (e^ε − 1) Q(t)) =
    (e^ε − 1) φ(t).
    """
    budget = as_epsilon(epsilon)
    gain = log_expm1(budget)

    def excess(log_t: float) -> float:
        t = math.exp(log_t)
        tail = gain + float(log_ndtr(-t))
        above = max(tail, 0.0) + math.log1p(math.exp(-abs(tail)))
        return log_t + above - gain + t * t / 2 + math.log(2 * math.pi) / 2

    return math.exp(2 * brentq(excess, min(gain, 0.0) - 5, math.log(math.sqrt(2 * budget) + 2), xtol=1e-13))
