"""A right inverse of the task: the model answers on it what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import taskveil as tv
from taskveil.designs.laplace.gradient import Inverse, Objective, fit_inverse
from taskveil.designs.laplace.replicas import Records
from taskveil.errors import TaskError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 1.0]
RECORDS = Records.of(X, "cpu")


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x[:, :1]) + 0.1 * (x[:, 1:2] - 50.0)


def asked(task: tv.ModelTask) -> object:
    answers = torch.tensor(task.predict(X)).float()
    generator = torch.Generator().manual_seed(0)

    def draw(size: int) -> tuple[Tensor, Tensor]:
        rows = torch.randint(200, (size,), generator=generator)
        return answers[rows], RECORDS[rows]

    return draw


def test_the_model_gives_the_wanted_answers() -> None:
    task = tv.ModelTask(Scaled())
    task.check_width(3)
    objective = Objective.of(task, X, None, "cpu")
    inverse = fit_inverse(asked(task), RECORDS, objective)
    wanted = torch.tensor(task.predict(X)).float()
    assert float((objective.model(inverse(wanted)) - wanted).square().mean()) < 0.01 * float(wanted.var())
    assert not any(parameter.requires_grad for parameter in inverse.parameters())


def test_without_the_model_it_is_the_mean_record_given_the_answer() -> None:
    task = tv.ModelTask(Scaled())
    task.check_width(3)
    objective = Objective.of(task, X, None, "cpu")
    inverse = fit_inverse(asked(task), RECORDS, objective, steps=0, warm_up=400)
    estimates = inverse(torch.tensor(task.predict(X)).float()).numpy()
    left = ((estimates - X) ** 2).mean(axis=0) / X.var(axis=0)
    assert left[1] < 0.6  # what the answer tells of
    assert 0.8 < left[2] < 1.2  # what it does not


def test_what_the_loss_does_not_see_does_not_matter() -> None:
    """A shift of all logits is the same answer."""
    torch.manual_seed(0)
    objective = Objective.of(tv.ModelTask(nn.Linear(3, 4), loss="cross_entropy"), X, None, "cpu")
    wanted = torch.randn(50, 4)
    inverse = Inverse(wanted, RECORDS, objective, hidden=8)
    assert torch.allclose(inverse(wanted), inverse(wanted + 3.0), rtol=1e-4, atol=1e-3)


def test_the_same_seed_gives_the_same_inverse_and_the_callers_generator_is_left_alone() -> None:
    task = tv.ModelTask(Scaled())
    task.check_width(3)
    objective = Objective.of(task, X, None, "cpu")
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    one, two, other = (
        fit_inverse(asked(task), RECORDS, objective, steps=20, warm_up=20, seed=seed).layers[0].weight
        for seed in (0, 0, 1)
    )
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_black_boxes_have_no_inverse() -> None:
    from sklearn.ensemble import RandomForestRegressor

    task = tv.ModelTask(RandomForestRegressor(2, random_state=0).fit(X, X[:, 0]))
    with pytest.raises(TaskError, match="gradients"):
        fit_inverse(asked(task), RECORDS, Objective.of(task, X, None, "cpu"))
