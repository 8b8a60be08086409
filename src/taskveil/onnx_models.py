"""ONNX files as torch modules: the graph is read with the `onnx` package and run by torch operations.

Only the operators below are known. A file with others is refused with their names, before anything is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from taskveil.errors import TaskError

KNOWN = {
    *("Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Neg", "Clip", "Concat", "ReduceMean"),
    *("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "BatchNormalization", "Dropout", "Identity"),
    *("Flatten", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Cast", "Constant"),
    *("Conv", "MaxPool", "AveragePool", "GlobalAveragePool"),
}


@dataclass(frozen=True, kw_only=True)
class _Node:
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: dict[str, Any]


def read_onnx(path: Path, *, logits: bool) -> tuple[nn.Module, int]:
    """The module and the number of attributes it takes. `logits`: leave out a softmax at the end."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise TaskError("ONNX files need the onnx package: pip install 'taskveil[learn]'.") from error
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
    weights = {t.name: torch.from_numpy(np.array(numpy_helper.to_array(t))) for t in graph.initializer}
    nodes = [
        _Node(
            kind=n.op_type,
            inputs=tuple(n.input),
            outputs=tuple(n.output),
            options={a.name: onnx.helper.get_attribute_value(a) for a in n.attribute},
        )
        for n in graph.node
    ]
    for node in [n for n in nodes if n.kind == "Constant"]:
        if "value" not in node.options:
            raise TaskError(f"{path}: a Constant without a tensor value is not supported.")
        weights[node.outputs[0]] = torch.from_numpy(np.array(numpy_helper.to_array(node.options["value"])))
    entries = [i for i in graph.input if i.name not in weights]
    if len(entries) != 1 or len(graph.output) != 1:
        raise TaskError(f"{path} must have one input and one output, got {len(entries)} and {len(graph.output)}.")
    shape = [d.dim_value for d in entries[0].type.tensor_type.shape.dim]
    if len(shape) < 2 or any(d <= 0 for d in shape[1:]):
        raise TaskError(f"{path} must state its input as (records, attributes); it says {shape}.")
    nodes = [n for n in nodes if n.kind != "Constant"]
    result = graph.output[0].name
    last = next((n for n in nodes if result in n.outputs), None)
    if logits and last is not None and last.kind == "Softmax":
        nodes, result = [n for n in nodes if n is not last], last.inputs[0]
    return _Graph(nodes, weights, entries[0].name, result, tuple(shape[1:])), math.prod(shape[1:])


class _Graph(nn.Module):
    """Runs the nodes in file order, which ONNX guarantees to be a valid one."""

    def __init__(
        self, nodes: list[_Node], weights: dict[str, Tensor], entry: str, result: str, shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.nodes, self.entry, self.result, self.shape = nodes, entry, result, shape
        # Shapes and axes stay apart from the weights, which follow the module to its device and precision.
        self.integers = {name: value for name, value in weights.items() if not value.is_floating_point()}
        self.places = {name: f"w{i}" for i, name in enumerate(weights) if name not in self.integers}
        for name, place in self.places.items():
            self.register_buffer(place, weights[name])

    def forward(self, x: Tensor) -> Tensor:
        known: dict[str, Tensor] = {name: getattr(self, place) for name, place in self.places.items()}
        known |= self.integers
        known[self.entry] = x.reshape(len(x), *self.shape)
        for node in self.nodes:
            known[node.outputs[0]] = _compute(node, [known[name] if name else None for name in node.inputs])
        return known[self.result].reshape(len(x), -1)


def _compute(node: _Node, inputs: list[Any]) -> Tensor:
    """One operator, as the ONNX specification defines it."""
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
            result = a / inputs[1]
        case "Pow":
            result = a ** inputs[1]
        case "Sqrt" | "Exp" | "Log" | "Neg" | "Relu" | "Sigmoid" | "Tanh":
            result = getattr(torch, node.kind.lower())(a)
        case "LeakyRelu":
            result = F.leaky_relu(a, o.get("alpha", 0.01))
        case "Softmax":
            result = a.softmax(o.get("axis", -1))
        case "LogSoftmax":
            result = a.log_softmax(o.get("axis", -1))
        case "Flatten":
            axis = o.get("axis", 1) % (a.dim() + 1)
            result = a.reshape(math.prod(a.shape[:axis]), -1)
        case "Reshape":
            wanted = [int(n) for n in inputs[1]]
            result = _keep_records(a, [a.shape[i] if n == 0 else n for i, n in enumerate(wanted)])
        case "Transpose":
            result = a.permute(*o.get("perm", range(a.dim() - 1, -1, -1)))
        case "Squeeze" | "Unsqueeze":
            axes = [int(i) for i in (inputs[1] if len(inputs) > 1 else o.get("axes", []))]
            if node.kind == "Squeeze":
                result = a.squeeze(tuple(axes))
            else:
                result = a
                for axis in sorted(axes):
                    result = result.unsqueeze(axis)
        case "Concat":
            result = torch.cat(inputs, dim=o["axis"])
        case "Clip":
            low, high = ([*inputs[1:], None, None])[:2]
            result = a.clamp(min=o.get("min", low), max=o.get("max", high))
        case "Conv":
            result = _conv(a, inputs, o)
        case "MaxPool" | "AveragePool":
            result = _pool(node.kind, a, o)
        case "GlobalAveragePool":
            result = a.mean(dim=tuple(range(2, a.dim())), keepdim=True)
        case "ReduceMean":
            axes = [int(i) for i in (inputs[1] if len(inputs) > 1 else o.get("axes", range(a.dim())))]
            result = a.mean(dim=axes, keepdim=bool(o.get("keepdims", 1)))
        case "BatchNormalization":
            _, scale, offset, mean, variance = inputs
            result = F.batch_norm(a, mean, variance, scale, offset, eps=o.get("epsilon", 1e-5))
        case "Cast":
            result = a  # records and weights share one floating type here
        case _:  # Identity, Dropout: nothing happens at inference
            result = a
    return result


def _keep_records(a: Tensor, shape: list[int]) -> Tensor:
    """A file exported with a fixed batch states it in its reshapes; the number of records is ours to choose."""
    if -1 not in shape and math.prod(shape) != a.numel() and shape:
        shape = [-1, *shape[1:]]
    return a.reshape(shape)


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
    if kind == "MaxPool":
        pool = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[rank]
        padded = F.pad(a, pads, value=-math.inf) if any(pads) else a
        largest: Tensor = pool(padded, size, strides, 0, tuple(o.get("dilations", [1] * rank)), rounding)
        return largest
    if any(pads) and not o.get("count_include_pad", 0):
        raise TaskError("an AveragePool that pads without counting the padding is not supported.")
    average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[rank]
    result: Tensor = average(F.pad(a, pads), size, strides, 0, rounding)
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
