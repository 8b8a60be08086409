"""Condensed counts keep the mean, and limits from them are those of the counts, a little wider."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.estimates.condensing import condensed
from taskveil.estimates.intervals import anytime_limits, exact_limits


@pytest.mark.parametrize("ratio", [False, True])
def test_limits_stay_and_means_are_the_same(ratio: bool) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    weights = rng.uniform(0.5, 1.5, 5000) if ratio else np.ones(5000)
    counts = rng.multinomial(20_000, np.full(5000, 1 / 5000))
    n, v, w = condensed(counts, values, weights)
    assert len(n) <= 4 * 5000**0.5 * (20 if ratio else 1)
    assert (n.sum(), n @ v, n @ w) == pytest.approx((counts.sum(), counts @ values, counts @ weights))
    for limits in (exact_limits, anytime_limits):
        (low, high), (less, more) = limits(counts, values, weights), limits(n, v, w)
        assert (less, more) == pytest.approx((low, high), abs=0.02 * (high - low))
        assert high - low < more - less < 1.03 * (high - low)


def test_wealth_never_grows() -> None:
    """Limits at all times contain those of the counts: Jensen's inequality, here on skewed scores of few reports."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        values, counts = rng.exponential(size=2000) ** 2, rng.poisson(0.1, 2000)
        low, high = anytime_limits(counts, values)
        less, more = anytime_limits(*condensed(counts, values, np.ones(2000)))
        assert less <= low + 1e-9
        assert more >= high - 1e-9


def test_few_scores_stay_as_they_are() -> None:
    counts, values = np.array([1.0, 2.0]), np.array([0.0, 1.0])
    assert condensed(counts, values, np.ones(2))[1] is values
