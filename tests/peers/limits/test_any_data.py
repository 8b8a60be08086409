from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_reports import gain, random_report
from taskveil.peers.limits import any_data_limit


@settings(max_examples=200)
@given(st.floats(0.05, 6.0), st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_no_report_of_any_data_goes_below(epsilon: float, count: int, dims: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(count, rng.choice([0.3, 5.0])))
    values = rng.standard_normal((count, dims)) * rng.choice([0.1, 1.0, 5.0], (count, 1))
    values -= masses @ values
    variances = np.linalg.eigvalsh((masses[:, None] * values).T @ values)
    loss = variances.sum() - gain(values, masses, random_report(rng, values, masses, epsilon))
    assert loss >= any_data_limit(variances, epsilon) - 1e-9 * variances.sum()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_two_equally_likely_values_reach_it(epsilon: float) -> None:
    values, masses = np.array([[-1.0], [1.0]]), np.array([0.5, 0.5])
    likely = 1 / (1 + math.exp(-epsilon))
    report = np.array([[likely, 1 - likely], [1 - likely, likely]])
    assert 1 - gain(values, masses, report) == pytest.approx(any_data_limit([1.0], epsilon), rel=1e-9)


@pytest.mark.parametrize("size", [6, 12, 40])
def test_many_equally_likely_values_reach_it(size: int) -> None:
    """K values at the corners of a simplex, one in 1 + e^ε favoured: λ₁ sinh²(ε/2) is what a report can gain."""
    epsilon = math.log(size - 1)
    likely = np.where(np.eye(size) > 0, math.exp(epsilon), 1.0)
    values = np.sqrt(size) * (np.eye(size) - 1 / size)
    gained = gain(values, np.full(size, 1 / size), likely / likely.sum(axis=1, keepdims=True))
    assert gained == pytest.approx(math.sinh(epsilon / 2) ** 2, rel=1e-9)
    assert size - 1 - gained == pytest.approx(any_data_limit(np.ones(size - 1), epsilon), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 50.0, 700.0, 5000.0])
def test_small_and_large_budgets(epsilon: float) -> None:
    limit = any_data_limit([2.0, 1.0, 0.0, -1e-18], epsilon)
    assert 0 <= limit < 3.0
    if epsilon < 0.01:  # the second direction is served by the budget's fourth power
        assert 3.0 - limit == pytest.approx(2 * epsilon**2 / 4, rel=1e-3)
    if epsilon in (50.0, 700.0):
        assert limit == pytest.approx(3 * 4 * math.exp(-epsilon), rel=1e-9)
    assert any_data_limit([], epsilon) == any_data_limit([0.0], epsilon) == 0.0
