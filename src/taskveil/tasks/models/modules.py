"""torch modules: checked and frozen as models, combined, and built from layers of numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.errors import TaskError
from taskveil.tasks.models.frozen import FrozenModel
from taskveil.tasks.models.layered import Activation, Layered


def check_module(model: nn.Module) -> None:
    """Raise TaskError unless the module has all its weights, in one place, and is ready to answer."""
    devices = {str(tensor.device) for tensor in [*model.parameters(), *model.buffers()]}
    if len(devices) > 1:
        raise TaskError(f"the model's parameters lie on several devices ({', '.join(sorted(devices))}): use one.")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise TaskError("the model has lazy layers without weights: run it once on a record first.")
    if "meta" in devices:
        raise TaskError("the model is on the meta device and holds no numbers: load its weights first.")
    moody = [
        m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm)
    ]
    if any(m.training and getattr(m, "p", 1.0) > 0 for m in moody):
        names = ", ".join(sorted({type(m).__name__ for m in moody}))
        raise TaskError(f"the model is in training mode, where {names} makes answers random: call model.eval() first.")


def first_width(model: nn.Module) -> int | None:
    """The number of attributes of a stack of layers that begins with a linear one; None for other modules."""
    if isinstance(model, nn.Linear):
        return model.in_features
    return first_width(model[0]) if isinstance(model, nn.Sequential) and len(model) else None


def from_module(model: nn.Module, width: int | None, *, must_be_logits: bool = False) -> FrozenModel:
    """A frozen copy in evaluation mode, asked in its own precision and place."""
    try:
        frozen = copy.deepcopy(model).eval().requires_grad_(False)
    except RuntimeError as error:
        raise TaskError(f"the model cannot be copied: {error}") from error
    dtype, device = module_dtype(frozen), module_device(frozen)

    def function(X: Floats) -> Floats:
        with torch.no_grad():
            answer = rows_of(frozen(torch.tensor(np.ascontiguousarray(X), dtype=dtype, device=device)))
            return np.asarray(answer.double().cpu())

    rounding = torch.finfo(dtype).eps
    return FrozenModel(function, module=frozen, width=width, must_be_logits=must_be_logits, rounding=rounding)


def side_by_side(modules: Sequence[nn.Module | None]) -> nn.Module | None:
    """One module with the outputs of all next to each other; None when one is None, a model without gradients."""
    found = [module for module in modules if module is not None]
    return _SideBySide(found) if len(found) == len(modules) else None


class _SideBySide(nn.Module):
    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> Tensor:
        kinds = {p.dtype for p in self.parameters()} | {b.dtype for b in self.buffers() if b.is_floating_point()}
        if len(kinds) > 1:
            # A float64 scikit-learn model beside a float32 torch module: each computes in its own precision.
            return torch.cat([_in_own_dtype(model, x) for model in self.models], dim=1)
        return torch.cat([rows_of(model(x)) for model in self.models], dim=1)


def _in_own_dtype(model: nn.Module, x: Tensor) -> Tensor:
    return rows_of(model(x.to(module_dtype(model)))).to(x.dtype)


def affine(weights: Floats, offset: Floats | None) -> nn.Linear:
    """x ↦ weights x + offset as a layer in double precision; weights (m, n), offset (m,) or None."""
    layer = nn.Linear(weights.shape[1], weights.shape[0], bias=offset is not None, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weights, dtype=np.float64)))
        if offset is not None:
            layer.bias.copy_(torch.from_numpy(np.array(offset, dtype=np.float64)))
    return layer.requires_grad_(False)


def rows_of(answer: Tensor) -> Tensor:
    """One number per record (N,) → (N, 1)."""
    return answer[:, None] if answer.dim() == 1 else answer


def module_dtype(module: nn.Module) -> torch.dtype:
    """The precision a module computes in."""
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            return tensor.dtype
    return torch.float32


def module_device(module: nn.Module) -> torch.device:
    """Where a module computes."""
    return next((tensor.device for tensor in [*module.parameters(), *module.buffers()]), torch.device("cpu"))


_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "identity": torch.positive,
}


class LayeredModule(nn.Module):
    """The function of a `Layered` in double precision, in evaluation mode, without gradients of its weights."""

    def __init__(self, form: Layered) -> None:
        super().__init__()
        self.bend = _ACTIVATIONS[form.activation or "identity"]
        self.scalers = nn.ModuleList(nn.ParameterList(map(torch.tensor, scaler)) for scaler in form.scalers)
        self.layers = nn.ModuleList(affine(*layer) for layer in form.layers)
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Records (N, n) → outputs (N, m)."""
        for scaler in self.scalers:
            center, slope, offset = cast("nn.ParameterList", scaler)
            x = (x - center) * slope + offset
        for place, layer in enumerate(self.layers):
            x = layer(self.bend(x) if place > 0 else x)
        return x
