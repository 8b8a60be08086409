from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import taskveil as tv
from hostile import hostile_records
from taskveil.client.mechanisms import Response
from taskveil.designs.codebooks import model, predictor
from taskveil.designs.codebooks.model import Sample, _choose, _expected, lloyd, model_codebooks
from taskveil.designs.domain import Points
from taskveil.errors import TaskError
from taskveil.tasks.costs import CrossEntropy, SquaredError

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


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")  # large budgets leave few losses
@pytest.mark.parametrize(
    ("task", "y"), [(tv.ModelTask(regressor()), VALUE), (tv.ModelTask(classifier(), "cross_entropy"), LABEL)]
)
def test_worth_its_budget_and_exact(task: tv.ModelTask, y: np.ndarray) -> None:
    veils = [veil for _, veil in model_codebooks(X, task, y=y, epsilons=(0.5, 3.0, 9.0), domain=Points(X))]
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
    ((_, veil),) = model_codebooks(X, task, y=None, epsilons=[6.0], domain=Points(X))
    own = task.losses(X, X).mean()
    assert own < veil.loss(X).mean < own + 0.2


def test_hostile_records_change_nothing_in_the_guarantee() -> None:
    task = tv.ModelTask(classifier(), "cross_entropy")
    ((_, veil),) = model_codebooks(X, task, y=LABEL, epsilons=[2.0], domain=Points(X))
    hostile = hostile_records(5)
    (stage,) = veil.mechanism.stages
    favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(hostile)))
    assert favoured.shape == (len(hostile), stage.response.favoured)
    assert all(len(set(row)) == stage.response.favoured for row in favoured.tolist())
    assert np.isfinite(veil.decode(veil.privatize(hostile))).all()


def test_more_budget_than_can_be_used_is_not_spent() -> None:
    task = tv.ModelTask(regressor())
    veils = dict(model_codebooks(X, task, y=VALUE, epsilons=(400.0, 500.0), domain=Points(X)))
    assert veils[400.0] is veils[500.0]
    assert veils[500.0].guarantee.epsilon <= 28.0


def test_alternation_calibrates_answers_to_the_channel() -> None:
    """With hardly any budget every answer is the base rate; with plenty, the classes themselves."""
    truth = np.eye(2)[LABEL]
    sample = Sample(predicted=0.98 * truth + 0.01, truth=truth, cost=CrossEntropy())
    for epsilon, spread in ((0.01, 0.02), (12.0, 0.9)):
        response = Response.calibrated(size=2, favoured=1, epsilon=epsilon)
        _, wanted = lloyd(sample, response, np.array([[0.6, 0.4], [0.4, 0.6]]))
        assert np.ptp(wanted[:, 0]) == pytest.approx(spread, abs=0.1)


def test_a_class_that_no_volunteer_has_stays_possible() -> None:
    """Whoever has it would otherwise cost as much as the answers are small: ten million to one."""
    truth = np.eye(3)[LABEL]
    sample = Sample(predicted=0.98 * truth + 1e-8, truth=truth, cost=CrossEntropy())
    response = Response.calibrated(size=2, favoured=1, epsilon=4.0)
    start = np.array([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0]])
    _, wanted = lloyd(sample, response, start)
    np.testing.assert_allclose(wanted[:, 2], 1 / (len(truth) + 1), rtol=1e-3)
    everyone = Sample(predicted=sample.predicted[:, :2], truth=truth[:, :2], cost=CrossEntropy())
    _, of_two = lloyd(everyone, response, start[:, :2])
    np.testing.assert_allclose(wanted[:, :2] / of_two, len(truth) / (len(truth) + 1), rtol=1e-4)


def test_copies_are_held_out_together_when_k_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions that memorised: they tell copies apart from all else, and nothing about anybody new."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(40), 8)
    truth = rng.normal(size=(40, 1))[person]
    held: list[np.ndarray] = []

    def watched(sample: Sample, *rest: object) -> np.ndarray:
        held.append(sample.truth)
        return _expected(sample, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(model, "_expected", watched)
    _choose(Sample(predicted=truth, truth=truth, cost=SquaredError()), person, 3.0, rng)
    # Each fold's held-out values are those of eight whole people, eight times each.
    assert {tuple(np.unique(values, return_counts=True)[1]) for values in held} == {(8,) * 8}


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
    losses = []
    for unit in (np.ones(5), np.array([1e-3, 1.0, 1e4, 10.0, 1e-2])):
        model = regressor()
        with torch.no_grad():
            model[0].weight /= torch.tensor(unit)
        task, domain = tv.ModelTask(model), Points(X * unit)
        ((_, veil),) = model_codebooks(X * unit, task, y=VALUE, epsilons=[6.0], domain=domain)
        losses.append(veil.loss(X * unit, VALUE).mean)
    assert losses[0] < 0.1 * VALUE.var()
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_the_callers_threads_are_left_alone_between_budgets() -> None:
    """One thread is for what is computed here: not for whoever holds a half-finished design."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        veils = model_codebooks(X, tv.ModelTask(regressor()), y=VALUE, epsilons=(1.0, 2.0), domain=Points(X))
        next(veils)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
