"""Bounds by duality: put a price on every value; if no report is worth what it costs, none gains more than the prices.

**Claim.** Let z have mean 0 and let ν be any function with a finite mean. No ε-LDP report and decoder lowers the loss
E‖z‖² by more than max(E ν, T), T = max over u of (e^ε − 1) E[(2u·z − ‖u‖² − ν(z))⁺] − ‖u‖².

**Proof.** Report y is decoded to u_y, and a_y ≤ p(y|z) ≤ a_y e^ε for all z, with Σ a_y ≤ Σ p(y|z) = 1. With ψ_y =
2u_y·z − ‖u_y‖² − ν(z), the loss falls by E‖z‖² − E‖z − u_y‖² = Σ_y E[p(y|z)(ψ_y + ν)] = E ν + Σ_y E[p(y|z) ψ_y]. Here
p ψ ≤ a(e^ε ψ⁺ − ψ⁻) = a(ψ + (e^ε − 1) ψ⁺), and E ψ_y = −‖u_y‖² − E ν, so each term is at most a_y (T − E ν): their sum
is at most max(0, T − E ν). ∎  (Minimised over all ν this is the dual of the linear program in
`benchmarks/staircases.py`: nothing is lost.)

**Prices used here**, for Gaussian z with variances λᵢ: ν = α + Σ (λᵢ − θ)⁺ zᵢ²/λᵢ. With θ ≥ λ₁ it is constant, and the
claim is that of `half_space.py`; θ > 0 as in reverse water-filling makes it large where values are rare.

*Any variances* (`price_limit`). For s = c + iω, c > 0, x⁺ is the integral of e^{sx}/(2π s²) over ω, and with γᵢ = (λᵢ
− θ)⁺ E e^{sψ} = e^{−sα} Π (1 + 2sγᵢ)^−½ e^{uᵢ² kᵢ(s)}, kᵢ(s) = s(2s(λᵢ − γᵢ) − 1)/(1 + 2sγᵢ). So with W = ‖u‖² and ω =
c tan φ, E ψ⁺ ≤ e^{−cα}/(πc) ∫₀^{π/2} Π |1 + 2sγᵢ|^−½ e^{W maxᵢ Re kᵢ(s)} dφ, for every c. Both factors fall in φ (for
kᵢ: Re s/(1 + 2sγ) grows in ω²), so a sum over left ends is no smaller than the integral. It is convex in W, so between
two W one c serves if it serves at both ends; beyond the last W, one with 2cθ ≤ 1 does, because Re kᵢ ≤ 0 there. No
maximum over u has to be trusted to a search.

*Equal variances* (`equal_directions`). ψ = const − γ‖g − m‖² with ‖m‖ = ‖u‖/γ, so E ψ⁺ is exact (non-central χ²) and
depends on ‖u‖ alone. Other variances are layers of equal ones: Σ λᵢ cᵢ = Σ_k (λ_k − λ_{k+1}) (c₁ + … + c_k), and c₁ +
… + c_k is what the report gains on k directions of variance 1 (`layered_reduction`). Better where the budget is small.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import chndtr

from taskveil.arrays import Floats
from taskveil.designs.moments import positive_variances
from taskveil.peers.limits.half_space import half_space_reduction, log_expm1
from taskveil.veil.veil import as_epsilon

_TILTS = np.geomspace(0.2, 5.0, 17)  # 2cθ; 1 is among them
_SQUARES = np.concatenate([[0.0], np.geomspace(1e-2, 50.0, 41)])  # W, in units of λ₁
_ANGLES = math.pi / 2 * np.linspace(0.0, 1.0, 121) ** 1.5  # more of them where the integrand is large
_LAYERS = 4  # beyond, a layer is bounded by the half-space, which many equal directions nearly reach
_LAYERED_BUDGETS = (0.2, 12.0)  # below, the half-space is as good; above, the other prices are


def price_limit(variances: ArrayLike, epsilon: float) -> float:
    """The least loss for independent Gaussians with these variances, by the best prices of the family; any ε."""
    budget, ordered = as_epsilon(epsilon), positive_variances(variances)
    if len(ordered) == 0:
        return 0.0
    relative = ordered / ordered[0]

    def loss(log_level: float) -> float:
        return _loss_at(math.exp(log_level), relative, log_expm1(budget))

    levels = np.linspace(-3.0 - 3.0 * budget / (2 + len(relative)), -0.005, 16)
    losses = [loss(level) for level in levels]
    best = int(np.argmax(losses))
    around = (levels[max(best - 1, 0)], levels[min(best + 1, len(levels) - 1)])
    found = minimize_scalar(lambda level: -loss(level), bounds=around, method="bounded", options={"xatol": 1e-4})
    return float(ordered[0] * max(-found.fun, losses[best]))


def _loss_at(level: float, variances: Floats, log_gain: float) -> float:
    """E‖z‖² − E ν for θ = `level` and the smallest α at which T ≤ E ν: a valid bound, 0 where there is no such α."""
    gains, kept = np.maximum(variances - level, 0.0), np.minimum(variances, level)
    total = gains.sum()
    tilts = _TILTS / (2 * level)
    logs = log_gain + _log_integrals(tilts, gains, kept)
    squares = _SQUARES * variances[0]

    def worth_its_price(alpha: float) -> bool:
        with np.errstate(over="ignore"):
            fits = np.exp(logs - tilts[:, None] * alpha) - squares <= total + alpha
        return bool((fits[:, 1:] & fits[:, :-1]).any(axis=0).all() and fits[_TILTS <= 1, -1].any())

    high = kept.sum() / level  # α in units of θ; here the bound is 0
    low = -min(total / level, 4 * abs(log_gain) + 50)
    if not worth_its_price(high * level):
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if worth_its_price(middle * level) else (middle, high)
    return float(kept.sum() - high * level)


def _log_integrals(tilts: Floats, gains: Floats, kept: Floats) -> Floats:
    """(C, W): logarithms of the bound on E ψ⁺ at α = 0, for every c and W."""
    s = tilts[:, None, None] * (1 + 1j * np.tan(_ANGLES[:-1]))[None, :, None]  # (C, φ, 1)
    grown = 1 + 2 * s * gains
    flat = -0.5 * np.log(np.abs(grown)).sum(axis=2)  # (C, φ)
    steepest = (s * (2 * s * kept - 1) / grown).real.max(axis=2)
    weights = np.diff(_ANGLES) / (math.pi * tilts[:, None])
    exponents = flat[:, None, :] + _SQUARES[None, :, None] * steepest[:, None, :]  # (C, W, φ)
    largest = exponents.max(axis=2, keepdims=True)
    return np.asarray(largest[..., 0] + np.log((np.exp(exponents - largest) * weights[:, None, :]).sum(axis=2)))


def layered_reduction(variances: ArrayLike, epsilon: float) -> float:
    """What an ε-LDP report can take off Σ λᵢ at most: Σ_k (λ_k − λ_{k+1}) · its most on k equal directions."""
    ordered = positive_variances(variances)
    steps = ordered - np.append(ordered[1:], 0.0)
    return float(sum(step * equal_directions(min(k, _LAYERS + 1), epsilon) for k, step in enumerate(steps, 1) if step))


@lru_cache(maxsize=4096)
def equal_directions(count: int, epsilon: float) -> float:
    """The most that an ε-LDP report can gain on `count` Gaussian directions of variance 1 (on any number, above 4)."""
    budget = as_epsilon(epsilon)
    ceiling = min(half_space_reduction(budget), float(count) if count <= _LAYERS else math.inf)
    if count > _LAYERS or not _LAYERED_BUDGETS[0] <= budget <= _LAYERED_BUDGETS[1]:
        return ceiling
    gain = math.expm1(budget)

    def worth(alpha: float, slope: float, steps: int) -> float:
        # Worth something are only ‖u‖ below this: E ψ⁺ ≤ E[(2u·g)⁺] + |α| ≤ 0.8‖u‖ + |α|; or else g is never that large
        farthest = min(gain + math.sqrt(gain * abs(alpha)), math.sqrt(count) + 4)
        lengths, step = np.linspace(0.0, farthest, steps, retstep=True)
        excess, chance = _mean_excess(lengths, alpha, slope, count)
        # Curved downwards by 2 + 2(e^ε − 1) P(ψ > 0) at most, it is that much higher between two points of the grid.
        missed = (1 + gain * np.maximum(chance[1:], chance[:-1])) * step**2 / 4
        found = gain * excess - lengths**2
        return float((np.maximum(found[1:], found[:-1]) + missed).max())

    def balanced(slope: float, steps: int = 161) -> float:
        """max(E ν, T) for the best α: E ν grows in α and T falls, so where they meet. Convex in the slope."""
        free = count * slope
        if (most := worth(ceiling - free, slope, steps)) >= ceiling:
            return most
        return free + brentq(lambda alpha: alpha + free - worth(alpha, slope, steps), -free, ceiling - free, xtol=1e-9)

    slopes = (0.1 * ceiling / count, min(0.9999, 2 * ceiling / count))
    best = minimize_scalar(balanced, bounds=slopes, method="bounded", options={"xatol": 1e-4 * slopes[1]}).x
    return min(ceiling, balanced(float(best), 4001))


def _mean_excess(length: Floats, alpha: float, slope: float, count: int) -> tuple[Floats, Floats]:
    """E ψ⁺ and P(ψ > 0) for ψ = 2u·g − ‖u‖² − α − slope·‖g‖², standard normal g (count,) and every ‖u‖ = length."""
    top = length**2 / slope - length**2 - alpha
    edge, offset = np.maximum(top, 0.0) / slope, (length / slope) ** 2
    inside, twice, four = (chndtr(edge, count + more, offset) for more in (0, 2, 4))
    return np.maximum(top * inside - slope * (count * twice + offset * four), 0.0), np.where(top > 0, inside, 0.0)
