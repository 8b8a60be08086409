"""A frozen model answers record by record, with finite rows, or is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from taskveil.errors import TaskError
from taskveil.tasks.models import frozen
from taskveil.tasks.models.frozen import FrozenModel
from taskveil.tasks.models.modules import from_module

X = np.random.default_rng(0).normal(size=(9, 4))


def test_the_number_of_outputs_is_learned_with_the_width() -> None:
    model = FrozenModel(lambda x: x[:, :2])
    assert model.width is None
    with pytest.raises(TaskError, match="not known yet"):
        _ = model.outputs
    model.check_width(4)
    assert (model.width, model.outputs) == (4, 2)
    with pytest.raises(TaskError, match="takes 4 attributes, but the data has 3"):
        model.check_width(3)


def test_many_records_are_asked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "ROWS_AT_ONCE", 4)
    sizes = []

    def function(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return x.sum(axis=1)

    model = FrozenModel(function, width=4)
    sizes.clear()
    assert model(X)[:, 0] == pytest.approx(X.sum(axis=1))
    assert sizes == [4, 4, 1]
    assert model(X[:0]).shape == (0, 1)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x - x.mean(axis=0), "mixes records"),
        (lambda x: np.random.default_rng().normal(size=x.shape), "draws at random"),
        (lambda x: x + 0.004 * x.mean(axis=0), "mixes records"),
        (lambda x: 1000 + x + 0.004 * x.mean(axis=0), "mixes records"),
        (lambda x: x + 0.004 * x.max(), "mixes records"),
        (lambda x: x + 0.001 * np.roll(x, 1, axis=0), "mixes records"),
        (lambda x: x + 0.001 * x.std(axis=0), "mixes records"),
        (lambda x: x + 0.01 * np.arange(len(x))[:, None], "mixes records"),
        (lambda x: x + 0.01 * len(x), "mixes records"),
        (lambda x: x + 0.01 * np.random.default_rng(0).normal(size=x.shape), "draws at random"),
        (lambda x: x[:-1], "one row per record"),
        (lambda x: x[:, :, None], "one row per record"),
        (lambda x: np.log(x - 9.0), "NaN or infinity .record 0 of"),
        (lambda x: x @ np.eye(7), "cannot take records with 4 attributes"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_functions_that_are_no_models(function: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        FrozenModel(function, width=4)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_rounding_in_another_order_is_no_mixing(kind: torch.dtype, offset: float) -> None:
    """Batches of other sizes are multiplied in another order."""
    torch.manual_seed(0)
    for width in (3, 50, 700):
        layers = [nn.Linear(width, 300), nn.Tanh(), nn.Linear(300, 300), nn.Softplus(), nn.Linear(300, 4)]
        model = nn.Sequential(*layers).to(kind)
        model[-1].bias.data += offset
        assert from_module(model, width).outputs == 4


def test_models_that_have_no_value_at_zero_or_one() -> None:
    assert FrozenModel(lambda x: np.log(x) / (1 - x), width=4).outputs == 4


def test_where_logits_are_needed_probabilities_are_refused() -> None:
    def probabilities(x: np.ndarray) -> np.ndarray:
        return np.tile([0.25, 0.75], (len(x), 1))

    assert FrozenModel(probabilities, width=4).outputs == 2
    with pytest.raises(TaskError, match="gives probabilities"):
        FrozenModel(probabilities, width=4, must_be_logits=True)
    with pytest.raises(TaskError, match="one logit per class"):
        FrozenModel(lambda x: x[:, 0], width=4, must_be_logits=True)


def test_records_form_a_table() -> None:
    with pytest.raises(TaskError, match="a table"):
        FrozenModel(lambda x: x, width=4)(np.ones(4))
