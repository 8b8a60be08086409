"""A smoothed line: the local level model, by maximum likelihood.

    y_t = μ_t + e_t,  e_t ~ N(0, v_t)          what the reports of round t measure; v_t is known
    μ_s = μ_t + w,    w ~ N(0, (s − t) q)      from one round with an estimate to the next one, s − t rounds later

All errors and changes are independent. Nothing is known about the first μ in advance, so that the first estimate
starts the filter: μ_1 | y_1 ~ N(y_1, v_1). With a and p, the mean and variance of μ_t given all before round t, and
F = p + v_t (Kalman's filter), the logarithm of the likelihood of the other estimates is

    −½ Σ (log 2πF_t + (y_t − a_t)²/F_t).

The one variance q ≥ 0 maximises it. q = 0 is allowed: then nothing changes, and the line is flat. Going back over the
rounds (Rauch, Tung and Striebel) gives the mean and the variance of every μ_t given all estimates and q.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from taskveil.arrays import Floats


class Filtered(NamedTuple):
    """The log-likelihood, and means and variances (T,) of the levels given the estimates up to each."""

    likelihood: float
    mean: Floats
    variance: Floats


def filtered(y: Floats, v: Floats, gaps: Floats, q: float) -> Filtered:
    """Kalman's filter.

    Args:
        y: (T,) estimates.
        v: (T,) their variances, above zero.
        gaps: (T − 1,) how many rounds lie between an estimate and the next one.
        q: the variance of the change from one round to the next.
    """
    mean, variance = np.empty(len(y)), np.empty(len(y))
    mean[0], variance[0], total = y[0], v[0], 0.0
    for t in range(1, len(y)):
        before = variance[t - 1] + q * gaps[t - 1]
        away, spread = y[t] - mean[t - 1], before + v[t]
        total -= 0.5 * (math.log(2 * math.pi * spread) + away**2 / spread)
        mean[t], variance[t] = mean[t - 1] + before / spread * away, before * v[t] / spread
    return Filtered(total, mean, variance)


def smoothed(y: Floats, v: Floats, gaps: Floats, q: float) -> tuple[Floats, Floats]:
    """Means and variances (T,) of the levels given all estimates; arguments as of `filtered`."""
    _, mean, variance = filtered(y, v, gaps, q)
    for t in range(len(y) - 2, -1, -1):
        before = variance[t] + q * gaps[t]
        back = variance[t] / before
        mean[t] += back * (mean[t + 1] - mean[t])
        variance[t] += back**2 * (variance[t + 1] - before)
    return mean, variance


def likeliest(y: Floats, v: Floats, gaps: Floats) -> float:
    """The q of the largest likelihood, 0 if that is it; arguments as of `filtered`.

    With d = Δy/√gap and S the covariance of d, S ≥ q and S ≤ q + 4 max v. The derivative of the log-likelihood in q is
    ½ (|S⁻¹d|² − tr S⁻¹) ≤ ½ (|d|²/q² − (T − 1)/(q + 4 max v)): beyond m + 2√(m max v), m the mean of d², it falls. The
    likelihood may have several maxima below: the best of a grid of scales is refined between its neighbours.
    """
    m = float((np.diff(y) ** 2 / gaps).mean())
    largest = m + 2.0 * math.sqrt(m * float(v.max()))
    if largest == 0.0:
        return 0.0

    def loss(power: float) -> float:
        return -filtered(y, v, gaps, largest * math.exp(power)).likelihood

    grid = np.linspace(-30.0, 0.0, 61)
    best = grid[int(np.argmin([loss(power) for power in grid.tolist()]))]
    found = minimize_scalar(loss, bounds=(best - 0.5, best + 0.5), method="bounded", options={"xatol": 1e-6})
    q = largest * math.exp(float(found.x))
    return q if -float(found.fun) > filtered(y, v, gaps, 0.0).likelihood else 0.0
