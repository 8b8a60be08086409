"""ONNX operators that slide a window: convolution and pooling, and where their padding lies."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from taskveil.tasks.models.onnx_nodes import Call, Node, first_output_only


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
