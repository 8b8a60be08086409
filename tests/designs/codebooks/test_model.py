from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import taskveil as tv
from designers import by_record
from hostile import hostile_records
from taskveil.client.latent_encoders import LinearEncoder, MeanEncoder, NamedEncoder
from taskveil.designs.auto import best_of, folds
from taskveil.designs.codebooks.model import Predictor, evidence_of, model_candidates, together
from taskveil.designs.crossfit import Calibrated, Evidence
from taskveil.designs.designing import DESIGNERS
from taskveil.designs.domain import Points
from taskveil.designs.predictors import light
from taskveil.designs.problem import OnDevice, Problem
from taskveil.errors import NamedModelWarning, TaskError
from taskveil.tasks import Task, take_labels
from taskveil.veil import Veil

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
VALUE = X @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * RNG.normal(size=320)
LABEL = (np.median(VALUE) < VALUE).astype(int)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "LOOKS", (50, 130, 300))


def codebooks(X: np.ndarray, task: Task, y: object, *epsilons: float, encoder: str = "auto") -> dict[float, Veil]:
    problem = Problem.of(X, task, y=y, domain=Points(X), on_device=OnDevice(encoder=encoder))
    return dict(best_of(DESIGNERS["codebook"], problem, epsilons, 0))  # type: ignore[arg-type]


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
    veils = list(codebooks(X, task, y, 0.5, 3.0, 9.0).values())
    losses = [veil.loss(X, y) for veil in veils]
    assert losses[0].mean > losses[1].mean > losses[2].mean
    assert all(loss.exact for loss in losses)
    assert all(v.guarantee.epsilon <= e for v, e in zip(veils, (0.5, 3.0, 9.0), strict=True))
    drawn, labels = np.tile(X, (40, 1)), np.tile(y, 40)
    realised = task.output_losses(veils[1].predict(veils[1].privatize(drawn)), drawn, labels)
    assert abs(realised.mean() - losses[1].mean) < 6 * realised.std() / np.sqrt(len(realised))


def pinball(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    short = labels - outputs[:, 0]
    return torch.maximum(0.9 * short, -0.1 * short)


FOREST = RandomForestRegressor(20, max_depth=4, random_state=0).fit(X, VALUE)
OWN = tv.ModelTask(FOREST, pinball)  # neither the model nor the loss has a gradient that anybody looks at
SEVERAL = tv.MultiTask(
    [
        (tv.ModelTask(FOREST), 2.0),
        (tv.ModelTask(classifier(), "zero_one"), 0.5),
        (tv.LinearTask(np.eye(5)[3:]), 0.1),
    ]
)


SOME = X[:160]  # and quick predictors: what is learned matters here, not how well
SERVED = pytest.mark.parametrize(
    ("task", "y", "encoder"),
    [
        (tv.ModelTask(classifier(), "zero_one"), LABEL[:160], "linear"),
        (OWN, VALUE[:160], "light"),  # what answers cost rises on both sides of the best
        (SEVERAL, (VALUE[:160], LABEL[:160], None), "linear"),
    ],
    ids=["zero-one", "own loss", "several"],
)


@SERVED
@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")  # large budgets leave few losses
def test_every_loss_is_served(task: Task, y: Any, encoder: str) -> None:
    veils = codebooks(SOME, task, y, 1.0, 6.0, encoder=encoder)
    low, high = (veil.loss(SOME, y) for veil in veils.values())
    constant = task.constant_loss(SOME, y, SOME, y)
    assert high.mean < low.mean < 0.98 * constant
    assert high.mean < 0.6 * constant
    assert low.exact
    drawn, labels = np.tile(SOME, (60, 1)), take_labels(task, y, np.tile(np.arange(160), 60))
    realised = task.output_losses(veils[1.0].predict(veils[1.0].privatize(drawn)), drawn, labels)
    assert abs(realised.mean() - low.mean) < 6 * realised.std() / np.sqrt(len(realised))


@SERVED
def test_every_loss_can_be_answered_by_a_record(task: Task, y: Any, encoder: str) -> None:
    veil = tv.design(SOME, by_record(task), epsilon=4.0, y=y, method="codebook", on_device=tv.OnDevice(encoder=encoder))
    assert veil.answering is None
    assert veil.losses(SOME, y).mean() < 0.9 * task.constant_loss(SOME, y, SOME, y)


def test_a_model_that_always_says_the_same_is_served() -> None:
    """There is one answer then, or as many as there are classes; whatever is reported is as good as the constant."""
    dull, few, label = nn.Linear(5, 2), X[:60], LABEL[:60]
    nn.init.zeros_(dull.weight)
    for task in (tv.ModelTask(dull, lambda out, y: (out[:, 0] - y) ** 2), tv.ModelTask(dull, "zero_one")):
        veil = codebooks(few, task, label, 1.0, encoder="linear")[1.0]
        loss = veil.losses(few, label).mean()
        assert loss < 1.01 * task.constant_loss(few, label, few, label)
    several = tv.MultiTask([(tv.ModelTask(dull), 1.0), (tv.ModelTask(dull, "zero_one"), 1.0)])
    veil = codebooks(few, several, None, 1.0, encoder="linear")[1.0]
    assert veil.losses(few).max() == pytest.approx(0.0, abs=1e-9)


def test_designs_for_accuracy_answer_with_every_class() -> None:
    """Randomised response over the labels must never be out of reach, however many and however small the budget."""
    rng = np.random.default_rng(4)
    label = rng.integers(8, size=500)
    records = np.eye(8)[label] + 0.05 * rng.normal(size=(500, 8))
    task = tv.ModelTask(nn.Linear(8, 8).requires_grad_(False), "zero_one")
    with torch.no_grad():
        task.model.weight.copy_(torch.eye(8))
    veil = codebooks(records, task, label, 1.0, encoder="linear")[1.0]
    truthful = np.e / (np.e + 7)
    loss = veil.loss(records, label)
    assert loss.accuracy == pytest.approx(1 - loss.mean)
    assert loss.accuracy > 0.97 * truthful


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")  # one is badly wrong
def test_models_without_gradients_are_served() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X, LABEL)
    task = tv.ModelTask(forest, "cross_entropy")
    assert task.torch_module is None
    veil = tv.design(X, task, epsilon=4.0, y=LABEL)
    assert veil.method == "codebook"
    assert veil.loss(X, LABEL).mean < 0.35 < np.log(2)


def test_without_labels_the_model_is_the_truth() -> None:
    task = tv.ModelTask(classifier(), "cross_entropy")
    veil = codebooks(X, task, None, 6.0)[6.0]
    own = task.losses(X, X).mean()
    assert own < veil.loss(X).mean < own + 0.2


def test_hostile_records_change_nothing_in_the_guarantee() -> None:
    task = tv.ModelTask(classifier(), "cross_entropy")
    veil = codebooks(X, task, LABEL, 2.0)[2.0]
    hostile = hostile_records(5)
    (stage,) = veil.mechanism.stages
    favoured = stage.favoured(veil.mechanism.region.enforce(veil.encoder(hostile)))
    assert favoured.shape == (len(hostile), stage.response.favoured)
    assert all(len(set(row)) == stage.response.favoured for row in favoured.tolist())
    assert np.isfinite(veil.decode(veil.privatize(hostile))).all()


def test_more_budget_than_can_be_used_is_not_spent() -> None:
    task = tv.ModelTask(regressor())
    veils = codebooks(X, task, VALUE, 400.0, 500.0)
    assert veils[400.0].release_id == veils[500.0].release_id
    assert veils[500.0].guarantee.epsilon <= 28.0


@pytest.mark.parametrize(
    ("task", "y", "says"),
    [
        (tv.ModelTask(classifier(), "cross_entropy"), LABEL + 5, "outside the model's classes"),
        (tv.ModelTask(classifier(), "cross_entropy"), LABEL[:10], "labels for 320"),
        (tv.ModelTask(regressor(), lambda a, b: (a[:, 0] - b) ** 2), None, "needs y"),
        (tv.ModelTask(regressor(), lambda a, b: (a[:, 0] - b) / 0.0), VALUE, "one finite number per record"),
        (tv.MultiTask([(tv.ModelTask(regressor()), 1.0), (tv.ModelTask(regressor()), 2.0)]), VALUE, "one entry per"),
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
        veil = codebooks(X * unit, tv.ModelTask(model), VALUE, 6.0)[6.0]
        losses.append(veil.loss(X * unit, VALUE).mean)
    assert losses[0] < 0.1 * VALUE.var()
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_answers_far_from_zero_cost_nothing(far: float) -> None:
    """Years, pressures, degrees above absolute zero: all answers alike but for their last digits."""
    model = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, VALUE + far)
    here = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, VALUE)
    moved, still = (
        codebooks(X, tv.ModelTask(task), VALUE + by, 4.0, encoder="trees")[4.0].loss(X, VALUE + by).mean
        for task, by in ((model, far), (here, 0.0))
    )
    assert moved == pytest.approx(still, rel=0.03)


def test_a_predictor_that_says_one_thing_makes_a_design() -> None:
    """What trees say of noise: nothing but a constant, a little different in every fold."""
    noise = 5.0 + np.random.default_rng(1).normal(size=320)
    model = RandomForestRegressor(4, min_samples_leaf=300, random_state=0).fit(X, noise)
    problem = Problem.of(X, tv.ModelTask(model), y=noise, on_device=OnDevice(encoder="own", share_model=True))
    ((_, veil),) = best_of(DESIGNERS["codebook"], problem, [2.0], 0)  # type: ignore[arg-type]
    assert veil.loss(X, noise).mean == pytest.approx(noise.var(), rel=0.05)


def test_the_callers_threads_are_left_alone_between_budgets() -> None:
    """One thread is for what is computed here: not for whoever holds a half-finished design."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        problem = Problem.of(X, tv.ModelTask(regressor()), y=VALUE)
        next(best_of(DESIGNERS["codebook"], problem, [1.0, 2.0], 0))  # type: ignore[arg-type]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_a_record_cannot_answer_is_counted() -> None:
    hard = DecisionTreeClassifier(random_state=0).fit(X[:160], LABEL[:160])  # it is always sure: no record answers 60%
    task = tv.ModelTask(hard, "cross_entropy", "record")
    problem = Problem.of(X[:160], task, y=LABEL[:160], domain=Points(X), on_device=OnDevice(encoder="linear"))
    fold, _ = folds(problem, 0)
    ((_, (found,)),) = model_candidates(problem, [1.0], 0, fold, compared=True)
    veil = found.make()
    assert found.losses.mean() == pytest.approx(veil.losses(X[160:], LABEL[160:]).mean(), rel=0.2)


def test_a_release_that_would_only_name_its_model_is_announced() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((400, 1))
    y = np.sin(60 * x[:, 0])  # twenty turns, which no few leaves and no few neurons follow
    task = tv.ModelTask(KNeighborsRegressor(3).fit(x, y))
    with pytest.warns(NamedModelWarning, match="browsers refuse"):
        veil = tv.design(x, task, epsilon=3.0, y=y, on_device=tv.OnDevice(share_model=True))
    assert isinstance(veil.encoder, NamedEncoder)
    assert veil.encoder.name == "KNeighborsRegressor: predictions"
    assert veil.encoder(x)[:, 0] == pytest.approx(task.predict(x)[:, 0])  # what whoever brings the model has


def test_candidates_are_judged_only_where_they_compete() -> None:
    problem = Problem.of(X, tv.ModelTask(regressor()), y=VALUE, on_device=OnDevice(encoder="linear"))
    fold, _ = folds(problem, 0)
    for compared in (True, False):
        ((epsilon, (found,)),) = model_candidates(problem, [2.0], 0, fold, compared=compared)
        assert (epsilon, found.method, found.encoder) == (2.0, "codebook", "linear")
        assert np.isfinite(found.losses).all() == compared
        assert abs(found.bytes - found.make().size.client_bytes) < 4096
        assert found.operations == found.make().encoder.operations


def test_held_out_losses_are_what_strangers_cost() -> None:
    rng = np.random.default_rng(9)
    strangers = rng.random((4000, 5))
    theirs = strangers @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * rng.normal(size=4000)
    problem = Problem.of(X, tv.ModelTask(regressor()), y=VALUE)
    fold, _ = folds(problem, 0)
    for epsilon, found in model_candidates(problem, [1.0, 4.0], 0, fold, compared=True):
        assert [each.encoder for each in found][:3] == ["linear", "light", "trees"]
        for each in found:
            error = 4 * each.losses.std() / np.sqrt(len(X))
            assert each.losses.mean() == pytest.approx(each.make().losses(strangers, theirs).mean(), abs=error), epsilon


# The mean of several.


def of_values() -> Evidence:
    problem = Problem.of(X, tv.ModelTask(regressor()), y=VALUE)
    cost, truth = problem.task.linear_form(X, VALUE)
    return evidence_of(problem, cost, truth, np.arange(len(X)) % 5, 0)


def said(name: str, *errors: float, seed: int) -> Predictor:
    """A predictor that errs so much, in the final view and then in the views that judge."""
    rng, truth = np.random.default_rng(seed), VALUE[:, None]
    views = [Calibrated.given(truth + error * rng.normal(size=truth.shape)) for error in errors]
    encoder = LinearEncoder.of(low=np.zeros(5), high=np.ones(5), weights=np.ones((1, 5)), offset=np.zeros(1))
    return Predictor(
        name=name,
        encoder=encoder,
        final=views[0],
        judging=tuple(views[1:]),
        on_devices=lambda: np.stack([view.predicted for view in views]),
    )


def test_what_errs_in_different_ways_errs_less_together() -> None:
    one, two, bad = (
        said(name, *[error] * 6, seed=seed) for seed, (name, error) in enumerate((("a", 0.3), ("b", 0.3), ("bad", 8.0)))
    )
    (both,) = together([one, bad, two], of_values())
    assert both.name == "a and b"
    assert isinstance(both.encoder, MeanEncoder)
    assert both.encoder.weights.tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(both.final.predicted, (one.final.predicted + two.final.predicted) / 2)
    for part in range(5):
        mean = (one.judging[part].predicted + two.judging[part].predicted) / 2
        np.testing.assert_array_equal(both.judging[part].predicted, mean)


def test_every_view_has_its_own_mean() -> None:
    """Which are best together is found without those whom the view judges."""
    a, b = said("a", *[0.3] * 6, seed=1), said("b", *[0.3] * 6, seed=2)
    c = said("c", 8.0, 0.1, 8.0, 8.0, 8.0, 8.0, seed=3)
    (mean,) = together([a, b, c], of_values())
    assert mean.name == "a and b"
    first, second = (mean.judging[part].predicted for part in range(2))
    np.testing.assert_array_equal(second, (a.judging[1].predicted + b.judging[1].predicted) / 2)
    assert not np.array_equal(first, (a.judging[0].predicted + b.judging[0].predicted) / 2)


def test_what_a_release_only_names_is_no_part_of_a_mean() -> None:
    named = NamedEncoder.of(lambda x: x[:, :1], name="model", low=np.zeros(5), high=np.ones(5), latents=1)
    a, other = said("a", *[0.3] * 6, seed=1), said("own", *[0.3] * 6, seed=2)
    other = Predictor(name="own", encoder=named, final=other.final, judging=other.judging, on_devices=other.on_devices)
    assert together([a, other], of_values()) == []
    assert together([a], of_values()) == []


def test_no_encoder_is_larger_than_devices_allow() -> None:
    task = tv.ModelTask(regressor())
    veil = tv.design(X, task, epsilon=4.0, y=VALUE, method="codebook", on_device=tv.OnDevice(max_bytes=6000))
    assert veil.size.client_bytes <= 6000
    values = X + 0.1 * np.random.default_rng(0).normal(size=X.shape)  # long codewords, and many of them
    several = tv.ModelTask(RandomForestRegressor(3, random_state=0).fit(X, values))
    free, small = (
        tv.design(
            X, several, epsilon=12.0, y=values, method="codebook", on_device=tv.OnDevice(encoder="linear", max_bytes=b)
        ).size
        for b in (2**19, 6000)
    )
    assert free.client_bytes > 6000 >= small.client_bytes
    with pytest.raises(TaskError, match="no encoder fits into max_bytes=1024"):
        tv.design(X, task, epsilon=4.0, y=VALUE, method="codebook", on_device=tv.OnDevice(max_bytes=1024))
