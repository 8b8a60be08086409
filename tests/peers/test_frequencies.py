"""The literature's methods for shares: every formula against reports that are drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.errors import DataError
from taskveil.peers.frequencies import (
    Frequencies,
    GeneralizedResponse,
    HadamardResponse,
    LocalHashing,
    SquareWave,
    SubsetSelection,
    all_frequencies,
    best_frequencies,
)
from taskveil.peers.likelihood import likeliest_shares

PEOPLE, TIMES = 1_000, 300
"""Of one collection, and how many collections: the mean of their total squared errors is known to about 5%."""

CASES = [
    (values, epsilon, place) for values, epsilon in ((2, 1.0), (5, 0.5), (12, 2.0), (12, 4.0)) for place in range(4)
]


def zipf(values: int) -> np.ndarray:
    return (shares := 1.0 / np.arange(1, values + 1)) / shares.sum()


def people(shares: np.ndarray, count: int) -> np.ndarray:
    """Values with just these shares, as far as whole numbers allow."""
    return np.searchsorted(np.cumsum(shares), (np.arange(count) + 0.5) / count)


@pytest.mark.parametrize(("values", "epsilon", "place"), CASES)
def test_the_formula_of_every_error_is_that_of_drawn_reports(values: int, epsilon: float, place: int) -> None:
    way, rng, who = all_frequencies(values, epsilon)[place], np.random.default_rng(place), people(zipf(values), PEOPLE)
    truth = np.bincount(who, minlength=values) / PEOPLE
    found = np.array([way.estimate(way.reports(who, rng)) for _ in range(TIMES)])
    errors = ((found - truth) ** 2).sum(axis=1)
    spread = errors.std() / math.sqrt(TIMES)
    assert abs(errors.mean() - way.error(truth) / PEOPLE) < 5 * spread
    # Unbiased: the mean of all collections is within five standard errors, value by value.
    assert np.all(np.abs(found.mean(axis=0) - truth) < 5 * found.std(axis=0) / math.sqrt(TIMES))
    assert abs(errors.mean() - 1.5 * way.error(truth) / PEOPLE) > 5 * spread  # a wrong formula would be seen


@pytest.mark.parametrize("place", range(3))
def test_the_variance_of_a_weighted_share_is_that_of_drawn_reports(place: int) -> None:
    shares, weights = zipf(6), np.array([1.0, 0.0, 1.0, 0.0, -2.0, 0.5])
    way, rng = all_frequencies(6, 1.5)[place], np.random.default_rng(5)
    if place == 1:
        way = SubsetSelection(values=6, epsilon=1.5, size=3)
    found = [weights @ way.estimate(way.reports(rng.choice(6, 500, p=shares), rng)) for _ in range(2_000)]
    assert np.var(found) * 500 == pytest.approx(way.variance(shares, weights), rel=0.15)
    assert np.mean(found) == pytest.approx(weights @ shares, abs=5 * np.std(found) / math.sqrt(2_000))


def tally(reports: np.ndarray) -> dict[tuple[int, ...], int]:
    """How often each report came; the order within a report says nothing."""
    found, counts = np.unique(np.sort(reports, axis=1), axis=0, return_counts=True)
    return dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True))


@pytest.mark.parametrize(("values", "epsilon"), [(2, 0.5), (3, 1.0), (10, 2.0)])
def test_all_methods_keep_their_budget(values: int, epsilon: float) -> None:
    """The odds of the rarest and the commonest value of a report differ by at most e^ε, for every pair of people."""
    rng, count = np.random.default_rng(1), 400_000
    for way in all_frequencies(values, epsilon):
        if isinstance(way, LocalHashing):  # given the hash, it is randomised response on the cell
            p, _ = way.support
            assert p / (1 - p) * (way.cells - 1) == pytest.approx(math.exp(epsilon))
            continue
        seen = [tally(way.reports(np.full(count, value), rng)) for value in (0, 1)]
        ratios = [seen[0][key] / seen[1][key] for key in seen[0] if min(seen[0][key], seen[1].get(key, 0)) > 500]
        assert max(ratios) == pytest.approx(math.exp(epsilon), rel=0.2)


def test_known_formulas() -> None:
    e = math.exp(1.0)
    even = np.full(100, 0.01)
    grr = GeneralizedResponse(values=100, epsilon=1.0)
    assert grr.error(even) == pytest.approx(99 * (2 * e + 98) / (e - 1) ** 2)
    # Wang et al. (2017): about 4e^ε/(e^ε − 1)² for each rare value.
    assert LocalHashing.best(10_000, 1.0).error(even) / 10_000 == pytest.approx(4 * e / (e - 1) ** 2, rel=0.02)
    assert LocalHashing.best(10_000, 1.0).cells == 4


def test_the_best_parameter_is_no_worse_than_any() -> None:
    for values in (2, 3, 10, 50):
        for epsilon in (0.5, 2.0, 5.0):
            even = np.full(values, 1 / values)
            sizes = [SubsetSelection(values=values, epsilon=epsilon, size=w).error(even) for w in range(1, values)]
            assert SubsetSelection.best(values, epsilon).error(even) == pytest.approx(min(sizes))
            cells = [LocalHashing(values=values, epsilon=epsilon, cells=g).error(even) for g in range(2, 900)]
            assert LocalHashing.best(values, epsilon).error(even) == pytest.approx(min(cells))
            # Subset selection is optimal among all of these (Ye and Barg 2018).
            assert best_frequencies(values, epsilon, even).error(even) == pytest.approx(min(sizes))


def test_few_values_or_no_budget_are_refused() -> None:
    with pytest.raises(DataError, match="2 values"):
        GeneralizedResponse(values=1, epsilon=1.0)
    with pytest.raises(DataError, match="budget above 0"):
        GeneralizedResponse(values=2, epsilon=0.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_channel_of_the_square_wave_is_that_of_drawn_reports(epsilon: float) -> None:
    way, rng, count = SquareWave(bins=6, epsilon=epsilon), np.random.default_rng(2), 200_000
    assert way.channel.sum(axis=0) == pytest.approx(1.0)
    grown = math.exp(epsilon)
    assert way.channel.max() / way.channel.min() <= grown * (1 + 1e-9)
    for column in range(6):
        reports = way.reports((column + rng.random(count)) / 6, rng)
        seen = np.histogram(reports, way.edges)[0] / count
        assert seen == pytest.approx(way.channel[:, column], abs=6 * math.sqrt(0.25 / count))


def test_em_finds_the_shares_of_many_reports_and_the_likeliest_ones() -> None:
    rng, shares = np.random.default_rng(3), np.array([0.1, 0.4, 0.2, 0.05, 0.05, 0.2])
    positions = (rng.choice(6, 300_000, p=shares) + rng.random(300_000)) / 6
    way = SquareWave(bins=6, epsilon=3.0)
    found = way.estimate(way.reports(positions, rng))
    assert found == pytest.approx(shares, abs=0.02)
    smooth = SquareWave(bins=6, epsilon=3.0, smooth=True)
    assert abs(np.diff(smooth.estimate(smooth.reports(positions, rng)), 2)).sum() < abs(np.diff(shares, 2)).sum()
    counts = way.channel @ shares * 1e6
    assert likeliest_shares(way.channel.__matmul__, way.channel.T.__matmul__, counts, gain=1e-9) == pytest.approx(
        shares, abs=1e-3
    )


def test_a_method_says_which_parameter_it_has() -> None:
    names = [way.name for way in all_frequencies(100, 1.0)]
    assert names == ["GRR", "SS, w = 27", "OLH, g = 4", "HR, 1 block"]
    assert isinstance(HadamardResponse.best(100, 1.0), Frequencies)
