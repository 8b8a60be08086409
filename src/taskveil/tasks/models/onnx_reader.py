"""ONNX files as torch modules: dense and convolutional networks get gradients, and devices can run their layers.

The operators of `OPERATORS` are known, in operator sets 7 and later. Every number that a node gives must be the one
that ONNX defines. A file with another operator, or with an option that is not reproduced exactly, raises an error, and
onnxruntime runs it as a black box instead (`onnx_session.py`). Parts of the graph that depend on no record are computed
while reading.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from taskveil.errors import TaskError

OLDEST_OPSET = 7  # older operator sets broadcast in another way

_KINDS = {1: torch.float32, 10: torch.float16, 11: torch.float64}
"""The types of an input, by TensorProto's numbering."""

_FIXED = {"auto_pad": "NOTSET", "ceil_mode": 0, "noop_with_empty_axes": 0, "spatial": 1, "training_mode": 0}
"""Options that are known with this value alone."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operator of a file: its name, what it takes and gives by name, its options."""

    kind: str
    inputs: tuple[str, ...]
    """Empty where one is left out."""
    output: str
    options: dict[str, Any]
    """Texts as str, numbers of a file's own as tensors."""
    opset: int

    def option(self, name: str, default: Any = None) -> Any:
        """An option, or the specification's default; a file's options are numbers in single precision, so these are."""
        return self.options.get(name, float(np.float32(default)) if isinstance(default, float) else default)

    def whole(self, name: str, given: Tensor | None) -> list[int] | None:
        """Shapes and axes: an option in old operator sets, an input in new ones, or None."""
        found = self.option(name, given)
        return None if found is None else [int(n) for n in found]


class OnnxModule(nn.Module):
    """Runs the nodes in file order, which ONNX guarantees to be a valid one: records (N, n) → answers (N, m).

    No axis is taken for the records' and none is guessed. A file for any number of records is run once for all, and for
    one record with two copies of it: with a single one, its axis could be mistaken for others of length 1. A file for
    1 (or 8) records is run for every one (or every 8) of them by itself, all at once through `torch.vmap`.

    Args:
        nodes: those that depend on the records.
        weights: all numbers that do not, by name.
        entry: the name of the input.
        result: the name of the output.
        shape: of the input, the number of records first; 0 where that is free.
        kind: of the input.
    """

    precision: Tensor

    def __init__(
        self,
        nodes: list[Node],
        weights: dict[str, Tensor],
        *,
        entry: str,
        result: str,
        shape: tuple[int, ...],
        kind: torch.dtype,
    ) -> None:
        super().__init__()
        self.nodes, self.entry, self.result = nodes, entry, result
        self.batch, self.shape = shape[0], shape[1:]
        # First of the buffers, so that a module without other floating numbers says in which precision it computes.
        self.register_buffer("precision", torch.zeros((), dtype=kind))
        # Shapes and axes stay apart from the weights, which follow the module to its device and precision.
        self.integers = {name: value for name, value in weights.items() if not value.is_floating_point()}
        self.places = {name: f"w{i}" for i, name in enumerate(weights) if name not in self.integers}
        for name, place in self.places.items():
            self.register_buffer(place, weights[name])

    def forward(self, x: Tensor) -> Tensor:
        """Answers (N, m) to records (N, n); ValueError when they are not one row per record."""
        given = {name: getattr(self, place) for name, place in self.places.items()}
        given |= {name: value.to(x.device) for name, value in self.integers.items()}
        records = x.to(self.precision.dtype)

        def run(some: Tensor) -> Tensor:
            known = {**given, self.entry: some}
            for node in self.nodes:
                known[node.output] = _computed(node, known)
            return _rows(known[self.result], len(some))

        if self.batch == 0:
            return run((records if len(x) > 1 else records.repeat(2, 1)).reshape(-1, *self.shape))[: len(x)]
        missing = -len(x) % self.batch
        records = torch.cat([records, records[-1:].expand(missing, -1)]) if missing else records
        return torch.vmap(run)(records.reshape(-1, self.batch, *self.shape)).flatten(0, 1)[: len(x)]


def _rows(answer: Tensor, records: int) -> Tensor:
    """One row per record; whatever a file answers to a single record is its row."""
    if records > 1 and (answer.dim() == 0 or len(answer) != records):
        raise ValueError(f"{records} records gave answers of shape {tuple(answer.shape)}")
    return answer.reshape(records, -1)


def _computed(node: Node, known: dict[str, Tensor]) -> Tensor:
    return OPERATORS[node.kind](node, *(known[name] if name else None for name in node.inputs))


def read_onnx(model: Any, *, logits: bool) -> tuple[OnnxModule, int]:
    """The module of a ModelProto and the number of attributes it takes; TaskError where it is not reproduced exactly.

    Args:
        model: the file's content.
        logits: leave out a softmax at the end.
    """
    graph = model.graph
    unknown = sorted({n.op_type for n in graph.node if n.op_type not in OPERATORS})
    if unknown:
        raise TaskError(f"there are no gradients for its operators {', '.join(unknown)}.")
    opset = max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST_OPSET:
        raise TaskError(f"it uses operator set {opset}; export it with {OLDEST_OPSET} or later.")
    known = {t.name: _tensor(t) for t in graph.initializer}
    entries = [i for i in graph.input if i.name not in known]
    if len(entries) != 1 or len(graph.output) != 1:
        raise TaskError("gradients need one input and one output.")
    entry = entries[0].type.tensor_type
    shape = tuple(d.dim_value for d in entry.shape.dim)
    if len(shape) < 2 or min(shape[1:]) <= 0 or entry.elem_type not in _KINDS:
        raise TaskError("gradients need an input of floating numbers and of stated shape (records, attributes).")
    nodes, result = [], graph.output[0].name
    for n in graph.node:
        node = _node(n, int(opset))
        if all(name in known for name in node.inputs if name):
            try:
                known[node.output] = _computed(node, known)
            except Exception as error:  # whatever torch raises for numbers that do not fit each other
                raise TaskError(f"it holds a {node.kind} that cannot be computed: {error}") from error
        elif logits and node.output == result and _is_over_classes(node, graph.output[0]):
            result = node.inputs[0]
        elif node.kind == "Cast":
            if node.options["to"] != entry.elem_type:
                raise TaskError("there are no gradients for a Cast of records to another type.")
            nodes.append(dataclasses.replace(node, kind="Identity"))  # a module may be moved to another precision
        else:
            nodes.append(node)
    used = {result, *(name for node in nodes for name in node.inputs)}
    weights = {name: value for name, value in known.items() if name in used}
    kind = _KINDS[entry.elem_type]
    module = OnnxModule(nodes, weights, entry=entries[0].name, result=result, shape=shape, kind=kind)
    return module, math.prod(shape[1:])


def _is_over_classes(node: Node, output: Any) -> bool:
    """Whether a node at the end makes class probabilities of logits."""
    matrix = len(output.type.tensor_type.shape.dim) == 2
    return node.kind == "Softmax" and matrix and node.option("axis", -1) in (1, -1)


def _tensor(proto: Any) -> Tensor:
    from onnx.numpy_helper import to_array

    try:
        return torch.from_numpy(np.array(to_array(proto)))
    except (TypeError, ValueError) as error:
        raise TaskError(f"it holds weights that torch cannot read: {error}") from error


def _node(n: Any, opset: int) -> Node:
    from onnx import TensorProto
    from onnx.helper import get_attribute_value

    def plain(value: Any) -> Any:
        if isinstance(value, TensorProto):
            return _tensor(value)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    options = {a.name: plain(get_attribute_value(a)) for a in n.attribute}
    odd = [name for name, value in _FIXED.items() if options.get(name, value) != value]
    if odd or any(n.output[1:]):
        raise TaskError(f"there are no gradients for a {n.op_type} with {odd[0] if odd else 'a second output'}.")
    return Node(kind=n.op_type, inputs=tuple(n.input), output=n.output[0], options=options, opset=opset)


def _each(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An operator without options: number by number, or of two tensors that are broadcast against each other."""
    return lambda _, *inputs: function(*inputs)


def _softmax(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Softmax or LogSoftmax: over one axis, or before operator set 13 over everything from that axis on."""

    def compute(node: Node, a: Tensor) -> Tensor:
        if node.opset >= 13:
            return function(a, node.option("axis", -1))
        return function(a.flatten(node.option("axis", 1)), -1).reshape(a.shape)

    return compute


def _clip(node: Node, a: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Clip between bounds that may be left out; options in old operator sets, inputs in new ones."""
    low, high = node.option("min", low), node.option("max", high)
    return a if low is None and high is None else a.clamp(min=low, max=high)


def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Gemm: alpha · A B + beta · C, A and B perhaps transposed."""
    product = (a.T if node.option("transA") else a) @ (b.T if node.option("transB") else b)
    result: Tensor = node.option("alpha", 1.0) * product
    return result if c is None else result + node.option("beta", 1.0) * c


def _batch_normalization(node: Node, a: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """BatchNormalization with the file's own means and variances, channels on axis 1."""
    return F.batch_norm(a, mean, var, scale, offset, eps=node.option("epsilon", 1e-5))


def _reduce_mean(node: Node, a: Tensor, given: Tensor | None = None) -> Tensor:
    """ReduceMean over the axes named, or over all."""
    return a.mean(node.whole("axes", given) or list(range(a.dim())), keepdim=bool(node.option("keepdims", 1)))


def _over_positions(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A Global pooling: over all axes after records and channels."""
    return lambda _, a: function(a, list(range(2, a.dim())), keepdim=True)


def _reshape(node: Node, a: Tensor, given: Tensor | None = None) -> Tensor:
    """Reshape; a length of 0 copies the input's."""
    wanted = node.whole("shape", given) or []
    if 0 in wanted and node.option("allowzero", 0):
        raise ValueError("a Reshape with allowzero=1 to a length of 0")
    return a.reshape([a.shape[i] if n == 0 else n for i, n in enumerate(wanted)])


def _flatten(node: Node, a: Tensor) -> Tensor:
    """Flatten to a matrix: the axes before `axis`, and the others."""
    axis = node.option("axis", 1)
    axis = axis + a.dim() if axis < 0 else axis
    return a.reshape(math.prod(a.shape[:axis]), math.prod(a.shape[axis:]))


def _squeeze(node: Node, a: Tensor, given: Tensor | None = None) -> Tensor:
    """Squeeze axes of length 1: those named, or all."""
    axes = node.whole("axes", given)
    axes = [i for i, n in enumerate(a.shape) if n == 1] if axes is None else axes
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError("a Squeeze of an axis that is longer than 1")
    return a.squeeze(tuple(axes)) if axes else a


def _unsqueeze(node: Node, a: Tensor, given: Tensor | None = None) -> Tensor:
    """Unsqueeze: new axes of length 1, at places in the result."""
    axes = node.whole("axes", given) or []
    for axis in sorted(i % (a.dim() + len(axes)) for i in axes):
        a = a.unsqueeze(axis)
    return a


def _gather(node: Node, a: Tensor, places: Tensor) -> Tensor:
    """Gather: entries along one axis, at whole numbers of any shape; negative ones count from the end."""
    axis = node.option("axis", 0) % a.dim()
    places = torch.where(places < 0, places + a.shape[axis], places)
    shape = (*a.shape[:axis], *places.shape, *a.shape[axis + 1 :])
    return a.index_select(axis, places.reshape(-1)).reshape(shape)


def _shape(node: Node, a: Tensor) -> Tensor:
    """Shape, or the part of it from `start` to `end`."""
    part = list(a.shape)[node.option("start", 0) : node.option("end")]
    return torch.tensor(part, dtype=torch.int64, device=a.device)


def _constant(node: Node) -> Tensor:
    """Constant: numbers in one of their forms."""
    ((form, value),) = node.options.items()
    if form not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise ValueError(f"a Constant given as {form}")
    kind = torch.float32 if "float" in form else torch.int64
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=kind)


def _windows(node: Node, rank: int) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Padding as torch wants it, (start, end) from the last axis on, and the steps of a sliding window."""
    pads = node.option("pads", [0] * 2 * rank)
    padding = [n for axis in reversed(range(rank)) for n in (pads[axis], pads[axis + rank])]
    ones = [1] * rank
    return padding, {"stride": tuple(node.option("strides", ones)), "dilation": tuple(node.option("dilations", ones))}


def _conv(node: Node, a: Tensor, weight: Tensor, offset: Tensor | None = None) -> Tensor:
    """Conv of one to three dimensions."""
    rank = weight.dim() - 2
    pads, steps = _windows(node, rank)
    function: Callable[..., Tensor] = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    return function(F.pad(a, pads), weight, offset, **steps, groups=node.option("group", 1))


def _max_pool(node: Node, a: Tensor) -> Tensor:
    """MaxPool of one to three dimensions; padding never wins."""
    size = tuple(node.options["kernel_shape"])
    pads, steps = _windows(node, len(size))
    function: Callable[..., Tensor] = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(size) - 1]
    return function(F.pad(a, pads, value=-math.inf) if any(pads) else a, size, **steps)


def _average_pool(node: Node, a: Tensor) -> Tensor:
    """AveragePool of one to three dimensions: of what a window holds, padding counted only where the file says so."""
    size = tuple(node.options["kernel_shape"])
    pads, steps = _windows(node, len(size))
    if max(steps["dilation"]) > 1:
        raise ValueError("an AveragePool with dilations")
    function: Callable[..., Tensor] = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(size) - 1]
    result = function(F.pad(a, pads), size, steps["stride"])
    if any(pads) and not node.option("count_include_pad", 0):
        return result / function(F.pad(torch.ones_like(a), pads), size, steps["stride"])
    return result


OPERATORS: dict[str, Callable[..., Tensor]] = {
    # Number by number.
    "Abs": _each(torch.abs),
    "Add": _each(torch.add),
    "Clip": _clip,
    "Div": _each(torch.div),
    "Dropout": lambda _, a, *_others: a,  # at inference; files in training mode are refused before
    "Elu": lambda node, a: F.elu(a, node.option("alpha", 1.0)),
    "Erf": _each(torch.erf),
    "Exp": _each(torch.exp),
    "Gelu": lambda node, a: F.gelu(a, approximate=node.option("approximate", "none")),
    "Identity": _each(lambda a: a),
    "LeakyRelu": lambda node, a: F.leaky_relu(a, node.option("alpha", 0.01)),
    "Log": _each(torch.log),
    "Mul": _each(torch.mul),
    "Neg": _each(torch.neg),
    "Relu": _each(torch.relu),
    "Sigmoid": _each(torch.sigmoid),
    "Softplus": _each(lambda a: torch.logaddexp(a, torch.zeros_like(a))),  # torch's own gives x from 20 on
    "Sqrt": _each(torch.sqrt),
    "Sub": _each(torch.sub),
    "Tanh": _each(torch.tanh),
    # Layers.
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _over_positions(torch.mean),
    "GlobalMaxPool": _over_positions(torch.amax),
    "LogSoftmax": _softmax(torch.log_softmax),
    "MatMul": _each(torch.matmul),
    "MaxPool": _max_pool,
    "ReduceMean": _reduce_mean,
    "Softmax": _softmax(torch.softmax),
    # Types and shapes.
    "Cast": lambda node, a: a.to(_KINDS[node.options["to"]]),  # of the file's own numbers
    "Concat": lambda node, *parts: torch.cat(parts, dim=node.options["axis"]),
    "Constant": _constant,
    "Flatten": _flatten,
    "Gather": _gather,
    "Reshape": _reshape,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Transpose": lambda node, a: a.permute(*node.option("perm", range(a.dim() - 1, -1, -1))),
    "Unsqueeze": _unsqueeze,
}
