"""Layered models as torch modules, for designs that need gradients in torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from taskveil.tasks.models.layered import Activation, Layered, Scaler
from taskveil.tasks.models.modules import affine

_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "identity": nn.Identity,
}


def as_module(form: Layered) -> nn.Module:
    """The same function in double precision, in evaluation mode, without gradients of its weights."""
    modules: list[nn.Module] = [_Scaling(scaler) for scaler in form.scalers]
    for place, (weights, offset) in enumerate(form.layers):
        modules += [_ACTIVATIONS[form.activation or "identity"]()] if place > 0 else []
        modules.append(affine(weights, offset))
    return nn.Sequential(*modules).eval().requires_grad_(False)


class _Scaling(nn.Module):
    """A scaler as a layer."""

    center: Tensor
    slope: Tensor
    offset: Tensor

    def __init__(self, scaler: Scaler) -> None:
        super().__init__()
        for name, value in scaler._asdict().items():
            self.register_buffer(name, torch.tensor(value))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.center) * self.slope + self.offset
