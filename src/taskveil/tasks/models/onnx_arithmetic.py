"""ONNX operators that compute number by number, compare, choose, convert, or multiply matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor

from taskveil.tasks.models.onnx_nodes import KINDS, Call, Node, Operator


def each(function: Callable[[Tensor], Tensor]) -> Operator:
    """An operator that treats every number by itself."""
    return Operator(lambda call: function(call.first))


def pair(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator of two tensors, broadcast against each other."""
    return Operator(lambda call: function(*call.inputs))


def several(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator of any number of tensors, taken from the left."""
    return Operator(lambda call: reduce(function, call.inputs))


def mean_of_several(call: Call) -> Tensor:
    """Mean of any number of tensors."""
    total: Tensor = reduce(torch.add, call.inputs)
    return total / len(call.inputs)


def divide(call: Call) -> Tensor:
    """Div; of whole numbers, towards zero."""
    a, b = call.inputs
    return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")


def modulo(call: Call) -> Tensor:
    """Mod with the sign of the divisor, or with fmod=1 of the dividend."""
    a, b = call.inputs
    if call.option("fmod", 0):
        return torch.fmod(a, b)
    if a.is_floating_point():
        raise ValueError("a Mod of floating numbers needs fmod=1")
    return torch.remainder(a, b)


def power(call: Call) -> Tensor:
    """Pow; the exponent may be of another type."""
    a, b = call.inputs
    if not a.is_floating_point():
        raise ValueError("a power of whole numbers is not supported")
    result: Tensor = a ** b.to(a.dtype)
    return result


def clip(call: Call) -> Tensor:
    """Clip between bounds that may be left out; options in old operator sets, inputs in new ones."""
    low, high = call.option("min", call.input(1)), call.option("max", call.input(2))
    result: Tensor = call.first if low is None and high is None else call.first.clamp(min=low, max=high)
    return result


def gemm(call: Call) -> Tensor:
    """Gemm: alpha · A B + beta · C, A and B perhaps transposed."""
    left = call.first.T if call.option("transA") else call.first
    right = call.inputs[1].T if call.option("transB") else call.inputs[1]
    result: Tensor = call.option("alpha", 1.0) * (left @ right)
    added = call.input(2)
    return result if added is None else result + call.option("beta", 1.0) * added


def where(call: Call) -> Tensor:
    """Where: the second input's numbers where the first is true, else the third's."""
    condition, yes, no = call.inputs
    return torch.where(condition, yes, no)


def cast(call: Call) -> Tensor:
    """Cast, exactly; a record's floating numbers do not become whole ones, which overflow in undefined ways."""
    return _converted(call, KINDS[call.node.options["to"]])


def cast_like(call: Call) -> Tensor:
    """CastLike: to the type of the second input."""
    return _converted(call, call.inputs[1].dtype)


def _converted(call: Call, to: torch.dtype) -> Tensor:
    a: Tensor = call.first
    if to.is_floating_point:
        return a.to(call.floating or to)
    if a.is_floating_point() and to != torch.bool and not call.reading:
        raise ValueError(f"a {call.node.kind} of a record's numbers to whole numbers is not supported")
    return a.to(to)


def unknown_type(node: Node) -> str | None:
    """Refuses a Cast to a type that is not computed with."""
    to = node.options["to"]
    return None if to in KINDS else f"a Cast to type {to} of TensorProto: use floating or whole numbers or truth values"
