"""ONNX operators that bend numbers or bring them to one scale: activations and normalisations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from taskveil.tasks.models.onnx_nodes import Call, Node, Operator


def softmax(function: Callable[[Tensor, int], Tensor]) -> Operator:
    """Softmax or LogSoftmax: over one axis, or before operator set 13 over everything from that axis on."""

    def compute(call: Call) -> Tensor:
        a = call.first
        if call.node.opset >= 13:
            return function(a, call.option("axis", -1))
        return function(a.flatten(call.option("axis", 1)), -1).reshape(a.shape)

    return Operator(compute)


def elu(call: Call) -> Tensor:
    """Elu: x above 0, alpha · (eˣ − 1) below."""
    return _bent(call.first, call.option("alpha", 1.0))


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


def leaky_relu(call: Call) -> Tensor:
    """LeakyRelu: slope alpha below 0."""
    return F.leaky_relu(call.first, call.option("alpha", 0.01))


def prelu(call: Call) -> Tensor:
    """PRelu: slopes below 0 are an input, broadcast to x."""
    a, slope = call.inputs
    return torch.where(a < 0, a * slope, a)


def thresholded_relu(call: Call) -> Tensor:
    """ThresholdedRelu: x above alpha, else 0."""
    a: Tensor = call.first
    return torch.where(a > call.option("alpha", 1.0), a, torch.zeros_like(a))


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


def swish(call: Call) -> Tensor:
    """Swish: x · sigmoid(alpha · x)."""
    result: Tensor = call.first * torch.sigmoid(call.option("alpha", 1.0) * call.first)
    return result


def softplus(a: Tensor) -> Tensor:
    """Softplus log(1 + eˣ) to the last digit; torch's own gives x from 20 on."""
    return torch.logaddexp(a, torch.zeros_like(a))


def mish(a: Tensor) -> Tensor:
    """Mish: x · tanh(softplus(x))."""
    return a * torch.tanh(softplus(a))


def gelu(call: Call) -> Tensor:
    """Gelu, exact or by its tanh approximation."""
    return F.gelu(call.first, approximate=call.option("approximate", "none"))


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


def lp_normalization(call: Call) -> Tensor:
    """LpNormalization: divided by the sum of sizes or the root of the sum of squares along one axis."""
    result: Tensor = call.first / call.first.norm(call.option("p", 2), call.option("axis", -1), keepdim=True)
    return result


def dropout_in_training(node: Node) -> str | None:
    """Refuses a Dropout unless the file says that it is off; its second output is a mask of nothing."""
    if node.takes(2) and bool(node.constants.get(2, torch.tensor(True)).any()):
        return "a Dropout that may be in training mode: export the model in evaluation mode"
    return None
