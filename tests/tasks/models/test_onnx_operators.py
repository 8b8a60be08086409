"""Every operator answers as onnxruntime does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from scipy.special import softmax

import taskveil as tv
from onnx_files import answers_of_the_runtime, flat, ints, onnx_file
from taskveil.tasks.models.onnx_operators import OPERATORS

RNG = np.random.default_rng(6)
node = helper.make_node


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32) * 0.3


def agree(path: Path, shape: list[int], records: np.ndarray) -> None:
    expected = answers_of_the_runtime(path, records.reshape(len(records), *shape).astype(np.float32))
    assert tv.ModelTask(path).predict(records) == pytest.approx(expected, abs=1e-5)


def compared(operator: str) -> tuple[list, dict, list[int]]:
    """A comparison, and how often it is true."""
    nodes = [node(operator, ["x", "w"], ["a"]), node("Cast", ["a"], ["y"], to=TensorProto.FLOAT)]
    return nodes, {"w": np.linspace(0.3, 0.9, 4, dtype=np.float32)}, [4]


def combined(operator: str) -> tuple[list, dict, list[int]]:
    """Two truth values in one."""
    nodes = [node("Greater", ["x", "w"], ["a"]), node("Less", ["x", "v"], ["b"]), node(operator, ["a", "b"], ["c"]),
             node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    return nodes, {"w": np.full(4, 0.4, dtype=np.float32), "v": np.full(4, 0.8, dtype=np.float32)}, [4]


OPSETS = {"Mish": 18, "Gelu": 20, "Swish": 24}  # 17 for all others
PLAIN: dict[str, tuple[list, dict, list[int]]] = {
    **{
        name: ([node(name, ["x"], ["y"])], {}, [4])
        for name in ("Abs", "Ceil", "Celu", "Clip", "Cos", "Dropout", "Elu", "Erf", "Exp", "Flatten", "Floor", "Gelu",
                     "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "LogSoftmax", "LpNormalization", "Mish",
                     "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softmax",
                     "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu")
    },
    **{
        name: ([node(name, ["x", "w"], ["y"])], {"w": np.arange(1, 5, dtype=np.float32) / 2}, [4])
        for name in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Mean", "Min", "Sum", "PRelu")
    },
    **{name: compared(name) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{name: combined(name) for name in ("And", "Or", "Xor")},
    **{
        f"Reduce{name}": ([node(f"Reduce{name}", ["x"], ["y"], axes=[-1], keepdims=0)], {}, [3, 4])
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
    "ReduceSum": ([node("ReduceSum", ["x", "s"], ["y"], keepdims=0)], {"s": ints(1)}, [3, 4]),
    "Not": ([node("Greater", ["x", "w"], ["a"]), node("Not", ["a"], ["b"]), node("Where", ["b", "x", "w"], ["y"])],
            {"w": np.full(4, 0.5, dtype=np.float32)}, [4]),
    "Where": ([node("Less", ["x", "w"], ["a"]), node("Where", ["a", "x", "w"], ["y"])],
              {"w": np.full(4, 0.5, dtype=np.float32)}, [4]),
    "Mod": ([node("Mod", ["x", "w"], ["y"], fmod=1)], {"w": np.full(4, 0.3, dtype=np.float32)}, [4]),
    "CastLike": ([node("CastLike", ["w", "x"], ["a"]), node("Mul", ["x", "a"], ["y"])], {"w": ints(1, 2, 3, 4)}, [4]),
    "LayerNormalization": ([node("LayerNormalization", ["x", "s", "b"], ["a"], axis=1, epsilon=0.01), *flat("a")],
                           {"s": weights(2, 3), "b": weights(2, 3)}, [2, 3]),
    "InstanceNormalization": ([node("InstanceNormalization", ["x", "s", "b"], ["a"]), *flat("a")],
                              {"s": weights(2), "b": weights(2)}, [2, 5]),
    "Constant": ([node("Constant", [], ["k"], value_floats=[1.0, 2.0]), node("Mul", ["x", "k"], ["y"])], {}, [2]),
    "Shape": ([node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["n"]),
               node("Concat", ["n", "m"], ["r"], axis=0), node("Reshape", ["x", "r"], ["y"])],
              {"i": ints(0), "m": ints(-1)}, [2, 3]),
    "Size": ([node("Size", ["x"], ["n"]), node("Div", ["n", "n"], ["o"]), node("Cast", ["o"], ["f"], to=1),
              node("Add", ["x", "f"], ["y"])], {}, [4]),
    "ConstantOfShape": ([node("Shape", ["x"], ["s"]), node("ConstantOfShape", ["s"], ["z"]),
                         node("Sub", ["z", "x"], ["y"])], {}, [4]),
    "Range": ([node("Range", ["a", "b", "c"], ["r"]), node("Gather", ["x", "r"], ["y"], axis=1)],
              {"a": np.array(3), "b": np.array(-1), "c": np.array(-2)}, [4]),
    "Gather": ([node("Gather", ["x", "i"], ["a"], axis=1), *flat("a")], {"i": np.array([[0, -1], [2, 2]])}, [4]),
    "Slice": ([node("Slice", ["x", "a", "b", "i", "s"], ["y"])],
              {"a": ints(-1), "b": ints(-(2**62)), "i": ints(1), "s": ints(-2)}, [4]),
    "Split": ([node("Split", ["x", "s"], ["a", "b"], axis=1), node("Mul", ["a", "b"], ["y"])], {"s": ints(2, 2)}, [4]),
    "Expand": ([node("Expand", ["x", "s"], ["a"]), *flat("a")], {"s": ints(1, 1, 3)}, [2, 1]),
    "Tile": ([node("Tile", ["x", "s"], ["y"])], {"s": ints(1, 2)}, [4]),
    "Pad": ([node("Pad", ["x", "s", "v"], ["y"])], {"s": ints(0, 1, 0, -2), "v": np.float32(0.5)}, [4]),
    "GlobalMaxPool": ([node("GlobalMaxPool", ["x"], ["a"]), *flat("a")], {}, [3, 2, 2]),
    "ConvTranspose": ([node("ConvTranspose", ["x", "w", "b"], ["a"], strides=[2, 1], pads=[1, 0, 0, 1], group=2,
                            output_padding=[1, 0]), *flat("a")],
                      {"w": weights(2, 2, 3, 2), "b": weights(4)}, [2, 3, 4]),
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
    "Conv": ([node("Conv", ["x", "w", "b"], ["a"], strides=[2, 1], group=2, auto_pad="SAME_LOWER"),
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
    agree(path, shape, RNG.random((7, int(np.prod(shape)))) + 0.1)


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
        ([node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), node("Add", ["d", "w"], ["e"]),
          node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)], {"w": np.arange(4) / 3}, [4]),
        ([node("MaxPool", ["x"], ["a"], kernel_shape=[2], strides=[2], pads=[0, 1], ceil_mode=1), *flat("a")], {},
         [2, 4]),
        ([node("MaxPool", ["x"], ["a"], kernel_shape=[3], strides=[2], pads=[1, 1]), *flat("a")], {}, [2, 5]),
        ([node("AveragePool", ["x"], ["a"], kernel_shape=[2], strides=[2], count_include_pad=1, pads=[1, 1]),
          *flat("a")], {}, [2, 4]),
        ([node("AveragePool", ["x"], ["a"], kernel_shape=[3], strides=[2], pads=[1, 2], ceil_mode=1), *flat("a")], {},
         [2, 6]),
        ([node("Conv", ["x", "w"], ["a"], dilations=[1, 2], pads=[1, 0, 0, 2]), *flat("a")], {"w": weights(4, 2, 3, 2)},
         [2, 5, 6]),
        ([node("Pad", ["x", "s"], ["y"], mode="reflect")], {"s": ints(0, 2, 0, 3)}, [4]),
        ([node("Pad", ["x", "s"], ["y"], mode="edge")], {"s": ints(0, 2, 0, 3)}, [4]),
        ([node("Split", ["x"], ["a", "b"], axis=-1), node("Max", ["a", "b", "k"], ["y"])],
         {"k": np.zeros(1, np.float32)}, [4]),
        ([node("Reshape", ["x", "s"], ["y"], allowzero=1)], {"s": ints(-1, 6)}, [2, 3]),
        ([node("Gelu", ["x"], ["y"], approximate="tanh")], {}, [4]),
        ([node("ReduceSum", ["x", "s"], ["y"], noop_with_empty_axes=1)], {"s": ints()}, [4]),
        ([node("Concat", ["x", "x"], ["a"], axis=-2), *flat("a")], {}, [2, 3]),
    ],
)  # fmt: skip
def test_operators_with_unusual_options(nodes: list, weights: dict, shape: list, tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx", nodes, weights, shape, opset=max(OPSETS.get(n.op_type, 17) for n in nodes))
    agree(path, shape, RNG.normal(size=(7, int(np.prod(shape)))))


@pytest.mark.parametrize(("axis", "axes"), [(None, (1, 2)), (1, (1, 2)), (2, (2,))])
def test_an_old_softmax_goes_over_all_later_axes(axis: int | None, axes: tuple[int, ...], tmp_path: Path) -> None:
    options = {} if axis is None else {"axis": axis}
    nodes = [node("Softmax", ["x"], ["a"], **options), *flat("a")]
    records = RNG.normal(size=(5, 6))
    task = tv.ModelTask(onnx_file(tmp_path / "m.onnx", nodes, {}, [2, 3], opset=11))
    assert task.predict(records) == pytest.approx(softmax(records.reshape(5, 2, 3), axis=axes).reshape(5, 6), abs=1e-6)
