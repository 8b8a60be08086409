from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from taskveil.auditing.bound import at_least, at_most, best_tail, epsilon_low, epsilon_of_event_high, largest_provable


@given(st.integers(1, 2000), st.floats(0, 1), st.floats(1e-9, 0.2))
def test_clopper_pearson_equals_scipy(trials: int, share: float, alpha: float) -> None:
    k = round(share * trials)
    interval = binomtest(k, trials).proportion_ci(confidence_level=1 - 2 * alpha, method="exact")
    assert at_least(k, trials, alpha) == pytest.approx(interval.low, rel=1e-6, abs=1e-12)
    assert at_most(k, trials, alpha) == pytest.approx(interval.high, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("p", [0.001, 0.2, 0.5, 0.99])
def test_coverage_is_exact(p: float) -> None:
    """Summed over all outcomes: the bounds are wrong with probability alpha at most, and not absurdly less."""
    n, alpha = 400, 0.01
    k = np.arange(n + 1)
    wrong_low = binom.pmf(k, n, p)[at_least(k, n, alpha) > p].sum()
    wrong_high = binom.pmf(k, n, p)[at_most(k, n, alpha) < p].sum()
    assert wrong_low <= alpha
    assert wrong_high <= alpha
    assert max(wrong_low, wrong_high) > alpha / 20


@pytest.mark.parametrize(("p", "q", "delta"), [(0.5, 0.5, 0.0), (0.5, 0.5 / math.e, 0.0), (0.3, 0.1, 0.15)])
def test_the_bound_on_epsilon_is_rarely_wrong(p: float, q: float, delta: float) -> None:
    """Exactly summed over both counts; δ is taken off before the ratio."""
    n, alpha = 200, 0.05
    truth = math.log((p - delta) / q)
    k = np.arange(n + 1)
    bounds = epsilon_low(k[:, None], k[None, :], n, alpha=alpha, delta=delta)
    weights = binom.pmf(k, n, p)[:, None] * binom.pmf(k, n, q)[None, :]
    # Where the truth is below 0 or at 0, a bound of 0 is right.
    assert weights[bounds > max(truth, 0.0)].sum() <= alpha


def test_edges() -> None:
    assert at_least(0, 10, 0.01) == 0
    assert at_most(10, 10, 0.01) == 1
    assert epsilon_low(5, 5, 10, alpha=0.1) == 0
    assert epsilon_of_event_high(5, 0, 10, alpha=0.1) == math.inf
    assert epsilon_of_event_high(0, 9, 10, alpha=0.1, delta=0.9) == 0
    assert epsilon_low(10, 0, 10, alpha=0.1, delta=0.999) == 0


def test_disjoint_supports_show_all_that_can_be_shown() -> None:
    """n reports against none: about ln(n / ln(2/α))."""
    n, alpha = 500_000, 1e-6
    expected = math.log(n / math.log(2 / alpha))
    assert largest_provable(n, alpha=alpha) == pytest.approx(expected, abs=0.01)


def test_the_best_tail_of_a_known_mixture() -> None:
    """Scores 0 and 1, the second e times likelier under x: the tail is {1}."""
    rng = np.random.default_rng(0)
    first, second = ((rng.random(20_000) < p).astype(float) for p in (0.5, 0.5 / math.e))
    hope, tail = best_tail(first, second, trials=20_000, alpha=1e-6, delta=0.0)
    assert 0.8 < hope < 1.0
    assert not tail.swapped
    assert np.array_equal(tail.holds(np.array([0.0, 1.0])), [False, True])
    _, mirrored = best_tail(second, first, trials=20_000, alpha=1e-6, delta=0.0)
    assert mirrored.swapped
