"""A node of an ONNX graph, and the operators that move numbers or slide a window.

Here are the node itself, one run of it, and what an operator is. The operators change shapes, axes, parts and copies,
compute with shapes, convolve and pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

KINDS: dict[int, torch.dtype] = {
    1: torch.float32,
    10: torch.float16,
    11: torch.float64,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
}
"""The types of numbers that are computed with, by TensorProto's numbering."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operator of a file: its name, what it takes and gives by name, its options."""

    kind: str
    inputs: tuple[str, ...]
    """Empty where one is left out."""
    outputs: tuple[str, ...]
    options: dict[str, Any]
    """Texts as str, numbers of a file's own as tensors."""
    opset: int
    constants: dict[int, Tensor]
    """The inputs that the file itself states, by their place; known while reading, for refusals."""

    def takes(self, place: int) -> bool:
        """Whether this input is there at all."""
        return len(self.inputs) > place and bool(self.inputs[place])

    def gives_more(self) -> bool:
        """Whether it has outputs beyond the first."""
        return any(self.outputs[1:])


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of a node: its inputs (None where one is left out), and what holds for the whole graph."""

    node: Node
    inputs: list[Any]
    reading: bool = False
    """Everything this node takes is stated in the file: it is computed once, while reading."""
    floating: torch.dtype | None = None
    """The one type of all floating numbers in a module that was moved to it; else every number has the file's type."""

    @property
    def first(self) -> Any:
        """The input that operators of one input take."""
        return self.inputs[0]

    def input(self, place: int) -> Any:
        """An input that may be left out, or None."""
        return self.inputs[place] if len(self.inputs) > place else None

    def option(self, name: str, default: Any = None) -> Any:
        """An option, or the specification's default; a file's options are numbers in single precision, so these are."""
        return self.node.options.get(name, float(np.float32(default)) if isinstance(default, float) else default)

    def whole(self, place: int, name: str) -> list[int] | None:
        """Shapes, axes and the like: an option in old operator sets and an input in new ones, or None."""
        given = self.option(name, self.input(place))
        return None if given is None else [int(n) for n in given]


@dataclass(frozen=True)
class Operator:
    """How a node is computed, and for which options a file is refused: `refuse` says what it holds, or None."""

    compute: Callable[[Call], Tensor | tuple[Tensor, ...]]
    refuse: Callable[[Node], str | None] = lambda node: None  # noqa: ARG005 - nothing is wrong


def first_output_only(node: Node) -> str | None:
    """Refuses a node of whose outputs more than the first is asked for."""
    return f"a second output of {node.kind}, which is not supported" if node.gives_more() else None


def reshape(call: Call) -> Tensor:
    """Reshape; a length of 0 copies the input's, unless allowzero=1 makes it really 0."""
    a, wanted = call.first, call.whole(1, "shape") or []
    keep = not call.option("allowzero", 0)
    result: Tensor = a.reshape([a.shape[i] if n == 0 and keep else n for i, n in enumerate(wanted)])
    return result


def flatten(call: Call) -> Tensor:
    """Flatten to a matrix: the axes before `axis`, and the others."""
    a, axis = call.first, call.option("axis", 1)
    axis = axis + a.dim() if axis < 0 else axis
    result: Tensor = a.reshape(math.prod(a.shape[:axis]), math.prod(a.shape[axis:]))
    return result


def transpose(call: Call) -> Tensor:
    """Transpose; without a permutation, all axes reversed."""
    result: Tensor = call.first.permute(*call.option("perm", range(call.first.dim() - 1, -1, -1)))
    return result


def squeeze(call: Call) -> Tensor:
    """Squeeze axes of length 1: those named, or all."""
    a, axes = call.first, call.whole(1, "axes")
    axes = [i for i, n in enumerate(a.shape) if n == 1] if axes is None else [i % a.dim() for i in axes]
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError("a Squeeze of an axis that is longer than 1")
    result: Tensor = a.squeeze(tuple(axes)) if axes else a
    return result


def unsqueeze(call: Call) -> Tensor:
    """Unsqueeze: new axes of length 1, at places in the result."""
    result: Tensor = call.first
    axes = call.whole(1, "axes") or []
    for axis in sorted(i % (call.first.dim() + len(axes)) for i in axes):
        result = result.unsqueeze(axis)
    return result


def concat(call: Call) -> Tensor:
    """Concat along one axis."""
    return torch.cat(call.inputs, dim=call.node.options["axis"])


def split(call: Call) -> tuple[Tensor, ...]:
    """Split along one axis into stated lengths, or into equal parts, the last perhaps shorter."""
    a, axis, count = call.first, call.option("axis", 0), len(call.node.outputs)
    sizes = call.whole(1, "split")
    if sizes is None and "num_outputs" not in call.node.options and a.shape[axis] % count:
        raise ValueError(f"a Split of {a.shape[axis]} into {count} equal parts")
    parts = a.split(sizes or math.ceil(a.shape[axis] / count), dim=axis)
    if len(parts) != count:
        raise ValueError(f"a Split of {a.shape[axis]} into {len(parts)} parts for {count} outputs")
    return tuple(parts)


def slice_(call: Call) -> Tensor:
    """Slice: like Python's, along the axes named."""
    a = call.first
    starts, ends = call.whole(1, "starts") or [], call.whole(2, "ends") or []
    axes = call.whole(3, "axes") or range(len(starts))
    steps = call.whole(4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        kept = range(*slice(start, end, step).indices(a.shape[axis]))
        a = a.narrow(axis, kept.start, len(kept)) if step == 1 else a.index_select(axis, _whole(list(kept), a))
    result: Tensor = a
    return result


def gather(call: Call) -> Tensor:
    """Gather: entries along one axis, at whole numbers of any shape; negative ones count from the end."""
    a, places = call.first, call.inputs[1]
    axis = call.option("axis", 0) % a.dim()
    places = torch.where(places < 0, places + a.shape[axis], places)
    shape = (*a.shape[:axis], *places.shape, *a.shape[axis + 1 :])
    result: Tensor = a.index_select(axis, places.reshape(-1)).reshape(shape)
    return result


def shape_of(call: Call) -> Tensor:
    """Shape, or the part of it from `start` to `end`."""
    return _whole(list(call.first.shape)[call.option("start", 0) : call.option("end")], call.first)


def size_of(call: Call) -> Tensor:
    """Size: how many numbers there are."""
    return torch.tensor(call.first.numel(), device=call.first.device)


def expand(call: Call) -> Tensor:
    """Expand: broadcast against a shape."""
    wanted = np.broadcast_shapes(call.first.shape, tuple(call.whole(1, "shape") or ()))
    return torch.broadcast_to(call.first, wanted)


def tile(call: Call) -> Tensor:
    """Tile: repeated along every axis."""
    result: Tensor = call.first.repeat(call.whole(1, "repeats") or [])
    return result


def constant(call: Call) -> Tensor:
    """Constant, in whichever of its forms."""
    ((form, value),) = call.node.options.items()
    if form == "value":
        result: Tensor = value
        return result
    return torch.tensor(value, dtype=torch.float32 if "float" in form else torch.int64)


def no_numbers(node: Node) -> str | None:
    """Refuses a Constant of texts or sparse numbers."""
    forms = ("value", "value_float", "value_floats", "value_int", "value_ints")
    wrong = [form for form in node.options if form not in forms]
    return f"a Constant given as {wrong[0]}, which is not supported" if wrong else None


def constant_of_shape(call: Call) -> Tensor:
    """ConstantOfShape: one number everywhere, 0 unless stated."""
    value = call.option("value", torch.zeros(1))
    kind = call.floating if call.floating and value.is_floating_point() else value.dtype
    return torch.full([int(n) for n in call.first], value.item(), dtype=kind, device=call.first.device)


def range_(call: Call) -> Tensor:
    """Range of whole numbers."""
    start, end, step = call.inputs
    if start.is_floating_point():
        raise ValueError("a Range of floating numbers is not supported")
    return torch.arange(int(start), int(end), int(step), dtype=start.dtype, device=start.device)


def pad(call: Call) -> Tensor:
    """Pad with a constant, the edge, a reflection or the other end; a constant's negative amounts cut off."""
    a: Tensor = call.first
    starts, ends = np.array(call.whole(1, "pads"), dtype=int).reshape(2, -1).tolist()
    axes = call.whole(3, "axes") or range(len(starts))
    pairs = {axis % a.dim(): pair for axis, *pair in zip(axes, starts, ends, strict=True)}
    mode = call.option("mode", "constant")
    if mode == "constant":
        value = call.option("value", 0.0) if call.input(2) is None else call.input(2)
        return F.pad(a, [n for axis in reversed(range(a.dim())) for n in pairs.get(axis, (0, 0))], value=float(value))
    if min(starts + ends) < 0:
        raise ValueError(f"a Pad of mode {mode} by a negative amount is not supported")
    for axis, pair in pairs.items():
        if any(pair):
            a = a.index_select(axis, _whole(np.pad(np.arange(a.shape[axis]), pair, mode=mode).tolist(), a))
    return a


def _whole(numbers: list[int], like: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=like.device)


def conv(call: Call) -> Tensor:
    """Conv of one to three dimensions."""
    weight = call.inputs[1]
    rank = weight.dim() - 2
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]
    result: Tensor = function(
        F.pad(call.first, _pads(call, list(weight.shape[2:]))),
        weight,
        call.input(2),
        stride=tuple(call.option("strides", [1] * rank)),
        dilation=tuple(call.option("dilations", [1] * rank)),
        groups=call.option("group", 1),
    )
    return result


def conv_transpose(call: Call) -> Tensor:
    """ConvTranspose of one to three dimensions; padding is what is cut off the result."""
    weight = call.inputs[1]
    rank = weight.dim() - 2
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[rank]
    whole: Tensor = function(
        call.first,
        weight,
        call.input(2),
        stride=tuple(call.option("strides", [1] * rank)),
        output_padding=tuple(call.option("output_padding", [0] * rank)),
        groups=call.option("group", 1),
        dilation=tuple(call.option("dilations", [1] * rank)),
    )
    return F.pad(whole, [-amount for amount in _pads(call, list(weight.shape[2:]))])


def max_pool(call: Call) -> Tensor:
    """MaxPool of one to three dimensions; padding never wins."""
    size = tuple(call.node.options["kernel_shape"])
    ones = [1] * len(size)
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(size)]
    pads = _pads(call, list(size))
    padded = F.pad(call.first, pads, value=-math.inf) if any(pads) else call.first
    result = function(
        padded,
        size,
        stride=tuple(call.option("strides", ones)),
        dilation=tuple(call.option("dilations", ones)),
        ceil_mode=bool(call.option("ceil_mode", 0)),
    )
    return _windows_that_start_inside(result, call, pads)


def average_pool(call: Call) -> Tensor:
    """AveragePool of one to three dimensions: of what a window holds, padding counted only where the file says so."""
    size = tuple(call.node.options["kernel_shape"])
    function = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(size)]
    pads = _pads(call, list(size))
    strides = tuple(call.option("strides", [1] * len(size)))

    def averaged(a: Tensor) -> Tensor:
        pooled: Tensor = function(F.pad(a, pads), size, strides, 0, bool(call.option("ceil_mode", 0)))
        return _windows_that_start_inside(pooled, call, pads)

    result = averaged(call.first)
    if any(pads) and not call.option("count_include_pad", 0):
        return result / averaged(torch.ones_like(call.first))  # the share of the window that lies inside
    return result


def _windows_that_start_inside(result: Tensor, call: Call, pads: list[int]) -> Tensor:
    """With ceil_mode torch also keeps windows that begin in the end's padding, because here padding is part of it."""
    rank = len(pads) // 2
    for axis, stride in enumerate(call.option("strides", [1] * rank)):
        start = pads[2 * (rank - 1 - axis)]
        most = (call.first.shape[axis + 2] + start - 1) // stride + 1
        result = result.narrow(axis + 2, 0, min(most, result.shape[axis + 2]))
    return result


def _pads(call: Call, kernel: list[int]) -> list[int]:
    """ONNX lists all starts, then all ends; torch wants (start, end) from the last axis on."""
    rank = len(kernel)
    automatic = call.option("auto_pad", "NOTSET")
    if automatic in _SAME:
        starts, ends = [], []
        for axis in range(rank):
            stride = call.option("strides", [1] * rank)[axis]
            reach = (kernel[axis] - 1) * call.option("dilations", [1] * rank)[axis] + 1
            size = call.first.shape[axis + 2]
            total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
            less, more = total // 2, total - total // 2
            starts.append(less if automatic == "SAME_UPPER" else more)
            ends.append(more if automatic == "SAME_UPPER" else less)
    else:
        pads = call.option("pads", [0] * 2 * rank)
        starts, ends = list(pads[:rank]), list(pads[rank:])
    return [amount for axis in range(rank - 1, -1, -1) for amount in (starts[axis], ends[axis])]


# Refusals: where ONNX's own implementations understand a file differently.

_SAME = ("SAME_UPPER", "SAME_LOWER")


def unclear_average(node: Node) -> str | None:
    """Refuses an AveragePool with dilations, or with unclear automatic padding."""
    if _dilated(node):
        return "an AveragePool with dilations, which is not supported"
    return gaps_in_automatic_padding(node)


def unclear_maximum(node: Node) -> str | None:
    """Refuses a MaxPool of which the places are asked for, or with unclear automatic padding."""
    if _dilated(node) and _automatic(node):
        return "a MaxPool with dilations and automatic padding: state its pads"
    return first_output_only(node) or gaps_in_automatic_padding(node)


def gaps_in_automatic_padding(node: Node) -> str | None:
    """Refuses automatic padding where the window jumps farther than it reaches: some cut the input instead."""
    kernel = node.options.get("kernel_shape")
    if kernel is None:  # a Conv may leave it to its weights
        kernel = node.constants[1].shape[2:] if 1 in node.constants else []
    strides = node.options.get("strides", [1] * len(kernel))
    gaps = len(kernel) != len(strides) or any(s > k for s, k in zip(strides, kernel, strict=True))
    if _automatic(node) and gaps:
        return f"{node.kind} with automatic padding and strides beyond its kernel: state its pads"
    return None


def automatic_padding(node: Node) -> str | None:
    """Refuses a ConvTranspose that states its result's size instead of its padding."""
    wrong = _automatic(node) or "output_shape" in node.options
    return "a ConvTranspose with automatic padding: state its pads" if wrong else None


def _automatic(node: Node) -> bool:
    return node.options.get("auto_pad", "NOTSET") in _SAME


def _dilated(node: Node) -> bool:
    return any(step != 1 for step in node.options.get("dilations", []))
