"""`auto`: the best of what fits, judged on volunteers that no candidate has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

import taskveil as tv
from designers import Noisy
from taskveil.designs import auto
from taskveil.designs.auto import Best, folds, refitted, volunteers_of
from taskveil.designs.crossfit import FOLDS
from taskveil.designs.designing import DESIGNERS
from taskveil.designs.laplace.gradient import LearningSettings
from taskveil.designs.predictors import light
from taskveil.designs.problem import Designer, Problem
from taskveil.errors import NothingToReportWarning, TaskError, UnusedModelWarning

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 4))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])
LINEAR = tv.LinearTask(np.eye(4))


def test_auto_says_what_it_considered(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    veil = tv.design(volunteers, task, epsilon=2.0)
    assert {c.method for c in veil.considered} == {"codebook", "task_aware", "constant"}
    losses = [c.held_out_loss for c in veil.considered]
    assert losses[1:] == sorted(losses[1:])
    assert losses[0] <= 1.01 * min(losses)
    assert veil.considered[0].standard_error == 0 < veil.considered[1].standard_error
    assert veil.method == veil.considered[0].method
    assert veil.considered[0].encoder == "linear"
    assert abs(veil.considered[0].bytes - veil.size.client_bytes) < 5000
    assert veil.considered[0].operations > 0
    veil.save(tmp_path / "r")
    assert tv.Veil.load(tmp_path / "r").considered == veil.considered


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = LearningSettings(
        steps=60, folds=2, checkpoints=4, encoder_hidden=8, head_hidden=8, warm_up=40, inverse_steps=60
    )
    monkeypatch.setattr(LearningSettings, "for_size", classmethod(lambda cls, records: settings))
    monkeypatch.setattr(light, "LOOKS", (30, 60, 100))


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


@pytest.mark.usefixtures("quick")
def test_auto_chooses_among_what_fits() -> None:
    black_box = tv.ModelTask(RandomForestRegressor(5, random_state=0).fit(X, Y))
    alone = tv.design(X, black_box, epsilon=6.0, y=Y)
    assert alone.method == "codebook"
    assert {entry.method for entry in alone.considered} == {"codebook", "constant"}
    veil = tv.design(X, tv.ModelTask(model()), epsilon=6.0, y=Y)
    assert {entry.method for entry in veil.considered} == {"codebook", "task_aware", "constant"}
    assert veil.method == veil.considered[0].method
    several = tv.MultiTask([(black_box, 1.0), (tv.LinearTask(np.eye(4)[:1]), 0.1)])
    together = tv.design(X, several, epsilon=6.0, y=[Y, None])
    assert {entry.method for entry in together.considered} == {"codebook", "constant"}
    with pytest.raises(TaskError, match="gradients"):
        tv.design(X, several, epsilon=3.0, y=[Y, None], method="task_aware")


@pytest.mark.usefixtures("quick")
def test_labels_without_signal_are_answered_alike_for_everybody() -> None:
    """Whatever is designed for them is worse than the constant on records it has not seen."""
    rng = np.random.default_rng(0)
    records, labels = rng.normal(size=(60, 4)), rng.integers(2, size=60)
    others, their_labels = rng.normal(size=(4000, 4)), rng.integers(2, size=4000)
    forest = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(records, labels)
    task = tv.ModelTask(forest, "cross_entropy")
    with pytest.warns(
        NothingToReportWarning, match="better than a constant prediction at the 5% level.*More volunteers"
    ) as said:
        veil = tv.design(records, task, epsilon=4.0, y=labels)
    assert [warning.filename for warning in said] == [__file__]  # the caller's line, not one of ours
    assert veil.method == "constant"
    assert veil.guarantee.epsilon < 1e-6
    constant = task.constant_loss(records, labels, others, their_labels)
    assert veil.loss(others, their_labels).mean < 1.01 * constant
    insisted = tv.design(records, task, epsilon=4.0, y=labels, method="codebook")
    assert insisted.method == "codebook"
    assert 0.999 * constant < insisted.loss(others, their_labels).mean < 1.2 * constant


@pytest.mark.usefixtures("quick")
def test_a_seed_gives_the_same_choice_again() -> None:
    """Learned Laplace designs have no formula for their loss: real reports would differ from call to call."""
    problem = Problem.of(X, tv.ModelTask(model()), y=Y)
    fold, _ = folds(problem, 1)
    one, again = (losses_of(DESIGNERS["task_aware"], problem, 3.0, 1, fold) for _ in range(2))
    np.testing.assert_array_equal(one, again)
    veils = [
        tv.design(X, tv.ModelTask(model()), epsilon=3.0, y=Y, seed=4, on_device=tv.OnDevice(encoder="linear"))
        for _ in range(2)
    ]
    assert veils[0].considered == veils[1].considered
    assert veils[0].release_id == veils[1].release_id


def losses_of(designer: Designer, problem: Problem, epsilon: float, seed: int, fold: np.ndarray) -> np.ndarray:
    ((_, (found,)),) = refitted(designer, problem, [epsilon], seed, fold)
    return found.losses


def test_the_best_is_chosen_for_each_budget_and_given_all_volunteers() -> None:
    full, half = Noisy(name="full"), Noisy(name="half", share=0.5)
    best = Best(name="best", designers=(half, full))
    veil = tv.design(X, LINEAR, epsilon=8.0, method=best, seed=3)
    assert veil.method == "full"
    assert [entry.method for entry in veil.considered] == ["full", "half"]
    assert veil.loss(X) == tv.design(X, LINEAR, epsilon=8.0, method=Noisy()).loss(X)
    assert full.asked == half.asked == [(8.0, 3)] * (FOLDS + 1)


def test_a_single_designer_needs_no_judging() -> None:
    one = Noisy(name="one")
    veil = tv.design(X, LINEAR, epsilon=8.0, method=Best(name="best", designers=(one,)))
    assert one.asked == [(8.0, 0)]
    assert veil.considered == ()


def test_every_budget_has_its_own_choice() -> None:
    """With hardly any budget, a design differs from the constant in the last digits alone."""
    best = Best(name="best", designers=(Noisy(),), otherwise=DESIGNERS["constant"])
    with pytest.warns(NothingToReportWarning, match=r"ε = 1e-05"):
        found = {epsilon: veil.method for epsilon, _, veil in best.designs(Problem.of(X, LINEAR), [1e-5, 100.0], [0])}
    assert found == {1e-5: "constant", 100.0: "noisy"}


def test_held_out_losses_are_those_of_records_never_seen() -> None:
    records = np.random.default_rng(0).normal(size=(90, 2))
    problem = Problem.of(records, tv.LinearTask(np.eye(2)))
    fold, person = folds(problem, 9)
    np.testing.assert_array_equal(person, np.arange(90))
    np.testing.assert_array_equal(np.bincount(fold), [18] * FOLDS)
    losses = losses_of(Noisy(), problem, 2.0, 9, fold)
    for part in range(FOLDS):
        held = fold == part
        options = {"epsilon": 2.0, "domain": problem.domain, "method": "task_agnostic"}
        veil = tv.design(records[~held], problem.task, **options)
        np.testing.assert_allclose(losses[held], veil.losses(records[held]), rtol=1e-12)


def test_copies_of_a_record_are_not_judged_by_designs_that_have_seen_it() -> None:
    """Thirty people ten times each are thirty people."""
    given: list[np.ndarray] = []

    class Watching(Noisy):
        def designs(self, problem: Problem, *asked: object) -> object:
            given.append(problem.X)
            return super().designs(problem, *asked)

    people = np.random.default_rng(5).normal(size=(30, 4))
    problem = Problem.of(np.repeat(people, 10, axis=0), LINEAR)
    fold, person = folds(problem, 0)
    assert len(set(person)) == 30
    losses = losses_of(Watching(), problem, 6.0, 0, fold)
    assert [len(np.unique(rest, axis=0)) for rest in given] == [24] * FOLDS + [30]
    assert not np.isnan(losses).any()


def test_of_very_many_volunteers_a_seeded_part_makes_the_design(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "MOST", 40)
    problem = Problem.of(X, tv.ModelTask(RandomForestRegressor(3, random_state=0).fit(X, Y)), y=Y)
    some = volunteers_of(problem, 5)
    assert len(some.X) == 40
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in some.X]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(some.y, Y[rows])
    np.testing.assert_array_equal(some.X, volunteers_of(problem, 5).X)
    assert not np.array_equal(some.X, volunteers_of(problem, 6).X)
    assert volunteers_of(Problem.of(X, LINEAR), 5).X is not some.X
    assert len(volunteers_of(Problem.of(X, LINEAR), 5).X) == 60  # linear tasks need moments alone
    for method in ("codebook", "auto"):
        veil = tv.design(
            X, problem.task, epsilon=8.0, y=Y, on_device=tv.OnDevice(encoder="linear"), method=method, seed=5
        )
        assert veil.volunteers is not None
        assert veil.volunteers.count == 40


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
def test_a_handful_of_volunteers_is_judged_in_numbers() -> None:
    veil = tv.design(X[:5], LINEAR, epsilon=1.0)
    nearly_alike = X[:5].copy()
    nearly_alike[1:] = X[1]  # with the first held out, all others are
    best = Best(name="best", designers=(Noisy(), Noisy(name="half", share=0.5)), otherwise=DESIGNERS["constant"])
    for found in (veil, tv.design(nearly_alike, LINEAR, epsilon=1.0, method=best)):
        assert len({entry.method for entry in found.considered}) == 3
        assert all(np.isfinite([entry.held_out_loss, entry.standard_error]).all() for entry in found.considered)


def test_whether_seeds_matter_is_what_the_candidates_say() -> None:
    assert not Best(name="b", designers=(Noisy(), Noisy(name="n"))).seeded(LINEAR)
    assert Best(name="b", designers=(Noisy(), Noisy(name="n", several=True))).seeded(LINEAR)


def test_judging_uses_one_thread_and_gives_the_callers_setting_back() -> None:
    threads = set()

    class Watching(Noisy):
        def designs(self, *asked: object) -> object:
            threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
            return super().designs(*asked)

    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        refitted(Watching(), Problem.of(X, LINEAR), [1.0], 0, np.arange(60) % FOLDS)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threads == {1}


@pytest.mark.usefixtures("quick")
@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
@pytest.mark.parametrize("count", [5, 9, 20])
@pytest.mark.parametrize("encoder", ["auto", "own"])
def test_few_volunteers_are_served(count: int, encoder: str, tmp_path: Path) -> None:
    """Models of three folds see one class only, now and then."""
    label = np.arange(count) % 4 == 0
    for estimator, y, loss in (
        (LogisticRegression(), label.astype(int), "cross_entropy"),
        (LinearRegression(), Y[:count], "mse"),
    ):
        task = tv.ModelTask(estimator.fit(X[:count], y), loss)  # type: ignore[arg-type]
        veil = tv.design(X[:count], task, epsilon=2.0, y=y, on_device=tv.OnDevice(encoder=encoder, share_model=True))
        assert np.isfinite(veil.losses(X, Y if loss == "mse" else np.zeros(60, dtype=int))).all()
        veil.save(tmp_path / loss)
        assert tv.Veil.load(tmp_path / loss).considered == veil.considered


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("encoder", ["auto", "own"])
def test_labels_that_are_all_alike_need_no_report(encoder: str) -> None:
    for estimator, y, loss in (
        (LogisticRegression(), np.ones(60, dtype=int), "cross_entropy"),
        (LinearRegression(), np.full(60, 3.0), "mse"),
    ):
        task = tv.ModelTask(estimator.fit(X, Y > 0 if loss == "cross_entropy" else Y), loss)  # type: ignore[arg-type]
        with pytest.warns(NothingToReportWarning):
            veil = tv.design(X, task, epsilon=2.0, y=y, on_device=tv.OnDevice(encoder=encoder, share_model=True))
        assert veil.method == "constant"
        insisted = tv.design(
            X, task, epsilon=2.0, y=y, on_device=tv.OnDevice(encoder=encoder, share_model=True), method="codebook"
        )
        assert np.isfinite(insisted.losses(X, y)).all()


@pytest.mark.usefixtures("quick")
def test_attributes_that_are_constant_are_served() -> None:
    records = X.copy()
    records[:, 2] = 7.0
    task = tv.ModelTask(LinearRegression().fit(records, Y))
    veil = tv.design(records, task, epsilon=6.0, y=Y, on_device=tv.OnDevice(share_model=True))
    assert veil.method == "codebook"
    assert veil.losses(records, Y).mean() < 0.5 * Y.var()


@pytest.mark.usefixtures("quick")
def test_hardly_any_budget_and_very_much() -> None:
    task = tv.ModelTask(LinearRegression().fit(X, Y))
    with pytest.warns(NothingToReportWarning):
        assert tv.design(X, task, epsilon=1e-6, y=Y, on_device=tv.OnDevice(encoder="linear")).method == "constant"
    much = tv.design(X, task, epsilon=100.0, y=Y, on_device=tv.OnDevice(encoder="linear"))
    assert much.method == "codebook"
    assert much.guarantee.epsilon <= 100.0
    assert much.losses(X, Y).mean() < 0.3 * Y.var()


@pytest.mark.usefixtures("quick")
def test_a_shared_model_that_cannot_be_fitted_again_is_left_out() -> None:
    class Moody(RandomForestRegressor):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Moody:
            if len(X) < 60:
                raise ValueError("too few records for me")
            return super().fit(X, y)

    task = tv.ModelTask(Moody(5, random_state=0).fit(X, Y))
    with pytest.warns(UnusedModelWarning, match="too few records for me") as said:
        veil = tv.design(X, task, epsilon=8.0, y=Y, on_device=tv.OnDevice(share_model=True))
    assert said[0].filename == __file__
    assert "own" not in {entry.encoder for entry in veil.considered}
    with pytest.raises(TaskError, match=r"too few records for me.*volunteers_unseen=True"):
        tv.design(X, task, epsilon=8.0, y=Y, on_device=tv.OnDevice(share_model=True, encoder="own"))
