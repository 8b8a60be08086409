"""ONNX files answer as the specification says, or are refused before anything is computed."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplemented_

import taskveil as tv
from onnx_files import answers_of_the_runtime, ints, onnx_file
from taskveil.errors import TaskError
from taskveil.tasks.models.onnx_reader import read_onnx

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
def test_onnx_files_answer_as_the_runtime_does(make: object, width: int, tmp_path: Path) -> None:
    path = make(tmp_path / "m.onnx")
    records = RNG.normal(size=(9, width))
    task = tv.ModelTask(path)
    expected = answers_of_the_runtime(path, records.astype(np.float32))
    assert (task.width, task.outputs) == (width, expected.shape[1])
    assert task.predict(records) == pytest.approx(expected, abs=1e-5)


def test_a_softmax_at_the_end_becomes_logits(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    expected = answers_of_the_runtime(path, X.astype(np.float32))
    task = tv.ModelTask(str(path), loss="cross_entropy")
    assert torch.tensor(task.predict(X)).softmax(1).numpy() == pytest.approx(expected, abs=1e-5)


def test_operators_of_other_domains_are_named(tmp_path: Path) -> None:
    nodes = [helper.make_node("Det", ["x"], ["a"]), helper.make_node("Gelu", ["a"], ["y"], domain="my.ops")]
    path = tmp_path / "m.onnx"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    with pytest.raises(TaskError, match=r"Gelu of my\.ops"):
        tv.ModelTask(path)


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([node("Reshape", ["x", "s"], ["a"]), node("Softmax", ["a"], ["y"])], [2, 2]),
        ([node("Reshape", ["x", "s"], ["a"]), node("Gemm", ["a", "W"], ["y"])], [2, 2]),
        # The records' axis goes and those after it move up: what follows counts from there.
        ([node("Squeeze", ["x"], ["a"]), node("Softmax", ["a"], ["y"], axis=0)], [2, 2]),
        ([node("Squeeze", ["x"], ["a"]), node("Softmax", ["a"], ["y"], axis=1)], [2, 2]),
        ([node("Squeeze", ["x"], ["a"]), node("ReduceMax", ["a"], ["y"], axes=[0])], [2, 2]),
        ([node("Squeeze", ["x", "z"], ["a"]), node("Softmax", ["a"], ["y"], axis=0)], [4]),
        ([node("Flatten", ["x"], ["a"], axis=0), node("Transpose", ["a"], ["b"]),
          node("Softmax", ["b"], ["y"], axis=0)], [4]),
        ([node("Softmax", ["x"], ["y"], axis=0)], [4]),
    ],
)  # fmt: skip
def test_a_file_for_one_record_serves_many(nodes: list, shape: list, tmp_path: Path) -> None:
    given = {"s": ints(1, -1), "W": weights(4, 3), "z": ints(0)}
    path = onnx_file(tmp_path / "m.onnx", nodes, given, shape, batch=1)
    each = [answers_of_the_runtime(path, x.reshape(1, *shape).astype(np.float32)).ravel() for x in X]
    assert tv.ModelTask(path).predict(X) == pytest.approx(np.array(each), abs=1e-5)


def test_a_file_for_several_records_serves_any_number(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "s"], ["a"]), node("MatMul", ["a", "W"], ["y"])]
    path = onnx_file(tmp_path / "m.onnx", nodes, {"s": ints(3, 4), "W": weights(4, 2)}, [2, 2], batch=3)
    batches = [answers_of_the_runtime(path, x.reshape(3, 2, 2)) for x in X.astype(np.float32).reshape(-1, 3, 4)]
    expected = np.concatenate(batches)
    task = tv.ModelTask(path)
    for count in (1, 2, 3, 7, len(X)):
        assert task.predict(X[:count]) == pytest.approx(expected[:count], abs=1e-5)


def test_one_record_of_a_file_for_any_number_keeps_its_axis(tmp_path: Path) -> None:
    nodes = [node("Squeeze", ["x"], ["a"]), node("Softmax", ["a"], ["y"], axis=1)]
    path = onnx_file(tmp_path / "m.onnx", nodes, {}, [4, 1])
    expected = answers_of_the_runtime(path, X.reshape(-1, 4, 1).astype(np.float32))
    assert tv.ModelTask(path).predict(X[:1]) == pytest.approx(expected[:1], abs=1e-6)


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ([node("Exp", ["x"], ["y"])], {}),
        ([node("Gather", ["x", "i"], ["y"], axis=1)], {"i": ints(0, 2)}),
        ([node("Cast", ["k"], ["f"], to=TensorProto.DOUBLE), node("Div", ["x", "f"], ["y"])], {"k": np.float32(3.0)}),
        ([node("HardSigmoid", ["x"], ["y"])], {}),  # its slope is the single-precision 0.2
        ([node("HardSwish", ["x"], ["y"])], {}),  # and this one's 1/6
        ([node("Softplus", ["x"], ["y"])], {}),
    ],
)
def test_double_precision_stays_double(nodes: list, weights: dict, tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, weights, [4], kind=TensorProto.DOUBLE, opset=18)
    assert tv.ModelTask(path).predict(3 * X) == pytest.approx(_double(path, 3 * X), rel=1e-14, abs=1e-15)


def _double(path: Path, records: np.ndarray) -> np.ndarray:
    """By onnxruntime where it has the operator for doubles, else by ONNX's own reference."""
    try:
        return answers_of_the_runtime(path, records)
    except NotImplemented_:
        return ReferenceEvaluator(str(path)).run(None, {"x": records})[0]


@pytest.mark.parametrize("lower", [TensorProto.FLOAT16, TensorProto.FLOAT])
def test_a_cast_to_lower_precision_rounds(lower: int, tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["a"], to=lower), node("Cast", ["a"], ["y"], to=TensorProto.DOUBLE)]
    path = onnx_file(tmp_path / "m.onnx", nodes, {}, [4], kind=TensorProto.DOUBLE)
    answer = tv.ModelTask(path).predict(X)
    assert answer == pytest.approx(answers_of_the_runtime(path, X), rel=0, abs=0)
    assert np.abs(answer - X).max() > 0


def test_gradients_in_single_precision_of_a_file_in_double(tmp_path: Path) -> None:
    """Learned designs move every model to single precision."""
    nodes = [node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE), node("MatMul", ["a", "W"], ["b"]),
             node("Softplus", ["b"], ["y"])]  # fmt: skip
    path = onnx_file(tmp_path / "m.onnx", nodes, {"W": weights(4, 2).astype(np.float64)}, [4], kind=TensorProto.DOUBLE)
    task = tv.ModelTask(path)
    module = copy.deepcopy(task.torch_module).to(torch.float32)
    x = torch.tensor(X, dtype=torch.float32, requires_grad=True)
    answer = module(x)
    answer.sum().backward()
    assert answer.dtype == torch.float32
    assert answer.detach().numpy() == pytest.approx(task.predict(X), abs=1e-5)
    assert torch.isfinite(x.grad).all()


def test_what_a_file_computes_from_its_own_numbers_is_computed_once(tmp_path: Path) -> None:
    nodes = [node("Shape", ["W"], ["s"]), node("Gather", ["s", "one"], ["c"]),
             node("Concat", ["minus", "c"], ["r"], axis=0), node("Reshape", ["x", "r"], ["a"]),
             node("Transpose", ["W"], ["V"]), node("MatMul", ["a", "V"], ["y"])]  # fmt: skip
    given = {"W": weights(3, 4), "one": ints(1), "minus": ints(-1)}
    path = onnx_file(tmp_path / "m.onnx", nodes, given, [2, 2])
    expected = answers_of_the_runtime(path, X.reshape(-1, 2, 2).astype(np.float32))
    assert tv.ModelTask(path).predict(X) == pytest.approx(expected, abs=1e-5)
    module, width = read_onnx(onnx.load(path), logits=False)
    assert [n.kind for n in module.nodes] == ["Reshape", "MatMul"]
    assert width == 4


def test_a_dropout_that_is_off_does_nothing(tmp_path: Path) -> None:
    off = {"r": np.float32(0.5), "t": np.array(False)}
    path = onnx_file(tmp_path / "m.onnx", [node("Dropout", ["x", "r", "t"], ["y"])], off, [4])
    assert tv.ModelTask(path).predict(X) == pytest.approx(X, abs=1e-6)


@pytest.mark.parametrize(
    ("nodes", "weights", "options", "says"),
    [
        ([node("Softmax", ["x"], ["y"], axis=0)], {}, {}, "mixes records"),
        ([node("ReduceMean", ["x"], ["m"], keepdims=1), node("Sub", ["x", "m"], ["y"])], {}, {}, "mixes records"),
        ([node("Transpose", ["x"], ["y"])], {}, {}, "answers of shape"),
        ([node("Transpose", ["x"], ["y"])], {}, {"batch": 3}, "answers of shape"),
        ([node("Softmax", ["x"], ["y"], axis=0)], {}, {"batch": 3}, "mixes records"),
        ([node("Identity", ["x"], ["y"])], {}, {"kind": TensorProto.INT64}, "floating"),
        ([node("Dropout", ["x", "r", "t"], ["y"])], {"r": np.float32(0.5), "t": np.array(True)}, {}, "training mode"),
        ([node("BatchNormalization", ["x", "w", "w", "w", "w"], ["y", "m", "v"], training_mode=1)],
         {"w": np.ones(4, dtype=np.float32)}, {}, "training mode"),
        ([node("Reshape", ["x", "s"], ["y"], allowzero=1)], {"s": ints(0, 4)}, {}, "shape"),
        ([node("Gather", ["k", "i"], ["a"]), node("Add", ["x", "a"], ["y"])],
         {"k": np.ones(3, dtype=np.float32), "i": np.array(5)}, {}, "cannot be run by onnxruntime|cannot take records"),
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
