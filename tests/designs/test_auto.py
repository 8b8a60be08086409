"""`auto`: the best of what fits, judged on volunteers that no candidate has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

import taskveil as tv
from designers import Noisy
from taskveil.designs import Problem
from taskveil.designs.auto import FOLDS, FOLDS_OF_MANY, MANY, Best, Judged, judge
from taskveil.designs.learned.gradient import Settings
from taskveil.designs.learned.inverse import fit_inverse
from taskveil.designs.methods import DESIGNERS
from taskveil.designs.predictors import light
from taskveil.errors import NothingToReportWarning, TaskError

RNG = np.random.default_rng(11)
X = RNG.normal(size=(60, 4))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])
LINEAR = tv.LinearTask(np.eye(4))


def test_auto_says_what_it_considered(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    veil = tv.design(volunteers, task, epsilon=2.0)
    assert [c.method for c in veil.considered] == ["codebook", "task_aware", "nothing"]
    losses = [c.held_out_loss for c in veil.considered]
    assert losses == sorted(losses)
    assert veil.considered[0].standard_error == 0 < veil.considered[1].standard_error
    assert veil.method == veil.considered[0].method
    veil.save(tmp_path / "r")
    assert tv.Veil.load(tmp_path / "r").considered == veil.considered


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = Settings(steps=60, folds=2, checkpoints=4, encoder_hidden=8, head_hidden=8)
    monkeypatch.setattr(Settings, "for_size", classmethod(lambda cls, records: settings))
    monkeypatch.setitem(fit_inverse.__kwdefaults__, "steps", 60)
    monkeypatch.setitem(fit_inverse.__kwdefaults__, "warm_up", 40)
    monkeypatch.setattr(light, "STEPS", 100)


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


@pytest.mark.usefixtures("quick")
def test_auto_chooses_among_what_fits() -> None:
    black_box = tv.ModelTask(RandomForestRegressor(5, random_state=0).fit(X, Y))
    alone = tv.design(X, black_box, epsilon=6.0, y=Y)
    assert alone.method == "codebook"
    assert {entry.method for entry in alone.considered} == {"codebook", "nothing"}
    veil = tv.design(X, tv.ModelTask(model()), epsilon=6.0, y=Y)
    assert {entry.method for entry in veil.considered} == {"codebook", "task_aware", "nothing"}
    assert veil.method == veil.considered[0].method
    several = tv.MultiTask([(black_box, 1.0), (tv.LinearTask(np.eye(4)[:1]), 0.1)])
    together = tv.design(X, several, epsilon=6.0, y=[Y, None])
    assert {entry.method for entry in together.considered} == {"codebook", "nothing"}
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
    with pytest.warns(NothingToReportWarning, match="one answer for everybody.*More volunteers") as said:
        veil = tv.design(records, task, epsilon=4.0, y=labels)
    assert [warning.filename for warning in said] == [__file__]  # the caller's line, not one of ours
    assert veil.method == "nothing"
    assert veil.guarantee.epsilon < 1e-6
    constant = task.constant_loss(records, labels, others, their_labels)
    assert veil.loss(others, their_labels).mean < 1.01 * constant
    insisted = tv.design(records, task, epsilon=4.0, y=labels, method="codebook")
    assert insisted.loss(others, their_labels).mean > constant


@pytest.mark.usefixtures("quick")
def test_a_seed_gives_the_same_choice_again() -> None:
    """Learned Laplace designs have no formula for their loss: real reports would differ from call to call."""
    problem = Problem.of(X, tv.ModelTask(model()), y=Y)
    designers = [DESIGNERS["task_aware"], DESIGNERS["nothing"]]
    one, again = (judge(designers, problem, [3.0], 1)[0][3.0].losses["task_aware"] for _ in range(2))
    np.testing.assert_array_equal(one, again)


def judged(*losses: list[float], copies: int = 1) -> Judged:
    """The losses of methods "a", "b", … of as many people, each of them so many times."""
    columns = [np.repeat(np.array(column), copies) for column in losses]
    return Judged(person=np.repeat(np.arange(len(losses[0])), copies), losses=dict(zip("abc", columns, strict=False)))


def chosen(found: Judged, otherwise: str | None = None) -> str:
    candidates = [Noisy(name=name) for name in found.losses if name != otherwise]
    return found.considered(candidates, None if otherwise is None else Noisy(name=otherwise))[0].method


def test_the_first_method_is_left_only_for_a_clear_winner() -> None:
    first = [1.0, 1.0, 1.0, 1.0]
    assert chosen(judged(first, [0.5, 0.5, 0.5, 0.6])) == "b"
    assert chosen(judged(first, [0.2, 1.7, 0.9, 1.1])) == "a"  # less, by less than its own uncertainty
    assert chosen(judged(first, [0.2, 1.7, 0.9, 1.1], [0.9, 0.9, 0.9, 0.91])) == "c"


def test_saying_nothing_is_left_only_for_what_serves_the_task_better() -> None:
    nothing = [1.0, 1.0, 1.0, 1.0]
    assert chosen(judged([1.1, 1.0, 1.0, 0.95], nothing), otherwise="b") == "b"
    assert chosen(judged([0.4, 0.9, 0.8, 0.9], nothing), otherwise="b") == "a"
    assert chosen(judged([float("nan")] * 4, nothing), otherwise="b") == "b"
    # The first may be too uncertain where the second is not.
    assert chosen(judged([0.2, 1.7, 0.9, 1.1], [0.9, 0.9, 0.9, 0.91], nothing), otherwise="c") == "b"


def test_the_standard_error_is_that_of_people_not_of_copies() -> None:
    gaps = [0.3, -0.1, 0.4, 0.2]
    lead, error = judged([0.0] * 4, gaps, copies=1).lead("a", "b")
    assert lead == pytest.approx(np.mean(gaps))
    assert error == pytest.approx(np.std(gaps, ddof=1) / 2)
    assert judged([0.0] * 4, gaps, copies=10).lead("a", "b") == pytest.approx((lead, error))


def test_the_best_is_chosen_for_each_budget_and_given_all_volunteers() -> None:
    full, half = Noisy(name="full"), Noisy(name="half", share=0.5)
    best = Best(name="best", candidates=(half, full))
    veil = tv.design(X, LINEAR, epsilon=8.0, method=best, seed=3)
    assert veil.method == "full"
    assert [entry.method for entry in veil.considered] == ["full", "half"]
    assert veil.loss(X) == tv.design(X, LINEAR, epsilon=8.0, method=Noisy()).loss(X)
    # Half the budget is four times the noise: twice twelve people tell, and nobody is asked again.
    assert full.asked == [(8.0, 3)] * 3
    assert half.asked == [(8.0, 3)] * 2


def test_who_is_close_is_judged_on_every_fold() -> None:
    one, other = Noisy(name="one"), Noisy(name="other")
    tv.design(X, LINEAR, epsilon=8.0, method=Best(name="best", candidates=(one, other)))
    assert (len(one.asked), len(other.asked)) == (FOLDS + 1, FOLDS)


@pytest.mark.parametrize("count", [90, MANY])
def test_held_out_losses_are_those_of_records_never_seen(count: int) -> None:
    records = np.random.default_rng(0).normal(size=(count, 2))
    problem = Problem.of(records, tv.LinearTask(np.eye(2)))
    seen = judge([Noisy(), Noisy(name="twin")], problem, [2.0], 9)[0][2.0]
    fold = np.random.default_rng(9).permutation(count) % (FOLDS_OF_MANY if count >= MANY else FOLDS)
    for f in range(1 if count >= MANY else FOLDS):  # of thousands, one third says enough
        options = {"epsilon": 2.0, "domain": problem.domain, "method": "task_agnostic"}
        veil = tv.design(records[fold != f], problem.task, **options)
        assert seen.losses["noisy"][fold == f].mean() == pytest.approx(veil.loss(records[fold == f]).mean, rel=1e-12)
    assert np.isnan(seen.losses["noisy"]).sum() == (count - (fold == 0).sum() if count >= MANY else 0)


def test_copies_of_a_record_are_not_judged_by_who_has_seen_it() -> None:
    """Thirty people ten times each are thirty people."""
    given: list[np.ndarray] = []

    class Watching(Noisy):
        def designs(self, problem: Problem, *asked: object) -> object:
            given.append(problem.X)
            return super().designs(problem, *asked)

    people = np.random.default_rng(5).normal(size=(30, 4))
    problem = Problem.of(np.repeat(people, 10, axis=0), LINEAR)
    seen = judge([Watching(), Noisy(name="twin")], problem, [6.0], 0)[0][6.0]
    assert [len(np.unique(rest, axis=0)) for rest in given] == [24] * FOLDS
    assert not np.isnan(seen.losses["noisy"]).any()


@pytest.mark.filterwarnings("ignore::taskveil.errors.NothingToReportWarning")
def test_a_handful_of_volunteers_is_judged_in_numbers() -> None:
    veil = tv.design(X[:5], LINEAR, epsilon=1.0)
    nearly_alike = X[:5].copy()
    nearly_alike[1:] = X[1]  # with the first held out, all others are
    best = Best(name="best", candidates=(Noisy(), Noisy(name="half", share=0.5)), otherwise=DESIGNERS["nothing"])
    for found in (veil, tv.design(nearly_alike, LINEAR, epsilon=1.0, method=best)):
        assert len(found.considered) == 3
        assert all(np.isfinite([entry.held_out_loss, entry.standard_error]).all() for entry in found.considered)


def test_whether_seeds_matter_is_what_the_candidates_say() -> None:
    assert not Best(name="b", candidates=(Noisy(), Noisy(name="n"))).seeded(LINEAR)
    assert Best(name="b", candidates=(Noisy(), Noisy(name="n", several=True))).seeded(LINEAR)


def test_judging_uses_one_thread_and_gives_the_callers_setting_back() -> None:
    threads = set()

    class Watching(Noisy):
        def designs(self, *asked: object) -> object:
            threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
            return super().designs(*asked)

    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        judge([Watching(), Noisy(name="half")], Problem.of(X, LINEAR), [1.0], 0)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threads == {1}
