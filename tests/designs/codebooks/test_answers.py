"""Inputs at which a model gives the wanted answers, found by gradient or by search."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import nn

import taskveil as tv
from taskveil.designs.codebooks.answers import divergence, realise
from taskveil.tasks.costs import CrossEntropy, LinearInTruth, SquaredError

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
DIRECTION = np.array([2.0, -1.0, 0.5, 0.0, 0.0])


def linear(rows: list[float]) -> nn.Module:
    """One output per entry: that many times the direction."""
    model = nn.Linear(5, len(rows), bias=False)
    with torch.no_grad():
        model.weight[:] = torch.tensor(np.outer(rows, DIRECTION))
    return model.eval()


def test_a_classifier_gives_the_wanted_probabilities() -> None:
    task = tv.ModelTask(linear([-8.0, 8.0]), "cross_entropy")
    wanted = np.array([[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]])
    found = realise(task, CrossEntropy(), wanted, X, rng=np.random.default_rng(1))
    assert task.answers(found) == pytest.approx(wanted, abs=0.02)


def test_a_regressor_gives_the_wanted_values() -> None:
    task = tv.ModelTask(linear([1.0]))
    wanted = np.array([[-0.6], [0.1], [1.7]])
    found = realise(task, SquaredError(), wanted, X, rng=np.random.default_rng(1))
    assert task.answers(found) == pytest.approx(wanted, abs=0.02)


def test_a_model_without_gradients_is_searched() -> None:
    """Never worse than the best record, since the search starts there; the same every time."""
    value = X @ DIRECTION
    task = tv.ModelTask(RandomForestRegressor(20, random_state=0).fit(X, value))
    wanted = np.linspace(value.min() + 0.3, value.max() - 0.3, 7)[:, None] + 0.0123
    found, again = (realise(task, SquaredError(), wanted, X, rng=np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(found, again)
    gap = np.abs(task.answers(found) - wanted)[:, 0]
    nearest = np.abs(task.answers(X)[:, 0] - wanted).min(axis=1)
    assert (gap <= nearest).all()
    assert gap.mean() < 0.5 * nearest.mean()


def test_codewords_stay_inside_the_volunteers_range() -> None:
    task = tv.ModelTask(linear([1.0]))
    (found,) = realise(task, SquaredError(), np.array([[100.0]]), X, rng=np.random.default_rng(1))
    assert (found >= X.min(axis=0) - 1e-6).all()
    assert (found <= X.max(axis=0) + 1e-6).all()
    assert found[0] == pytest.approx(X[:, 0].max(), abs=1e-5)


@pytest.mark.parametrize("cost", [SquaredError(), CrossEntropy()])
def test_the_divergence_is_zero_for_the_wanted_answer_alone(cost: LinearInTruth) -> None:
    given, wanted = RNG.dirichlet(np.ones(3), size=4), RNG.dirichlet(np.ones(3), size=6)
    assert np.diag(divergence(cost, wanted, wanted)) == pytest.approx(np.zeros(6), abs=1e-12)
    assert (divergence(cost, given, wanted) > 0).all()
    squares = ((given[None] - wanted[:, None]) ** 2).mean(axis=2)
    kl = (wanted[:, None] * np.log(wanted[:, None] / given[None])).sum(axis=2)
    assert divergence(cost, given, wanted) == pytest.approx(squares if isinstance(cost, SquaredError) else kl)


def test_one_thread_while_searching_and_the_callers_afterwards() -> None:
    seen = []

    class Watching(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return super().forward(x)

    task = tv.ModelTask(Watching(5, 1))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen.clear()
        realise(task, SquaredError(), np.array([[0.1], [0.2]]), X, rng=np.random.default_rng(1))
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
