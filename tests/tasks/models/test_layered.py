"""scikit-learn's models as layers of numbers: the same predictions, gradients, lines and networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVR

import taskveil as tv

RNG = np.random.default_rng(8)
X = RNG.normal(size=(150, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 5.0, 1.0, -2.0]
NUMBER = X @ [1.0, 0.2, -3.0, 0.5] + 0.1 * RNG.normal(size=150)
BINARY = np.where(NUMBER.mean() < NUMBER, "yes", "no")
THREE = np.digitize(NUMBER, np.quantile(NUMBER, [0.3, 0.7])) + 1


def small(kind: type, activation: str, hidden: tuple[int, ...] = (6, 5)) -> object:
    return kind(hidden_layer_sizes=hidden, activation=activation, max_iter=3000, tol=1e-1, random_state=0)


LINEAR = [
    (LinearRegression(), NUMBER),
    (LinearRegression(fit_intercept=False), NUMBER),
    (Ridge(), np.stack([NUMBER, -NUMBER], axis=1)),
    (Lasso(0.01), NUMBER),
    (ElasticNet(0.01), NUMBER),
    (make_pipeline(StandardScaler(), SGDRegressor(random_state=0)), NUMBER),
    (make_pipeline(MinMaxScaler(), RobustScaler(), "passthrough", LogisticRegression()), BINARY),
    (make_pipeline(StandardScaler(with_std=False), LogisticRegression(max_iter=500)), THREE),
    (LinearDiscriminantAnalysis(), BINARY),
    (LinearDiscriminantAnalysis(), THREE),
    (make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)), BINARY),
]
NETWORKS = [
    (make_pipeline(StandardScaler(), small(MLPRegressor, "relu")), NUMBER),
    (make_pipeline(MinMaxScaler(), small(MLPRegressor, "identity")), NUMBER),
    (make_pipeline(StandardScaler(), small(MLPClassifier, "relu", (7,))), BINARY),
    (make_pipeline(RobustScaler(), StandardScaler(), small(MLPClassifier, "relu")), THREE),
]
BENT = [
    (make_pipeline(StandardScaler(), small(MLPRegressor, "tanh")), NUMBER),
    (make_pipeline(StandardScaler(), small(MLPClassifier, "logistic")), THREE),
]
OTHERS = [
    (RandomForestRegressor(5, random_state=0), NUMBER),
    (RandomForestClassifier(5, random_state=0), THREE),
    (SVR(), NUMBER),
    (make_pipeline(PolynomialFeatures(), LinearRegression()), NUMBER),
    (make_pipeline(MinMaxScaler(clip=True), LinearRegression()), NUMBER),
    (PoissonRegressor(), np.exp(0.1 * NUMBER)),
    (make_pipeline(StandardScaler(), SGDClassifier(loss="modified_huber", random_state=0)), BINARY),
]


def task_of(model: object, y: np.ndarray) -> tv.ModelTask:
    model.fit(X, y)
    return tv.ModelTask(model, loss="cross_entropy" if hasattr(model, "predict_proba") else "mse")


def said(model: object, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What outputs say, and what the estimator itself says."""
    if not hasattr(model, "predict_proba"):
        return outputs, model.predict(X).reshape(len(X), -1)
    chances = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True), model.predict_proba(X)


@pytest.mark.parametrize(("model", "y"), LINEAR)
def test_linear_models_have_lines(model: object, y: np.ndarray) -> None:
    task = task_of(model, y)
    assert task.lines is not None
    weights, offset = task.lines
    assert weights.dtype == offset.dtype == np.float64
    assert (weights.shape, offset.shape) == ((task.outputs, 4), (task.outputs,))
    mine, theirs = said(model, X @ weights.T + offset)
    assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-9)
    assert task.frozen.relu_layers is None
    assert task.differentiable


@pytest.mark.parametrize(("model", "y"), NETWORKS)
def test_networks_of_relus_are_dense_layers(model: object, y: np.ndarray) -> None:
    task = task_of(model, y)
    layers = task.frozen.relu_layers
    assert layers is not None
    flow = X
    for place, (weights, offset) in enumerate(layers):
        assert weights.shape == (len(offset), flow.shape[1])
        flow = (np.maximum(flow, 0.0) if place else flow) @ weights.T + offset
    mine, theirs = said(model, flow)
    assert mine == pytest.approx(theirs, rel=1e-6, abs=1e-9)
    assert flow.shape == (len(X), task.outputs)
    assert (task.lines is None) == (model[-1].activation == "relu")


@pytest.mark.parametrize(("model", "y"), BENT)
def test_other_activations_have_neither(model: object, y: np.ndarray) -> None:
    task = task_of(model, y)
    assert task.lines is None
    assert task.frozen.relu_layers is None
    assert task.differentiable


@pytest.mark.parametrize(("model", "y"), OTHERS)
def test_black_boxes_are_not_taken_for_linear(model: object, y: np.ndarray) -> None:
    task = task_of(model, y)
    assert task.lines is None
    assert task.frozen.relu_layers is None
    assert not task.differentiable
    assert task.torch_module is None


@pytest.mark.parametrize(("model", "y"), [*LINEAR, *NETWORKS, *BENT])
def test_the_module_and_its_gradients_are_the_same(model: object, y: np.ndarray) -> None:
    task = task_of(model, y)
    assert task.torch_module is task.torch_module
    records = torch.tensor(X, requires_grad=True)
    outputs = task.torch_module(records)
    assert outputs.detach().numpy() == pytest.approx(task.predict(X), rel=1e-9, abs=1e-9)
    pull = RNG.normal(size=(len(X), task.outputs))
    (wanted,) = torch.autograd.grad(outputs, records, torch.tensor(pull))
    assert task.frozen.layered.pulled_back(X, pull) == pytest.approx(wanted.numpy(), rel=1e-9, abs=1e-9)


def test_attributes_so_far_from_zero_that_digits_are_lost_have_no_lines() -> None:
    for offset, found in ((0.0, True), (1.7e9, True), (1e13, False)):
        records = X / X.std(axis=0) + offset
        task = tv.ModelTask(make_pipeline(StandardScaler(), LinearRegression()).fit(records, NUMBER))
        assert (task.lines is not None) == found


def test_a_model_of_tables_has_no_lines() -> None:
    import pandas as pd

    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 5, "high", "low")})
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough"), LinearRegression()
    ).fit(table, NUMBER)
    task = tv.ModelTask(model)
    assert task.lines is None
    assert task.on(tv.Schema.of(table)).lines is None
