from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtri

from random_reports import gain, gaussian_cells, random_report

# By its path: in the path of all tests, benchmarks/ray.py would be found in place of Ray.
_SPEC = importlib.util.spec_from_file_location("staircases", Path(__file__).parents[1] / "benchmarks/staircases.py")
assert _SPEC is not None
assert _SPEC.loader is not None
staircases = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(staircases)
staircase_optimum, staircase_ceiling = staircases.staircase_optimum, staircases.staircase_ceiling
worth_of = staircases._worth


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0, 7.0])
def test_intervals_are_enough(epsilon: float) -> None:
    """All 2¹⁰ staircases of ten cells, in another form of the program, reach no more than those high on an interval."""
    values, masses = gaussian_cells([1.0], (10,))
    subsets = (np.arange(2**10)[:, None] >> np.arange(10)) & 1
    likelihoods = np.where(subsets > 0, math.exp(epsilon), 1.0)
    gains = (likelihoods @ (masses * values[:, 0])) ** 2 / (likelihoods @ masses)
    found = linprog(-gains, A_eq=likelihoods.T, b_eq=np.ones(10), method="highs")
    assert staircase_optimum(epsilon, cells=10) == pytest.approx(-found.fun, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 3.0, 5.0, 10.0])
def test_the_optimum_is_enclosed(epsilon: float) -> None:
    reached, ceiling = staircase_optimum(epsilon, cells=64), staircase_ceiling(epsilon, cuts=60)
    assert reached <= ceiling <= 1.012 * reached
    if epsilon <= 2:  # randomised response on the sign is optimal
        assert reached == pytest.approx(2 / math.pi * math.tanh(epsilon / 2) ** 2, rel=1e-6)


def test_more_cells_reach_more_but_never_the_ceiling() -> None:
    for epsilon in (3.0, 6.0):
        coarse, fine = (staircase_optimum(epsilon, cells=cells) for cells in (12, 48))
        assert coarse <= fine <= staircase_ceiling(epsilon, cuts=40)


def test_the_unit_is_the_whole_variance() -> None:
    """Of the variance between 12 cells of equal probability, randomised response on the sign takes off a larger share
    than any report can of a Gaussian's: the wrong unit."""
    edges = ndtri(np.linspace(0, 1, 13))
    between = 12 * float((np.diff(np.exp(-(edges**2) / 2)) ** 2).sum()) / (2 * math.pi)
    assert 2 / math.pi * math.tanh(1.0) ** 2 / between > staircase_ceiling(2.0, cuts=40)


def test_no_random_report_passes_either() -> None:
    rng = np.random.default_rng(2)
    values, masses = gaussian_cells([1.0], (64,))
    for epsilon in (0.7, 2.5):
        reached = staircase_optimum(epsilon, cells=64)
        for _ in range(40):
            assert gain(values, masses, random_report(rng, values, masses, epsilon)) <= reached + 1e-9


def test_the_worth_of_a_report_and_its_gradient() -> None:
    """Against a fine sum over the line, and against differences."""
    rng = np.random.default_rng(3)
    prices = 0.4 * staircases._KNOTS**2 - 0.1 + 0.05 * rng.standard_normal(len(staircases._KNOTS))
    answers = np.array([0.0, 0.4, 1.3, 2.6])
    line = (np.arange(-90_000, 90_000) + 0.5) / 10_000
    slope = (prices[-1] - prices[-2]) / (staircases._KNOTS[-1] - staircases._KNOTS[-2])
    beyond = prices[-1] + slope * (np.abs(line) - staircases._KNOTS[-1])
    price = np.where(np.abs(line) > staircases._KNOTS[-1], beyond, np.interp(np.abs(line), staircases._KNOTS, prices))
    weights = np.exp(-(line**2) / 2) / math.sqrt(2 * math.pi) / 10_000
    worth, gradient = worth_of(prices, answers, 2.0)
    for u, found in zip(answers, worth, strict=True):
        summed = math.expm1(2.0) * np.maximum(2 * u * line - u**2 - price, 0.0) @ weights - u**2
        assert found == pytest.approx(summed, abs=1e-6)
    for knot in (0, 7, 20, len(staircases._KNOTS) - 1):
        nudge = 1e-6 * (np.arange(len(staircases._KNOTS)) == knot)
        difference = (worth_of(prices + nudge, answers, 2.0)[0] - worth_of(prices - nudge, answers, 2.0)[0]) / 2e-6
        assert gradient[:, knot] == pytest.approx(difference, abs=1e-4)
