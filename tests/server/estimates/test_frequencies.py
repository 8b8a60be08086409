"""Frequencies by exact enumeration: no simulation, every count that may come, with its probability."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, norm

from taskveil.client.mechanisms import Response
from taskveil.server.estimates.frequencies import frequencies, on_the_simplex

PEOPLE = 300


@cache
def limits(response: Response) -> np.ndarray:
    """(PEOPLE + 1, 2) for every count that may come."""
    counts = ((count, PEOPLE - count) for count in range(PEOPLE + 1))
    return np.array([[side[0] for side in frequencies(np.array(pair), response)[1:]] for pair in counts])


def coverage(response: Response, share: float, *, read_by: Response | None = None) -> float:
    """How often the limits hold a codeword's true share, over all counts of it; `read_by`: the channel believed."""
    low, high = limits(read_by or response).T
    chance = binom.pmf(np.arange(PEOPLE + 1), PEOPLE, response.base + response.extra * share)
    return float(chance @ ((low <= share) & (share <= high)))


RESPONSE = Response.calibrated(size=6, favoured=2, epsilon=1.5)


def test_shares_are_the_channel_inverted_and_add_up() -> None:
    true = np.array([0.5, 0.4, 0.3, 0.35, 0.25, 0.2])  # two favoured ones each
    counts = np.rint(10**9 * (RESPONSE.base + RESPONSE.extra * true)).astype(np.int64)
    shares, low, high = frequencies(counts, RESPONSE)
    np.testing.assert_allclose(shares, true, atol=1e-7)
    assert shares.sum() == pytest.approx(2.0)
    assert ((low < shares) & (shares < high)).all()


def test_limits_hold_in_95_of_100_by_the_binomial_law() -> None:
    held = [coverage(RESPONSE, share) for share in np.linspace(0.02, 0.98, 25)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.005)
    assert min(held) > 0.92


def test_a_wrong_inversion_is_caught() -> None:
    """Read with a channel of 30% more budget, or with another number of codewords, limits do not hold."""
    for wrong in (
        Response.calibrated(size=6, favoured=2, epsilon=1.95),
        Response.calibrated(size=7, favoured=2, epsilon=1.5),
    ):
        assert np.mean([coverage(RESPONSE, share, read_by=wrong) for share in (0.1, 0.9)]) < 0.9


def test_limits_are_as_narrow_as_the_cramer_rao_bound_allows() -> None:
    share = 0.4
    chance = RESPONSE.base + RESPONSE.extra * share
    counts = np.rint(5000 * np.array([chance, 1 - chance])).astype(np.int64)
    _, low, high = frequencies(counts, RESPONSE)
    bound = np.sqrt(chance * (1 - chance) / 5000) / RESPONSE.extra
    assert high[0] - low[0] == pytest.approx(2 * norm.ppf(0.975) * bound, rel=0.02)


def test_no_report_and_all_reports_have_limits_too() -> None:
    shares, low, high = frequencies(np.array([0, 100, 0, 0, 0, 0]), RESPONSE)
    assert shares[0] < 0  # unbiased, and so below 0 where a codeword came more rarely than by chance
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (low <= high).all()


def test_the_simplex_is_the_nearest_by_another_way() -> None:
    rng = np.random.default_rng(0)
    for total in (1.0, 2.0):
        shares = rng.normal(total / 6, 0.3, size=6)
        found = on_the_simplex(shares, total)
        other = minimize(
            lambda x, shares=shares: ((x - shares) ** 2).sum(),
            np.full(6, total / 6),
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda x, total=total: x.sum() - total},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(found, other.x, atol=1e-4)
        assert found.sum() == pytest.approx(total)
    proper = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(on_the_simplex(proper), proper, atol=1e-9)
