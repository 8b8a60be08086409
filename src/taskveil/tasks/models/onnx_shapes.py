"""ONNX operators that move numbers without changing them: shapes, axes, parts, copies, and arithmetic on shapes."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from taskveil.tasks.models.onnx_nodes import Call, Node


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
