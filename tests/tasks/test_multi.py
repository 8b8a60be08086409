"""Several tasks behind one report: their losses add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from taskveil.errors import TaskError
from taskveil.tasks import take_labels

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 5))
D = RNG.normal(size=(7, 5))


def network(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, outputs))


def test_linear_tasks_stack_and_models_add() -> None:
    a, b = tv.LinearTask(RNG.normal(size=(2, 5))), tv.LinearTask(RNG.normal(size=(3, 5)))
    both = tv.MultiTask([(a, 2.0), (b, 0.5)])
    estimates = X + 0.1
    total = 2.0 * a.losses(estimates, X) + 0.5 * b.losses(estimates, X)
    assert both.losses(estimates, X) == pytest.approx(total)
    assert both.stacked().losses(estimates, X) == pytest.approx(total)
    y = RNG.integers(3, size=40)
    model = tv.ModelTask(network(), loss="cross_entropy")
    mixed = tv.MultiTask([(a, 2.0), (model, 3.0)])
    assert mixed.stacked() is None
    assert mixed.losses(estimates, X, [None, y]) == pytest.approx(
        2.0 * a.losses(estimates, X) + 3.0 * model.losses(estimates, X, y)
    )
    assert mixed.pairwise_losses(D, X, [None, y]).shape == (40, 7)
    side = mixed.torch_module(torch.tensor(X).float())
    assert side.numpy() == pytest.approx(mixed.predict(X), abs=1e-5)
    with pytest.raises(TaskError, match="one entry per task"):
        mixed.losses(X, X, y)


def test_every_task_has_its_own_labels_and_constant() -> None:
    linear, model = tv.LinearTask(np.eye(5)[:2]), tv.ModelTask(network(1))
    y, held = RNG.normal(size=40), RNG.normal(size=7)
    both = tv.MultiTask([(linear, 2.0), (model, 3.0)])
    assert [(part, weight) for part, weight, _ in both.parted()] == [(linear, 2.0), (model, 3.0)]
    some = take_labels(both, [None, y], slice(0, 4))
    assert some[0] is None
    assert np.array_equal(some[1], y[:4])
    separately = 2.0 * linear.constant_loss(X, None, D, None) + 3.0 * model.constant_loss(X, y, D, held)
    assert both.constant_loss(X, [None, y], D, [None, held]) == pytest.approx(separately, rel=1e-12)
    assert both.constant_loss(X, None, D, None) < separately  # the model's own answers vary less


@pytest.mark.parametrize("names", [["a", "b", "c"], [1, 2, 3], [-1, 0, 1]])
def test_a_multitask_names_classes_once(names: list) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    records = rng.normal(size=(60, 2))
    y = np.array(names)[np.digitize(records[:, 0], [-0.5, 0.5])]
    task = tv.ModelTask(LogisticRegression().fit(records, y), loss="cross_entropy")
    both = tv.MultiTask([(task, 2.0)])
    some = y != names[-1]
    expected = 2 * task.losses(records[some], records[some], y[some])
    assert both.losses(records[some], records[some], [y[some]]) == pytest.approx(expected)
    assert both.pairwise_losses(records[:3], records, [y]) == pytest.approx(
        2 * task.pairwise_losses(records[:3], records, y)
    )


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([], "at least one"),
        ([(3, 1.0)], "LinearTask or ModelTask"),
        ([(tv.LinearTask(np.eye(5)), 0.0)], "above zero"),
        ([(tv.LinearTask(np.eye(5)), np.nan)], "finite"),
        ([(tv.LinearTask(np.eye(5)), 1), (tv.LinearTask(np.eye(4)), 1)], "same records"),
        ([tv.LinearTask(np.eye(5))], "pairs"),
    ],
)
def test_tasks_that_do_not_go_together(parts: list, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.MultiTask(parts)
