"""PrivUnit with its best cap (Bhowmick et al. 2018, Asi et al. 2022) in any number of dimensions, up to thousands.

A uniform unit vector of the cap {v : ⟨u, v⟩ ≥ t} is drawn with e^ε times the density of one outside. q is the share of
the sphere that the cap takes, and A = E[⟨u, v⟩; cap] = c (1 − t²)^((d−1)/2)/(d − 1), c the density of ⟨u, v⟩ at 0. Then
E⟨u, v⟩ = (e^ε − 1) A/(q e^ε + 1 − q) = κ, and v/κ is unbiased with the squared error 1/κ² − 1.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, gammaln

from taskveil.arrays import Floats


def caps(dim: int) -> Floats:
    """Thresholds t that are tried: evenly spaced up to 8 standard deviations of ⟨u, v⟩, or up to 1."""
    return np.linspace(0.0, min(1.0, 8.0 / math.sqrt(dim)), 20_000, endpoint=False)


def priv_unit(dim: int, epsilon: float) -> tuple[float, float]:
    """(t, κ) of the cap with the largest κ in `dim` dimensions, 2 or more."""
    t, odds = caps(dim), math.exp(epsilon)
    taken = betainc((dim - 1) / 2, 0.5, 1.0 - t**2) / 2
    log_density = float(gammaln(dim / 2) - gammaln((dim - 1) / 2)) - math.log(math.pi) / 2
    lean = np.exp(log_density + (dim - 1) / 2 * np.log1p(-(t**2))) / (dim - 1)
    kappa = (odds - 1.0) * lean / (taken * odds + 1.0 - taken)
    best = int(kappa.argmax())
    return float(t[best]), float(kappa[best])


def priv_unit_error(dim: int, epsilon: float) -> float:
    """E‖v/κ − u‖² for a unit vector u."""
    return priv_unit(dim, epsilon)[1] ** -2 - 1.0
