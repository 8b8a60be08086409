"""Smooth shares of bins: the parts of the prior by hand, the marginal likelihood against an integral, exact shares, few
and many reports, and people who all have one value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from taskveil.estimates import density
from taskveil.estimates.density import bending, smooth_shares, steepness
from taskveil.estimates.survey import on_simplex

UNEVEN = np.array([-30.0, 0.0, 10.0, 30.0, 35.0, 60.0, 100.0])


def multinomial_precision(shares: np.ndarray, reports: float) -> np.ndarray:
    """Of the shares of so many people, who say their bin."""
    spread = (np.diag(shares) - np.outer(shares, shares)) / reports
    return np.linalg.pinv(spread, rcond=1e-10, hermitian=True)


def test_straight_lines_do_not_bend_and_parabolas_do() -> None:
    for edges in (np.linspace(5.0, 9.0, 101), UNEVEN):
        middle = (edges[1:] + edges[:-1]) / 2.0 / (edges[-1] - edges[0])
        line = 3.0 * middle + 1.0
        assert line @ bending(edges) @ line == pytest.approx(0.0, abs=1e-12 * bending(edges).trace())
        assert line @ steepness(edges) @ line == pytest.approx(9.0)
        assert steepness(edges) @ np.ones(len(line)) == pytest.approx(0.0, abs=1e-9)
    parabola = ((np.arange(100) + 0.5) / 100) ** 2
    assert parabola @ bending(np.linspace(0.0, 1.0, 101)) @ parabola == pytest.approx(4.0, rel=0.03)


def test_the_unit_of_the_number_does_not_matter() -> None:
    shares = np.array([0.1, 0.3, 0.2, 0.1, 0.2, 0.1])
    precision = multinomial_precision(shares, 50.0)
    assert smooth_shares(shares, precision, 1000.0 * UNEVEN + 5.0) == pytest.approx(
        smooth_shares(shares, precision, UNEVEN), abs=1e-6
    )


def test_shares_that_are_known_come_back_and_rough_ones_become_smooth() -> None:
    rng = np.random.default_rng(0)
    truth = on_simplex(rng.dirichlet(np.ones(6)))
    assert smooth_shares(truth, multinomial_precision(truth, 1e12), UNEVEN) == pytest.approx(truth, abs=1e-4)
    edges = np.linspace(0.0, 1.0, 31)
    smooth = np.diff(1.0 - np.exp(-3.0 * edges)) / (1.0 - math.exp(-3.0))
    errors = []
    for _ in range(10):
        noise = rng.standard_normal(30) * 0.03
        found = smooth_shares(smooth + noise - noise.mean(), np.eye(30) / 0.03**2, edges)
        assert found.min() > 0.0
        assert found.sum() == pytest.approx(1.0)
        errors.append([np.abs(one - smooth).sum() for one in (found, on_simplex(smooth + noise))])
    mine, projected = np.mean(errors, axis=0)
    assert mine < 0.5 * projected


def test_newton_finds_the_likeliest_log_density() -> None:
    rng = np.random.default_rng(1)
    truth, width = rng.dirichlet(np.ones(6)), np.log(np.diff(UNEVEN))
    precision = multinomial_precision(truth, 200.0)
    penalty = 0.01 * bending(UNEVEN) + steepness(UNEVEN)
    shares = truth + 0.05 * (rng.standard_normal(6) @ (np.eye(6) - 1 / 6))

    def away(f: np.ndarray) -> float:
        p = np.exp(f + width) / np.exp(f + width).sum()
        return float((shares - p) @ precision @ (shares - p) + f @ penalty @ f) / 2.0

    found = density._fitted(np.zeros(6), shares, precision, penalty, width)
    assert found.value == pytest.approx(-away(found.f))
    best = min(minimize(away, start).fun for start in (np.zeros(6), found.f, rng.standard_normal(6)))
    assert -found.value < best + 2e-3


def test_the_marginal_likelihood_is_an_integral_over_log_densities() -> None:
    """Of three bins, log densities have a slope and a bend. A wrong power of λ or determinant would change ratios."""
    edges, width = np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(3)
    K, L = bending(edges), steepness(edges)
    shares = np.array([0.28, 0.42, 0.30])
    precision = multinomial_precision(shares, 300.0)
    slope, bend = np.meshgrid(np.linspace(-1.5, 1.5, 401), np.linspace(-3.0, 3.0, 1201), indexing="ij")
    f = np.stack([-slope, bend, slope], axis=-1)
    p = np.exp(f) / np.exp(f).sum(axis=-1, keepdims=True)
    fit = -0.5 * np.einsum("abi,ij,abj->ab", shares - p, precision, shares - p)

    def both(strength: float) -> tuple[float, float]:
        penalty = strength * K + L
        prior = -0.5 * np.einsum("abi,ij,abj->ab", f, penalty, f)
        exact = math.log(float(np.exp(fit + prior).sum())) + 0.5 * math.log(strength)
        found = density._fitted(np.zeros(3), shares, precision, penalty, width)
        return exact, found.value - 0.5 * found.curvature + 0.5 * math.log(strength)

    (exact, laplace), (other_exact, other_laplace) = both(0.001), both(0.3)
    assert laplace - other_laplace == pytest.approx(exact - other_exact, abs=0.05)


@pytest.mark.parametrize("bins", [3, 8, 64])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_people_who_all_have_one_value(bins: int, place: int) -> None:
    shares = np.zeros(bins)
    shares[place] = 1.0
    precision = multinomial_precision(0.999 * shares + 0.001 / bins, 1000.0)
    found = smooth_shares(shares, precision, np.linspace(0.0, 1.0, bins + 1))
    assert np.isfinite(found).all()
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    assert found[place] > 0.97


def test_people_at_both_ends_and_nobody_between() -> None:
    """A nearly straight log density fits the empty bin, and then no small step is better."""
    for bins in (3, 8):
        shares = np.zeros(bins)
        shares[[0, -1]] = 0.5
        precision = multinomial_precision(0.999 * shares + 0.001 / bins, 20_000.0)
        assert smooth_shares(shares, precision, np.linspace(0.0, 1.0, bins + 1)) == pytest.approx(shares, abs=0.01)


def test_the_prior_of_the_slope_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = np.linspace(0.0, 1.0, 33)
    middle = (edges[1:] + edges[:-1]) / 2.0
    shares = middle * (1.0 - middle) ** 4
    shares /= shares.sum()
    precision = multinomial_precision(shares, 200.0)
    found = smooth_shares(shares, precision, edges)
    monkeypatch.setattr(density, "STEEP", 1000.0)
    assert np.abs(np.cumsum(smooth_shares(shares, precision, edges) - found)).max() < 0.01
