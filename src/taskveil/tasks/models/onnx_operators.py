"""ONNX operators as torch operations: one small function each, as the specification defines it, and one table.

To add an operator, write its function and enter it in `OPERATORS`, with a refusal for options whose effect is not
reproduced exactly. What can be seen in the file is refused there; a ValueError while computing refuses what only shows
with records.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from taskveil.tasks.models.onnx_nodes import Call, Node, Operator
from taskveil.tasks.models.onnx_windows import average_pool, conv, dilated_average, max_pool, unclear_padding

FLOATING = (1, 10, 11, 16)  # FLOAT, FLOAT16, DOUBLE, BFLOAT16 in TensorProto's numbering
_WHOLE = (6, 7)  # INT32, INT64


# Arithmetic.


def _each(function: Callable[[Tensor], Tensor]) -> Operator:
    """An operator that treats every number by itself."""
    return Operator(lambda call: function(call.first))


def _gemm(call: Call) -> Tensor:
    left = call.first.T if call.option("transA") else call.first
    right = call.inputs[1].T if call.option("transB") else call.inputs[1]
    result: Tensor = call.option("alpha", 1.0) * (left @ right)
    added = call.input(2)
    return result if added is None else result + call.option("beta", 1.0) * added


def _divide(call: Call) -> Tensor:
    a, b = call.inputs
    if not (a.is_floating_point() or b.is_floating_point()):
        raise ValueError("a division of whole numbers")
    result: Tensor = a / b
    return result


def _clip(call: Call) -> Tensor:
    low, high = call.option("min", call.input(1)), call.option("max", call.input(2))
    result: Tensor = call.first if low is None and high is None else call.first.clamp(min=low, max=high)
    return result


def _reduce_mean(call: Call) -> Tensor:
    axes = _axes(call) or list(range(call.first.dim()))
    return torch.mean(call.first, dim=axes, keepdim=bool(call.option("keepdims", 1)))


def _batch_normalization(call: Call) -> Tensor:
    a, scale, offset, mean, variance = call.inputs
    return F.batch_norm(a, mean, variance, scale, offset, eps=call.option("epsilon", 1e-5))


def _softmax(function: Callable[[Tensor, int], Tensor]) -> Operator:
    def compute(call: Call) -> Tensor:
        a = call.first
        if call.node.opset >= 13:
            return function(a, call.option("axis", -1))
        # Before, over everything from that axis on.
        return function(a.flatten(call.option("axis", 1) % a.dim()), -1).reshape(a.shape)

    return Operator(compute)


# Shapes and types.


def _axes(call: Call) -> list[int] | None:
    """Axes are an option in old operator sets and the second input in new ones."""
    given = call.inputs[1] if len(call.inputs) > 1 else call.option("axes")
    return None if given is None else [int(axis) for axis in given]


def _reshape(call: Call) -> Tensor:
    """A file exported with a fixed batch states it in its reshapes; the number of records is ours to choose."""
    a, wanted = call.inputs
    shape = [a.shape[i] if n == 0 else int(n) for i, n in enumerate(wanted)]
    if shape and call.batch > 0 and shape[0] == call.batch and len(a) == call.records:
        shape[0] = call.records
    result: Tensor = a.reshape(shape)
    return result


def _flatten(call: Call) -> Tensor:
    a, axis = call.first, call.option("axis", 1)
    axis = axis + a.dim() if axis < 0 else axis
    result: Tensor = a.reshape(math.prod(a.shape[:axis]), -1)
    return result


def _transpose(call: Call) -> Tensor:
    result: Tensor = call.first.permute(*call.option("perm", range(call.first.dim() - 1, -1, -1)))
    return result


def _squeeze(call: Call) -> Tensor:
    a, axes = call.first, _axes(call)
    axes = [i for i, n in enumerate(a.shape) if i and n == 1] if axes is None else axes
    if any(i % a.dim() == 0 for i in axes):
        raise ValueError("a Squeeze of the records' axis")
    result: Tensor = a.squeeze(tuple(axes)) if axes else a
    return result


def _unsqueeze(call: Call) -> Tensor:
    result: Tensor = call.first
    axes = _axes(call) or []
    for axis in sorted(i % (call.first.dim() + len(axes)) for i in axes):
        result = result.unsqueeze(axis)
    return result


def _cast(call: Call) -> Tensor:
    """All floating numbers share one type here; whole numbers occur in shapes and tables only."""
    a: Tensor = call.first
    to = call.node.options["to"]
    if to in FLOATING:
        return a.to(call.floating)
    if a.is_floating_point() or to not in _WHOLE:
        raise ValueError("a Cast to whole numbers or truth values")
    return a


# Refusals: what a file holds that would be answered wrongly.


def _without(option: str, what: str) -> Callable[[Node], str | None]:
    """The option must be absent or 0."""
    return lambda node: f"{what}, which is not supported" if node.options.get(option) else None


def _dropout_in_training(node: Node) -> str | None:
    given = len(node.inputs) > 2 and node.inputs[2]
    return "a Dropout that may be in training mode: export the model in evaluation mode" if given else None


OPERATORS: dict[str, Operator] = {
    "Add": Operator(lambda call: call.inputs[0] + call.inputs[1]),
    "AveragePool": Operator(average_pool, dilated_average),
    "BatchNormalization": Operator(
        _batch_normalization, _without("training_mode", "a BatchNormalization in training mode")
    ),
    "Cast": Operator(_cast),
    "Clip": Operator(_clip),
    "Concat": Operator(lambda call: torch.cat(call.inputs, dim=call.node.options["axis"])),
    "Conv": Operator(conv),
    "Div": Operator(_divide),
    "Dropout": Operator(lambda call: call.first, _dropout_in_training),  # nothing happens at inference
    "Exp": _each(torch.exp),
    "Flatten": Operator(_flatten),
    "Gemm": Operator(_gemm),
    "GlobalAveragePool": Operator(lambda call: call.first.mean(dim=tuple(range(2, call.first.dim())), keepdim=True)),
    "Identity": Operator(lambda call: call.first),
    "LeakyRelu": Operator(lambda call: F.leaky_relu(call.first, call.option("alpha", 0.01))),
    "Log": _each(torch.log),
    "LogSoftmax": _softmax(torch.log_softmax),
    "MatMul": Operator(lambda call: call.inputs[0] @ call.inputs[1]),
    "MaxPool": Operator(max_pool, unclear_padding),
    "Mul": Operator(lambda call: call.inputs[0] * call.inputs[1]),
    "Neg": _each(torch.neg),
    "Pow": Operator(lambda call: call.inputs[0] ** call.inputs[1]),
    "ReduceMean": Operator(_reduce_mean, _without("noop_with_empty_axes", "a ReduceMean that may do nothing")),
    "Relu": _each(torch.relu),
    "Reshape": Operator(_reshape, _without("allowzero", "a Reshape to length 0")),
    "Sigmoid": _each(torch.sigmoid),
    "Softmax": _softmax(torch.softmax),
    "Sqrt": _each(torch.sqrt),
    "Squeeze": Operator(_squeeze),
    "Sub": Operator(lambda call: call.inputs[0] - call.inputs[1]),
    "Tanh": _each(torch.tanh),
    "Transpose": Operator(_transpose),
    "Unsqueeze": Operator(_unsqueeze),
}
