"""Intervals on single samples: what must hold whatever the numbers. How often they cover is in tests/statistical."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from taskveil.errors import DataError
from taskveil.veil.loss_intervals import bounds, check_block, circular_means, few_leaders, interval

RNG = np.random.default_rng(0)
SKEWED = RNG.lognormal(size=60)
SAMPLES = [
    RNG.normal(size=30),
    SKEWED,
    -SKEWED,
    RNG.lognormal(0.0, 3.0, size=400),
    (RNG.random(50) < 0.1) * 1.0,
    np.r_[np.zeros(99), 1.0],
    RNG.normal(size=2),
    RNG.normal(size=3),
    np.array([0.0, 0.0, 1.0]),
]


@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("values", SAMPLES)
def test_the_mean_lies_inside_and_units_do_not_matter(values: np.ndarray, block: int) -> None:
    if len(values) < 2 * block:
        return
    low, high = interval(values, block=block)
    assert np.isfinite([low, high]).all()
    assert low <= values.mean() <= high
    assert interval(3.0 * values + 7.0, block=block) == pytest.approx((3.0 * low + 7.0, 3.0 * high + 7.0), abs=1e-9)
    assert interval(-values, block=block) == pytest.approx((-high, -low), abs=1e-12)
    assert interval(1e200 * values, block=block) == pytest.approx((1e200 * low, 1e200 * high))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.integers(1, 5), st.floats(0.5, 0.999))
def test_any_numbers_have_an_interval(numbers: list[float], block: int, confidence: float) -> None:
    values = np.array(numbers)
    for low, high in (interval(values, confidence=confidence, block=block), bounds(values, confidence=confidence)):
        if len(values) >= 2 * block:
            assert low - 1e-6 <= values.mean() <= high + 1e-6
        assert not np.isinf([low, high]).any()


def test_too_little_and_too_much() -> None:
    assert np.isnan(interval(np.array([1.0]))).all()
    assert np.isnan(interval(np.arange(9.0), block=5)).all()
    assert np.isnan(interval(np.array([1.0, np.inf, 2.0]))).all()
    assert interval(np.full(7, 0.1)) == pytest.approx((0.1, 0.1), abs=1e-15)
    assert interval(np.zeros(7)) == (0.0, 0.0)


def test_without_skewness_it_is_students() -> None:
    values = np.r_[RNG.normal(size=40), 0.0]
    values = np.r_[values, -values]
    expected = t.interval(0.95, len(values) - 1, scale=values.std(ddof=1) / np.sqrt(len(values)))
    assert interval(values) == pytest.approx(expected, rel=1e-9)


def test_right_skewed_losses_have_more_room_above() -> None:
    low, high = interval(SKEWED)
    half = t.ppf(0.975, len(SKEWED) - 1) * SKEWED.std(ddof=1) / np.sqrt(len(SKEWED))
    assert high > SKEWED.mean() + half
    assert SKEWED.mean() - half < low < SKEWED.mean()


def test_bounds_are_never_tighter_than_students_and_grow_with_confidence() -> None:
    error = SKEWED.std(ddof=1) / np.sqrt(len(SKEWED))
    widths = []
    for confidence in (0.5, 0.8, 0.9, 0.99):
        low, high = bounds(SKEWED, confidence=confidence)
        half = t.ppf(confidence, len(SKEWED) - 1) * error
        assert low <= SKEWED.mean() - half + 1e-12
        assert high >= SKEWED.mean() + half - 1e-12
        widths.append(high - low)
    assert widths == sorted(widths)


def test_many_samples_at_once_are_the_samples_one_by_one() -> None:
    values = RNG.lognormal(size=(2, 3, 25))
    low, high = interval(values, block=4)
    assert low.shape == high.shape == (2, 3)
    assert [low[1, 2], high[1, 2]] == pytest.approx(np.array(interval(values[1, 2], block=4)))


def test_the_blocks_are_those_of_the_circular_bootstrap() -> None:
    """The closed form against the bootstrap itself: means of N/b blocks drawn with replacement."""
    values, block = np.cumsum(RNG.normal(size=60)), 6
    means = circular_means(values, block)
    doubled = np.r_[values, values]
    assert means == pytest.approx([doubled[i : i + block].mean() for i in range(60)])
    drawn = means[RNG.integers(60, size=(100_000, 10))].mean(axis=1)
    assert np.var(means) / 10 == pytest.approx(drawn.var(), rel=0.03)
    flat = np.r_[values, -values]  # no skewness in the blocks' means either, so that the half width is known
    count, weights = len(flat) / block, 1 - np.arange(1, block) / block
    error = np.sqrt(circular_means(flat, block).var() / (count - 1))
    freedom = (count - 1) * block / (1 + 2 * (weights**2).sum())
    skewness = (circular_means(flat, block) ** 3).mean()
    assert abs(skewness) < 0.05 * circular_means(flat, block).std() ** 3
    low, high = interval(flat, block=block)
    assert high - low == pytest.approx(2 * t.ppf(0.975, freedom) * error, rel=0.02)


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    alike = np.repeat(RNG.normal(size=40), 10)
    assert np.ptp(interval(alike, block=10)) > 2 * np.ptp(interval(alike))


@pytest.mark.parametrize("block", [0, -1, 1.5, True, "7", None])
def test_blocks_are_whole_numbers(block: object) -> None:
    with pytest.raises(DataError, match="whole number of neighbouring records"):
        check_block(block)
    with pytest.raises(DataError, match="block"):
        interval(SKEWED, block=block)


def test_few_records_that_carry_the_mean_are_counted() -> None:
    assert few_leaders(np.r_[np.full(3, 100.0), np.ones(197)]) == 2
    assert few_leaders(np.r_[np.full(3, 100.0), np.ones(197)] + 1e6) == 2  # a common level makes nothing surer
    assert few_leaders(np.r_[np.full(3, 100.0), np.ones(30)]) is None  # of 33 they are no small part
    assert few_leaders(-np.r_[1000.0, np.ones(197)]) == 1
    assert few_leaders(RNG.exponential(size=500)) is None
    assert few_leaders(np.zeros(100)) is None
