"""The task's loss as torch sees it is the task's loss, for every kind of task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import nn

import taskveil as tv
from taskveil.designs.laplace.gradient import Objective, check_device
from taskveil.errors import TaskError

RNG = np.random.default_rng(2)
X = RNG.random((60, 3))
ROWS = torch.arange(60)
LABEL = RNG.integers(2, size=60)


def network() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


TASKS = {
    "mse": (tv.ModelTask(network()), RNG.normal(size=(60, 2))),
    "mse of the model itself": (tv.ModelTask(network()), None),
    "cross_entropy": (tv.ModelTask(network(), loss="cross_entropy"), LABEL),
    "cross_entropy of the model itself": (tv.ModelTask(network(), loss="cross_entropy"), None),
    "own": (tv.ModelTask(network(), loss=lambda out, y: (out.sum(1) - y) ** 4), RNG.normal(size=60)),
    "linear": (tv.LinearTask(RNG.normal(size=(4, 3))), None),
    "multi": (
        tv.MultiTask([(tv.LinearTask(RNG.normal(size=(2, 3))), 2.0), (tv.ModelTask(network(), "cross_entropy"), 0.3)]),
        [None, LABEL],
    ),
}


@pytest.mark.parametrize("kind", TASKS)
def test_costs_are_the_tasks_losses_in_every_replica(kind: str) -> None:
    task, y = TASKS[kind]
    objective = Objective.of(task, X, y, "cpu")
    estimates = RNG.random((2, 60, 3))
    answers = torch.stack([objective.differentiable(torch.tensor(e).float()) for e in estimates])
    costs = objective.costs(answers, ROWS) / objective.scale
    for replica, expected in zip(costs.detach().numpy(), estimates, strict=True):
        assert replica == pytest.approx(task.losses(expected, X, y), rel=1e-4, abs=1e-5)
    some = torch.tensor([5, 3, 3])
    assert torch.equal(objective.costs(answers[:, some], some) / objective.scale, costs[:, some])


@pytest.mark.parametrize("kind", TASKS)
def test_the_scale_makes_the_centres_cost_one(kind: str) -> None:
    task, y = TASKS[kind]
    objective = Objective.of(task, X, y, "cpu")
    assert float(objective.costs(objective.centre.expand(1, 60, -1), ROWS).mean()) == pytest.approx(1.0, rel=1e-5)
    assert (objective.spread > 0).all()


@pytest.mark.parametrize("kind", TASKS)
def test_only_other_answers_mismatch(kind: str) -> None:
    task, y = TASKS[kind]
    objective = Objective.of(task, X, y, "cpu")
    wanted = torch.tensor(task.predict(X)).float()
    assert float(objective.mismatch(wanted, wanted)) == pytest.approx(0.0, abs=1e-6)
    assert float(objective.mismatch(wanted.flip(0), wanted)) > 1e-3


def test_what_the_loss_does_not_see_is_taken_out() -> None:
    task, y = TASKS["multi"]
    centring = Objective.of(task, X, y, "cpu").centring.numpy()
    assert np.array_equal(centring[:2, :2], np.eye(2))
    assert centring[2:, 2:] == pytest.approx(np.array([[0.5, -0.5], [-0.5, 0.5]]))
    assert not centring[:2, 2:].any()
    assert not centring[2:, :2].any()


def test_a_black_box_is_refused_where_gradients_are_needed() -> None:
    forest = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    objective = Objective.of(tv.ModelTask(forest), X, X[:, 0], "cpu")
    with pytest.raises(TaskError, match="black box"):
        _ = objective.differentiable


@pytest.mark.parametrize("device", ["nowhere", "meta"])
def test_devices_that_are_none(device: str) -> None:
    with pytest.raises(TaskError, match='"cpu" or "cuda"'):
        check_device(device)
