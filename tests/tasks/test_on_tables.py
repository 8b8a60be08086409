"""scikit-learn models as tasks on tables: on volunteers, a bound task says what the model says of their own table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

import taskveil as tv
from taskveil.client import Client
from taskveil.designs.predictors.own import refitted
from taskveil.errors import DomainError, TaskError, UnusedColumnWarning

NUMBERS = ["power", "doors"]
HALVES = ("client", "server")


def table(count: int, seed: int = 0) -> pd.DataFrame:
    """Cars with holes in their power; some come from Mars and Venus, too few to be listed."""
    rng = np.random.default_rng(seed)
    origin = rng.choice(["Europe", "Japan", "USA"], count).astype(object)
    origin[:3] = "Mars", "Mars", "Venus"
    return pd.DataFrame(
        {
            "power": np.where(rng.random(count) < 0.1, np.nan, rng.gamma(9.0, 13.0, count)),
            "doors": rng.integers(2, 6, count),
            "origin": pd.Series(origin, dtype="str"),
            "new": rng.random(count) < 0.5,
            "since": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, count), unit="D"),
        }
    )


def labels(X: pd.DataFrame) -> np.ndarray:
    score = X["power"].fillna(110.0) / 40 + 2.0 * (X["origin"] == "USA") + X["new"] - X["doors"] / 3
    return np.where(score > 3.5, "yes", np.where(score > 2.0, "maybe", "no"))


X, y = table(300), labels(table(300))
TRANSLATED = {"maybe": 0, "no": 1, "yes": 2}
CODES = np.array([TRANSLATED[label] for label in y])


def days(dates: Any) -> np.ndarray:
    return np.asarray(dates).astype("datetime64[D]").astype(np.float64)


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(10, max_depth=5, random_state=0)


def pipeline(**options: Any) -> Pipeline:
    """By name: numbers with imputation, text and flags in places of their own, dates as days."""
    parts = [(SimpleImputer(), NUMBERS), (OneHotEncoder(**options), ["origin", "new"]), (days_of(), ["since"])]
    return make_pipeline(make_column_transformer(*parts, remainder="drop"), forest())


def days_of() -> FunctionTransformer:
    return FunctionTransformer(days, feature_names_out="one-to-one")


def categorical(X: pd.DataFrame) -> pd.DataFrame:
    return X.assign(origin=X["origin"].astype("category")).drop(columns="since")


def said(model: Any, X: Any) -> np.ndarray:
    """What a task on it should say: logits, or values."""
    if hasattr(model, "predict_proba"):
        return np.asarray(np.log(np.maximum(model.predict_proba(X), 1e-12)))
    return np.asarray(model.predict(X)).reshape(len(X), -1)


def bound(model: Any, X: Any, schema: tv.Schema | None = None) -> tuple[tv.ModelTask, tv.Schema]:
    schema = tv.Schema.of(X) if schema is None else schema.like(X)
    return tv.ModelTask(model, "cross_entropy" if hasattr(model, "predict_proba") else "mse").on(schema), schema


def check(model: Any, X: Any, own: Any = None) -> None:
    """The bound task says the same of the numbers that records become as the model of its own table."""
    task, schema = bound(model, X)
    np.testing.assert_allclose(task.predict(schema.expand(X)), said(model, X if own is None else own), atol=1e-6)


def fitted() -> dict[str, Callable[[], tuple[Any, pd.DataFrame]]]:
    """Models with the tables that they were fitted to."""
    mixed = X.drop(columns="since")
    holes = mixed.assign(origin=mixed["origin"].where(np.arange(300) % 7 > 0))
    written = X.assign(since=X["since"].dt.strftime("%Y-01-01"))
    by_names = (SimpleImputer(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), ["origin", "new"])
    on_texts = make_pipeline(make_column_transformer(*by_names, (OrdinalEncoder(), ["since"])), forest())
    spread = make_column_transformer((StandardScaler(), ["power"]), remainder="passthrough")
    named = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    wide = make_column_transformer((SimpleImputer(), NUMBERS), (named, ["origin"])).set_output(transform="pandas")
    return {
        "numbers": lambda: (make_pipeline(spread, forest()), X[NUMBERS].fillna(100.0)),
        "everything": lambda: (pipeline(handle_unknown="ignore"), X),
        "no unknown values": lambda: (pipeline(), X),
        "another order": lambda: (pipeline(handle_unknown="ignore"), X[X.columns[::-1]]),
        "nullable": lambda: (make_pipeline(make_column_transformer(*by_names), forest()), mixed.convert_dtypes()),
        "holes in text": lambda: (make_pipeline(make_column_transformer(*by_names), forest()), holes),
        "holes in objects": lambda: (make_pipeline(make_column_transformer(*by_names), forest()), holes.astype(object)),
        "dates as text": lambda: (on_texts, written),
        "tables between": lambda: (make_pipeline(wide, forest()), mixed.drop(columns="new")),
        "categories": lambda: (HistGradientBoostingClassifier(max_iter=5), categorical(X)),
    }


@pytest.mark.parametrize("name", fitted())
def test_a_model_gets_what_it_was_fitted_to(name: str) -> None:
    model, own = fitted()[name]()
    model.fit(own, y)
    volunteers = own.iloc[3:] if name != "numbers" else own  # whose values the schema lists
    check(model, volunteers)
    shuffled = volunteers[sorted(volunteers.columns)]
    check(model, shuffled, volunteers)


def test_a_value_that_the_schema_does_not_list_is_one_the_model_knows() -> None:
    model = pipeline().fit(X, y)  # which knows no others
    task, schema = bound(model, X)
    unheard = schema.expand(X.assign(origin="Atlantis"))
    np.testing.assert_allclose(task.predict(unheard), said(model, X.assign(origin="Mars")), atol=1e-6)


def test_a_listed_value_that_no_volunteer_had_is_one_the_model_knows_too() -> None:
    model, own = pipeline().fit(X, y), tv.Schema.of(X)
    task, schema = bound(model, X, own.replace(origin=tv.Category(["Atlantis", "Europe", "Japan", "USA"])))
    sunken = schema.expand(X.assign(origin="Atlantis"))
    np.testing.assert_allclose(task.predict(sunken), said(model, X.assign(origin="Mars")), atol=1e-6)
    assert schema.collapse(sunken)["origin"].unique().tolist() == ["Atlantis"]  # but estimates say what they are
    published = tv.ModelTask(model, "cross_entropy").on(schema.published)
    np.testing.assert_array_equal(published.predict(sunken), task.predict(sunken))


def test_regressors_too() -> None:
    values = pd.Series(np.nan_to_num(X["power"]) / 10 + 3.0 * (X["origin"] == "USA"))
    own = categorical(X)
    check(HistGradientBoostingRegressor(max_iter=5).fit(own, values), own)
    ready = make_column_transformer((SimpleImputer(), NUMBERS), (OneHotEncoder(), ["origin"]))
    check(make_pipeline(ready, RandomForestRegressor(5)).fit(own, values), own.drop(columns="new"), own)


def test_xgboost_and_lightgbm_keep_their_categories() -> None:
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    own, holes = categorical(X), X[NUMBERS]
    quiet = {"n_estimators": 5, "n_jobs": 1}
    check(xgboost.XGBClassifier(enable_categorical=True, **quiet).fit(own, CODES), own.iloc[3:])
    check(lightgbm.LGBMClassifier(verbose=-1, **quiet).fit(own, y), own.iloc[3:])
    check(xgboost.XGBClassifier(**quiet).fit(holes.to_numpy(), CODES), holes, holes.to_numpy())
    check(xgboost.XGBClassifier(**quiet).fit(holes, CODES), holes)
    blanks = own.rename(columns={"power": "horse power"})
    check(lightgbm.LGBMClassifier(verbose=-1, **quiet).fit(blanks, y), blanks.iloc[3:])


def test_models_of_arrays_get_arrays() -> None:
    own = X[["doors", "origin"]].iloc[3:]
    by_place = make_pipeline(make_column_transformer((OneHotEncoder(), [0, 1])), forest())
    check(by_place.fit(own.to_numpy(dtype=object), y[3:]), own, own.to_numpy(dtype=object))
    schema = tv.Schema.of(X)
    numbers = forest().fit(schema.expand(X), y)  # a person may also fit to the numbers themselves
    task, _ = bound(numbers, X)
    assert task.takes_numbers
    np.testing.assert_allclose(task.predict(schema.expand(X)), said(numbers, schema.expand(X)))
    with pytest.raises(TaskError, match="5 fields, which become"):
        bound(forest().fit(np.ones((9, 3)), y[:9]), X)


def test_tables_of_other_packages() -> None:
    own = X.drop(columns="since").iloc[3:]
    model = make_pipeline(
        make_column_transformer((SimpleImputer(), NUMBERS), (OneHotEncoder(), ["origin", "new"])), forest()
    )
    model.fit(own, y[3:])
    for volunteers in (pl.from_pandas(own), pa.Table.from_pandas(own, preserve_index=False)):
        check(model, volunteers, own)
    in_polars = pl.from_pandas(own)
    check(model.fit(in_polars, y[3:]), in_polars)


def test_columns_that_the_model_does_not_need() -> None:
    named = X.assign(name=[f"car {place}" for place in range(len(X))])
    model = pipeline(handle_unknown="ignore").fit(named, y)
    with pytest.warns(UnusedColumnWarning, match="'name' is left out"):
        task, schema = bound(model, named)
    assert "name" not in schema
    np.testing.assert_allclose(task.predict(schema.expand(named)[3:]), said(model, named)[3:], atol=1e-6)
    with pytest.raises(TaskError, match="not to since"):
        bound(forest().fit(X[NUMBERS].fillna(0.0), y), X[[*NUMBERS, "since"]])


LABELS: dict[str, Callable[[np.ndarray], Any]] = {
    "series with an index of its own": lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
    "pandas categories": lambda y: pd.Series(y, dtype="category"),
    "pandas text": lambda y: pd.Series(y, dtype="string"),
    "polars": lambda y: pl.Series(list(y)),
    "polars categories": lambda y: pl.Series(list(y)).cast(pl.Categorical),
    "arrow": lambda y: pa.array(list(y)),
    "arrow chunks": lambda y: pa.chunked_array([list(y[:9]), list(y[9:])]),
    "a list": list,
    "a column": lambda y: pd.DataFrame({"y": y}),
}


@pytest.mark.parametrize("form", LABELS)
def test_labels_in_every_form(form: str) -> None:
    task, _ = bound(pipeline().fit(X, y), X)
    assert np.array_equal(task.labels(LABELS[form](y), len(y)), CODES)


def test_labels_that_are_truth_values() -> None:
    truth = y == "yes"
    task, _ = bound(pipeline().fit(X, truth), X)
    for given in (truth, pd.Series(truth, dtype="boolean"), pl.Series(truth), pa.array(truth)):
        assert np.array_equal(task.labels(given, len(truth)), truth)
    with pytest.raises(TaskError, match="record 3 of 300 has a label"):
        task.labels([True, False, True, None] + [False] * 296, 300)


class Backwards(RandomForestClassifier):  # type: ignore[misc]
    """A forest that names its classes in the other order."""

    def fit(self, X: Any, y: Any) -> Backwards:
        self.forest_ = forest().fit(X, y)
        self.classes_, self.n_features_in_ = self.forest_.classes_[::-1], self.forest_.n_features_in_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.forest_.predict_proba(X)[:, ::-1])


def test_classes_may_be_in_any_order() -> None:
    numbers = X[NUMBERS].fillna(100.0).to_numpy()
    plain, backwards = (tv.ModelTask(model.fit(numbers, y), "cross_entropy") for model in (forest(), Backwards()))
    for task in (plain, backwards):
        task.check_width(2)
    assert np.array_equal(backwards.labels(y, len(y)), 2 - CODES)
    for known in (np.arange(len(y)) % 3 > 0, np.asarray(y) != "no"):  # the second copy never sees one of the classes
        said = refitted(plain, numbers[known], y[known])(numbers)
        np.testing.assert_allclose(refitted(backwards, numbers[known], y[known])(numbers), said[:, ::-1])


def test_an_own_pipeline_is_designed_saved_loaded_and_brought_to_a_client(tmp_path: Path) -> None:
    own = X.drop(columns="new")
    parts = [(SimpleImputer(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), ["origin"]), (days_of(), ["since"])]
    task = tv.ModelTask(make_pipeline(make_column_transformer(*parts), forest()).fit(own, y), "cross_entropy")
    veil = tv.design(own, task, epsilon=3.0, y=y, method="codebook", encoder="own", share_model=True)
    fresh = table(200, seed=1)
    kept = veil.loss(fresh, labels(fresh)).mean
    assert kept < task.on(veil.schema or tv.Schema.of(own)).constant_loss(
        veil._records(own), y, veil._records(fresh), labels(fresh)
    )
    veil.save(tmp_path / "release")
    client, server = ((tmp_path / "release" / half / "manifest.json").read_text(encoding="utf-8") for half in HALVES)
    assert "Mars" not in client
    assert "Venus" not in client + server
    loaded = tv.Veil.load(tmp_path / "release", task=task)
    assert loaded.schema == veil.schema
    assert loaded.loss(fresh, labels(fresh)).mean == pytest.approx(kept)
    with Client.load(tmp_path / "release", ledger=tmp_path / "ledger", encoder=loaded.encoder) as client:
        report = client.report({"power": None, "doors": 4, "origin": "Atlantis", "since": "2019-05-06"})
    assert len(veil.predict(veil.receive(report.to_bytes()))) == 1


def test_a_pipeline_and_means_share_a_report() -> None:
    task = tv.MultiTask(
        [(tv.ModelTask(pipeline().fit(X, y), "cross_entropy"), 1.0), (tv.LinearTask(np.diag([0.02, 0, 1, 1, 0])), 1.0)]
    )
    veil = tv.design(X, task, epsilon=2.0, y=[y, None], method="codebook", encoder="linear")
    fresh = table(100, seed=1)
    assert veil.predict(veil.privatize(fresh)).shape == (
        100,
        3 + 7,
    )  # classes; five fields, one by its three values
    assert np.isfinite(veil.loss(fresh, [labels(fresh), None]).mean)


def test_sweeps_match_test_tables_by_name() -> None:
    task = tv.ModelTask(pipeline(handle_unknown="ignore").fit(X, y), "cross_entropy")
    fresh = table(100, seed=1)
    options: dict[str, Any] = {"y": y, "epsilons": [2.0], "methods": ["codebook"], "seeds": 1, "encoder": "linear"}
    first, second = (
        tv.sweep(X, task, X_test=held, y_test=labels(fresh), **options).points[0].loss
        for held in (fresh, pl.from_pandas(fresh[fresh.columns[::-1]]))
    )
    assert first == second


@pytest.mark.parametrize("domain", [tv.Box(0, 1), tv.Ball(3.0), tv.Box([0] * 5, [1] * 5)])
def test_tables_are_bounded_by_schemas(domain: Any) -> None:
    with pytest.raises(DomainError, match="bounded by a schema"):
        tv.design(X, tv.LinearTask(np.eye(5)), epsilon=1.0, domain=domain)


def test_the_audit_clears_a_design_with_a_pipeline_on_the_device() -> None:
    """It walks whatever a device can reach: the model's own code must not lead to a generator of ours."""
    from taskveil.auditing.sources import foreign_randomness

    own = X.drop(columns="new")
    parts = [(SimpleImputer(), NUMBERS), (OneHotEncoder(), ["origin"]), (days_of(), ["since"])]
    task = tv.ModelTask(make_pipeline(make_column_transformer(*parts), forest()).fit(own, y), "cross_entropy")
    assert foreign_randomness(task.on(tv.Schema.of(own)).answers) == []


def test_holes_make_more_numbers_than_columns_and_the_message_says_so() -> None:
    task = tv.ModelTask(torch.nn.Linear(2, 1))
    task.frozen.check_width(2)
    schema = tv.Schema.of(pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [0.5, 1.5, 2.5]}))
    with pytest.raises(TaskError, match="takes 2 attributes; the records have 2 fields, which become 3 numbers"):
        task.on(schema)


def test_a_column_that_the_model_needs_and_the_schema_left_out_is_named() -> None:
    volunteers = pd.DataFrame({"a": np.arange(6.0), "empty": np.nan})
    filled = SimpleImputer(strategy="constant", keep_empty_features=True)
    model = make_pipeline(filled, RandomForestRegressor(2)).fit(volunteers, volunteers["a"])
    with pytest.warns(UnusedColumnWarning):
        schema = tv.Schema.of(volunteers)
    with pytest.raises(TaskError, match="columns that records do not have: empty"):
        tv.ModelTask(model).on(schema)
