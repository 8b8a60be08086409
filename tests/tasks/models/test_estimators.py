"""scikit-learn estimators give the same answers as torch modules, or stay black boxes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler

import taskveil as tv
from taskveil.errors import TaskError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, 1.0, -2.0]
NUMBER = X @ [1.0, 0.2, -3.0, 0.5] + 0.1 * RNG.normal(size=120)
BINARY = np.where(NUMBER.mean() < NUMBER, "yes", "no")
THREE = np.digitize(NUMBER, np.quantile(NUMBER, [0.3, 0.7])) + 1


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LinearRegression(), NUMBER),
        (Ridge(), np.stack([NUMBER, -NUMBER], axis=1)),
        (make_pipeline(StandardScaler(), LinearRegression()), NUMBER),
        (
            make_pipeline(
                StandardScaler(), MLPRegressor(hidden_layer_sizes=(6,), max_iter=3000, tol=1e-1, random_state=0)
            ),
            NUMBER,
        ),
        (make_pipeline(MinMaxScaler(), RobustScaler(), LogisticRegression()), BINARY),
        (make_pipeline(StandardScaler(), LogisticRegression()), THREE),
        (
            make_pipeline(
                StandardScaler(), MLPClassifier(hidden_layer_sizes=(5, 4), activation="tanh", max_iter=400, tol=1e-1)
            ),
            BINARY,
        ),
        (
            make_pipeline(
                StandardScaler(), MLPClassifier(hidden_layer_sizes=(5,), activation="logistic", max_iter=400, tol=1e-1)
            ),
            THREE,
        ),
    ],
)
def test_known_estimators_become_torch_modules(model: object, y: np.ndarray) -> None:
    model.fit(X, y)
    classifier = hasattr(model, "predict_proba")
    task = tv.ModelTask(model, loss="cross_entropy" if classifier else "mse")
    assert task.torch_module is not None
    if classifier:
        assert torch.tensor(task.predict(X)).softmax(1).numpy() == pytest.approx(model.predict_proba(X))
        right = model.predict_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, y)]
        assert task.losses(X, X, y) == pytest.approx(-np.log(right))
    else:
        assert task.predict(X) == pytest.approx(model.predict(X).reshape(len(X), -1))


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (RandomForestClassifier(10, random_state=0), THREE),
        (RandomForestRegressor(10, random_state=0), NUMBER),
        (make_pipeline(PolynomialFeatures(), LinearRegression()), NUMBER),
        (make_pipeline(MinMaxScaler(clip=True), LinearRegression()), NUMBER),
        (OneVsRestClassifier(LogisticRegression(max_iter=1000)), THREE),
    ],
)
def test_other_estimators_stay_black_boxes(model: object, y: np.ndarray) -> None:
    model.fit(X, y)
    task = tv.ModelTask(model, loss="cross_entropy" if hasattr(model, "predict_proba") else "mse")
    assert task.torch_module is None
    if hasattr(model, "predict_proba"):
        assert np.exp(task.predict(X)) == pytest.approx(model.predict_proba(X), abs=1e-9)
    else:
        assert task.predict(X)[:, 0] == pytest.approx(model.predict(X))
    assert np.isfinite(task.losses(X, X, y)).all()


def test_a_conversion_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rounded(LinearRegression):
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.round(super().predict(X))

    task = tv.ModelTask(Rounded().fit(X, NUMBER))
    assert task.torch_module is None
    assert task.predict(X)[:, 0] == pytest.approx(np.round(LinearRegression().fit(X, NUMBER).predict(X)))


def test_a_model_trained_on_a_table_takes_arrays() -> None:
    model = RandomForestRegressor(5, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")), NUMBER)
    assert tv.ModelTask(model).predict(X).shape == (120, 1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tv.ModelTask(LinearRegression()), "fit the model first"),
        (lambda: tv.ModelTask(LinearRegression().fit(X, NUMBER), loss="cross_entropy"), "needs a classifier"),
        (lambda: tv.ModelTask(RidgeClassifier().fit(X, THREE), loss="cross_entropy"), "needs a classifier"),
        (lambda: tv.ModelTask(LogisticRegression(max_iter=9999).fit(X, THREE)), "is a classifier"),
        (lambda: tv.ModelTask(LinearRegression().fit(X, NUMBER)).check_width(3), "takes 4 attributes"),
        (lambda: tv.ModelTask(RidgeClassifier().fit(X, THREE), loss=lambda o, _: o[:, 0]), "gives no probabilities"),
        (
            lambda: tv.ModelTask(
                RandomForestClassifier(3).fit(X, np.stack([THREE, THREE], axis=1)), loss="cross_entropy"
            ),
            "several labels per record",
        ),
        (
            lambda: tv.ModelTask(
                MLPClassifier((3,), max_iter=5, tol=1.0, n_iter_no_change=1).fit(X, np.eye(2)[THREE % 2]),
                loss="cross_entropy",
            ),
            "several labels per record",
        ),
        (
            lambda: tv.ModelTask(RandomForestClassifier(3).fit(X, THREE), loss="cross_entropy").losses(
                X, X, np.full(120, 9)
            ),
            "none of the model's classes",
        ),
    ],
)
def test_estimators_that_cannot_be_used(make: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        make()


@pytest.mark.parametrize("offset", [0.0, 300.0, 1e6, 1.7e9])
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LinearRegression()),
        make_pipeline(RobustScaler(), Ridge()),
        make_pipeline(StandardScaler(with_mean=False), "passthrough", LinearRegression()),
    ],
)
def test_attributes_far_from_zero_keep_their_digits(model: object, offset: float) -> None:
    records = X / X.std(axis=0) + offset
    model.fit(records, NUMBER)
    task = tv.ModelTask(model)
    assert task.predict(records)[:, 0] == pytest.approx(model.predict(records), abs=1e-5)


@pytest.mark.parametrize("offset", [0.0, 300.0, 2000.0])
@pytest.mark.parametrize("loss", ["log_loss", "modified_huber"])
@pytest.mark.parametrize("y", [BINARY, THREE])
def test_other_links_are_not_taken_for_a_softmax(loss: str, y: np.ndarray, offset: float) -> None:
    records = X / X.std(axis=0) + offset
    for model in (SGDClassifier(loss=loss, random_state=0), LogisticRegression(max_iter=300)):
        pipeline = make_pipeline(StandardScaler(), model).fit(records, y)
        task = tv.ModelTask(pipeline, loss="cross_entropy")
        given = np.exp(task.predict(records))
        given /= given.sum(axis=1, keepdims=True)
        assert given == pytest.approx(pipeline.predict_proba(records), abs=1e-8)


def test_the_callers_records_are_left_alone() -> None:
    model = make_pipeline(StandardScaler(copy=False), RandomForestRegressor(3, random_state=0)).fit(X.copy(), NUMBER)
    records = X.copy()
    tv.ModelTask(model).predict(records)
    assert (records == X).all()


def test_classes_need_not_be_sorted() -> None:
    class Moods(RandomForestClassifier):
        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return super().predict_proba(X)[:, ::-1]

    model = Moods(3, random_state=0).fit(X, THREE)
    model.classes_ = np.array(["yes", "no", "maybe"])
    task = tv.ModelTask(model, loss="cross_entropy")
    assert task.labels(["maybe", "yes", "no"], 3).tolist() == [2, 0, 1]


def test_columns_in_another_order_than_the_model_was_fitted_to_are_refused() -> None:
    """scikit-learn refuses them itself; a design on the wrong columns would say nothing."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 3)), columns=["a", "b", "c"])
    y = (X["a"] > 0).astype(int).to_numpy()
    for model in (LogisticRegression().fit(X, y), RandomForestClassifier(5, random_state=0).fit(X, y)):
        task = tv.ModelTask(model, loss="cross_entropy")
        for table in (X[["c", "b", "a"]], X.rename(columns={"a": "z"})):
            with pytest.raises(TaskError, match="fitted to the columns a, b, c"):
                tv.design(table, task, y=y, epsilon=2.0)
            with pytest.raises(TaskError, match="fitted to the columns a, b, c"):
                tv.sweep(table, tv.MultiTask([(task, 1.0)]), y=[y], epsilons=[2.0], methods=["task_aware"])
        task.check_columns(None)
        task.check_columns(("a", "b", "c"))
