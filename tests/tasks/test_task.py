"""Tasks: what they answer, what a mistake costs, and what is refused before any design starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    assert (task.width, task.outputs) == (5, 2)
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
    task = tv.ModelTask(network(1), loss=lambda out, y: (out[:, 0] - y).abs())
    y = RNG.normal(size=40)
    assert task.losses(X, X, y) == pytest.approx(np.abs(task.predict(X)[:, 0] - y))
    assert task.pairwise_losses(D, X, y) == pytest.approx(np.abs(task.predict(D)[:, 0][None] - y[:, None]))
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


class Careless(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x[:, :1] - 100.0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tv.ModelTask(network()).check_width(4), "takes 5 attributes, but the data has 4"),
        (lambda: tv.ModelTask(Careless()).check_width(5), "NaN or infinity"),
        (lambda: tv.ModelTask(nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))), "training mode.*eval"),
        (lambda: tv.ModelTask(network().to("meta")), "meta device"),
        (lambda: tv.ModelTask(nn.Sequential(network(), nn.Softmax(1)), loss="cross_entropy"), "logits"),
        (lambda: tv.ModelTask(nn.Flatten(0)).check_width(5), "one row per record"),
        (lambda: tv.ModelTask("model.onnx"), "no file"),
        (lambda: tv.ModelTask(3), "torch module"),
        (lambda: tv.ModelTask(network(), loss="hinge"), "loss must be"),
        (lambda: tv.MultiTask([]), "at least one"),
        (lambda: tv.MultiTask([(tv.LinearTask(np.eye(5)), 0.0)]), "above zero"),
        (lambda: tv.MultiTask([(tv.LinearTask(np.eye(5)), 1), (tv.LinearTask(np.eye(4)), 1)]), "same records"),
        (lambda: tv.MultiTask([tv.LinearTask(np.eye(5))]), "pairs"),
    ],
)
def test_models_that_cannot_be_used(make: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        make()


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
    ],
)
def test_labels_that_fit_no_class(y: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(network(), loss="cross_entropy").losses(X, X, y)


@pytest.mark.parametrize("y", [np.full((40, 1), np.nan), np.zeros((40, 2)), ["a"] * 40])
def test_targets_that_are_no_numbers(y: object) -> None:
    with pytest.raises(TaskError, match="labels for mse"):
        tv.ModelTask(network(1)).losses(X, X, y)


def test_dropout_in_evaluation_mode_is_fine() -> None:
    f = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5)).eval()
    task = tv.ModelTask(f)
    assert np.array_equal(task.predict(X), task.predict(X))


def test_linear_tasks_need_no_torch() -> None:
    code = "import sys, taskveil.tasks.task; print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_model_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    with pytest.raises(TaskError, match="no valid ONNX"):
        tv.ModelTask(tmp_path / "m.onnx")


@pytest.mark.parametrize("names", [["a", "b", "c"], [1, 2, 3], [-1, 0, 1]])
def test_a_multitask_names_classes_once(names: list) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.array(names)[np.digitize(X[:, 0], [-0.5, 0.5])]
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    both = tv.MultiTask([(task, 2.0)])
    some = y != names[-1]
    assert both.losses(X[some], X[some], [y[some]]) == pytest.approx(2 * task.losses(X[some], X[some], y[some]))
    assert both.pairwise_losses(X[:3], X, [y]) == pytest.approx(2 * task.pairwise_losses(X[:3], X, y))


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
def test_pairwise_losses_keep_their_digits_far_from_zero(offset: float) -> None:
    rng = np.random.default_rng(0)
    X, candidates = rng.normal(size=(20, 3)) + offset, rng.normal(size=(4, 3)) + offset
    direct = ((X[:, None] - candidates) ** 2).sum(axis=2)
    assert tv.LinearTask(np.eye(3)).pairwise_losses(candidates, X) == pytest.approx(direct, rel=1e-6)


class Centring(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0))


class Noisy(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(super().forward(x))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Centring(4, 2), "mixes records"),
        (lambda: Noisy(4, 8), "draws at random"),
        (lambda: torch.nn.Sequential(torch.nn.BatchNorm1d(4, track_running_stats=False)).eval(), "record"),
        (lambda: torch.nn.LSTM(4, 2), "cannot take records"),
        (lambda: torch.nn.LazyLinear(2), "lazy"),
    ],
)
def test_modules_that_do_not_answer_record_by_record(make: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(make()).check_width(4)


def test_one_output_is_no_classifier() -> None:
    with pytest.raises(TaskError, match="one logit per class"):
        tv.ModelTask(torch.nn.Linear(4, 1), loss="cross_entropy")


def test_half_precision_and_single_records() -> None:
    task = tv.ModelTask(torch.nn.Linear(4, 2).to(torch.bfloat16))
    assert task.predict(np.ones((3, 4))).shape == (3, 2)
    with pytest.raises(TaskError, match="a table"):
        task.predict(np.ones(4))


def test_a_module_of_ones_own_takes_what_the_data_has() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = torch.nn.Linear(1, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.each(x[..., None]).sum(dim=(1, 2))

    task = tv.ModelTask(Shared())
    assert task.width is None
    task.check_width(5)
    assert (task.width, task.outputs) == (5, 1)
