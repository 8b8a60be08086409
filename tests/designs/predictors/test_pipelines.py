"""Pipelines over named columns run on devices exactly, or are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import taskveil as tv
from taskveil.client import Client
from taskveil.client.latent_encoders import NamedEncoder
from taskveil.designs.predictors.own import records_of, table_lines, table_trees

RNG = np.random.default_rng(5)
COUNT = 400
TABLE = pd.DataFrame(
    {
        "country": RNG.choice(["France", "Ghana", "Peru"], COUNT),
        "income": np.where(RNG.random(COUNT) < 0.1, np.nan, RNG.gamma(4.0, 12.0, COUNT)),
        "children": RNG.poisson(1.2, COUNT),
        "owner": RNG.random(COUNT) < 0.5,
    }
)
VALUE = (
    TABLE["income"].fillna(40.0) / 10 + 3 * TABLE["owner"] - TABLE["children"] + 2 * (TABLE["country"] == "Peru")
).to_numpy() + RNG.normal(size=COUNT)
VOLUNTEERS = tv.Schema.of(TABLE).expand(TABLE)
NUMBERS = ["income", "children", "owner"]


def pipeline(model: Any, *, encoder: Any = None, fill: str = "median", scaled: bool = False) -> Any:
    """Columns by name, and a model behind them, fitted to the table."""
    numbers = make_pipeline(SimpleImputer(strategy=fill), *([StandardScaler()] if scaled else []))
    columns = make_column_transformer(
        (numbers, NUMBERS), (encoder or OneHotEncoder(handle_unknown="ignore"), ["country"])
    )
    answer = VALUE if not hasattr(model, "predict_proba") else np.where(np.median(VALUE) < VALUE, "much", "little")
    return make_pipeline(columns, model).fit(TABLE, answer)


def bound(model: Any) -> tv.ModelTask:
    loss = "cross_entropy" if hasattr(model, "predict_proba") else "mse"
    return tv.ModelTask(model, loss=loss).on(tv.Schema.of(TABLE))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    "model", [RandomForestClassifier(20, random_state=0), GradientBoostingRegressor(n_estimators=20)]
)
def test_trees_decide_as_the_pipeline(model: Any, scaled: bool) -> None:
    task = bound(pipeline(model, scaled=scaled))
    trees = table_trees(task, VOLUNTEERS)
    assert trees is not None
    assert task.schema is not None
    X = np.concatenate([VOLUNTEERS, records_of(task.schema, 2000, np.random.default_rng(9))])
    assert np.abs(trees(X) - task.answers(X)).max() < 1e-9


def test_a_threshold_is_found_to_the_last_digit_wherever_it_lies() -> None:
    """Halving the bounds of a column with a long tail never comes to numbers as small as its least ones."""
    small = np.sort(np.exp(np.random.default_rng(3).uniform(-80.0, 20.0, 60)))
    table = pd.DataFrame({"dose": small, "owner": TABLE["owner"][:60]})
    columns = make_column_transformer((FunctionTransformer(np.log), ["dose"]), ("passthrough", ["owner"]))
    model = make_pipeline(columns, GradientBoostingRegressor(n_estimators=20)).fit(table, np.sin(np.log(small)))
    task = tv.ModelTask(model).on(tv.Schema.of(table))
    assert task.schema is not None
    volunteers = task.schema.expand(table)
    trees = table_trees(task, volunteers)
    assert trees is not None
    knots = trees.threshold[trees.attribute[trees.attribute >= 0] == 0]
    X = np.repeat(volunteers[:1], 2 * len(knots), axis=0)
    X[:, 0] = np.clip(np.concatenate([knots, np.nextafter(knots, np.inf)]), small[0], small[-1])
    assert np.abs(trees(X) - task.predict(X)).max() < 1e-9


@pytest.mark.parametrize("fill", ["median", "mean"])
@pytest.mark.parametrize("model", [Ridge(), LogisticRegression()])
def test_affine_pipelines_are_affine_in_the_numbers(model: Any, fill: str) -> None:
    task = bound(pipeline(model, fill=fill, scaled=True))
    lines = table_lines(task, VOLUNTEERS)
    assert lines is not None
    X = VOLUNTEERS
    said = task.cost.answers(X @ lines[0].T + lines[1])
    assert np.abs(said - task.answers(X)).max() < 1e-6 * np.ptp(task.answers(X))


@pytest.mark.parametrize(
    "refused",
    [
        pipeline(RandomForestClassifier(5, random_state=0), fill="mean"),  # devices fill with the median
        pipeline(RandomForestClassifier(5, random_state=0), encoder=OrdinalEncoder()),  # several values of one feature
        make_pipeline(  # a feature of two columns
            FunctionTransformer(lambda X: np.column_stack([X["income"].fillna(0.0) * X["children"], X["owner"]])),
            GradientBoostingRegressor(n_estimators=3),
        ).fit(TABLE, VALUE),
        make_pipeline(  # a feature that rises and falls
            FunctionTransformer(lambda X: np.column_stack([(X["children"] - 2.0) ** 2, X["owner"]])),
            GradientBoostingRegressor(n_estimators=3),
        ).fit(TABLE, VALUE),
    ],
)
def test_what_no_tree_on_the_numbers_says_is_refused(refused: Any) -> None:
    task = bound(refused)
    assert table_trees(task, VOLUNTEERS) is None
    assert table_lines(task, VOLUNTEERS) is None


@pytest.mark.parametrize("model", [GradientBoostingRegressor(n_estimators=5), Ridge()])
def test_what_differs_only_where_the_volunteers_are_is_refused(model: Any) -> None:
    """Long tails make bounds of which all volunteers are in a corner, which records anywhere in them never see."""
    income = np.exp(np.random.default_rng(0).normal(0.0, 3.0, COUNT))
    table = pd.DataFrame({"income": income, "owner": TABLE["owner"]})
    rises_and_falls = FunctionTransformer(lambda X: np.column_stack([np.abs(X["income"] - 1.0) < 0.5, X["owner"]]))
    value = (np.abs(income - 1.0) < 0.5) + 1.0 * TABLE["owner"]
    task = tv.ModelTask(make_pipeline(rises_and_falls, model).fit(table, value), loss="mse").on(tv.Schema.of(table))
    assert task.schema is not None
    volunteers = task.schema.expand(table)
    assert table_trees(task, volunteers) is None
    assert table_lines(task, volunteers) is None


def test_values_that_only_some_volunteers_have_are_refused_by_trees() -> None:
    rare = TABLE.assign(country=np.where(np.arange(COUNT) < 3, "Chad", TABLE["country"]))
    columns = make_column_transformer((OneHotEncoder(), ["country"]), remainder="drop")
    model = make_pipeline(columns, RandomForestClassifier(50, random_state=0)).fit(rare, VALUE > 3)
    schema = tv.Schema.of(rare)
    assert table_trees(tv.ModelTask(model, loss="cross_entropy").on(schema), schema.expand(rare)) is None


def test_a_shared_pipeline_is_part_of_the_release(tmp_path: Path) -> None:
    task = tv.ModelTask(pipeline(RandomForestClassifier(20, min_samples_leaf=10, random_state=0)), loss="cross_entropy")
    label = np.where(np.median(VALUE) < VALUE, "much", "little")
    veil = tv.design(TABLE, task, y=label, epsilon=3.0, on_device=tv.OnDevice(encoder="own", share_model=True))
    assert not isinstance(veil.encoder, NamedEncoder)
    veil.save(tmp_path / "release")
    with Client.load(tmp_path / "release", ledger=tmp_path / "ledger") as client:
        client.report({"country": "Peru", "income": None, "children": 2, "owner": False})
