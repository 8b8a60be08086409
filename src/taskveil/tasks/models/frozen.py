"""Models as tasks see them: frozen functions from records (N, n) to outputs (N, m), with gradients where possible.

torch modules are copied; scikit-learn estimators are read by `taskveil.tasks.models.estimators`, ONNX files by
`taskveil.tasks.models.onnx_reader`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.errors import TaskError

if TYPE_CHECKING:
    from taskveil.tasks import LinearTask, ModelTask


ROWS_AT_ONCE = 4096


class FrozenModel:
    """f: records (N, n) → outputs (N, m) that never changes; `module` gives gradients, or is None.

    The number of outputs is learned from a probe, as soon as the number of attributes is known.
    """

    def __init__(
        self,
        function: Callable[[Floats], Floats],
        *,
        module: nn.Module | None = None,
        width: int | None = None,
        classes: NDArray[Any] | None = None,
        probabilities: bool = False,
    ) -> None:
        self._function = function
        self.module = module
        self.classes = classes
        self.probabilities = probabilities
        self._outputs: int | None = None
        self.width: int | None = None
        if width is not None:
            self.check_width(width)

    @property
    def outputs(self) -> int:
        if self._outputs is None:
            raise TaskError("how many attributes this model takes is not known yet: call check_width(n) first.")
        return self._outputs

    def check_width(self, width: int) -> None:
        if self.width is not None:
            if self.width != width:
                raise TaskError(f"the model takes {self.width} attributes, but the data has {width}.")
            return
        probe = np.linspace(0.0, 1.0, 3 * width).reshape(3, width)
        answer = self._ask(probe)
        alone = [self._ask(row[None]) for row in probe]
        same = all(one.shape == (1, answer.shape[1]) for one in alone)
        if not same or not np.allclose(np.concatenate(alone), answer, rtol=0, atol=0.01 * float(np.abs(answer).max())):
            raise TaskError(
                "the model answers a record differently alone and among others: it mixes records or draws at random."
            )
        if self.probabilities and answer.shape[1] < 2:
            raise TaskError(
                "cross_entropy needs one logit per class, but the model has one output: give it two, (0, z), or judge "
                "it by a loss of your own."
            )
        if self.probabilities and answer.shape[1] > 1 and (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0):
            raise TaskError("cross_entropy needs logits, but the model gives probabilities: take off its last softmax.")
        self.width, self._outputs = width, answer.shape[1]

    def __call__(self, X: Floats) -> Floats:
        if X.ndim != 2:
            raise TaskError(f"records form a table (N, n), got shape {X.shape}.")
        self.check_width(X.shape[1])
        if len(X) == 0:
            return np.empty((0, self.outputs))
        return np.concatenate([self._ask(X[i : i + ROWS_AT_ONCE]) for i in range(0, len(X), ROWS_AT_ONCE)])

    def _ask(self, X: Floats) -> Floats:
        try:
            answer = np.asarray(self._function(X), dtype=np.float64)
        except Exception as error:  # whatever someone else's model raises
            raise TaskError(f"the model cannot take records with {X.shape[1]} attributes: {error}") from error
        answer = answer[:, None] if answer.ndim == 1 else answer
        if answer.ndim != 2 or len(answer) != len(X):
            raise TaskError(f"a model must answer one row per record; {len(X)} records gave shape {answer.shape}.")
        if not np.isfinite(answer).all():
            row = int(np.argwhere(~np.isfinite(answer))[0][0])
            raise TaskError(
                f"the model answers NaN or infinity (record {row} of {len(X)}): mend the model or its inputs."
            )
        return answer


def freeze(model: Any, loss: str | None) -> FrozenModel:
    """A frozen copy of a torch module, scikit-learn estimator or ONNX file; TaskError for anything else."""
    if isinstance(model, nn.Module):
        _check_module(model)
        return from_module(model, _first_width(model), probabilities=loss == "cross_entropy")
    if isinstance(model, str | Path):
        from taskveil.tasks.models.onnx_reader import read_onnx

        module, width = read_onnx(Path(model), logits=loss == "cross_entropy")
        return from_module(module, width, probabilities=loss == "cross_entropy")
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        from taskveil.tasks.models.estimators import from_estimator

        return from_estimator(model, loss)
    raise TaskError(
        "a model must be a torch module, a fitted scikit-learn estimator or the path of an ONNX file, "
        f"got {type(model).__name__}."
    )


def side_by_side(tasks: Sequence[LinearTask | ModelTask]) -> nn.Module | None:
    """One module with the outputs of all tasks next to each other; None when one has no gradients."""
    modules = [task.torch_module if hasattr(task, "torch_module") else affine(task.K, None) for task in tasks]
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


def rows_of(answer: Tensor) -> Tensor:
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


def _check_module(model: nn.Module) -> None:
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


def _first_width(model: nn.Module) -> int | None:
    """What a plain stack of layers takes when it begins with a linear one; of other modules only data can tell."""
    if isinstance(model, nn.Linear):
        return model.in_features
    return _first_width(model[0]) if isinstance(model, nn.Sequential) and len(model) else None


def from_module(model: nn.Module, width: int | None, *, probabilities: bool) -> FrozenModel:
    try:
        frozen = copy.deepcopy(model).eval().requires_grad_(False)
    except RuntimeError as error:
        raise TaskError(f"the model cannot be copied: {error}") from error
    dtype, device = module_dtype(frozen), module_device(frozen)

    def function(X: Floats) -> Floats:
        with torch.no_grad():
            answer = rows_of(frozen(torch.tensor(X, dtype=dtype, device=device)))
            return np.asarray(answer.double().cpu())

    return FrozenModel(function, module=frozen, width=width, probabilities=probabilities)


def affine(weights: Floats, offset: Floats | None) -> nn.Linear:
    layer = nn.Linear(weights.shape[1], weights.shape[0], bias=offset is not None, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weights, dtype=np.float64)))
        if offset is not None:
            layer.bias.copy_(torch.from_numpy(np.array(offset, dtype=np.float64)))
    return layer.requires_grad_(False)
