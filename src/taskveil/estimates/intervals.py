"""Confidence limits for the population mean of a score, from the counts of private reports.

N reports are codes 0…K−1. Code k has a known score v_k, and the support (every code that can occur, with its score) is
public. The limits hold for every distribution on the support. With weights w_k the quantity is the ratio E[v]/E[w],
E[w] > 0: that it is ρ means that u_k = v_k − ρ w_k has mean zero, and the limits are the outermost ρ that are not
rejected, on either side at α/2 (Fieller's construction). A mean is the case w = 1.

**`exact_limits`** are Gaffke's (2005; Learned-Miller & Thomas 2019), for one look at the data. The upper limit is the ρ
at which P(Σ G_k u_k + G max u > 0) is α/2, with independent G_k ~ Gamma(n_k) and G ~ Gamma(1): one more observation, at
the largest u of the support. Rare codes with large scores count through it before they are observed. With two scores
these are Clopper and Pearson's limits, and that they hold is a theorem. With more it is Gaffke's conjecture, for which
we know no proof; enumeration of all outcomes for small N found no exception, and two scores to be the worst case.

**`anytime_limits`** hold at all sample sizes at once. For a fixed bet λ with 1 + λ u_k ≥ 0 on the whole support,
Π (1 + λ u_k)^(n_k) is a product of independent factors of mean one if E[u] = 0: a martingale ≥ 0 that starts at 1. So
is the mixture W = Σ_j π_j Π_k (1 + λ_j u_k)^(n_k), and P(W ≥ 2/α at any time) ≤ α/2 (Ville). Negative bets give the
upper limit, positive bets the lower one. They depend on the hypothesis and the support, never on the counts:

    λ = −1 / (√V/q + max u),   V = −min u · max u,   q = e^x/20,   x = −12, −11.5, …, 8,   π the logistic density of x.

V is the largest variance that mean zero allows on the support, and every bet is admissible. The best bet is near
q = 3.3 √V/(σ√N): the centre 1/20 is that for N = 4,000 and σ² = V. Far from it the logistic density falls like 1/√N, as
slowly as a normal mixture. The wealth as a function of log q is a bell of standard deviation 1/3.3, which steps of 1/2
sum with a ripple below 1%.

*For a mean the set is an interval.* On the range [a, b], D(μ) = √V/q + max u = √((μ−a)(b−μ))/q + b − μ is concave and
≥ 0, so its tangents are ≥ 0 on [a, b]: D(μ) + (y − μ) D'(μ) ≥ 0, which says that (y − μ)/D(μ) falls with μ. So every
factor of W rises with μ; the lower limit is the mirror image. At the sample mean Σ n u = 0 and W ≤ 1. For a ratio we
know no such proof: the outermost ρ that is not rejected is looked for on a grid of directions, and refined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from taskveil.arrays import Floats, as_floats
from taskveil.errors import DataError
from taskveil.veil.loss_intervals import CONFIDENCE

STEP = 1 / 8  # of the trapezoidal rule: relative errors of tail probabilities stay below 1e-6
MOST_STEPS = 200  # of Newton's method, which needs about ten
DIRECTIONS = np.linspace(0.0, math.pi / 2, 17)  # arctan of the distance from the estimate in standard errors
PLACES = np.arange(-12.0, 8.25, 0.5)
BETS = np.exp(PLACES) / 20  # q above
LOG_WEIGHTS = -PLACES - 2 * np.log1p(np.exp(-PLACES))
LOG_WEIGHTS -= np.logaddexp.reduce(LOG_WEIGHTS)

Noise = Callable[[Floats], Floats]
Excess = Callable[[Floats, Floats, Floats], float]
"""Of counts (k,), their u (k,) and the u of the whole support: above zero where the hypothesis is not rejected."""


def exact_limits(
    counts: Any, values: Any, weights: Any = None, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Low and high: limits of the mean of `values`, or of its ratio to the mean of `weights`, for one look at the data.

    `counts` (K,) say how often each code was reported, `values` (K,) and `weights` (K,) are the codes' scores; every
    possible code is listed. Weights may have any sign, with a mean above zero; None: all ones. Limits hold with this
    `confidence`, from 0.5 to below 1, and are infinite where the denominator may be zero.
    """
    level = float(ndtri(_miss(confidence) / 2))

    def excess(found: Floats, scores: Floats, support: Floats) -> float:
        chance = chance_above_zero(np.append(found, 1.0), np.append(scores, support.max()))
        return float(np.clip(ndtri(chance), -9, 9)) - level

    return _both_sides(counts, values, weights, excess)


def anytime_limits(
    counts: Any, values: Any, weights: Any = None, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Low and high: limits as of `exact_limits` (same arguments) that hold at all sample sizes at once."""
    level = math.log(2 / _miss(confidence))

    def excess(found: Floats, scores: Floats, support: Floats) -> float:
        most, least = float(support.max()), float(support.min())
        if most <= 0 or least >= 0:
            return -9.0 if scores.any() else 9.0
        bets = -1 / (math.sqrt(-least * most) / BETS + most)
        wealth = float(np.logaddexp.reduce(LOG_WEIGHTS + np.log1p(np.multiply.outer(bets, scores)) @ found))
        return max(math.sqrt(level) - math.sqrt(max(wealth, 0.0)), -9.0)

    return _both_sides(counts, values, weights, excess)


def anytime_sum_limits(
    total: Any,
    count: float,
    span: Any,
    *,
    noise: Noise | None = None,
    most: float = math.inf,
    confidence: float = CONFIDENCE,
) -> tuple[Floats, Floats]:
    """Low and high, (...) each: limits of the mean score from sums alone, which hold at all sample sizes at once.

    exp(λ(S − Nμ) − N(λ² span²/8 + noise(λ))) is a supermartingale for every λ (Hoeffding's lemma). The bets
    λ = ±1/(s/q + 1/most) are mixed with the weights of `anytime_limits`; s² = span²/4 + the noise's variance.
    `total` (...) are sums of `count` > 0 reports, `span` (...) the width of the range of a score without noise, `noise`
    the log moment generating function of each report's own noise of mean zero, finite for |λ| < `most`.
    """
    spans = as_floats(span)
    if not (count > 0 and most > 0 and (spans >= 0).all() and (noise is not None or spans.all())):
        raise DataError(f"count, span and most must be above zero; got {count}, {span} and {most}.")
    level = math.log(2 / _miss(confidence))
    small = 1e-4 * np.minimum(most, 1 / np.maximum(spans, 1e-100))
    variance = spans**2 / 4 + (2 * noise(small) / small**2 if noise else 0.0)
    bets = 1 / (np.sqrt(variance)[..., None] / BETS + 1 / most)

    def reach(sign: int) -> Floats:
        """Where Σ π exp(N(λx − ψ(λ))) is 2/α: convex and rising in x, so Newton's steps from above stay above."""
        rate = bets**2 * spans[..., None] ** 2 / 8 + (noise(sign * bets) if noise else 0.0)
        x = np.min((level - LOG_WEIGHTS + count * rate) / (count * bets), axis=-1)  # each bet alone
        for _ in range(30):
            powers = LOG_WEIGHTS + count * (bets * x[..., None] - rate)
            wealth = np.logaddexp.reduce(powers, axis=-1)
            slope = count * (np.exp(powers - wealth[..., None]) * bets).sum(axis=-1)
            x = x - (wealth - level) / slope
        return np.asarray(x)

    return as_floats(total) / count - reach(1), as_floats(total) / count + reach(-1)


def chance_above_zero(shapes: Floats, scores: Floats) -> float:
    """P(Σ G_k u_k > 0) of independent G_k ~ Gamma(n_k), from `shapes` n (k,), each at least 1, and `scores` u (k,).

    It is ∫ exp(κ(z))/z dz / 2πi, upwards through a c > 0, with κ(z) = −Σ n_k log(1 − z u_k). Damped Newton steps find
    the c that minimises κ(z) − log z, which is self-concordant. No singularity (0 and 1/u_k) is closer to c than
    `unit`, 1/√ of the curvature there, so c + unit · i sinh t meets none for |Im t| < π/2, and the trapezoidal rule
    converges exponentially. Codes of many observations act like exp(mz); the path bends to where that vanishes.
    """
    if not (scores > 0).any() or not (scores < 0).any():
        return float((scores > 0).any())
    u = scores / np.abs(scores).max()
    u = u / math.sqrt(shapes @ u**2)
    c = 1 / (1 + float(u.max()))
    for _ in range(MOST_STEPS):
        if (height := -float(shapes @ np.log1p(-c * u))) < -60:
            return 0.0  # Chernoff's bound
        b = u / (1 - c * u)
        slope, curvature = float(shapes @ b) - 1 / c, float(shapes @ b**2) + 1 / c**2
        if (length := abs(slope) / math.sqrt(curvature)) < 0.1:
            break
        c -= slope / curvature / (1 + length)
    n, b, unit = np.append(shapes, 1.0), np.append(b, -1 / c), 1 / math.sqrt(curvature)
    near = float(n @ (b**3 / (b**2 + curvature / 64)))
    if math.isnan(integral := _along(n, b, unit, min(max(near * unit, -0.5), 0.5), STEP)):
        integral = _along(n, b, unit, 0.0, STEP / 8)
    return min(math.exp(height) / c * integral * unit / math.pi, 1.0)


def _along(n: Floats, b: Floats, unit: float, bend: float, step: float) -> float:
    """Im ∫ Π (1 − δ b)^(−n) dδ / unit along δ = unit · (bend (cosh t − 1) + i sinh t), t > 0; NaN where it grows."""
    integral, t = 0.0, step * np.arange(16)
    while True:
        x, y = bend * unit * (np.cosh(t) - 1), unit * np.sinh(t)
        size = np.log1p(b * (np.multiply.outer(x**2 + y**2, b) - 2 * x[:, None])) @ n / -2
        if (size + t).max() > 3:
            return math.nan
        turn = np.arctan2(np.multiply.outer(y, b), 1 - np.multiply.outer(x, b)) @ n
        terms = np.exp(size) * (np.cos(turn) * np.cosh(t) + np.sin(turn) * bend * np.sinh(t))
        integral += step * (float(terms.sum()) - (0.5 if t[0] == 0 else 0.0))
        if size[-1] + t[-1] < -24:
            return integral
        t = t + 16 * step


def _miss(confidence: float) -> float:
    if not 0.5 <= confidence < 1:
        raise DataError(f"confidence must be from 0.5 to below 1, got {confidence}.")
    return 1 - confidence


def _both_sides(counts: Any, values: Any, weights: Any, excess: Excess) -> tuple[float, float]:
    """Low and high of the hypotheses with an `excess` above zero. Codes with equal scores count as one."""
    n, v = as_floats(counts), as_floats(values)
    w = np.ones_like(v) if weights is None else as_floats(weights)
    if not (n.shape == v.shape == w.shape == (n.size,) and n.size and np.isfinite([n, v, w]).all() and (n >= 0).all()):
        raise DataError("counts (none below zero), values and weights must be finite numbers, one for each code.")
    pairs, places = np.unique(v + 1j * w, return_inverse=True)
    n, v, w = np.bincount(places, n).astype(np.float64), pairs.real, pairs.imag
    return -_upper(n, -v, w, excess), _upper(n, v, w, excess)


def _upper(n: Floats, v: Floats, w: Floats, excess: Excess) -> float:
    """The largest hypothesis with an excess above zero: the estimate + tan(angle) standard errors."""
    end = math.inf if (w < 0).any() or (v[w == 0] > 0).any() or not w.any() else float((v[w > 0] / w[w > 0]).max())
    total, seen = float(n @ w), n > 0
    if total <= 0:
        return end
    most = np.argmax(n * w)
    u = v - v[most] / w[most] * w  # differences first: an offset that all values share costs no digits
    estimate, u = float(v[most] / w[most] + n @ u / total), u - n @ u / total * w
    if u.max() <= 1e-15 * np.abs(v).max():  # only codes at the end were observed
        return estimate if math.isinf(end) else end
    unit = (math.sqrt(n @ u**2) + float(np.abs(u).max())) / total

    def at(angle: float) -> float:
        support = math.cos(angle) * u - math.sin(angle) * unit * w
        return excess(n[seen], support[seen], support)

    if (last := next(place for place in range(16, -1, -1) if place == 0 or at(DIRECTIONS[place]) >= 0)) == 16:
        return math.inf
    angle = brentq(at, DIRECTIONS[last], DIRECTIONS[last + 1], xtol=1e-12, rtol=1e-10)
    return min(estimate + unit * math.tan(angle), end)
