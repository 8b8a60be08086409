"""ONNX files answer as the specification says, or are refused before anything is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import taskveil as tv
from onnx_files import flat, ints, onnx_file
from taskveil.errors import TaskError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(120, 4))
node = helper.make_node


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


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Reshape", ["x", "s"], ["a"]), node("Softmax", ["a"], ["y"])],
        [node("Reshape", ["x", "s"], ["a"]), node("Gemm", ["a", "W"], ["y"])],
    ],
)
def test_a_file_for_one_record_serves_many(nodes: list, tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, {"s": ints(1, -1), "W": weights(4, 3)}, [2, 2], batch=1)
    referee = ReferenceEvaluator(str(path))
    each = [referee.run(None, {"x": x.reshape(1, 2, 2).astype(np.float32)})[0][0] for x in X]
    assert tv.ModelTask(path).predict(X) == pytest.approx(np.array(each), abs=1e-5)


@pytest.mark.parametrize(
    ("nodes", "weights", "options", "says"),
    [
        ([node("Softmax", ["x"], ["y"], axis=0)], {}, {}, "mixes records"),
        ([node("ReduceMean", ["x"], ["m"], keepdims=1), node("Sub", ["x", "m"], ["y"])], {}, {}, "mixes records"),
        ([node("Transpose", ["x"], ["y"])], {}, {}, "answers of shape"),
        ([node("Flatten", ["x"], ["y"], axis=0)], {}, {"batch": 1}, "answers of shape"),
        ([node("Squeeze", ["x", "s"], ["a"]), node("Softmax", ["a"], ["y"], axis=0)], {"s": ints(0)}, {"batch": 1},
         "records' axis"),
        ([node("Cast", ["x"], ["a"], to=TensorProto.INT64), node("Cast", ["a"], ["y"], to=TensorProto.FLOAT)], {}, {},
         "whole numbers"),
        ([node("Identity", ["x"], ["y"])], {}, {"kind": TensorProto.INT64}, "floating"),
        ([node("Relu", ["x"], ["y"])], {}, {"opset": 6}, "operator set 6"),
        ([node("Dropout", ["x"], ["a", "m"]), node("Cast", ["m"], ["y"], to=TensorProto.FLOAT)], {}, {},
         "second output"),
        ([node("Dropout", ["x", "r", "t"], ["y"])], {"r": np.float32(0.5), "t": np.array(True)}, {}, "training mode"),
        ([node("BatchNormalization", ["x", "w", "w", "w", "w"], ["y", "m", "v"], training_mode=1)],
         {"w": np.ones(4, dtype=np.float32)}, {}, "training mode"),
        ([node("Reshape", ["x", "s"], ["y"], allowzero=1)], {"s": ints(-1, 4)}, {}, "length 0"),
        ([node("ReduceMean", ["x"], ["y"], noop_with_empty_axes=1)], {}, {"opset": 18}, "do nothing"),
        ([node("Unsqueeze", ["x", "s"], ["a"]), node("AveragePool", ["a"], ["b"], kernel_shape=[2], dilations=[2]),
          *flat("b")], {"s": ints(1)}, {"opset": 19}, "dilations"),
        ([node("Unsqueeze", ["x", "s"], ["a"]),
          node("MaxPool", ["a"], ["b"], kernel_shape=[2], strides=[3], auto_pad="SAME_UPPER"), *flat("b")],
         {"s": ints(1)}, {}, "automatic padding"),
    ],
)  # fmt: skip
def test_what_would_be_answered_wrongly_is_refused(
    nodes: list, weights: dict, options: dict, says: str, tmp_path: Path
) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, weights, [4], **options)
    with pytest.raises(TaskError, match=says):
        tv.ModelTask(path)


@pytest.mark.parametrize("kind", [np.float64, np.float16])
def test_codebooks_for_files_of_every_precision(kind: type, tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "W"], ["y"])]
    elements = TensorProto.DOUBLE if kind is np.float64 else TensorProto.FLOAT16
    path = onnx_file(tmp_path / "m.onnx", nodes, {"W": weights(4, 1).astype(kind)}, [4], 1, kind=elements)
    veil = tv.design(X[:60], tv.ModelTask(path), epsilon=2.0, method="codebook")
    assert np.isfinite(veil.loss(X).mean)
