"""Groups of latents: the best runs, within the rows that a table may have."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from taskveil.designs.means.design import GridLatents, most_rows, total_cost

RNG = np.random.default_rng(6)
HIGH = 2**20


def latents(k: np.ndarray, epsilon: float, weights: np.ndarray | None = None) -> GridLatents:
    width = k.shape[1]
    scale = np.ones(width) if weights is None else weights
    return GridLatents(
        k=k,
        low=np.zeros(width, dtype=np.int64),
        high=np.full(width, HIGH),
        gram=np.diag((scale / HIGH) ** 2),
        epsilon=epsilon,
    )


MANY_VALUES = partial(RNG.integers, 0, HIGH, endpoint=True)


def test_small_budgets_ask_one_by_one_and_large_ones_several() -> None:
    k = MANY_VALUES(size=(100, 6))
    sizes = {}
    for epsilon in (0.5, 4.0, 8.0):
        parted = latents(k, epsilon).parted(most_rows(epsilon, 6))
        assert sorted(place for group in parted for place in group.places) == list(range(6))
        assert all(len(group.points) <= most_rows(epsilon, 6) for group in parted if len(group.places) > 1)
        sizes[epsilon] = max(len(group.places) for group in parted)
    assert sizes[0.5] == 1 < sizes[4.0] <= sizes[8.0]


def test_runs_are_the_best_of_all_runs() -> None:
    found = latents(MANY_VALUES(size=(100, 5)), 8.0, np.array([1.0, 0.9, 0.5, 0.1, 0.01]))
    rows = most_rows(8.0, 5)
    order = sorted(range(5), key=lambda place: found.alone(place).cost)

    def ways(start: int) -> list[list[float]]:
        if start == 5:
            return [[]]
        groups = ((end, found.together(tuple(order[start:end]), rows)) for end in range(start + 1, 6))
        return [[group.cost, *rest] for end, group in groups if group is not None for rest in ways(end)]

    assert total_cost(found.parted(rows)) == pytest.approx(min(sum(map(math.sqrt, way)) ** 2 for way in ways(0)))


def test_flags_are_told_together_at_both_their_values() -> None:
    flags = latents((RNG.random((300, 5)) < 0.3) * HIGH, 4.0)
    parted = flags.parted(most_rows(4.0, 5))
    assert len(parted) < 3
    assert all(levels.tolist() == [0, HIGH] for group in parted for levels in group.scales)


def test_latents_that_the_task_sees_as_one_have_a_root_too() -> None:
    twins = latents(MANY_VALUES(size=(50, 2)), 4.0)
    object.__setattr__(twins, "gram", np.ones((2, 2)) / HIGH**2)
    root = twins.root((0, 1))
    assert root.T @ root == pytest.approx(twins.gram, rel=1e-6)
    assert np.isfinite(np.linalg.inv(root)).all()
