"""Levels between which volunteers are rounded at the least cost, and the prior that this gives."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from taskveil.designs.means.design import ANYWHERE, best_levels, level_chances, level_prior

RNG = np.random.default_rng(8)


def rounding(k: np.ndarray, levels: np.ndarray) -> float:
    """The variance that rounding by lot adds."""
    chances = level_chances(k, levels)
    return float((chances @ levels.astype(float) ** 2 - k.astype(float) ** 2).mean())


def test_they_are_the_best_of_all_choices() -> None:
    values = np.array([3, 10, 11, 40, 41, 70, 95])
    k = RNG.choice(values, 60, p=RNG.dirichlet(np.ones(7)))
    for most in (2, 3, 4, 5):
        found = best_levels(k, 0, 100, most)
        assert found[0] == 0
        assert found[-1] == 100
        assert len(found) <= most
        others = (np.array([0, *some, 100]) for some in combinations(np.unique(k).tolist(), most - 2))
        assert rounding(k, found) == pytest.approx(min(rounding(k, levels) for levels in others))


def test_few_values_need_no_rounding_and_many_need_no_time() -> None:
    k = RNG.choice([0, 7, 50], 40)
    assert best_levels(k, 0, 100, 8).tolist() == [0, 7, 50, 100]
    many = RNG.integers(0, 2**24, 20_000)
    found = best_levels(many, 0, 2**24, 8)
    assert len(found) == 8
    assert rounding(many, found) < 1.2 * rounding(many, np.linspace(0, 2**24, 8).astype(np.int64))


def test_level_chances_is_unbiased_between_levels() -> None:
    levels = np.array([0, 10, 64, 100])
    k = np.arange(101)
    chances = level_chances(k, levels)
    assert chances.min() >= 0
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert chances @ levels == pytest.approx(k)
    assert ((chances > 0).sum(axis=1) <= 2).all()


def test_the_prior_is_the_volunteers_and_leaves_nobody_out() -> None:
    one, other = (
        level_chances(np.full(500, 3), np.array([0, 10])),
        level_chances(np.full(500, 50), np.array([0, 50, 100])),
    )
    assert level_prior([one]) == pytest.approx((1 - ANYWHERE) * np.array([0.7, 0.3]) + ANYWHERE / 2)
    joint = level_prior([one, other])
    assert joint.sum() == pytest.approx(1.0)
    assert joint.min() == pytest.approx(ANYWHERE / 6)
    assert joint.reshape(2, 3)[:, 1] == pytest.approx((1 - ANYWHERE) * np.array([0.7, 0.3]) + ANYWHERE / 6)


def test_volunteers_a_grid_step_apart_share_a_level() -> None:
    """Telling one from the other without bias would need reports of enormous values."""
    assert best_levels(np.array([0, 1, 500_000, 500_001, 999_999]), 0, 1_000_000, 8).tolist() == [0, 500_000, 1_000_000]
