from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from taskveil.designs.predictors.trees import Trees, as_trees

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(250, 5)) * [1, 10, 1e-3, 1e5, 3], 3)  # many zeros, many ties, several sizes
VALUE = 2 * X[:, 0] + np.sin(X[:, 1]) + RNG.normal(size=250)
TWO, THREE, VALUES = VALUE > 0, np.array(["low", "mid", "top"])[np.digitize(VALUE, [-1, 1])], np.c_[VALUE, -(VALUE**2)]
FEW: dict[str, Any] = {"n_estimators": 8, "random_state": 0}
HIST: dict[str, Any] = {"max_iter": 8, "random_state": 0}

KEPT = [
    (DecisionTreeClassifier(random_state=0), THREE),
    (DecisionTreeRegressor(max_leaf_nodes=20, random_state=0), VALUES),
    (ExtraTreeClassifier(random_state=0), TWO),
    (ExtraTreeRegressor(random_state=0), VALUE),
    (RandomForestClassifier(**FEW), TWO),
    (RandomForestClassifier(class_weight="balanced", **FEW), THREE),
    (RandomForestRegressor(**FEW), VALUE),
    (RandomForestRegressor(**FEW), VALUES),
    (ExtraTreesClassifier(**FEW), THREE),
    (ExtraTreesRegressor(**FEW), VALUE),
    (GradientBoostingClassifier(**FEW), TWO),
    (GradientBoostingClassifier(**FEW), THREE),
    (GradientBoostingClassifier(loss="exponential", **FEW), TWO),
    (GradientBoostingRegressor(init="zero", **FEW), VALUE),
    (GradientBoostingRegressor(loss="huber", **FEW), VALUE),
    (HistGradientBoostingClassifier(**HIST), TWO),
    (HistGradientBoostingClassifier(**HIST), THREE),
    (HistGradientBoostingRegressor(**HIST), VALUE),
    (HistGradientBoostingRegressor(loss="absolute_error", **HIST), VALUE),
    (make_pipeline(StandardScaler(), RandomForestClassifier(**FEW)), THREE),
    (make_pipeline(StandardScaler(copy=False), "passthrough", GradientBoostingRegressor(**FEW)), VALUE),
    (make_pipeline(MinMaxScaler(clip=True), RobustScaler(), HistGradientBoostingClassifier(**HIST)), TWO),
    (make_pipeline(MaxAbsScaler(), DecisionTreeRegressor(max_depth=6, random_state=0)), VALUES),
    (DecisionTreeRegressor(max_depth=1, random_state=0), np.ones(250)),  # no split at all
]


class Doubled(RandomForestRegressor):
    """Another model than its class."""

    def predict(self, X: Any) -> Any:
        return 2 * super().predict(X)


REFUSED = [
    (Doubled(**FEW), VALUE),
    (LinearRegression(), VALUE),
    (AdaBoostClassifier(**FEW), TWO),
    (HistGradientBoostingRegressor(loss="poisson", **HIST), np.abs(VALUE)),
    (HistGradientBoostingClassifier(categorical_features=[0], **HIST), TWO),
    (RandomForestClassifier(**FEW), np.c_[TWO, ~TWO]),
    (GradientBoostingRegressor(init=DecisionTreeRegressor(max_depth=2), **FEW), VALUE),
    (make_pipeline(PolynomialFeatures(), DecisionTreeRegressor(random_state=0)), VALUE),
]


def answers(trees: Trees, records: np.ndarray) -> np.ndarray:
    raw = trees(records)
    return np.asarray(softmax(raw, axis=1) if trees.logits else raw)


def predictions(model: Any, records: np.ndarray) -> np.ndarray:
    found = model.predict_proba(records) if hasattr(model, "predict_proba") else model.predict(records)
    return np.asarray(found).reshape(len(records), -1)


def at_thresholds(trees: Trees, count: int = 400) -> np.ndarray:
    """Records whose values are thresholds, or doubles next to them."""
    rng, looked = np.random.default_rng(1), trees.attribute[trees.attribute >= 0]
    found = rng.choice(X.ravel(), size=(count, trees.width))
    for column in np.unique(looked):
        at = rng.choice(trees.threshold[looked == column], size=count)
        found[:, column] = np.nextafter(at, at + rng.choice([-1.0, 0.0, 1.0], size=count))
    return found


def check(model: Any, y: np.ndarray, tolerance: float) -> None:
    model.fit(X.copy(), y)
    trees = as_trees(model)
    assert trees is not None
    records = np.vstack([X, at_thresholds(trees)])
    theirs = predictions(model, records.copy())
    assert np.abs(answers(trees, records) - theirs).max() <= tolerance * np.abs(theirs).max()
    low, high = records.min(axis=0), records.max(axis=0)
    encoder = trees.encoder(low, high)
    assert np.abs(encoder(records) - theirs).max() <= (tolerance + 1e-8) * np.abs(theirs).max()
    shift = np.arange(1.0, 1.0 + encoder.latent_dim)
    scaled = replace(trees, logits=False).encoder(low, high, slope=0.3, offset=shift)
    # Every leaf is rounded by half a step at most, and so is the offset.
    allowed = 0.5 * scaled.step * (len(trees.output) + 1) + 1e-12 * np.abs(trees(records)).max()
    assert (np.abs(scaled(records) - (0.3 * trees(records) + shift)) <= allowed).all()


@pytest.mark.parametrize(("model", "y"), KEPT, ids=lambda value: type(value).__name__)
def test_trees_decide_as_their_originals(model: Any, y: np.ndarray) -> None:
    check(model, y, 1e-12)


@pytest.mark.parametrize(("model", "y"), REFUSED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_kept_is_refused(model: Any, y: np.ndarray) -> None:
    records = np.c_[np.abs(X[:, :1]).round(), X[:, 1:]]  # the first attribute may be a category
    assert as_trees(model.fit(records, y)) is None


def test_models_without_trees_are_refused() -> None:
    assert as_trees(RandomForestRegressor()) is None  # not fitted
    assert as_trees(None) is None
    assert as_trees(lambda x: x) is None


def test_a_model_fitted_to_a_table_with_names_is_converted_in_silence() -> None:
    model = RandomForestClassifier(**FEW).fit(pd.DataFrame(X, columns=list("abcde")), TWO)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_trees(model) is not None


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans(), st.booleans())
def test_single_trees_are_the_same_bit_for_bit(seed: int, width: int, scaled: bool, coarse: bool) -> None:
    """Any table: a leaf is reached or not, so that one wrong decision shows as another number."""
    rng = np.random.default_rng(seed)
    records = rng.normal(size=(80, width)) * 10.0 ** rng.integers(-20, 20, size=width) + rng.normal(size=width)
    if coarse:
        records = rng.integers(-3, 4, size=(80, width)).astype(np.float64)
    y = rng.normal(size=80)
    model: Any = DecisionTreeRegressor(random_state=0)
    model = make_pipeline(StandardScaler(), model) if scaled else model
    trees = as_trees(model.fit(records, y))
    assert trees is not None
    tried = np.vstack([records, at_thresholds(trees, 200)])
    assert np.array_equal(trees(tried)[:, 0], model.predict(tried))


def test_xgboost_decides_alike() -> None:
    few = {"n_estimators": 8, "n_jobs": 1}
    for model, y in (
        (xgboost.XGBClassifier(**few), TWO.astype(int)),
        (xgboost.XGBClassifier(**few), np.digitize(VALUE, [-1, 1])),
        (xgboost.XGBRegressor(**few), VALUE),
        (xgboost.XGBRegressor(**few), VALUES),
        (make_pipeline(StandardScaler(), xgboost.XGBRFRegressor(**few)), VALUE),
    ):
        check(model, y, 1e-6)  # it adds up in single precision
    assert as_trees(xgboost.XGBRegressor(booster="gblinear", **few).fit(X, VALUE)) is None
    assert as_trees(xgboost.XGBRegressor(objective="count:poisson", **few).fit(X, np.abs(VALUE))) is None


def test_lightgbm_decides_alike() -> None:
    few = {"n_estimators": 8, "n_jobs": 1, "verbosity": -1}
    for model, y in (
        (lightgbm.LGBMClassifier(**few), TWO),
        (lightgbm.LGBMClassifier(**few), THREE),
        (lightgbm.LGBMRegressor(**few), VALUE),
        (make_pipeline(StandardScaler(), lightgbm.LGBMRegressor(**few)), VALUE),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns
            check(model, y, 1e-12)
    assert as_trees(lightgbm.LGBMClassifier(objective="multiclassova", **few).fit(X, THREE)) is None
    assert as_trees(lightgbm.LGBMRegressor(zero_as_missing=True, **few).fit(X, VALUE)) is None
