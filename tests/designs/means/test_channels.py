"""Channels of least variance: private, unbiased, near what no channel is below, and no worse than the literature's."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from taskveil.designs.means.channels import best_channel, channel_cost, response_channel
from taskveil.peers.literature import _duchi_alone, _hybrid, _piecewise

RNG = np.random.default_rng(2)


def problem(count: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels in a box seen from a mean inside, and how probable they are."""
    points = RNG.uniform(-1, 1, (count, dim))
    prior = RNG.dirichlet(np.full(count, 0.7)) * 0.95 + 0.05 / count
    return points - prior @ points, prior


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize(("count", "dim"), [(2, 1), (6, 1), (9, 2), (12, 3)])
def test_rows_add_up_values_are_unbiased_and_the_cost_is_what_it_says(count: int, dim: int, epsilon: float) -> None:
    points, prior = problem(count, dim)
    for channel in (best_channel(points, prior, epsilon), response_channel(points, prior, epsilon)):
        chances = np.where(channel.patterns, math.exp(epsilon), 1.0).T * channel.masses
        assert chances.sum(axis=1) == pytest.approx(1.0, abs=1e-11)
        scale = np.abs(channel.values).max()
        assert np.abs(chances @ channel.values - points).max() < 1e-6 * scale
        assert channel.cost == pytest.approx(prior @ chances @ (channel.values**2).sum(axis=1), rel=1e-6)
        assert channel.bound <= channel.cost * (1 + 1e-9)
    assert best_channel(points, prior, epsilon).cost <= response_channel(points, prior, epsilon).cost


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5, 6.0])
def test_it_is_the_optimum_of_the_linear_program_over_all_patterns(epsilon: float) -> None:
    """With four levels, all patterns and a fine grid of values can be listed."""
    points, prior = problem(4, 1)
    channel = best_channel(points, prior, epsilon, gap=1e-4, rounds=40)
    patterns = np.array(
        [[place in some for place in range(4)] for n in (1, 2, 3) for some in combinations(range(4), n)]
    )
    values = np.linspace(1.2 * channel.values.min(), 1.2 * channel.values.max(), 400)
    rows = np.repeat(np.where(patterns, math.exp(epsilon), 1.0), len(values), axis=0)
    each = np.tile(values, len(patterns))
    solved = linprog(
        (rows @ prior) * each**2,
        A_eq=np.concatenate([rows.T, (rows * each[:, None]).T]),
        b_eq=np.concatenate([np.ones(4), points[:, 0]]),
    )
    assert channel.cost == pytest.approx(solved.fun, rel=2e-3)
    assert channel.bound <= solved.fun * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_in_one_dimension_it_is_no_worse_than_the_literature(epsilon: float) -> None:
    """People spread evenly over [−1, 1], the worst there is for who knows nothing: levels cost a little by rounding."""
    levels = np.linspace(-1, 1, 9)
    weights = np.full(9, 2.0)
    weights[[0, -1]] = 1.0
    prior, x = weights / weights.sum(), np.linspace(-1, 1, 4001)
    best = min(float(second(x, epsilon).mean()) for second in (_duchi_alone, _piecewise, _hybrid))
    rounding = float((prior @ levels**2) - (x**2).mean())
    assert best_channel(levels[:, None], prior, epsilon).cost <= 1.005 * best + rounding


def test_what_paid_before_saves_time_and_changes_little() -> None:
    points, prior = problem(16, 2)
    cost, paying = channel_cost(points, prior, 2.0)
    again, _ = channel_cost(points, prior, 2.0, start=paying)
    assert again <= 1.01 * cost
    assert best_channel(points, prior, 2.0, start=paying, rounds=6).cost <= again


def test_together_costs_less_than_by_lot_at_larger_budgets() -> None:
    """Two attributes as one pair, against one of the two drawn by lot, each told by its best channel."""
    levels = np.linspace(-1, 1, 5)
    prior = np.full(5, 0.2)
    pair = np.stack(np.meshgrid(levels, levels, indexing="ij"), axis=-1).reshape(-1, 2)
    for epsilon, gain in ((2.0, 0.95), (4.0, 0.75), (8.0, 0.55)):
        alone = best_channel(levels[:, None], prior, epsilon).cost
        assert best_channel(pair, np.full(25, 0.04), epsilon).cost < gain * 4 * alone


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e8])
def test_channels_are_as_good_in_any_unit(unit: float) -> None:
    points, prior = problem(7, 1)
    there, here = best_channel(points * unit, prior, 1.0), best_channel(points, prior, 1.0)
    assert there.cost / unit**2 == pytest.approx(here.cost, rel=1e-6)
    chances = np.where(there.patterns, math.e, 1.0).T * there.masses
    assert np.abs(chances @ there.values / unit - points).max() < 1e-6 * np.abs(there.values / unit).max()
