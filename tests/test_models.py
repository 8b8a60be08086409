"""Conversions: scikit-learn and ONNX models give the same answers as torch modules, or stay black boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
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


def onnx_file(path: Path, nodes: list, weights: dict[str, np.ndarray], shape: list, outputs: int) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", outputs])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.3


def dense(path: Path, last: str = "Softmax") -> Path:
    return onnx_file(
        path,
        [
            helper.make_node("Sub", ["x", "m"], ["a"]),
            helper.make_node("Div", ["a", "s"], ["b"]),
            helper.make_node("Gemm", ["b", "W", "c"], ["d"], transB=1, alpha=0.5),
            helper.make_node("Tanh", ["d"], ["e"]),
            helper.make_node("MatMul", ["e", "V"], ["f"]),
            helper.make_node("Add", ["f", "v"], ["g"]),
            helper.make_node(last, ["g"], ["y"]),
        ],
        {"m": weights(4), "s": 1 + weights(4) ** 2, "W": weights(6, 4), "c": weights(6),
         "V": weights(6, 3), "v": weights(3)},
        [4],
        3,
    )  # fmt: skip


def images(path: Path) -> Path:
    return onnx_file(
        path,
        [
            helper.make_node("Reshape", ["x", "s"], ["a"]),
            helper.make_node("Conv", ["a", "W", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 0, 1, 2], strides=[1, 2]),
            helper.make_node("Relu", ["c"], ["d"]),
            helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Identity", ["e"], ["f"]),
            helper.make_node("Flatten", ["f"], ["g"]),
            helper.make_node("Gemm", ["g", "V"], ["h"]),
            helper.make_node("Sigmoid", ["h"], ["i"]),
            helper.make_node("Mul", ["i", "k"], ["y"]),
        ],
        {"s": np.array([-1, 1, 8, 8]), "W": weights(5, 1, 3, 3), "b": weights(5), "V": weights(5 * 4 * 2, 2),
         "k": np.float32(2.0).reshape(1)},
        [64],
        2,
    )  # fmt: skip


@pytest.mark.parametrize(("make", "width"), [(lambda p: dense(p, "Sigmoid"), 4), (images, 64)])
def test_onnx_files_answer_as_the_reference_does(make: object, width: int, tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx")
    records = RNG.normal(size=(9, width))
    task = tv.ModelTask(path)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": records.astype(np.float32)})
    assert (task.width, task.outputs) == (width, expected.shape[1])
    assert task.predict(records) == pytest.approx(expected, abs=1e-5)


def test_a_softmax_at_the_end_becomes_logits(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": X.astype(np.float32)})
    task = tv.ModelTask(str(path), loss="cross_entropy")
    assert torch.tensor(task.predict(X)).softmax(1).numpy() == pytest.approx(expected, abs=1e-5)


def test_unknown_operators_are_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Erf", ["x"], ["a"]), helper.make_node("Gelu", ["a"], ["y"], domain="my.ops")]
    path = tmp_path / "m.onnx"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    with pytest.raises(TaskError, match="Erf, Gelu"):
        tv.ModelTask(path)
