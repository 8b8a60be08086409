"""Sweeps: what is measured, on which records, with which seeds."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from torch import nn

import taskveil as tv
from taskveil.designs.laplace.gradient import LearningSettings
from taskveil.errors import BudgetError, DataError, FewRecordsWarning, MissingExtraError, TaskError, WildRecordWarning
from taskveil.sweeps import sweep as sweeping
from taskveil.sweeps import work
from taskveil.sweeps.options import SweepOptions
from taskveil.sweeps.trials import split

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])
LINEAR = tv.LinearTask(np.diag([2.0, 1.0, 0.5]))


def test_a_linear_sweep_is_the_designs_one_by_one() -> None:
    test = X[:40] + 0.1
    frontier = tv.sweep(X, LINEAR, epsilons=[4, 1], methods=["task_aware", "matrix_factorization"], test=test)
    assert frontier.epsilons == [1.0, 4.0]
    assert len(frontier.points) == 4
    assert frontier.loss("task_aware", 4.0) == tv.design(X, LINEAR, epsilon=4.0, method="task_aware").loss(test).mean
    assert frontier.clear == 0.0
    assert frontier.constant == pytest.approx(LINEAR.losses(np.tile(X.mean(0), (40, 1)), test).mean())


def test_the_losses_behind_every_point_are_kept() -> None:
    test = X[:40] + 0.1
    frontier = tv.sweep(X, LINEAR, epsilons=[4.0], methods=["task_aware"], test=test, block=5)
    veil = tv.design(X, LINEAR, epsilon=4.0, method="task_aware")
    assert frontier.per_record("task_aware", 4.0) == pytest.approx(veil.losses(test), rel=1e-6)
    assert frontier.constant_per_record.mean() == pytest.approx(frontier.constant, rel=1e-6)
    assert frontier.clear_per_record.tolist() == [0.0] * 40
    loss, point = veil.loss(test, block=5), frontier.points[0]
    assert (point.loss, point.low, point.high) == (loss.mean, loss.low, loss.high)
    assert frontier.block == 5
    assert frontier.epsilon_for(0.1).method == "task_aware"


def test_designs_are_judged_without_a_word_about_few_records() -> None:
    """One wild record among the volunteers and the tested: nothing is printed for each of many designs."""
    wild = np.vstack([X, np.full(3, 300.0)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tv.sweep(wild, LINEAR, epsilons=[1.0], methods=["auto", "task_aware"], test=wild)
        veil = tv.design(wild, LINEAR, epsilon=1.0, method="task_aware")
    assert not [w for w in said if issubclass(w.category, FewRecordsWarning)]
    with pytest.warns(FewRecordsWarning):
        veil.loss(wild)


def test_a_wild_cell_among_the_records_held_out_is_named() -> None:
    """No design sees it, but it decides all losses."""
    _, test = split(X, in_time=False)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table.iloc[test[3], 1] = 1e6
    with pytest.warns(WildRecordWarning, match=f"test records' .*row {test[3]}, column 'b'.*units") as said:
        frontier = tv.sweep(table, LINEAR, epsilons=[8.0], methods=["task_aware"])
    assert [warning.filename for warning in said] == [__file__]
    assert "on 1 of them: check their units" in frontier.epsilon_for(0.1).statement


def test_blocks_that_are_too_few_are_named() -> None:
    frontier = tv.sweep(X, LINEAR, epsilons=[8.0], methods=["task_aware"], block=20)
    assert "36 test records in blocks of 20 are too few" in frontier.epsilon_for(0.1).statement


def test_without_test_records_some_are_held_out() -> None:
    frontier = tv.sweep(X, LINEAR, epsilons=[2.0], methods=["task_agnostic"])
    everything = tv.design(X, LINEAR, epsilon=2.0, method="task_agnostic").loss(X).mean
    assert frontier.points[0].loss != everything


def test_in_the_order_of_time_the_last_are_held_out() -> None:
    options = {"epsilons": [2.0], "methods": ["task_agnostic"], "block": 4}
    frontier = tv.sweep(X, LINEAR, **options)
    assert frontier.points == tv.sweep(X[:84], LINEAR, test=X[84:], **options).points


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = LearningSettings(steps=150, folds=2, checkpoints=5, warm_up=60, inverse_steps=120)
    monkeypatch.setattr(LearningSettings, "for_size", classmethod(lambda cls, records: settings))


@pytest.mark.usefixtures("quick")
def test_models_are_swept_at_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    task = tv.ModelTask(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)))
    log = tmp_path / "log.json"
    options = {"epsilons": [1.0, 30.0], "methods": ["task_aware"], "y": Y, "resume": log}
    frontier = tv.sweep(X, task, seeds=2, **options)
    assert len(frontier.points) == 4
    assert frontier.loss("task_aware", 30.0) < frontier.loss("task_aware", 1.0)
    again = tv.sweep(X, task, seeds=[0], **options)
    assert again.points == tuple(p for p in frontier.points if p.seed == 0)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"epsilons": []}, TaskError, "0 budgets"),
        ({"epsilons": [1.0], "methods": ["magic"]}, TaskError, "method must be one of auto, codebook.*'magic'"),
        ({"epsilons": [1.0], "methods": []}, TaskError, "0 methods"),
        ({"epsilons": [1.0], "methods": ["codebook", "codebook"]}, TaskError, "two methods .* named 'codebook'"),
        ({"epsilons": [1.0], "on_device": tv.OnDevice(latent_dim=0)}, TaskError, "latent_dim"),
        ({"epsilons": [1.0], "seeds": 0}, TaskError, "0 seeds"),
        ({"epsilons": [-1.0]}, BudgetError, "above zero"),
        ({"epsilons": [1.0], "test": X[:, :2]}, DataError, "made for 3"),
        ({"epsilons": [1.0], "block": 0}, DataError, "block is a whole number"),
        ({"epsilons": [1.0], "engine": "spark"}, TaskError, 'engine="spark" is no engine'),
        ({"epsilons": [1.0], "engine": "ray"}, TaskError, r'^engine="ray" is now engine=tv.Ray\(\)\.$'),
        ({"epsilons": [1.0], "workers": 2}, TypeError, r"^workers= is now engine=tv.Ray\(workers=...\)\.$"),
        ({"epsilons": [1.0], "num_gpus": 1}, tv.TaskveilError, r"^num_gpus= is now engine=tv.Ray\(gpus=...\)\.$"),
        ({"epsilons": [1.0], "segment": "a"}, tv.TaskveilError, r"^segment= is now tv.sweep_segments\("),
        ({"epsilons": [1.0], "X_test": X}, tv.TaskveilError, r"^X_test= is now test="),
        ({"epsilons": [1.0], "torch_device": "cuda"}, tv.TaskveilError, r'^torch_device= is now engine="cuda"'),
        ({"epsilons": [1.0], "delta": 1.0}, BudgetError, "delta is the probability"),
        ({"epsilons": [1.0], "methods": ["gaussian"]}, BudgetError, "gaussian is a design for delta > 0"),
    ],
)
def test_sweeps_that_make_no_sense(options: dict, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        tv.sweep(X, LINEAR, **options)


def test_the_engine_says_where_torch_trains() -> None:
    for engine, device in ((None, "cpu"), ("cuda", "cuda"), (tv.Ray(), "cpu"), (tv.Ray(gpus=0.5), "cuda")):
        assert SweepOptions(epsilons=[1.0], engine=engine).torch_device == device  # type: ignore[arg-type]


def test_the_name_is_always_the_function() -> None:
    assert tv.sweep is sweeping.sweep
    assert callable(tv.sweep)


def test_tables_are_matched_by_name() -> None:
    """Test records whose columns come in another order, or beside others, are the same records."""
    table, test = pd.DataFrame(X, columns=["a", "b", "c"]), pd.DataFrame(X[:40] + 0.1, columns=["a", "b", "c"])
    options = {"epsilons": [2.0], "methods": ["task_aware"]}
    expected = tv.sweep(X, LINEAR, test=X[:40] + 0.1, **options).points[0].loss
    for shuffled in (test[["c", "a", "b"]], test.assign(other=0.0)[["other", "b", "c", "a"]]):
        assert tv.sweep(table, LINEAR, test=shuffled, **options).points[0].loss == pytest.approx(expected, rel=1e-12)
    with pytest.raises(DataError, match="no column named 'b'"):
        tv.sweep(table, LINEAR, test=test.rename(columns={"b": "z"}), **options)


def test_methods_that_do_not_fit_are_refused_before_anything_is_designed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "design_many", lambda *_, **__: pytest.fail("a design was started"))
    task = tv.ModelTask(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(TaskError, match="no matrix to factorise"):
        tv.sweep(X, task, epsilons=[1.0], methods=["codebook", "matrix_factorization"])


def test_designs_that_hardly_depend_on_a_seed_have_the_first() -> None:
    frontier = tv.sweep(X, LINEAR, epsilons=[1.0, 2.0], methods=["codebook", "task_agnostic"], seeds=[4, 5])
    assert {(p.method, p.seed) for p in frontier.points} == {("codebook", 4), ("task_agnostic", 4)}
    alone = tv.sweep(X, LINEAR, epsilons=[1.0], methods=["codebook"], seeds=[4])
    assert alone.loss("codebook", 1.0) == frontier.loss("codebook", 1.0)


@pytest.mark.parametrize("wrong", [{"epsilons": 2.0}, {"methods": "codebook"}, {"methods": 3}])
def test_lists_are_lists(wrong: dict) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(TaskError, match="come as lists"):
        tv.sweep(X, tv.LinearTask(np.eye(3)), **{"epsilons": [1.0], "methods": ["task_aware"], **wrong})


def test_by_default_one_seed_of_what_is_cheap_for_the_task() -> None:
    forest = tv.ModelTask(RandomForestRegressor(3, max_depth=2, random_state=0).fit(X, Y))
    frontier = tv.sweep(X, forest, y=Y, epsilons=[2.0], on_device=tv.OnDevice(encoder="linear"))
    assert frontier.methods == ["auto"]
    assert [point.seed for point in frontier.points] == [0]  # though it is seeded
    mean = tv.sweep(X, tv.MeanTask(np.eye(3)), epsilons=[2.0])
    assert mean.methods == ["means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split"]
    assert tv.sweep(X, LINEAR, epsilons=[2.0]).methods == ["codebook", "task_aware", "task_agnostic"]
    with pytest.raises(TaskError, match="task_aware learns through the model's gradients"):
        tv.sweep(X, forest, y=Y, epsilons=[2.0], methods=["codebook", "task_aware"])


@pytest.mark.parametrize("mixed", [False, True])
def test_a_model_that_knows_the_volunteers_by_heart_is_fitted_again(mixed: bool) -> None:
    """On noise a tree is no better than one answer, unless it has seen the answers."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    if mixed:
        X["a"] = X["a"].where(X["a"] < 2)
    y = rng.normal(size=200)
    model = make_pipeline(SimpleImputer(), DecisionTreeRegressor(random_state=0)).fit(X, y)
    options: dict[str, Any] = {"y": y, "epsilons": [8.0], "methods": ["constant"], "seeds": 1}
    frontier = tv.sweep(X, tv.ModelTask(model), **options)
    assert frontier.clear > 1.5 * frontier.constant
    by_heart = tv.sweep(
        X, tv.ModelTask(model), on_device=tv.OnDevice(volunteers_unseen=True), **options
    )  # says who takes it at its word
    assert by_heart.clear < 0.01 * by_heart.constant
    several = tv.MultiTask([(tv.ModelTask(model), 1.0), (tv.ModelTask(model), 2.0)])
    assert tv.sweep(X, several, **options | {"y": [y, y]}).clear == pytest.approx(3 * frontier.clear)
    one = tv.sweep(X, several, **options | {"y": [y, None]})  # no answers, nothing to know by heart
    assert one.clear == pytest.approx(frontier.clear)


class Counted(DecisionTreeRegressor):
    """Counts how often any copy of it is fitted."""

    fits: ClassVar[list[int]] = []

    def fit(self, X: Any, y: Any) -> Counted:
        self.fits.append(len(X))
        return super().fit(X, y)


def test_budgets_share_what_can_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tv.ModelTask(Counted(max_depth=2, random_state=0).fit(X, Y))
    asked: list[Any] = []
    everything = work.design_many

    def listening(designer: Any, problem: Any, **options: Any) -> Any:
        asked.append((designer.name, options))
        return everything(designer, problem, **options)

    monkeypatch.setattr(work, "design_many", listening)
    Counted.fits.clear()
    tv.sweep(X, task, y=Y, epsilons=[1, 2, 4, 8], on_device=tv.OnDevice(encoder="linear"))
    assert asked == [("auto", {"epsilons": (1.0, 2.0, 4.0, 8.0), "seeds": (0,)})]
    assert Counted.fits == [84]  # once, without the 30% held out


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"needs ray: pip install 'taskveil\[ray\]'"):
        tv.sweep(X, LINEAR, epsilons=[1.0], methods=["task_aware"], engine=tv.Ray())
