"""ONNX files as torch modules: the graph is read with the `onnx` package and run by torch operations.

Only the operators below are known, in operator sets 7 and later. A file with others, or with options whose effect is
not reproduced exactly, is refused before anything is computed. All floating numbers share the file's widest type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from taskveil.errors import TaskError

KNOWN = {
    *("Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Neg", "Clip", "Concat", "ReduceMean"),
    *("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "BatchNormalization", "Dropout", "Identity"),
    *("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Constant"),
    *("Conv", "MaxPool", "AveragePool", "GlobalAveragePool"),
}


_FLOATING = (1, 10, 11, 16)  # FLOAT, FLOAT16, DOUBLE, BFLOAT16 in TensorProto's numbering
OLDEST = 7  # before, broadcasting was another

REFUSED = {
    "Reshape": ("allowzero", "a Reshape to length 0"),
    "ReduceMean": ("noop_with_empty_axes", "a ReduceMean that may do nothing"),
    "BatchNormalization": ("training_mode", "a BatchNormalization in training mode"),
}
"""Options that must be absent or 0."""


@dataclass(frozen=True, kw_only=True)
class _Node:
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, Any]
    opset: int


def read_onnx(path: Path, *, logits: bool) -> tuple[nn.Module, int]:
    """The module and the number of attributes it takes. `logits`: leave out a softmax at the end."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise TaskError("ONNX files need the onnx package: pip install 'taskveil[design]'.") from error
    if not path.is_file():
        raise TaskError(
            f"there is no file {path}; a model is an ONNX file, a torch module or a scikit-learn estimator."
        )
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as error:
        raise TaskError(f"{path} is no valid ONNX file: {error}") from error
    graph = model.graph
    unknown = sorted({n.op_type for n in graph.node if n.op_type not in KNOWN or n.domain not in ("", "ai.onnx")})
    if unknown:
        raise TaskError(
            f"{path} uses operators that are not supported: {', '.join(unknown)}. Export the model with plain layers, "
            "or pass the torch module or scikit-learn estimator itself."
        )
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset < OLDEST:
        raise TaskError(f"{path} uses operator set {opset}; export it with {OLDEST} or later.")
    nodes = [
        _Node(
            kind=n.op_type,
            inputs=tuple(n.input),
            outputs=tuple(n.output),
            options={a.name: onnx.helper.get_attribute_value(a) for a in n.attribute},
            opset=opset,
        )
        for n in graph.node
    ]
    try:
        arrays = {t.name: np.array(numpy_helper.to_array(t)) for t in graph.initializer}
        arrays |= {n.outputs[0]: _constant(n, numpy_helper.to_array) for n in nodes if n.kind == "Constant"}
        weights = _one_precision({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (TypeError, ValueError) as error:
        raise TaskError(f"{path} holds weights that torch cannot read: {error}") from error
    entries = [i for i in graph.input if i.name not in weights]
    if len(entries) != 1 or len(graph.output) != 1:
        raise TaskError(f"{path} must have one input and one output, got {len(entries)} and {len(graph.output)}.")
    entry = entries[0].type.tensor_type
    shape = [d.dim_value for d in entry.shape.dim]
    if len(shape) < 2 or any(d <= 0 for d in shape[1:]):
        raise TaskError(f"{path} must state its input as (records, attributes); it says {shape}.")
    if entry.elem_type not in _FLOATING:
        raise TaskError(f"{path} must take floating numbers.")
    nodes = [n for n in nodes if n.kind != "Constant"]
    result = graph.output[0].name
    last = next((n for n in nodes if result in n.outputs), None)
    rank = len(graph.output[0].type.tensor_type.shape.dim)
    if logits and last is not None and last.kind == "Softmax" and rank == 2 and last.options.get("axis", 1) in (1, -1):
        nodes, result = [n for n in nodes if n is not last], last.inputs[0]
    _check_nodes(path, nodes, {*weights, entries[0].name})
    return _Graph(nodes, weights, entries[0].name, result, tuple(shape)), math.prod(shape[1:])


def _constant(node: _Node, to_array: Any) -> NDArray[Any]:
    """The number or numbers of a Constant, in whichever of its forms."""
    (form, value), *more = node.options.items()
    if more or form not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise TypeError(f"a Constant given as {form}")
    if form == "value":
        return np.array(to_array(value))
    return np.array(value, dtype=np.float32 if "float" in form else np.int64)


def _one_precision(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    kinds = [value.dtype for value in weights.values() if value.is_floating_point()]
    widest = max(kinds, key=lambda kind: torch.finfo(kind).bits, default=torch.float32)
    return {name: value.to(widest) if value.is_floating_point() else value for name, value in weights.items()}


def _check_nodes(path: Path, nodes: list[_Node], known: set[str]) -> None:
    """Everything a node takes is there, and no option asks for what is not reproduced."""
    for node in nodes:
        missing = [name for name in node.inputs if name and name not in known]
        if missing:
            raise TaskError(f"{path} uses {missing[0]}, a second output or sparse weights, which are not supported.")
        known.add(node.outputs[0])
        option, what = REFUSED.get(node.kind, ("", ""))
        if node.options.get(option):
            raise TaskError(f"{path} holds {what}, which is not supported.")
        if node.kind == "Dropout" and len(node.inputs) > 2 and node.inputs[2]:
            raise TaskError(
                f"{path} holds a Dropout that may be in training mode: export the model in evaluation mode."
            )
        dilated = any(step != 1 for step in node.options.get("dilations", []))
        if node.kind == "AveragePool" and dilated:
            raise TaskError(f"{path} holds an AveragePool with dilations, which is not supported.")
        if node.kind == "MaxPool" and node.options.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
            kernel = node.options["kernel_shape"]
            gaps = any(s > k for s, k in zip(node.options.get("strides", kernel), kernel, strict=True))
            if dilated or gaps:  # where ONNX's own implementations differ
                raise TaskError(f"{path} holds a MaxPool whose automatic padding is not clear: state its pads.")


class _Graph(nn.Module):
    """Runs the nodes in file order, which ONNX guarantees to be a valid one."""

    def __init__(
        self, nodes: list[_Node], weights: dict[str, Tensor], entry: str, result: str, shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.nodes, self.entry, self.result = nodes, entry, result
        self.batch, self.shape = shape[0], shape[1:]
        # Shapes and axes stay apart from the weights, which follow the module to its device and precision.
        self.integers = {name: value for name, value in weights.items() if not value.is_floating_point()}
        self.places = {name: f"w{i}" for i, name in enumerate(weights) if name not in self.integers}
        for name, place in self.places.items():
            self.register_buffer(place, weights[name])

    def forward(self, x: Tensor) -> Tensor:
        known: dict[str, Tensor] = {name: getattr(self, place) for name, place in self.places.items()}
        known |= {name: value.to(x.device) for name, value in self.integers.items()}
        known[self.entry] = x.reshape(len(x), *self.shape)
        for node in self.nodes:
            inputs = [known[name] if name else None for name in node.inputs]
            if node.kind == "Reshape":
                known[node.outputs[0]] = self._reshape(inputs[0], inputs[1], len(x))
            else:
                known[node.outputs[0]] = _compute(node, inputs, x.dtype)
        answer = known[self.result]
        if answer.dim() == 0 or len(answer) != len(x):
            raise ValueError(f"{len(x)} records gave answers of shape {tuple(answer.shape)}")
        return answer.reshape(len(x), -1)

    def _reshape(self, a: Any, wanted: Any, records: int) -> Tensor:
        """A file exported with a fixed batch states it in its reshapes; the number of records is ours to choose."""
        shape = [a.shape[i] if n == 0 else int(n) for i, n in enumerate(wanted)]
        if shape and self.batch > 0 and shape[0] == self.batch and len(a) == records:
            shape[0] = records
        result: Tensor = a.reshape(shape)
        return result


def _compute(node: _Node, inputs: list[Any], floating: torch.dtype) -> Tensor:
    """One operator, as the ONNX specification defines it; `floating` is the type of all floating numbers."""
    o = node.options
    a = inputs[0]
    result: Tensor
    match node.kind:
        case "Gemm":
            left = a.T if o.get("transA") else a
            right = inputs[1].T if o.get("transB") else inputs[1]
            result = o.get("alpha", 1.0) * (left @ right)
            if len(inputs) > 2 and inputs[2] is not None:
                result = result + o.get("beta", 1.0) * inputs[2]
        case "MatMul":
            result = a @ inputs[1]
        case "Add":
            result = a + inputs[1]
        case "Sub":
            result = a - inputs[1]
        case "Mul":
            result = a * inputs[1]
        case "Div":
            if not (a.is_floating_point() or inputs[1].is_floating_point()):
                raise ValueError("a division of whole numbers")
            result = a / inputs[1]
        case "Pow":
            result = a ** inputs[1]
        case "Sqrt" | "Exp" | "Log" | "Neg" | "Relu" | "Sigmoid" | "Tanh":
            result = getattr(torch, node.kind.lower())(a)
        case "LeakyRelu":
            result = F.leaky_relu(a, o.get("alpha", 0.01))
        case "Softmax" | "LogSoftmax":
            function = torch.softmax if node.kind == "Softmax" else torch.log_softmax
            if node.opset >= 13:
                result = function(a, o.get("axis", -1))
            else:  # over everything from that axis on
                result = function(a.flatten(o.get("axis", 1) % a.dim()), -1).reshape(a.shape)
        case "Flatten":
            axis = o.get("axis", 1)
            axis = axis + a.dim() if axis < 0 else axis
            result = a.reshape(math.prod(a.shape[:axis]), -1)
        case "Transpose":
            result = a.permute(*o.get("perm", range(a.dim() - 1, -1, -1)))
        case "Squeeze" | "Unsqueeze":
            given = inputs[1] if len(inputs) > 1 else o.get("axes")
            if node.kind == "Squeeze":
                axes = [i for i, n in enumerate(a.shape) if i and n == 1] if given is None else [int(i) for i in given]
                if any(i % a.dim() == 0 for i in axes):
                    raise ValueError("a Squeeze of the records' axis")
                result = a.squeeze(tuple(axes)) if axes else a
            else:
                axes = [] if given is None else [int(i) for i in given]
                result = a
                for axis in sorted(i % (a.dim() + len(axes)) for i in axes):
                    result = result.unsqueeze(axis)
        case "Concat":
            result = torch.cat(inputs, dim=o["axis"])
        case "Clip":
            low, high = ([*inputs[1:], None, None])[:2]
            low, high = o.get("min", low), o.get("max", high)
            result = a if low is None and high is None else a.clamp(min=low, max=high)
        case "Conv":
            result = _conv(a, inputs, o)
        case "MaxPool" | "AveragePool":
            result = _pool(node.kind, a, o)
        case "GlobalAveragePool":
            result = a.mean(dim=tuple(range(2, a.dim())), keepdim=True)
        case "ReduceMean":
            given = inputs[1] if len(inputs) > 1 else o.get("axes")
            axes = [int(i) for i in given] if given is not None and len(given) else list(range(a.dim()))
            result = a.mean(dim=axes, keepdim=bool(o.get("keepdims", 1)))
        case "BatchNormalization":
            _, scale, offset, mean, variance = inputs
            result = F.batch_norm(a, mean, variance, scale, offset, eps=o.get("epsilon", 1e-5))
        case "Cast":
            result = _cast(a, o["to"], floating)
        case _:  # Identity, Dropout: nothing happens at inference
            result = a
    return result


def _cast(a: Tensor, to: int, floating: torch.dtype) -> Tensor:
    """All floating numbers share one type here; whole numbers occur in shapes and tables only."""
    if to in _FLOATING:
        return a.to(floating)
    if a.is_floating_point() or to not in (6, 7):  # INT32, INT64
        raise ValueError("a Cast to whole numbers or truth values")
    return a


def _conv(a: Tensor, inputs: list[Any], o: dict[str, Any]) -> Tensor:
    weight, bias = inputs[1], inputs[2] if len(inputs) > 2 else None
    rank = weight.dim() - 2
    conv = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    padded = F.pad(a, _pads(o, rank, list(weight.shape[2:]), a))
    result: Tensor = conv(
        padded,
        weight,
        bias,
        stride=tuple(o.get("strides", [1] * rank)),
        dilation=tuple(o.get("dilations", [1] * rank)),
        groups=o.get("group", 1),
    )
    return result


def _pool(kind: str, a: Tensor, o: dict[str, Any]) -> Tensor:
    size = tuple(o["kernel_shape"])
    rank = len(size)
    strides = tuple(o.get("strides", [1] * rank))
    rounding = bool(o.get("ceil_mode", 0))
    pads = _pads(o, rank, list(size), a)
    result: Tensor
    if kind == "MaxPool":
        pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
        padded = F.pad(a, pads, value=-math.inf) if any(pads) else a
        result = pool(padded, size, strides, 0, tuple(o.get("dilations", [1] * rank)), rounding)
        return _windows_that_start_inside(result, a, pads, strides)
    if any(pads) and not o.get("count_include_pad", 0):
        raise TaskError("an AveragePool that pads without counting the padding is not supported.")
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
    result = average(F.pad(a, pads), size, strides, 0, rounding)
    return _windows_that_start_inside(result, a, pads, strides)


def _windows_that_start_inside(result: Tensor, a: Tensor, pads: list[int], strides: tuple[int, ...]) -> Tensor:
    """With ceil_mode torch also keeps windows that begin in the end's padding, because here padding is part of it."""
    for axis, stride in enumerate(strides):
        start = pads[2 * (len(strides) - 1 - axis)]
        most = (a.shape[axis + 2] + start - 1) // stride + 1
        result = result.narrow(axis + 2, 0, min(most, result.shape[axis + 2]))
    return result


def _pads(o: dict[str, Any], rank: int, kernel: list[int], a: Tensor) -> list[int]:
    """ONNX lists all starts, then all ends; torch wants (start, end) from the last axis on."""
    automatic = o.get("auto_pad", b"NOTSET")
    automatic = automatic.decode() if isinstance(automatic, bytes) else automatic
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        starts, ends = [], []
        for axis in range(rank):
            stride = o.get("strides", [1] * rank)[axis]
            reach = (kernel[axis] - 1) * o.get("dilations", [1] * rank)[axis] + 1
            size = a.shape[axis + 2]
            total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
            less, more = total // 2, total - total // 2
            starts.append(less if automatic == "SAME_UPPER" else more)
            ends.append(more if automatic == "SAME_UPPER" else less)
    else:
        pads = o.get("pads", [0] * 2 * rank)
        starts, ends = list(pads[:rank]), list(pads[rank:])
    return [amount for axis in range(rank - 1, -1, -1) for amount in (starts[axis], ends[axis])]
