"""torch modules: what can answer is taken as it is, in its own precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import taskveil as tv
from taskveil.errors import TaskError
from taskveil.tasks.models.modules import affine, module_dtype, side_by_side

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 5))


def network(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, outputs))


class Careless(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x[:, :1] - 100.0)


class Centring(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean(0))


class Noisy(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(x))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nn.Linear(5, 2), "takes 5 attributes, but the data has 4"),
        (Careless, "NaN or infinity"),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), "training mode.*eval"),
        (lambda: nn.Linear(4, 2).to("meta"), "meta device"),
        (lambda: nn.Flatten(0), "one row per record"),
        (lambda: Centring(4, 2), "mixes records"),
        (lambda: Noisy(4, 8), "draws at random"),
        (lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)).eval(), "record"),
        (lambda: nn.LSTM(4, 2), "cannot take records"),
        (lambda: nn.LazyLinear(2), "lazy"),
    ],
)
def test_modules_that_cannot_be_used(make: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(make()).check_width(4)


def test_classifiers_give_logits() -> None:
    with pytest.raises(TaskError, match="logits"):
        tv.ModelTask(nn.Sequential(network(), nn.Softmax(1)), loss="cross_entropy")
    with pytest.raises(TaskError, match="one logit per class"):
        tv.ModelTask(nn.Linear(4, 1), loss="cross_entropy")


def test_dropout_in_evaluation_mode_is_fine() -> None:
    task = tv.ModelTask(nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5)).eval())
    assert np.array_equal(task.predict(X), task.predict(X))


def test_half_precision_and_single_records() -> None:
    task = tv.ModelTask(nn.Linear(4, 2).to(torch.bfloat16))
    assert task.predict(np.ones((3, 4))).shape == (3, 2)
    with pytest.raises(TaskError, match="a table"):
        task.predict(np.ones(4))


def test_records_may_lie_in_memory_in_any_order() -> None:
    task = tv.ModelTask(network())
    assert np.array_equal(task.predict(X[::-1]), task.predict(X[::-1].copy()))
    assert np.array_equal(task.predict(np.asfortranarray(X)), task.predict(X))


def test_a_module_of_ones_own_takes_what_the_data_has() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.Linear(1, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.each(x[..., None]).sum(dim=(1, 2))

    task = tv.ModelTask(Shared())
    assert task.width is None
    task.check_width(5)
    assert (task.width, task.outputs) == (5, 1)


def test_side_by_side_every_module_keeps_its_precision() -> None:
    single, double = network(2), affine(np.ones((1, 5)), np.array([1.0]))
    both = side_by_side([single, double])
    found = both(torch.tensor(X)).detach()
    assert found.dtype == torch.float64
    assert found[:, 2].numpy() == pytest.approx(X.sum(axis=1) + 1.0, abs=1e-12)
    assert found[:, :2].numpy() == pytest.approx(single(torch.tensor(X).float()).detach().numpy(), abs=1e-6)
    assert side_by_side([single, None]) is None
    assert module_dtype(double) == torch.float64
