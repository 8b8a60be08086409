"""The local level model, against the same model written as one multivariate normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from taskveil.estimates.smoothing import filtered, likeliest, smoothed


def drawn(seed: int, q: float, count: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    gaps = rng.integers(1, 4, count - 1).astype(float)
    v = rng.uniform(0.2, 3.0, count)
    level = 5 + np.concatenate([[0.0], np.cumsum(rng.normal(size=count - 1) * np.sqrt(q * gaps))])
    return level + rng.normal(size=count) * np.sqrt(v), v, gaps


def dense_likelihood(y: np.ndarray, v: np.ndarray, gaps: np.ndarray, q: float) -> float:
    """Of the differences of neighbours, which do not depend on the unknown first level."""
    D = np.diff(np.eye(len(y)), axis=0)
    return float(multivariate_normal(np.zeros(len(y) - 1), q * np.diag(gaps) + (D * v) @ D.T).logpdf(D @ y))


def dense_levels(y: np.ndarray, v: np.ndarray, gaps: np.ndarray, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the levels given all y, of their joint density: an improper normal times a normal."""
    D = np.diff(np.eye(len(y)), axis=0)
    covariance = np.linalg.inv((D.T / (q * gaps)) @ D + np.diag(1 / v))
    return covariance @ (y / v), np.diag(covariance)


@pytest.mark.parametrize("q", [0.01, 0.3, 7.0])
def test_filter_and_smoother_agree_with_a_dense_normal_distribution(q: float) -> None:
    for seed in range(5):
        y, v, gaps = drawn(seed, q)
        assert filtered(y, v, gaps, q).likelihood == pytest.approx(dense_likelihood(y, v, gaps, q), rel=1e-10)
        for found, expected in zip(smoothed(y, v, gaps, q), dense_levels(y, v, gaps, q), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_without_change_the_line_is_the_weighted_mean() -> None:
    y, v, gaps = drawn(0, 0.0)
    mean, variance = smoothed(y, v, gaps, 0.0)
    np.testing.assert_allclose(mean, np.average(y, weights=1 / v))
    np.testing.assert_allclose(variance, 1 / (1 / v).sum())
    assert filtered(y, v, gaps, 0.0).likelihood == pytest.approx(dense_likelihood(y, v, gaps, 0.0), rel=1e-10)


def test_no_other_variance_of_change_is_likelier() -> None:
    """Against a fine grid, also far beyond the bound of the search; some of the data have their maximum at zero."""
    zero = 0
    for seed in range(30):
        y, v, gaps = drawn(seed, [0.0, 0.05, 1.0, 20.0][seed % 4])
        found = likeliest(y, v, gaps)
        grid = np.concatenate([[0.0], np.geomspace(1e-8, 1e5, 400)])
        best = max(dense_likelihood(y, v, gaps, q) for q in grid.tolist())
        assert filtered(y, v, gaps, found).likelihood >= best - 1e-9
        zero += found == 0.0
    assert 0 < zero < 30


def test_a_small_steady_climb_among_much_noise_is_inside_of_the_search() -> None:
    """The likeliest q is above the largest squared change here."""
    y, v, gaps = np.arange(40.0), np.full(40, 1000.0), np.ones(39)
    found = likeliest(y, v, gaps)
    assert found > 1.0
    assert filtered(y, v, gaps, found).likelihood >= max(
        dense_likelihood(y, v, gaps, q) for q in np.geomspace(1e-3, 1e4, 300).tolist()
    )


def test_equal_estimates_have_no_change() -> None:
    assert likeliest(np.full(5, 2.0), np.ones(5), np.ones(4)) == 0.0
