"""ONNX operators that add up, average or otherwise reduce along axes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from taskveil.tasks.models.onnx_nodes import Call, Node, Operator

Reduction = Callable[[Tensor, list[int]], Tensor]  # keeps the reduced axes, with length 1


def reduction(function: Reduction, *, same_for_one: bool = False) -> Operator:
    """A Reduce operator over the axes that an option or the second input names; without any, over all.

    Args:
        function: the reduction, which keeps the axes.
        same_for_one: of a single number it gives that number, so that over no axes at all it does nothing.
    """

    def compute(call: Call) -> Tensor:
        a: Tensor = call.first
        axes = call.whole(1, "axes")
        if not axes and call.option("noop_with_empty_axes", 0):
            return a
        reduced = sorted({axis % a.dim() for axis in axes} if axes else range(a.dim()))
        result = function(a, reduced)
        if call.option("keepdims", 1) or not reduced:
            return result
        return result.squeeze(tuple(reduced))

    def refuse(node: Node) -> str | None:
        unclear = node.options.get("noop_with_empty_axes") and not same_for_one
        return f"a {node.kind} that may reduce nothing, which is not supported" if unclear else None

    return Operator(compute, refuse)


def total(a: Tensor, axes: list[int]) -> Tensor:
    """The sum, in the type of its terms."""
    return a.sum(axes, keepdim=True, dtype=a.dtype) if axes else a


def mean(a: Tensor, axes: list[int]) -> Tensor:
    """The mean of floating numbers."""
    return a.mean(axes, keepdim=True) if axes else a


def product(a: Tensor, axes: list[int]) -> Tensor:
    """The product, in the type of its factors."""
    for axis in axes:
        a = a.prod(axis, keepdim=True, dtype=a.dtype)
    return a


def largest(a: Tensor, axes: list[int]) -> Tensor:
    """The largest number."""
    return a.amax(axes, keepdim=True) if axes else a


def smallest(a: Tensor, axes: list[int]) -> Tensor:
    """The smallest number."""
    return a.amin(axes, keepdim=True) if axes else a


def sum_of_sizes(a: Tensor, axes: list[int]) -> Tensor:
    """ReduceL1."""
    return total(a.abs(), axes)


def sum_of_squares(a: Tensor, axes: list[int]) -> Tensor:
    """ReduceSumSquare."""
    return total(a * a, axes)


def length(a: Tensor, axes: list[int]) -> Tensor:
    """ReduceL2, with the gradient 0 where all is 0."""
    return torch.linalg.vector_norm(a, dim=axes, keepdim=True) if axes else a.abs()


def log_of_sum(a: Tensor, axes: list[int]) -> Tensor:
    """ReduceLogSum."""
    return total(a, axes).log()


def log_of_sum_of_exponentials(a: Tensor, axes: list[int]) -> Tensor:
    """ReduceLogSumExp."""
    return torch.logsumexp(a, axes, keepdim=True) if axes else a


def over_positions(function: Reduction) -> Operator:
    """A Global pooling: over all axes after records and channels."""
    return Operator(lambda call: function(call.first, list(range(2, call.first.dim()))))
