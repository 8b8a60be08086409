"""Limits from counts: against Clopper and Pearson, enumeration of every outcome and against broken variants."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import beta, norm, t

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.estimates import intervals
from taskveil.estimates.intervals import anytime_limits, anytime_sum_limits, chance_above_zero, exact_limits

Limits = Callable[..., tuple[float, float]]


def outcomes(count: int, codes: int) -> Floats:
    """Every tally of `count` reports, (outcomes, codes)."""
    if codes == 1:
        return np.array([[count]])
    parts = [(first, outcomes(count - first, codes - 1)) for first in range(count + 1)]
    return np.concatenate([np.column_stack([np.full(len(rest), first), rest]) for first, rest in parts])


def populations(values: Floats, found: Floats, seed: int) -> Iterator[Floats]:
    """Probabilities (rows, K): of every shape, with chances near zero, and with means just beyond each limit found."""
    rng, codes = np.random.default_rng(seed), len(values)
    plain = np.concatenate([rng.dirichlet(np.full(codes, a), 400) for a in (0.05, 0.2, 1.0, 3.0)])
    small = 10 ** rng.uniform(-5, 0, (800, codes))
    every = np.concatenate([plain, small / small.sum(axis=1, keepdims=True)])
    yield every
    for mean in (np.unique(found.round(9))[:, None] + [-1e-7, 1e-7]).ravel():
        if values.min() < mean < values.max():
            some = every[rng.integers(0, len(every), 60)]
            ends = np.where(some @ values < mean, values.argmax(), values.argmin())
            share = ((mean - some @ values) / (values[ends] - some @ values))[:, None]
            yield some * (1 - share) + share * np.eye(codes)[ends]


def coverage(method: Limits, count: int, values: Any, weights: Any = None, **options: Any) -> tuple[float, float]:
    """The smallest chance found that the limits hold, and the smallest that one of them does."""
    v = np.array(values, dtype=float)
    tallies = outcomes(count, len(v))
    found = np.array([method(tally, v, weights, **options) for tally in tallies])
    ways = gammaln(count + 1) - gammaln(tallies + 1).sum(axis=1)
    worst = []
    for rows in populations(v, found[np.isfinite(found).all(axis=1)], count):
        below = rows @ (np.ones_like(v) if weights is None else weights)
        rows, below = rows[below > 1e-3], below[below > 1e-3]
        chances = np.exp(np.log(np.maximum(rows, 1e-300)) @ tallies.T + ways)
        mean = (rows @ v / below)[:, None]
        low, high = found[:, 0] <= mean + 1e-9, mean - 1e-9 <= found[:, 1]
        each = [(chances * held).sum(axis=1).min(initial=1.0) for held in (low & high, low, high)]
        worst.append([each[0], min(each[1:])])
    both, one = np.min(worst, axis=0)
    return float(both), float(one)


@pytest.mark.parametrize(
    ("count", "hits"),
    [(1, 0), (1, 1), (10, 0), (10, 1), (10, 5), (30, 30), (1000, 3), (10**7, 1), (10**7, 10**6), (10**8, 5 * 10**7)],
)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_two_scores_give_clopper_and_pearsons_limits(count: int, hits: int, confidence: float) -> None:
    miss = (1 - confidence) / 2
    low = float(beta.ppf(miss, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.isf(miss, hits + 1, count - hits)) if hits < count else 1.0
    found = exact_limits([count - hits, hits], [0, 1], confidence=confidence)
    assert found == pytest.approx((low, high), rel=1e-6, abs=0)
    moved = exact_limits([hits, count - hits], [5.0, 3.0], confidence=confidence)
    assert moved == pytest.approx((3 + 2 * low, 3 + 2 * high), rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 10, 1000, 10**7])
@pytest.mark.parametrize("tail", [0.25, 0.025, 1e-5])
def test_chances_are_those_of_beta_variables(count: int, tail: float) -> None:
    for hits in {0, 1, count // 10, count // 2, count - 1}:
        if hits == count:
            continue
        shapes = np.array([hits + 1.0, count - hits])
        for place, sign in ((beta.isf(tail, *shapes), 1), (beta.ppf(tail, *shapes), -1)):
            chance = chance_above_zero(shapes, sign * np.array([1 - place, -place]))
            expected = beta.sf(place, *shapes) if sign > 0 else beta.cdf(place, *shapes)
            assert chance == pytest.approx(expected, rel=1e-6)


def test_chances_are_those_of_simulated_gamma_variables() -> None:
    rng = np.random.default_rng(1)
    for shapes, scores in [
        ([9, 1, 1], [-0.4, 1.0, 3.0]),
        ([1, 1, 1], [-1.0, -0.3, 0.2]),
        ([99_990, 7, 3, 1], [-2e-4, 1.0, 2.0, 9.0]),
        ([50, 3, 1], [0.1, -4.0, 1.0]),
    ]:
        drawn = sum(rng.standard_gamma(n, 10**6) * u for n, u in zip(shapes, scores, strict=True)) > 0
        chance = chance_above_zero(np.array(shapes, dtype=float), np.array(scores))
        assert abs(drawn.mean() - chance) < 4 * math.sqrt(chance * (1 - chance) / 10**6)


def test_a_path_that_grows_is_replaced_by_a_straight_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores on scales that differ by 10⁶, of either sign: whichever way the path bends, the chance is the same."""
    rng, along, bends, grown = np.random.default_rng(4), intervals._along, [], []

    def straight(n: Floats, b: Floats, unit: float, bend: float, step: float) -> float:
        return along(n, b, unit, 0.0, step / 32)

    def seen(n: Floats, b: Floats, unit: float, bend: float, step: float) -> float:
        bends.append(bend)
        grown.append(math.isnan(found := along(n, b, unit, bend, step)))
        return found

    cases = [(np.array([1.0, 2.0, 1.0, 1e5]), np.array([1.0, -1.42516783, 7.28540161e-3, 3.69691334e-7]))]
    for _ in range(200):
        shapes = np.floor(10 ** rng.uniform(0, rng.choice([0.5, 2, 7]), 6))
        scores = rng.choice([-1, 1], 6) * 10 ** rng.uniform(-6, 0, 6)
        scores -= shapes @ scores / shapes.sum()
        cases.append((shapes, scores + rng.uniform(-4, -1) * math.sqrt(shapes @ scores**2) / shapes.sum()))
    for shapes, scores in cases:
        monkeypatch.setattr(intervals, "_along", straight)
        expected = chance_above_zero(shapes, scores)
        monkeypatch.setattr(intervals, "_along", seen)
        if 1e-7 < expected < 0.26:
            assert chance_above_zero(shapes, scores) == pytest.approx(expected, rel=1e-4)
    assert sum(grown) == 1
    assert min(bends) == -0.5
    assert max(bends) == 0.5


@pytest.mark.parametrize("count", [5, 10])
def test_two_scores_are_covered_for_every_distribution(count: int) -> None:
    both, one = coverage(exact_limits, count, [0, 1])
    assert both >= 0.95 - 1e-9
    assert one == pytest.approx(0.975, abs=1e-6)  # never below, and attained: no narrower limits hold


@pytest.mark.parametrize(
    ("count", "values"),
    [(5, [0, 0.5, 1]), (10, [0, 0.1, 1]), (10, [-1, 0, 5]), (5, [0, 0.01, 0.1, 1]), (5, [-3, -1, 1, 3])],
)
def test_more_scores_are_covered_for_every_distribution(count: int, values: list[float]) -> None:
    both, one = coverage(exact_limits, count, values)
    assert both >= 0.95
    assert one >= 0.975 - 1e-9
    assert coverage(anytime_limits, count, values)[0] >= 0.95


RATIO = [1.4, -0.3, 0.2, -0.3], [1.5, -0.5, 1.5, -0.5]
"""Values and weights of randomized codes: some weights are below zero."""


@pytest.mark.parametrize("scores", [([0.0, 0.4, 1.0], [0, 1, 1]), RATIO])
def test_ratios_are_covered_for_every_distribution(scores: tuple[list[float], list[float]]) -> None:
    values, weights = scores
    for method in (exact_limits, anytime_limits):
        assert coverage(method, 6, values, np.array(weights))[0] >= 0.95


def without_the_additional_observation(counts: Any, values: Any, weights: Any = None) -> tuple[float, float]:
    n, v = counts[counts > 0].astype(float), values[counts > 0]
    if len(v) == 1:
        return v[0], v[0]
    low, high = (
        brentq(lambda mean, tail=tail: chance_above_zero(n, v - mean) - tail, v.min() + 1e-9, v.max() - 1e-9)
        for tail in (0.975, 0.025)
    )
    return low, high


def test_limits_without_the_additional_observation_are_caught() -> None:
    assert coverage(without_the_additional_observation, 10, [0, 1])[0] < 0.5


def test_edges() -> None:
    assert exact_limits([0, 0], [2.0, 5.0]) == (2.0, 5.0)
    assert exact_limits([3, 4], [2.0, 2.0]) == anytime_limits([3, 4], [2.0, 2.0]) == (2.0, 2.0)
    for method in (exact_limits, anytime_limits):
        for values in ([0.1, 0.7, 0.3], [1e9, 1e9 + 7e-6, 1e9 + 3e-6]):
            assert method([0, 9, 0], values)[1] == max(values)
            assert method([9, 0, 0], values)[0] == min(values)
            low, high = method([0, 0, 9], values)
            assert min(values) < low < values[2] < high < max(values)
        assert method([5, 0, 0], [0.0, 2.0, 4.0], [0.0, 1.0, 1.0]) == (2.0, 4.0)  # all without a value
        assert method([1, 1, 0, 0], *RATIO) == (-math.inf, math.inf)  # a denominator that may be zero
    many = np.random.default_rng(2).integers(0, 9, 60)
    scores = np.arange(60) % 3
    assert exact_limits(many, scores) == pytest.approx(exact_limits(np.bincount(scores, many), [0, 1, 2]), rel=1e-12)
    for wrong in (([1, 2], [1.0]), ([-1, 2], [0, 1]), ([1, 2], [0, math.nan]), ([], [])):
        with pytest.raises(DataError, match="one for each code"):
            exact_limits(*wrong)
    with pytest.raises(DataError, match="confidence"):
        anytime_limits([1, 2], [0, 1], confidence=0.2)


def test_a_ratio_with_a_certain_denominator_is_a_mean() -> None:
    counts, values = [7, 2, 5], np.array([0.0, 1.0, 4.0])
    for method in (exact_limits, anytime_limits):
        halved = np.array(method(counts, values)) / 2
        assert method(counts, values, [2.0, 2.0, 2.0]) == pytest.approx(halved, rel=1e-9)


def supports() -> Iterator[tuple[str, Floats, Floats]]:
    """Name, values and chances of codes."""
    for chance in (0.5, 0.1, 0.01, 0.002):
        yield f"two scores, {chance}", np.array([0.0, 1.0]), np.array([1 - chance, chance])
    for epsilon in (1.0, 4.0):
        levels = np.full((16, 16), 1.0) + np.eye(16) * (math.exp(epsilon) - 1)
        levels /= levels.sum(axis=1)
        truth = np.exp(-((np.arange(16) - 5) ** 2) / 8)
        yield f"levels, {epsilon}", np.linalg.solve(levels, np.linspace(-1, 1, 16)), truth @ levels / truth.sum()
    places = np.linspace(0, 1, 51)[1:]
    skewed = np.exp(-(np.log(places / 0.08) ** 2) / 2) / places
    yield "skewed", places, skewed / skewed.sum()


SUPPORTS = {name: (values, chances) for name, values, chances in supports()}


@pytest.mark.parametrize("name", SUPPORTS)
def test_holding_at_all_times_costs_little_width(name: str) -> None:
    rng, (values, chances) = np.random.default_rng(3), SUPPORTS[name]
    for count in (100, 1000, 10**4, 10**5, 10**6, 10**7):
        tally = rng.multinomial(count, chances)
        once, always = np.diff(exact_limits(tally, values))[0], np.diff(anytime_limits(tally, values))[0]
        assert always / once < (1.7 if count == 10**4 else 2.2)


def at_the_mean(mean: float) -> Callable[..., tuple[float, float]]:
    """In the place of `_both_sides`: whether this mean lies between the limits, without a search for them."""

    def decide(counts: Any, values: Any, weights: Any, excess: intervals.Excess) -> tuple[float, float]:
        seen, u = counts > 0, values - mean
        held = all(excess(counts[seen], sign * u[seen], sign * u) >= 0 for sign in (1, -1))
        return (mean, mean) if held else (math.inf, -math.inf)

    return decide


def test_a_mean_that_is_not_rejected_lies_between_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, values = np.array([12.0, 0, 3, 1]), np.array([0.0, 0.1, 0.5, 2.0])
    for method in (exact_limits, anytime_limits):
        low, high = method(tally, values)
        for mean in np.linspace(0.001, 1.999, 200):
            with monkeypatch.context() as patch:
                patch.setattr(intervals, "_both_sides", at_the_mean(mean))
                assert (method(tally, values)[0] == mean) == (low <= mean <= high)


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("count", [100, 300])
def test_long_tails_are_covered_where_students_interval_fails(
    sigma: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    values = np.exp(sigma * np.linspace(-3.5, norm.isf(1e-4), 50))  # clipped at the quantile of 1 − 1e-4
    chances = np.diff(norm.cdf((np.log(values[1:]) + np.log(values[:-1])) / 2 / sigma), prepend=0.0, append=1.0)
    mean = chances @ values
    monkeypatch.setattr(intervals, "_both_sides", at_the_mean(mean))
    tallies = rng.multinomial(count, chances, 10_000).astype(float)
    held = np.mean([exact_limits(tally, values)[0] == mean for tally in tallies[:1500]])
    means = tallies @ values / count
    errors = np.sqrt((tallies @ values**2 / count - means**2) / (count - 1))
    students = np.mean(np.abs(means - mean) <= t.ppf(0.975, count - 1) * errors)
    assert held >= 0.94
    assert students < 0.95 - 3 * math.sqrt(0.95 * 0.05 / 10_000) - 0.02 * float(sigma > 1)


def misses_at_any_time(method: Limits, values: Floats, chances: Floats, trials: int) -> float:
    """The share of sequences in which the limits missed at 10, 30, 100, …, or 10⁵ reports."""
    rng, mean = np.random.default_rng(11), chances @ values
    tallies, missed = np.zeros((trials, len(values))), np.zeros(trials, dtype=bool)
    for more in np.diff([0, 10, 30, 100, 300, 1000, 3000, 10**4, 3 * 10**4, 10**5]):
        tallies += rng.multinomial(more, chances, trials)
        for place in np.flatnonzero(~missed):
            low, high = method(tallies[place], values)
            missed[place] = not low <= mean <= high
    return float(missed.mean())


@pytest.mark.parametrize("name", ["two scores, 0.1", "two scores, 0.01", "levels, 1.0", "skewed"])
def test_sequences_are_covered_at_all_times_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values, chances = SUPPORTS[name]
    monkeypatch.setattr(intervals, "_both_sides", at_the_mean(chances @ values))
    assert misses_at_any_time(anytime_limits, values, chances, 2000) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    assert misses_at_any_time(exact_limits, values, chances, 300) > 0.08  # meant for one look


def with_bets_for_what_was_observed(counts: Any, values: Any, weights: Any = None) -> tuple[float, float]:
    """Bets that are admissible for the codes observed, not for the whole support."""
    seen = np.asarray(counts) > 0
    return anytime_limits(counts[seen], values[seen])


def with_bets_beyond_the_support(counts: Any, values: Any, weights: Any = None) -> tuple[float, float]:
    """Bets twice as large as the support admits, which make a factor negative."""

    def excess(found: Floats, scores: Floats, support: Floats) -> float:
        bets = -2 / (math.sqrt(max(-support.min() * support.max(), 0.0)) / intervals.BETS + abs(support.max()) + 1e-9)
        powers = np.log(np.abs(1 + np.multiply.outer(bets, scores)) + 1e-300) @ found + intervals.LOG_WEIGHTS
        return math.log(40) - float(np.logaddexp.reduce(powers))

    return intervals._both_sides(counts, values, weights, excess)


@pytest.mark.parametrize("broken", [with_bets_for_what_was_observed, with_bets_beyond_the_support])
def test_bets_that_are_not_admissible_are_caught(broken: Limits) -> None:
    assert coverage(broken, 10, [0, 0.1, 1])[0] < 0.94


DECAY = math.exp(-0.5)


def log_moments(bet: Floats) -> Floats:
    """Of discrete Laplace noise: chances in proportion to DECAY^|z|. Finite for |λ| < 0.5."""
    return 2 * np.log(1 - DECAY) - np.log(1 - DECAY * np.exp(bet)) - np.log(1 - DECAY * np.exp(-bet))


def sums(trials: int) -> Iterator[tuple[int, Floats]]:
    """Counts, and sums of so many scores (0 or 4, chance 0.3; mean 1.2) with noise, as they grow."""
    rng, total, count = np.random.default_rng(12), np.zeros(trials), 0
    for more in np.diff([0, 10, 30, 100, 300, 1000, 3000, 10**4, 10**5]):
        noise = rng.negative_binomial(more, 1 - DECAY, trials) - rng.negative_binomial(more, 1 - DECAY, trials)
        total, count = total + 4 * rng.binomial(more, 0.3, trials) + noise, count + int(more)
        yield count, total


def test_sums_with_noise_are_covered_at_all_times_at_once() -> None:
    missed, careless = np.zeros(2000, dtype=bool), np.zeros(2000, dtype=bool)
    for count, total in sums(2000):
        low, high = anytime_sum_limits(total, count, 4.0, noise=log_moments, most=0.5)
        missed |= (low > 1.2) | (high < 1.2)
        lows, highs = anytime_sum_limits(total, count, 4.0)  # as if there were no noise
        careless |= (lows > 1.2) | (highs < 1.2)
    assert missed.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    assert careless.mean() > 0.2
    variance = 4.0 + 2 * DECAY / (1 - DECAY) ** 2
    assert np.all(high - low < 2 * 4.0 * math.sqrt(variance / 10**5))  # four standard errors


def test_sums_know_what_counts_of_two_equal_scores_know() -> None:
    """With two scores, half of the reports each, Hoeffding's lemma loses nothing."""
    for count in (1000, 10**4, 10**6):
        low, high = anytime_sum_limits(count / 2, count, 1.0)
        assert (low, high) == pytest.approx(anytime_limits([count / 2, count / 2], [0, 1]), rel=2e-3)
    many = anytime_sum_limits([5.0, 6.0, 7.0], 10, [1.0, 2.0, 3.0], noise=log_moments, most=0.5)
    alone = [anytime_sum_limits(s, 10, w, noise=log_moments, most=0.5) for s, w in ((5, 1), (6, 2), (7, 3))]
    assert np.allclose(np.transpose(many), alone, rtol=1e-12)
    with pytest.raises(DataError, match="above zero"):
        anytime_sum_limits(1.0, 0, 1.0)


def test_thirty_rows_of_500_codes_take_less_than_a_second() -> None:
    rng = np.random.default_rng(0)
    values, chances = rng.normal(size=500), rng.dirichlet(np.ones(500))
    started = time.process_time()
    for tally in rng.multinomial([1000, 10**5, 10**7] * 10, chances):
        exact_limits(tally, values)
    assert time.process_time() - started < 1
