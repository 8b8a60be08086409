"""Tables in whole numbers keep the budget exactly and say exactly the mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.client.promise import log_ratio
from taskveil.designs.means.channels import best_channel, response_channel, whole_numbers
from taskveil.veil.surveys import exact_values

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 2.0, 7.0, 20.0])
def test_rows_are_equal_ratios_are_kept_and_values_are_exact(epsilon: float) -> None:
    points = RNG.uniform(-3, 5, (10, 2))
    prior = RNG.dirichlet(np.ones(10)) * 0.9 + 0.01
    searched = max(epsilon, 0.05)
    for channel in (best_channel(points, prior, searched, rounds=4), response_channel(points, prior, searched)):
        table = whole_numbers(channel, epsilon)
        assert table.min() >= 1
        assert len(set(table.sum(axis=1).tolist())) == 1
        assert int(table[0].sum()) < 2**53
        worst = max(log_ratio(int(column.max()), int(column.min())) for column in table.T)
        assert 0.98 * epsilon < worst <= epsilon
        values = exact_values(table, points, prior)
        total = int(table[0].sum())
        exact = [[math.fsum(row * values[:, place]) / total for place in range(2)] for row in table.astype(object)]
        assert np.abs(np.array(exact, dtype=float) - points).max() < 1e-12 * np.abs(values).max()


def test_values_are_those_of_least_variance() -> None:
    points = RNG.uniform(-1, 1, (5, 1))
    prior = np.full(5, 0.2)
    table = whole_numbers(best_channel(points, prior, 1.5), 1.5)
    values = exact_values(table, points, prior)
    chances = prior @ table / table[0].sum()
    # Whatever else is unbiased differs by something that no level sees, which is orthogonal to the values.
    _, _, right = np.linalg.svd(table / table[0].sum())
    assert np.abs((right[5:] * chances) @ values).max() < 1e-12 * np.abs(values).max()
