"""Every operator of the reader answers as onnxruntime does; files with other options are run by onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from scipy.special import softmax

import taskveil as tv
from onnx_files import answers_of_the_runtime, flat, ints, onnx_file
from taskveil.tasks.models.onnx_reader import OPERATORS

RNG = np.random.default_rng(6)
node = helper.make_node


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.3


def agree(path: Path, shape: list[int], records: np.ndarray, *, gradients: bool) -> None:
    expected = answers_of_the_runtime(path, records.reshape(len(records), *shape).astype(np.float32))
    task = tv.ModelTask(path)
    assert (task.torch_module is not None) == gradients
    assert task.predict(records) == pytest.approx(expected, abs=1e-5)


OPSETS = {"Gelu": 20}  # 17 for all others
PLAIN: dict[str, tuple[list, dict, list[int]]] = {
    **{
        name: ([node(name, ["x"], ["y"])], {}, [4])
        for name in ("Abs", "Clip", "Dropout", "Elu", "Erf", "Exp", "Flatten", "Gelu", "Identity", "LeakyRelu",
                     "LogSoftmax", "Neg", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Tanh")
    },
    **{
        name: ([node(name, ["x", "w"], ["y"])], {"w": np.arange(1, 5, dtype=np.float32) / 2}, [4])
        for name in ("Add", "Sub", "Mul", "Div")
    },
    "ReduceMean": ([node("ReduceMean", ["x"], ["y"], axes=[-1], keepdims=0)], {}, [3, 4]),
    "Constant": ([node("Constant", [], ["k"], value_floats=[1.0, 2.0]), node("Mul", ["x", "k"], ["y"])], {}, [2]),
    "Shape": ([node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"]),
               node("Concat", ["n", "m"], ["r"], axis=0), node("Reshape", ["x", "r"], ["y"])],
              {"i": ints(0), "m": ints(-1)}, [2, 3]),
    "Gather": ([node("Gather", ["x", "i"], ["a"], axis=1), *flat("a")], {"i": np.array([[0, -1], [2, 2]])}, [4]),
    "GlobalMaxPool": ([node("GlobalMaxPool", ["x"], ["a"]), *flat("a")], {}, [3, 2, 2]),
    "MatMul": ([node("MatMul", ["x", "w"], ["y"])], {"w": weights(4, 3)}, [4]),
    "Gemm": ([node("Gemm", ["x", "w", "b"], ["y"], transB=1, alpha=0.5, beta=2.0)],
             {"w": weights(3, 4), "b": weights(3)}, [4]),
    "Log": ([node("Add", ["x", "w"], ["a"]), node("Log", ["a"], ["y"])], {"w": np.ones(4, dtype=np.float32)}, [4]),
    "Concat": ([node("Concat", ["x", "x"], ["y"], axis=1)], {}, [4]),
    "Cast": ([node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {}, [4]),
    "BatchNormalization": ([node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.1)],
                           {"s": weights(4), "b": weights(4), "m": weights(4), "v": weights(4) ** 2 + 1}, [4]),
    "Reshape": ([node("Reshape", ["x", "s"], ["y"])], {"s": ints(0, -1)}, [2, 3]),
    "Transpose": ([node("Transpose", ["x"], ["a"], perm=[0, 2, 1]), *flat("a")], {}, [2, 3]),
    "Squeeze": ([node("Squeeze", ["x", "s"], ["y"])], {"s": ints(2)}, [4, 1]),
    "Unsqueeze": ([node("Unsqueeze", ["x", "s"], ["a"]), *flat("a")], {"s": ints(1, 3)}, [4]),
    "Conv": ([node("Conv", ["x", "w", "b"], ["a"], strides=[2, 1], group=2, pads=[1, 0, 1, 1]),
              *flat("a")], {"w": weights(4, 1, 3, 2), "b": weights(4)}, [2, 5, 6]),
    "MaxPool": ([node("MaxPool", ["x"], ["a"], kernel_shape=[2, 3], strides=[1, 2]), *flat("a")], {}, [2, 4, 5]),
    "AveragePool": ([node("AveragePool", ["x"], ["a"], kernel_shape=[2, 3], strides=[1, 2]), *flat("a")], {},
                    [2, 4, 5]),
    "GlobalAveragePool": ([node("GlobalAveragePool", ["x"], ["a"]), *flat("a")], {}, [3, 2, 2]),
}  # fmt: skip


def test_every_operator_of_the_table_is_one_of_onnx_and_is_tested_below() -> None:
    assert all(defs.has(name) for name in OPERATORS)
    assert set(PLAIN) == set(OPERATORS)


@pytest.mark.parametrize("name", PLAIN)
def test_every_operator_answers_as_the_runtime_does(name: str, tmp_path: Path) -> None:
    nodes, given, shape = PLAIN[name]
    path = onnx_file(tmp_path / "m.onnx", nodes, given, shape, opset=OPSETS.get(name, 17))
    # Between 0.1 and 1.1: roots and powers are defined there.
    agree(path, shape, RNG.random((7, int(np.prod(shape)))) + 0.1, gradients=True)


@pytest.mark.parametrize(
    ("nodes", "weights", "shape"),
    [
        ([node("Flatten", ["x"], ["a"], axis=-1), node("Reshape", ["a", "s"], ["y"])], {"s": ints(-1, 12)}, [3, 4]),
        ([node("GlobalAveragePool", ["x"], ["a"]), node("Squeeze", ["a"], ["b"]), node("Softmax", ["b"], ["y"])], {},
         [3, 2, 2]),
        ([node("Squeeze", ["x", "s"], ["a"]), node("Softmax", ["a"], ["y"])], {"s": ints(-1, 2)}, [4, 1, 1]),
        ([node("Unsqueeze", ["x", "s"], ["a"]), node("Softmax", ["a"], ["b"], axis=1), *flat("b")], {"s": ints(-2, -1)},
         [4]),
        ([node("ReduceMean", ["x"], ["a"], axes=[-1]), *flat("a")], {}, [3, 4]),
        ([node("Clip", ["x"], ["y"])], {}, [4]),
        ([node("Clip", ["x", "", "u"], ["y"])], {"u": np.float32(0.2)}, [4]),
        ([node("Constant", [], ["k"], value_float=0.5), node("Mul", ["x", "k"], ["y"])], {}, [4]),
        ([node("Constant", [], ["k"], value_ints=[-1, 4]), node("Reshape", ["x", "k"], ["y"])], {}, [2, 2]),
        ([node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), node("MatMul", ["x", "f"], ["y"])],
         {"w": np.arange(8).reshape(4, 2)}, [4]),
        ([node("MaxPool", ["x"], ["a"], kernel_shape=[3], strides=[2], pads=[1, 1]), *flat("a")], {}, [2, 5]),
        ([node("AveragePool", ["x"], ["a"], kernel_shape=[2], strides=[2], count_include_pad=1, pads=[1, 1]),
          *flat("a")], {}, [2, 4]),
        ([node("AveragePool", ["x"], ["a"], kernel_shape=[3], strides=[2], pads=[1, 2]), *flat("a")], {}, [2, 6]),
        ([node("Conv", ["x", "w"], ["a"], dilations=[1, 2], pads=[1, 0, 0, 2]), *flat("a")], {"w": weights(4, 2, 3, 2)},
         [2, 5, 6]),
        ([node("Reshape", ["x", "s"], ["y"], allowzero=1)], {"s": ints(-1, 6)}, [2, 3]),
        ([node("Gelu", ["x"], ["y"], approximate="tanh")], {}, [4]),
        ([node("Concat", ["x", "x"], ["a"], axis=-2), *flat("a")], {}, [2, 3]),
    ],
)  # fmt: skip
def test_operators_with_unusual_options(nodes: list, weights: dict, shape: list, tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, weights, shape, opset=max(OPSETS.get(n.op_type, 17) for n in nodes))
    agree(path, shape, RNG.normal(size=(7, int(np.prod(shape)))), gradients=True)


@pytest.mark.parametrize(
    ("nodes", "weights", "shape", "opset"),
    [
        ([node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), node("Add", ["d", "w"], ["e"]),
          node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)], {"w": np.arange(4) / 3}, [4], 17),
        ([node("Cast", ["x"], ["a"], to=TensorProto.INT64), node("Cast", ["a"], ["y"], to=TensorProto.FLOAT)], {}, [4],
         17),
        ([node("MaxPool", ["x"], ["a"], kernel_shape=[2], strides=[2], pads=[0, 1], ceil_mode=1), *flat("a")], {},
         [2, 4], 17),
        ([node("AveragePool", ["x"], ["a"], kernel_shape=[2], dilations=[2]), *flat("a")], {}, [1, 4], 19),
        ([node("Conv", ["x", "w"], ["a"], strides=[2, 1], auto_pad="SAME_LOWER"), *flat("a")],
         {"w": weights(4, 2, 3, 2)}, [2, 5, 6], 17),
        ([node("MaxPool", ["x"], ["a", "i"], kernel_shape=[2]), *flat("a")], {}, [1, 4], 17),
        ([node("ReduceMean", ["x", "s"], ["y"], noop_with_empty_axes=1)], {"s": ints()}, [4], 18),
        ([node("Dropout", ["x"], ["a", "m"]), node("Where", ["m", "a", "x"], ["y"])], {}, [4], 17),
        ([node("LayerNormalization", ["x", "s"], ["y"])], {"s": np.ones(4, dtype=np.float32)}, [4], 17),
        ([node("Pad", ["x", "s"], ["y"], mode="reflect")], {"s": ints(0, 2, 0, 3)}, [4], 17),
        ([node("Split", ["x"], ["a", "b"], axis=-1), node("Max", ["a", "b", "k"], ["y"])],
         {"k": np.zeros(1, np.float32)}, [4], 17),
        ([node("Det", ["x"], ["a"]), node("Unsqueeze", ["a", "s"], ["y"])], {"s": ints(1)}, [2, 2], 17),
    ],
)  # fmt: skip
def test_files_beyond_the_reader_are_answered_by_the_runtime(
    nodes: list, weights: dict, shape: list, opset: int, tmp_path: Path
) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, weights, shape, opset=opset)
    agree(path, shape, RNG.normal(size=(7, int(np.prod(shape)))), gradients=False)


@pytest.mark.parametrize(("axis", "axes"), [(None, (1, 2)), (1, (1, 2)), (2, (2,))])
def test_an_old_softmax_goes_over_all_later_axes(axis: int | None, axes: tuple[int, ...], tmp_path: Path) -> None:
    options = {} if axis is None else {"axis": axis}
    nodes = [node("Softmax", ["x"], ["a"], **options), *flat("a")]
    records = RNG.normal(size=(5, 6))
    task = tv.ModelTask(onnx_file(tmp_path / "m.onnx", nodes, {}, [2, 3], opset=11))
    assert task.predict(records) == pytest.approx(softmax(records.reshape(5, 2, 3), axis=axes).reshape(5, 6), abs=1e-6)
