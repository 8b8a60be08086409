"""The ONNX operators that are known, each with its name, its computation, and the files it is refused in.

Every number a node gives must be the one that ONNX defines for any number of records. So an option whose effect is not
reproduced exactly is refused: while reading where the file shows it, and by a ValueError while computing where only
records show it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from taskveil.tasks.models import onnx_shapes as shapes
from taskveil.tasks.models.onnx_shapes import KINDS, Call, Node, Operator, first_output_only


def each(function: Callable[[Tensor], Tensor]) -> Operator:
    """An operator that treats every number by itself."""
    return Operator(lambda call: function(call.first))


def pair(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator of two tensors, broadcast against each other."""
    return Operator(lambda call: function(*call.inputs))


def several(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator of any number of tensors, taken from the left."""
    return Operator(lambda call: reduce(function, call.inputs))


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


def softmax(function: Callable[[Tensor, int], Tensor]) -> Operator:
    """Softmax or LogSoftmax: over one axis, or before operator set 13 over everything from that axis on."""

    def compute(call: Call) -> Tensor:
        a = call.first
        if call.node.opset >= 13:
            return function(a, call.option("axis", -1))
        return function(a.flatten(call.option("axis", 1)), -1).reshape(a.shape)

    return Operator(compute)


def selu(call: Call) -> Tensor:
    """Selu: gamma times Elu, with the constants of its paper unless others are stated."""
    alpha = call.option("alpha", 1.67326319217681884765625)
    result: Tensor = call.option("gamma", 1.05070102214813232421875) * _bent(call.first, alpha)
    return result


def celu(call: Call) -> Tensor:
    """Celu: x above 0, alpha · (e^(x/alpha) − 1) below."""
    alpha = call.option("alpha", 1.0)
    result: Tensor = alpha * _bent(call.first / alpha, 1.0)
    return result


def _bent(a: Tensor, alpha: float) -> Tensor:
    return a.clamp(min=0) + alpha * torch.expm1(a.clamp(max=0))  # the clamp keeps gradients finite above 0


def prelu(call: Call) -> Tensor:
    """PRelu: slopes below 0 are an input, broadcast to x."""
    a, slope = call.inputs
    return torch.where(a < 0, a * slope, a)


def shrink(call: Call) -> Tensor:
    """Shrink: bias closer to 0 outside ±lambd, 0 inside."""
    a: Tensor = call.first
    bias, edge = call.option("bias", 0.0), call.option("lambd", 0.5)
    return torch.where(a < -edge, a + bias, torch.where(a > edge, a - bias, torch.zeros_like(a)))


def hard_sigmoid(call: Call) -> Tensor:
    """HardSigmoid: alpha · x + beta, clipped to [0, 1]."""
    result: Tensor = (call.option("alpha", 0.2) * call.first + call.option("beta", 0.5)).clamp(0, 1)
    return result


def hard_swish(a: Tensor) -> Tensor:
    """HardSwish: x times a HardSigmoid of slope 1/6, which as an option is a number in single precision."""
    return a * (float(np.float32(1 / 6)) * a + 0.5).clamp(0, 1)


def softplus(a: Tensor) -> Tensor:
    """Softplus log(1 + eˣ) to the last digit; torch's own gives x from 20 on."""
    return torch.logaddexp(a, torch.zeros_like(a))


def batch_normalization(call: Call) -> Tensor:
    """BatchNormalization with the file's own means and variances, channels on axis 1."""
    a, scale, offset, mean, variance = call.inputs
    return F.batch_norm(a, mean, variance, scale, offset, eps=call.option("epsilon", 1e-5))


def batch_statistics(node: Node) -> str | None:
    """Refuses a BatchNormalization that looks at the batch, or has a mean for every pixel."""
    if node.options.get("training_mode") or node.gives_more():
        return "a BatchNormalization in training mode: export the model in evaluation mode"
    return "a BatchNormalization with spatial=0, which is not supported" if not node.options.get("spatial", 1) else None


def layer_normalization(call: Call) -> Tensor:
    """LayerNormalization over all axes from `axis` on, then scale and offset."""
    a, scale, offset = call.first, call.inputs[1], call.input(2)
    axes = range(call.option("axis", -1) % a.dim(), a.dim())
    result: Tensor = _standardised(a, tuple(axes), call.option("epsilon", 1e-5)) * scale
    return result if offset is None else result + offset


def instance_normalization(call: Call) -> Tensor:
    """InstanceNormalization: every channel of every record by itself."""
    a, scale, offset = call.inputs
    by_channel = (-1, *[1] * (a.dim() - 2))
    scaled = _standardised(a, tuple(range(2, a.dim())), call.option("epsilon", 1e-5)) * scale.reshape(by_channel)
    result: Tensor = scaled + offset.reshape(by_channel)
    return result


def _standardised(a: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    centred = a - a.mean(axes, keepdim=True)
    return centred / (centred.square().mean(axes, keepdim=True) + epsilon).sqrt()


def dropout_in_training(node: Node) -> str | None:
    """Refuses a Dropout unless the file says that it is off; its second output is a mask of nothing."""
    if node.takes(2) and bool(node.constants.get(2, torch.tensor(True)).any()):
        return "a Dropout that may be in training mode: export the model in evaluation mode"
    return None


Reduction = Callable[[Tensor, list[int]], Tensor]  # keeps the reduced axes, with length 1


def reduction(function: Reduction, *, same_for_one: bool = False) -> Operator:
    """A Reduce operator over the axes that an option or the second input names; without any, over all.

    Args:
        function: the reduction, which keeps the axes.
        same_for_one: the reduction of a single number is that number, so over no axes it changes nothing.
    """

    def compute(call: Call) -> Tensor:
        a: Tensor = call.first
        axes = call.whole(1, "axes")
        if not axes and call.option("noop_with_empty_axes", 0):
            return a
        reduced = sorted({axis % a.dim() for axis in axes} if axes else range(a.dim()))
        if not reduced:  # a single number without axes
            return function(a.reshape(1), [0]).reshape(())
        result = function(a, reduced)
        return result if call.option("keepdims", 1) else result.squeeze(tuple(reduced))

    def refuse(node: Node) -> str | None:
        unclear = node.options.get("noop_with_empty_axes") and not same_for_one
        return f"a {node.kind} that may reduce nothing, which is not supported" if unclear else None

    return Operator(compute, refuse)


def total(a: Tensor, axes: list[int]) -> Tensor:
    """The sum, in the type of its terms."""
    return a.sum(axes, keepdim=True, dtype=a.dtype)


def product(a: Tensor, axes: list[int]) -> Tensor:
    """The product, in the type of its factors."""
    for axis in axes:
        a = a.prod(axis, keepdim=True, dtype=a.dtype)
    return a


def mean(a: Tensor, axes: list[int]) -> Tensor:
    """The mean of floating-point numbers; without axes the numbers themselves."""
    return a.mean(axes, keepdim=True) if axes else a


def largest(a: Tensor, axes: list[int]) -> Tensor:
    """The largest number; without axes the numbers themselves."""
    return a.amax(axes, keepdim=True) if axes else a


def over_positions(function: Reduction) -> Operator:
    """A Global pooling: over all axes after records and channels."""
    return Operator(lambda call: function(call.first, list(range(2, call.first.dim()))))


OPERATORS: dict[str, Operator] = {
    # Number by number.
    "Abs": each(torch.abs),
    "Add": pair(torch.add),
    "And": pair(torch.logical_and),
    "Cast": Operator(cast, unknown_type),
    "CastLike": Operator(cast_like),
    "Ceil": each(torch.ceil),
    "Clip": Operator(clip),
    "Cos": each(torch.cos),
    "Div": Operator(divide),
    "Equal": pair(torch.eq),
    "Erf": each(torch.erf),
    "Exp": each(torch.exp),
    "Floor": each(torch.floor),
    "Gemm": Operator(gemm),
    "Greater": pair(torch.gt),
    "GreaterOrEqual": pair(torch.ge),
    "Less": pair(torch.lt),
    "LessOrEqual": pair(torch.le),
    "Log": each(torch.log),
    "MatMul": pair(torch.matmul),
    "Max": several(torch.maximum),
    "Mean": Operator(lambda call: reduce(torch.add, call.inputs) / len(call.inputs)),
    "Min": several(torch.minimum),
    "Mod": Operator(modulo),
    "Mul": pair(torch.mul),
    "Neg": each(torch.neg),
    "Not": each(torch.logical_not),
    "Or": pair(torch.logical_or),
    "Pow": Operator(power),
    "Reciprocal": each(torch.reciprocal),
    "Round": each(torch.round),
    "Sign": each(torch.sign),
    "Sin": each(torch.sin),
    "Sqrt": each(torch.sqrt),
    "Sub": pair(torch.sub),
    "Sum": several(torch.add),
    "Where": Operator(where),
    "Xor": pair(torch.logical_xor),
    # Activations and normalisations.
    "BatchNormalization": Operator(batch_normalization, batch_statistics),
    "Celu": Operator(celu),
    "Dropout": Operator(lambda call: call.first, dropout_in_training),  # nothing happens at inference
    "Elu": Operator(lambda call: _bent(call.first, call.option("alpha", 1.0))),
    "Gelu": Operator(lambda call: F.gelu(call.first, approximate=call.option("approximate", "none"))),
    "HardSigmoid": Operator(hard_sigmoid),
    "HardSwish": each(hard_swish),
    "InstanceNormalization": Operator(instance_normalization),
    "LayerNormalization": Operator(layer_normalization, first_output_only),
    "LeakyRelu": Operator(lambda call: F.leaky_relu(call.first, call.option("alpha", 0.01))),
    "LogSoftmax": softmax(torch.log_softmax),
    "LpNormalization": Operator(
        lambda call: call.first / call.first.norm(call.option("p", 2), call.option("axis", -1), keepdim=True)
    ),
    "Mish": each(lambda a: a * torch.tanh(softplus(a))),
    "PRelu": Operator(prelu),
    "Relu": each(torch.relu),
    "Selu": Operator(selu),
    "Shrink": Operator(shrink),
    "Sigmoid": each(torch.sigmoid),
    "Softmax": softmax(torch.softmax),
    "Softplus": each(softplus),
    "Softsign": each(F.softsign),
    "Swish": Operator(lambda call: call.first * torch.sigmoid(call.option("alpha", 1.0) * call.first)),
    "Tanh": each(torch.tanh),
    "ThresholdedRelu": Operator(
        lambda call: torch.where(call.first > call.option("alpha", 1.0), call.first, torch.zeros_like(call.first))
    ),
    # Along axes.
    "GlobalAveragePool": over_positions(mean),
    "GlobalMaxPool": over_positions(largest),
    "ReduceL1": reduction(lambda a, axes: total(a.abs(), axes)),
    "ReduceL2": reduction(
        lambda a, axes: torch.linalg.vector_norm(a, dim=axes, keepdim=True)
    ),  # its gradient at 0 is 0
    "ReduceLogSum": reduction(lambda a, axes: total(a, axes).log()),
    "ReduceLogSumExp": reduction(lambda a, axes: torch.logsumexp(a, axes, keepdim=True)),
    "ReduceMax": reduction(largest, same_for_one=True),
    "ReduceMean": reduction(mean, same_for_one=True),
    "ReduceMin": reduction(lambda a, axes: a.amin(axes, keepdim=True), same_for_one=True),
    "ReduceProd": reduction(product, same_for_one=True),
    "ReduceSum": reduction(total, same_for_one=True),
    "ReduceSumSquare": reduction(lambda a, axes: total(a * a, axes)),
    # Sliding shapes.
    "AveragePool": Operator(shapes.average_pool, shapes.unclear_average),
    "Conv": Operator(shapes.conv, shapes.gaps_in_automatic_padding),
    "ConvTranspose": Operator(shapes.conv_transpose, shapes.automatic_padding),
    "MaxPool": Operator(shapes.max_pool, shapes.unclear_maximum),
    # Shapes.
    "Concat": Operator(shapes.concat),
    "Constant": Operator(shapes.constant, shapes.no_numbers),
    "ConstantOfShape": Operator(shapes.constant_of_shape),
    "Expand": Operator(shapes.expand),
    "Flatten": Operator(shapes.flatten),
    "Gather": Operator(shapes.gather),
    "Identity": Operator(lambda call: call.first),
    "Pad": Operator(shapes.pad),
    "Range": Operator(shapes.range_),
    "Reshape": Operator(shapes.reshape),
    "Shape": Operator(shapes.shape_of),
    "Size": Operator(shapes.size_of),
    "Slice": Operator(shapes.slice_),
    "Split": Operator(shapes.split),
    "Squeeze": Operator(shapes.squeeze),
    "Tile": Operator(shapes.tile),
    "Transpose": Operator(shapes.transpose),
    "Unsqueeze": Operator(shapes.unsqueeze),
}
