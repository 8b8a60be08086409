"""PrivUnit (Bhowmick et al. 2018) with its best parameters (Asi et al. 2022): the moments that its error follows
from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc, betaln


@dataclass(frozen=True, kw_only=True)
class PrivUnit:
    """For a unit vector u in d ≥ 2 dimensions: with chance p a uniform unit vector z with z·u ≥ `threshold`, otherwise
    one below, sent as z/`mean`. `mean` is E[z·u] and `square` E[(z·u)²].

    p/q : (1 − p)/(1 − q) = e^ε : 1, where q is the share of the sphere above the threshold: exactly ε-LDP. The
    threshold is the one of largest mean.
    """

    threshold: float
    mean: float
    square: float

    @classmethod
    def of(cls, dim: int, epsilon: float) -> PrivUnit:
        """The best one for vectors of `dim` attributes."""
        found = minimize_scalar(
            lambda at: -_moments(dim, epsilon, at)[0], bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9}
        )
        least = 0.0 if -found.fun < _moments(dim, epsilon, 0.0)[0] else float(found.x)
        mean, square = _moments(dim, epsilon, least)
        return cls(threshold=least, mean=mean, square=square)


def _moments(dim: int, epsilon: float, threshold: float) -> tuple[float, float]:
    """E[z·u] and E[(z·u)²]. On the sphere t = z·u has density (1 − t²)^(a − 1) / B(1/2, a) with a = (d − 1)/2."""
    a = (dim - 1) / 2
    share = 0.5 * float(betainc(a, 0.5, 1.0 - threshold**2))  # of the sphere above the threshold
    if share <= 0.0:
        return 0.0, 1.0 / dim
    above = math.exp(a * math.log1p(-(threshold**2)) - float(betaln(0.5, a))) / (2 * a)  # ∫ t over the cap
    square = 0.5 / dim * float(betainc(a, 1.5, 1.0 - threshold**2))  # ∫ t² over the cap
    # Densities relative to the uniform one, above the threshold and below: in the ratio e^ε, and their mean is one.
    below = 1.0 / (1.0 + share * float(np.expm1(epsilon)))
    extra = below * float(np.expm1(epsilon))
    return extra * above, below / dim + extra * square
