"""From both sides, for one Gaussian direction: what the best of all ε-LDP reports reaches, by linear programming.

**Below** (`staircase_optimum`). Cut the line into cells and let the report depend on the cell alone: that is a report
like any other, so what it gains can be reached. A report y decoded well gains (E[p(y|z) z])²/E p(y|z), which is convex
and homogeneous in the likelihood p(y|·), and an optimum needs only extreme ones: staircases, equal to a on some cells
and to a e^ε on the others (Kairouz, Oh and Viswanath 2016). How often to use which is a linear program. Listed here
are staircases that are high on an interval; with 12 cells all 2¹² were tried, and none of the others is used. The gain
is in units of the *whole* variance. Divided by the variance between cells instead, 12 cells of equal probability would
show 3% more than can be reached.

**Above** (`staircase_ceiling`). The dual of the program for the line itself: prices as in `prices.py`, here piecewise
linear in |z|, with all integrals in closed form. Any prices give a bound; a bundle of cutting planes looks for good
ones. For fixed u the worth T(u) of the best report is a maximum of parabolas in u of curvature at least −2e^ε, so a
grid of step d misses at most e^ε d²/4 of its maximum; that is added.

Both together tell the optimum within about 1% from ε = 0.5 to 10. Up to ε of about 2 it is (2/π) tanh²(ε/2), randomised
response on the sign.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri

from taskveil.arrays import Floats
from taskveil.peers.limits.prices import equal_directions, price_limit
from taskveil.veil.veil import as_epsilon

_KNOTS = np.linspace(0.0, 4.6, 41)
_LEFT, _RIGHT = _KNOTS[:-1], np.append(_KNOTS[1:-1], np.inf)  # beyond the last knot prices go on as before it
_FARTHEST = 6.0  # no decoder answers beyond: a report would have to be e^18 times likelier there


def density(z: Floats) -> Floats:
    """The standard normal's."""
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


def staircase_optimum(epsilon: float, *, cells: int = 96) -> float:
    """The share of a Gaussian's variance that the best ε-LDP report of its cell takes off: it can be reached.

    Args:
        epsilon: the budget of the report, at most 30.
        cells: how many cells the line is cut into, an even number; more are finer and slower (96: a second). They are
            the quantiles of a Gaussian of variance 3, which leave the least variance within cells.

    Returns:
        The gain in [0, 1]; 1 would be no loss at all.
    """
    budget = as_epsilon(epsilon)
    edges = math.sqrt(3) * ndtri(np.linspace(0.0, 1.0, cells + 1))
    masses, moments = np.diff(ndtr(edges)), -np.diff(density(edges))
    starts, ends = np.triu_indices(cells + 1, 1)
    places = np.arange(cells)
    high = (places >= starts[:, None]) & (places < ends[:, None])
    likelihoods = np.where(high, 1.0, math.exp(-budget))  # (columns, cells)
    totals = likelihoods @ masses
    gains = (likelihoods @ moments / totals) ** 2
    found = linprog(-gains, A_eq=(likelihoods / totals[:, None]).T, b_eq=np.ones(cells), method="highs")
    return float(gains @ np.asarray(found.x))


def staircase_ceiling(epsilon: float, *, cuts: int = 100) -> float:
    """The share of a Gaussian's variance that no ε-LDP report can take off more of: an upper bound, near the optimum.

    Args:
        epsilon: the budget of the report.
        cuts: rounds of cutting planes; fewer are faster and leave the bound a little higher.
    """
    budget = as_epsilon(epsilon)
    known = min(equal_directions(1, budget), 1.0 - price_limit([1.0], budget))
    if not 0.2 <= budget <= 10:  # outside, the closed forms are as near
        return known
    grid = np.linspace(0.0, _FARTHEST, 241)
    mean = 2 * _shared_out(_LEFT, _RIGHT)
    objective = np.append(np.zeros(len(_KNOTS)), 1.0)
    rows, sides = [np.append(mean, -1.0)], [0.0]
    prices = best = known * _KNOTS**2
    least, floor, trust = math.inf, 0.0, 0.1
    for _ in range(cuts):
        worth, slopes = _worth(prices, grid, budget)
        value = max(float(mean @ prices), float(worth.max()))
        trust = min(1.6 * trust, 0.5) if value < least - 0.1 * (least - floor) else 0.7 * trust
        if value < least:
            least, best = value, prices
        peaks = (worth >= np.append(-np.inf, worth[:-1])) & (worth >= np.append(worth[1:], -np.inf))
        for place in np.flatnonzero(peaks & (worth > floor - 0.1 * least)):
            rows.append(np.append(slopes[place], -1.0))
            sides.append(float(slopes[place] @ prices - worth[place]))
        bounds = [*((price - trust, price + trust) for price in best), (0.0, None)]
        found = linprog(objective, A_ub=np.array(rows), b_ub=np.array(sides), bounds=bounds, method="highs")
        solution = np.asarray(found.x)
        prices, floor = solution[:-1], float(solution[-1])
        if trust < 1e-3:
            break
    step = math.sqrt(4e-4 * math.exp(-budget))  # so that the grid misses 10⁻⁴ at most
    parts = np.array_split(np.arange(0.0, _FARTHEST, step), 64)
    worst = max(float(_worth(best, part, budget)[0].max()) for part in parts) + 1e-4
    return min(known, max(float(mean @ best), worst))


def _worth(prices: Floats, answers: Floats, budget: float) -> tuple[Floats, Floats]:
    """The worth in `prices.py`, of every u in `answers` (U,); its gradient in prices (U, knots)."""
    rise = np.diff(prices) / np.diff(_KNOTS)
    constant = -(answers[:, None] ** 2) - prices[:-1] + rise * _LEFT
    excess, gradient = np.zeros(len(answers)), np.zeros((len(answers), len(_KNOTS)))
    for sign in (1.0, -1.0):  # z and −z have the same price
        slope = 2 * sign * answers[:, None] - rise
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.where(slope == 0, -np.sign(constant) * np.inf, -constant / slope)
        start = np.where(slope >= 0, np.clip(root, _LEFT, _RIGHT), _LEFT)
        end = np.where(slope >= 0, _RIGHT, np.clip(root, _LEFT, _RIGHT))
        mass, moment = ndtr(-start) - ndtr(-end), density(start) - density(end)
        excess += (constant * mass + slope * moment).sum(axis=1)
        gradient -= _shared_out(start, end)
    gain = math.expm1(budget)
    return gain * excess - answers**2, gain * gradient


def _shared_out(start: Floats, end: Floats) -> Floats:
    """(..., knots): the mean weight of each knot in linear interpolation, over z from start to end of each piece."""
    mass, moment = ndtr(-start) - ndtr(-end), density(start) - density(end)
    width = np.diff(_KNOTS)
    shares = np.zeros((*mass.shape[:-1], len(_KNOTS)))
    shares[..., :-1] += (_KNOTS[1:] * mass - moment) / width
    shares[..., 1:] += (moment - _KNOTS[:-1] * mass) / width
    return shares
