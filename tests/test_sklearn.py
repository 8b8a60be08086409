"""Reports as a step of a scikit-learn pipeline: its rules, and ours."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import taskveil as tv
from taskveil.errors import BudgetError, RenamedError
from taskveil.sklearn import PrivateReports

QUICK: dict[str, Any] = {"method": "task_aware"}  # "auto" takes 2 seconds for each of forty designs


def clusters(count: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    return pd.DataFrame(rng.normal(size=(count, 3)) + 4.0 * y[:, None], columns=list("abc")), y


def mixed(count: int) -> pd.DataFrame:
    X, y = clusters(count)
    return X.assign(kind=np.where(y, "round", "square"), a=X["a"].where(np.arange(count) % 5 > 0), flag=y > 0)


@pytest.mark.filterwarnings(
    "ignore::taskveil.errors.WildRecordWarning", "ignore::taskveil.errors.NothingToReportWarning"
)
def test_scikit_learn_accepts_it() -> None:
    twice = dict.fromkeys(("check_estimators_pickle", "check_fit_idempotent"), "a table that is reported again")
    found = check_estimator(PrivateReports(**QUICK), on_skip=None, on_fail=None, expected_failed_checks=twice)
    assert [check["check_name"] for check in found if check["status"] not in ("passed", "skipped", "xfail")] == []
    assert {check["check_name"] for check in found if check["status"] == "xfail"} == set(twice)
    assert sum(check["status"] == "passed" for check in found) > 35


def test_more_budget_serves_a_classifier_better() -> None:
    X, y = clusters(300)
    steps = make_pipeline(PrivateReports(**QUICK), LogisticRegression())
    search = GridSearchCV(steps, {"privatereports__epsilon": [0.01, 8.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"privatereports__epsilon": 8.0}
    poor, good = search.cv_results_["mean_test_score"]
    assert poor < 0.7 < 0.9 < good


def test_tables_of_numbers() -> None:
    X, _ = clusters(200)
    step = PrivateReports(epsilon=4.0, **QUICK).fit(X)
    assert step.veil_.columns == ("a", "b", "c")
    assert step.n_features_in_ == 3
    assert step.feature_names_in_.tolist() == step.get_feature_names_out().tolist() == ["a", "b", "c"]
    assert isinstance(step.transform(X), np.ndarray)
    framed = step.set_output(transform="pandas").transform(X.iloc[::-1])
    assert framed.columns.tolist() == ["a", "b", "c"]
    assert framed.index.tolist() == X.index.tolist()[::-1]


def test_delta_is_passed_on() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert PrivateReports(epsilon=4.0, delta=1e-6, method="gaussian").fit(X).veil_.guarantee.delta == 1e-6


@pytest.mark.parametrize("package", [lambda X: X.iloc[::-1], pl.from_pandas])
def test_mixed_tables_give_tables_like_them(package: Any) -> None:
    X = package(mixed(200))
    step = PrivateReports(epsilon=8.0, **QUICK).fit(X)
    found = step.transform(X)
    assert type(found) is type(X)
    assert list(found.columns) == list(X.columns) == step.get_feature_names_out().tolist()
    assert list(found.dtypes) == list(X.dtypes)
    assert np.mean(np.asarray(found["kind"]) == np.asarray(X["kind"])) > 0.6
    if hasattr(X, "index"):
        assert found.index.equals(X.index)
    with pytest.raises(ValueError, match="feature names"):
        step.transform(X[["kind", "flag"]])


def test_a_model_and_a_schema_may_be_given() -> None:
    X, y = clusters(200)
    task = tv.ModelTask(LogisticRegression().fit(X, y), "cross_entropy")
    step = PrivateReports(task, epsilon=3.0, method="codebook", on_device=tv.OnDevice(encoder="linear")).fit(X, y)
    assert step.veil_.task is task
    schema = tv.Schema.of(mixed(200)).replace(b=tv.Number(-9, 9))
    assert PrivateReports(schema=schema, **QUICK).fit(mixed(200)).veil_.schema == schema


def test_every_transform_draws_new_reports_by_the_same_design() -> None:
    X, _ = clusters(100)
    step = PrivateReports(epsilon=4.0, **QUICK).fit(X)
    same = pickle.loads(pickle.dumps(step))
    assert same.veil_.release_id == step.veil_.release_id == clone(step).fit(X).veil_.release_id
    assert not np.array_equal(step.transform(X), step.transform(X))
    assert not np.array_equal(same.transform(X), step.transform(X))


def test_a_constant_column_counts_nothing() -> None:
    X, _ = clusters(50)
    step = PrivateReports(**QUICK).fit(X.assign(b=3.0))
    assert step.veil_.task.K[1].tolist() == [0.0, 0.0, 0.0]  # type: ignore[union-attr]
    assert np.allclose(step.transform(X.assign(b=3.0))[:, 1], 3.0)


def test_every_column_counts_alike_whatever_it_holds() -> None:
    """Of a constant answer each costs 1; a rare category counted a tenth of the flag that says the same."""
    rng = np.random.default_rng(0)
    rare = rng.random(400) < 0.05
    X = pd.DataFrame({"number": rng.normal(size=400), "flag": rare, "kind": np.where(rare, "b", "a"), "same": "a"})
    X["many"] = pd.Series(rng.choice(["p", "q", "r", None], 400), dtype=object)
    veil = PrivateReports(epsilon=4.0, **QUICK).fit(X).veil_
    assert veil.schema is not None
    assert isinstance(veil.task, tv.LinearTask)
    records = veil.schema.expand(X)
    squares = (veil.task.predict(records - records.mean(axis=0)) ** 2).mean(axis=0)
    counted = {name: squares[np.abs(veil.task.K[:, place]).any(axis=1)].sum() for name, place in
               zip(veil.schema.names, veil.schema.fields.places, strict=True)}  # fmt: skip
    assert counted == pytest.approx({"number": 1.0, "flag": 1.0, "kind": 1.0, "same": 0.0, "many": 1.0})


def test_a_category_counts_as_much_as_a_number() -> None:
    """By all its values together, whatever their number: as on the command line."""
    X = mixed(200)
    veil = PrivateReports(**QUICK).fit(X).veil_
    variances = veil.schema.expand(X).var(axis=0)  # type: ignore[union-attr]
    for place in veil.schema.weighed:  # type: ignore[union-attr]
        assert veil.task.K[:, place].max() ** 2 * variances[place].sum() == pytest.approx(1.0)  # type: ignore[union-attr]


def test_an_old_argument_names_the_new_one() -> None:
    with pytest.raises(RenamedError, match=r"encoder= is now on_device=tv.OnDevice\(encoder=...\)"):
        PrivateReports(epsilon=2.0, encoder="linear")


def test_a_budget_over_time_is_refused() -> None:
    over_time = tv.OverTime(lifetime=4.0, rounds=3)
    with pytest.raises(BudgetError, match=r"Only tv\.design, tv\.sweep and tv\.plan take"):
        PrivateReports(epsilon=over_time).fit(np.random.default_rng(0).normal(size=(50, 2)))  # type: ignore[arg-type]
