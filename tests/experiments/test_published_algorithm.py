"""Algorithm 1 as published: their scale, their sensitivity, their baselines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from taskveil.designs.laplace.gradient import Objective
from taskveil.designs.laplace.replicas import Replicas
from taskveil.designs.sensitivity import l1_diameter
from taskveil.errors import TaskError
from taskveil.experiments.published_algorithm import PublishedDesign, Recipe, train

RNG = np.random.default_rng(2)
X = RNG.random((60, 3))
Y = (X @ [1.0, 0.5, 0.0])[:, None]
TENSOR = torch.tensor(X).float()
RECIPE = Recipe(penalty=0.01, epochs=30, steps=5, rate=1e-2, quiet_steps=100)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


@pytest.fixture(scope="module")
def objective() -> Objective:
    return Objective.of(tv.ModelTask(network()), X, Y, "cpu")


def grid(*cells: tuple[float, int, int]) -> Replicas:
    return Replicas.of(cells, "cpu")


def test_the_scale_is_theirs_and_holds_for_more_than_epsilon(objective: Objective) -> None:
    made = train(TENSOR, objective, grid((2.0, 2, 0), (8.0, 2, 0)), RECIPE)
    latents = made.encode(TENSOR)
    expected = [l1_diameter(part) for part in latents.detach().double().numpy()] / (np.sqrt(2.0) * np.array([2.0, 8.0]))
    assert made.scale(latents).flatten().detach().numpy() == pytest.approx(expected, rel=1e-5)


def test_padding_is_never_seen(objective: Objective) -> None:
    made = train(TENSOR, objective, grid((5.0, 1, 0), (5.0, 3, 0)), RECIPE)
    assert torch.equal(made.encode(TENSOR)[0, :, 1:], torch.zeros(60, 2))


def test_more_budget_costs_less(objective: Objective) -> None:
    made = train(
        TENSOR, objective, grid((0.5, 1, 0), (50.0, 1, 0)), Recipe(penalty=0.01, epochs=150, steps=5, rate=2e-2)
    )
    tight, loose = made.losses(TENSOR, objective, draws=20).mean(0).tolist()
    assert loose < 0.5 * tight


def test_the_penalty_keeps_the_encoder_small(objective: Objective) -> None:
    sizes = []
    for penalty in (0.0, 1.0):
        made = train(TENSOR, objective, grid((2.0, 2, 0)), Recipe(penalty=penalty, epochs=60, steps=5, rate=1e-2))
        sizes.append(float(made.encoder.weights[0].square().sum()))
    assert sizes[1] < 0.5 * sizes[0]


def test_baselines_freeze_their_encoders(objective: Objective) -> None:
    identity = train(TENSOR, objective, grid((2.0, 3, 0)), RECIPE, method="task_agnostic")
    assert torch.equal(identity.encode(TENSOR)[0], TENSOR)
    quiet = train(TENSOR, objective, grid((2.0, 2, 0), (50.0, 2, 0)), RECIPE, method="privacy_agnostic")
    latents = quiet.encode(TENSOR)
    assert torch.allclose(latents[0], latents[1], atol=1e-6)


def test_no_method_means_another(objective: Objective) -> None:
    with pytest.raises(TaskError, match="the paper has no 'codebook'"):
        train(TENSOR, objective, grid((2.0, 2, 0)), RECIPE, method="codebook")


def test_one_thread_and_the_callers_setting_afterwards() -> None:
    threads = set()

    def loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        threads.add(torch.get_num_threads())
        return (outputs[:, 0] - y[:, 0]) ** 2

    watched = Objective.of(tv.ModelTask(network(), loss=loss), X, Y, "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    threads.clear()
    try:
        made = train(TENSOR, watched, grid((2.0, 2, 0)), Recipe(epochs=2, steps=2))
        made.losses(TENSOR, watched, draws=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == {1}


def test_mini_batches_and_hidden_layers(objective: Objective) -> None:
    made = train(TENSOR, objective, grid((20.0, 2, 0)), Recipe(hidden=4, penalty=0.001, epochs=40, batch=16, rate=1e-2))
    assert isinstance(made, PublishedDesign)
    assert made.losses(TENSOR, objective, draws=3).isfinite().all()


@pytest.mark.parametrize("kind", ["mse", "cross_entropy", "own", "multi"])
def test_training_and_evaluation_agree_on_the_loss(kind: str) -> None:
    torch.manual_seed(0)
    two = nn.Linear(3, 2)
    labels = RNG.integers(2, size=60)
    task, y = {
        "mse": (tv.ModelTask(two), RNG.normal(size=(60, 2))),
        "cross_entropy": (tv.ModelTask(two, loss="cross_entropy"), labels),
        "own": (tv.ModelTask(two, loss=lambda out, y: (out.sum(1) - y) ** 4), RNG.normal(size=60)),
        "multi": (
            tv.MultiTask([(tv.LinearTask(RNG.normal(size=(2, 3))), 2.0), (tv.ModelTask(two, "cross_entropy"), 0.3)]),
            [None, labels],
        ),
    }[kind]
    objective = Objective.of(task, X, y, "cpu")
    estimates = RNG.random((60, 3))
    answers = objective.model(torch.tensor(estimates).float())
    costs = objective.costs(answers.expand(2, -1, -1), torch.arange(60)) / objective.scale
    for replica in costs.numpy():
        assert replica == pytest.approx(task.losses(estimates, X, y), rel=1e-4, abs=1e-5)
    assert float(objective.costs(objective.centre.expand(1, 60, -1), torch.arange(60)).mean()) == pytest.approx(1.0)
    assert float(objective.mismatch(answers, answers)) == pytest.approx(0.0, abs=1e-6)
