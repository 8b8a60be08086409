"""Models as tasks: what they answer, what a mistake costs, and which labels are refused before any design starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from taskveil.errors import TaskError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 5))
D = RNG.normal(size=(7, 5))


def network(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, outputs))


def test_mse_is_the_mean_squared_error_of_the_answers() -> None:
    f, y = network(2), RNG.normal(size=(40, 2))
    task = tv.ModelTask(f)
    answers = f(torch.tensor(D).float()).detach().numpy()
    assert (task.width, task.outputs, task.loss) == (5, 2, "mse")
    assert task.predict(D) == pytest.approx(answers, abs=1e-6)
    assert task.losses(X, X, y) == pytest.approx(((task.predict(X) - y) ** 2).mean(1))
    assert task.pairwise_losses(D, X, y) == pytest.approx(((answers[None] - y[:, None]) ** 2).mean(2), abs=1e-6)
    assert task.losses(X, X) == pytest.approx(np.zeros(40))
    assert task.losses(D[:1].repeat(40, axis=0), X) == pytest.approx(task.pairwise_losses(D[:1], X)[:, 0])


def test_cross_entropy_agrees_with_torch() -> None:
    f, y = network(), RNG.integers(3, size=40)
    task = tv.ModelTask(f, loss="cross_entropy")
    logits = f(torch.tensor(X).float())
    expected = nn.functional.cross_entropy(logits, torch.tensor(y), reduction="none").detach().numpy()
    assert task.losses(X, X, y) == pytest.approx(expected, abs=1e-6)
    assert task.pairwise_losses(X, X, y)[np.arange(40), np.arange(40)] == pytest.approx(expected, abs=1e-6)
    own = nn.functional.cross_entropy(logits, logits.softmax(1), reduction="none").detach().numpy()
    assert task.losses(X, X) == pytest.approx(own, abs=1e-6)


def test_a_loss_of_your_own() -> None:
    def distance(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (out[:, 0] - y).abs()

    task = tv.ModelTask(network(1), loss=distance)
    y = RNG.normal(size=40)
    assert task.loss is distance
    assert task.losses(X, X, y) == pytest.approx(np.abs(task.predict(X)[:, 0] - y))
    assert task.pairwise_losses(D, X, y) == pytest.approx(np.abs(task.predict(D)[:, 0][None] - y[:, None]))
    constant = np.broadcast_to(y[0], 40)  # read-only, and not laid out in order
    assert task.losses(X, X, constant) == pytest.approx(np.abs(task.predict(X)[:, 0] - y[0]))
    assert task.losses(X, X, y[::-1]) == pytest.approx(np.abs(task.predict(X)[:, 0] - y[::-1]))
    with pytest.raises(TaskError, match="labels are missing"):
        task.losses(X, X)
    with pytest.raises(TaskError, match="one finite number per record"):
        tv.ModelTask(network(1), loss=lambda out, y: out.mean()).losses(X, X, y)


def test_the_task_is_frozen() -> None:
    f = network()
    task = tv.ModelTask(f)
    before = task.predict(X)
    with torch.no_grad():
        f[0].weight.add_(1.0)
    assert np.array_equal(task.predict(X), before)
    assert not any(p.requires_grad for p in task.torch_module.parameters())
    assert not task.torch_module.training


@pytest.mark.parametrize("loss", ["hinge", 3, None, ["mse"]])
def test_losses_that_nobody_knows(loss: object) -> None:
    with pytest.raises(TaskError, match='loss must be "mse", "cross_entropy", "zero_one" or a callable'):
        tv.ModelTask(network(), loss=loss)


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (np.full(40, 3), "outside the model's classes 0 … 2"),
        (np.full(40, -1), "outside"),
        (np.full(40, 0.5), "class numbers"),
        (np.full(40, np.nan), "class numbers"),
        (np.zeros(39, int), "39 labels for 40 records"),
        (np.zeros((40, 2), int), "one class per record"),
        (["a"] * 40, "class numbers"),
        (2, "1 labels for 40 records"),
        ([[0], [0, 1]] * 20, "must form an array"),
    ],
)
def test_labels_that_fit_no_class(y: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(network(), loss="cross_entropy").losses(X, X, y)


@pytest.mark.parametrize("y", [np.full((40, 1), np.nan), np.zeros((40, 2)), ["a"] * 40])
def test_labels_that_are_no_numbers(y: object) -> None:
    with pytest.raises(TaskError, match="labels for mse"):
        tv.ModelTask(network(1)).losses(X, X, y)


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("secret", ["HIV positive", 8675309])
def test_errors_quote_no_label(loss: str, secret: object) -> None:
    y = np.array([0] * 39 + [secret], dtype=object)
    if loss == "mse" and not isinstance(secret, str):
        y = np.full((40, 2), secret)
    for values in (y, np.array(y.tolist())):
        with pytest.raises(TaskError) as caught:
            tv.ModelTask(network(3), loss=loss).losses(X, X, values)
        assert str(secret) not in str(caught.value)


@pytest.mark.parametrize("kind", ["mse", "cross_entropy", "own"])
def test_no_constant_answer_is_better(kind: str) -> None:
    """Of answers the model gives; the formulas may find better ones."""
    loss, outputs, y = {
        "mse": ("mse", 1, RNG.normal(size=40)),
        "cross_entropy": ("cross_entropy", 3, RNG.integers(3, size=40)),
        "own": (lambda out, y: (out[:, 0] - y).abs(), 1, RNG.normal(size=40)),
    }[kind]
    task = tv.ModelTask(network(outputs), loss=loss)
    least = task.constant_loss(X, y, X, y)
    everywhere = task.pairwise_losses(X, X, y).mean(axis=0)
    smoothing = np.log(43 / 40) if kind == "cross_entropy" else 0.0  # one more record of each class
    assert least <= everywhere.min() + smoothing + 1e-12


def test_without_labels_the_constant_is_judged_by_the_model() -> None:
    task = tv.ModelTask(network(2))
    assert task.constant_loss(X, None, X, None) == pytest.approx(task.predict(X).var(axis=0).mean())


@pytest.mark.parametrize("kind", ["mse", "cross_entropy", "own"])
def test_what_it_costs_to_know_nothing(kind: str) -> None:
    torch.manual_seed(0)
    records = RNG.normal(size=(120, 3))
    y = records @ [1.0, 0.5, 0.0] + 0.1 * RNG.normal(size=120)
    label = (y > 0).astype(int)
    share = np.array([np.sum(label == 0) + 0.5, np.sum(label == 1) + 0.5]) / 121
    task, labels, expected = {
        "mse": (tv.ModelTask(nn.Linear(3, 1)), y, y.var()),
        "cross_entropy": (tv.ModelTask(nn.Linear(3, 2), loss="cross_entropy"), label, -np.log(share[label]).mean()),
        "own": (tv.ModelTask(nn.Linear(3, 1), loss=lambda out, y: (out[:, 0] - y) ** 2), y, y.var()),
    }[kind]
    found = task.constant_loss(records, labels, records, labels)
    assert found == pytest.approx(expected, rel=0.02 if kind == "own" else 1e-9)
