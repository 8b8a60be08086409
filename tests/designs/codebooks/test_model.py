from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import taskveil as tv
from hostile import hostile_records
from taskveil.client.mechanisms import Response
from taskveil.designs.codebooks import predictor
from taskveil.designs.codebooks.answers import answers, costs, own_cost, realise
from taskveil.designs.codebooks.model import Sample, lloyd, model_codebooks
from taskveil.designs.domain import Points
from taskveil.errors import TaskError

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
VALUE = X @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * RNG.normal(size=320)
LABEL = (np.median(VALUE) < VALUE).astype(int)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictor, "STEPS", 300)


def regressor() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 1))
    with torch.no_grad():
        model[0].weight[:] = torch.tensor([[2.0, -1.0, 0.5, 0.0, 0.0]])
        model[0].bias[:] = 0.0
    return model.eval()


def classifier() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 2))
    with torch.no_grad():
        direction = torch.tensor([2.0, -1.0, 0.5, 0.0, 0.0])
        model[0].weight[:] = torch.stack([-8 * direction, 8 * direction])
        model[0].bias[:] = torch.tensor([8.0, -8.0]) * float(np.median(VALUE))
    return model.eval()


@pytest.mark.parametrize(
    ("task", "y"), [(tv.ModelTask(regressor()), VALUE), (tv.ModelTask(classifier(), "cross_entropy"), LABEL)]
)
def test_worth_its_budget_and_exact(task: tv.ModelTask, y: np.ndarray) -> None:
    veils = [veil for _, veil in model_codebooks(X, task, (0.5, 3.0, 9.0), Points(X), y)]
    losses = [veil.loss(X, y) for veil in veils]
    assert losses[0].mean > losses[1].mean > losses[2].mean
    assert all(loss.exact for loss in losses)
    assert all(v.guarantee.epsilon <= e for v, e in zip(veils, (0.5, 3.0, 9.0), strict=True))
    drawn, labels = np.tile(X, (40, 1)), np.tile(y, 40)
    realised = task.losses(veils[1].decode(veils[1].privatize(drawn)), drawn, labels)
    assert abs(realised.mean() - losses[1].mean) < 6 * realised.std() / np.sqrt(len(realised))


def test_models_without_gradients_are_searched() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X, LABEL)
    task = tv.ModelTask(forest, "cross_entropy")
    assert task.torch_module is None
    veil = tv.design(X, task, epsilon=4.0, y=LABEL)
    assert veil.method == "codebook"
    assert veil.loss(X, LABEL).mean < 0.35 < np.log(2)


def test_without_labels_the_model_is_the_truth() -> None:
    task = tv.ModelTask(classifier(), "cross_entropy")
    ((_, veil),) = model_codebooks(X, task, [6.0], Points(X))
    own = own_cost(answers(task, X), classes=True).mean()
    assert own < veil.loss(X).mean < own + 0.2


def test_hostile_records_change_nothing_in_the_guarantee() -> None:
    ((_, veil),) = model_codebooks(X, tv.ModelTask(classifier(), "cross_entropy"), [2.0], Points(X), LABEL)
    hostile = hostile_records(5)
    (stage,) = veil.mechanism.stages
    favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(hostile)))
    assert favoured.shape == (len(hostile), stage.response.favoured)
    assert all(len(set(row)) == stage.response.favoured for row in favoured.tolist())
    assert np.isfinite(veil.decode(veil.privatize(hostile))).all()


def test_more_budget_than_can_be_used_is_not_spent() -> None:
    veils = dict(model_codebooks(X, tv.ModelTask(regressor()), (400.0, 500.0), Points(X), VALUE))
    assert veils[400.0] is veils[500.0]
    assert veils[500.0].guarantee.epsilon <= 28.0


def test_codewords_give_the_wanted_answers() -> None:
    rng = np.random.default_rng(1)
    task = tv.ModelTask(classifier(), "cross_entropy")
    wanted = np.array([[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]])
    assert answers(task, realise(task, wanted, X, rng)) == pytest.approx(wanted, abs=0.02)


def test_costs_are_the_loss_up_to_a_term_of_the_truth() -> None:
    given, truth = RNG.dirichlet(np.ones(3), size=4), RNG.dirichlet(np.ones(3), size=6)
    assert costs(given, truth, classes=True) == pytest.approx(-truth @ np.log(given).T)
    squares = ((given[None] - truth[:, None]) ** 2).mean(axis=2)
    assert costs(given, truth, classes=False) - own_cost(truth, classes=False)[:, None] == pytest.approx(squares)
    own = costs(truth, truth, classes=True).diagonal()
    assert own == pytest.approx(own_cost(truth, classes=True))


def test_alternation_calibrates_answers_to_the_channel() -> None:
    """With hardly any budget every answer is the base rate; with plenty, the classes themselves."""
    truth = np.eye(2)[LABEL]
    sample = Sample(predicted=0.98 * truth + 0.01, truth=truth, classes=True)
    for epsilon, spread in ((0.01, 0.02), (12.0, 0.9)):
        response = Response.calibrated(size=2, favoured=1, epsilon=epsilon)
        _, wanted = lloyd(sample, response, np.array([[0.6, 0.4], [0.4, 0.6]]))
        assert np.ptp(wanted[:, 0]) == pytest.approx(spread, abs=0.1)


@pytest.mark.parametrize(
    ("task", "y", "says"),
    [
        (tv.ModelTask(classifier(), "cross_entropy"), LABEL + 5, "outside the model's classes"),
        (tv.ModelTask(classifier(), "cross_entropy"), LABEL[:10], "labels for 320"),
        (tv.ModelTask(regressor(), lambda a, b: (a[:, 0] - b) ** 2), VALUE, "loss of your own"),
        (tv.MultiTask([(tv.ModelTask(regressor()), 1.0), (tv.ModelTask(regressor()), 2.0)]), None, "several models"),
    ],
)
def test_what_codebooks_cannot_serve_is_refused(task: object, y: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.design(X, task, epsilon=2.0, y=y, method="codebook")  # type: ignore[arg-type]


def test_a_model_that_answers_nan_is_refused() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x[:, :1] > 0.5, torch.nan, x[:, :1])

    with pytest.raises(TaskError):
        tv.design(X, tv.ModelTask(Broken()), epsilon=2.0, y=VALUE, method="codebook")


def test_units_do_not_matter() -> None:
    """An attribute in grams counts as in kilograms: what is small in numbers is not what matters little."""
    in_units = np.array([1e-3, 1.0, 1e4, 10.0, 1e-2])
    losses = []
    for unit in (np.ones(5), in_units):
        model = regressor()
        with torch.no_grad():
            model[0].weight /= torch.tensor(unit)
        ((_, veil),) = model_codebooks(X * unit, tv.ModelTask(model), [6.0], Points(X * unit), VALUE)
        losses.append(veil.loss(X * unit, VALUE).mean)
    assert losses[0] < 0.1 * VALUE.var()
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert predictor.units(np.column_stack([X * in_units, np.ones(320)])).tolist() == [*in_units.tolist(), 1.0]
