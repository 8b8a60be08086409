"""Models as tasks see them: frozen functions from records (N, n) to outputs (N, m), with gradients where possible.

torch modules are copied; scikit-learn's linear, logistic and multi-layer models, also behind scalers, become torch
modules that are checked against the original's predictions; ONNX files are read by `taskveil.onnx_models`. Every other
estimator stays a black box: it predicts, and designs that need gradients say that they cannot use it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from taskveil.errors import TaskError

if TYPE_CHECKING:
    from taskveil.task import LinearTask, ModelTask

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 4096
TINY_PROBABILITY = 1e-12


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
        if self.probabilities and answer.shape[1] > 1 and (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0):
            raise TaskError("cross_entropy needs logits, but the model gives probabilities: take off its last softmax.")
        self.width, self._outputs = width, answer.shape[1]

    def __call__(self, X: Floats) -> Floats:
        self.check_width(X.shape[1])
        if len(X) == 0:
            return np.empty((0, self.outputs))
        return np.concatenate([self._ask(X[i : i + ROWS_AT_ONCE]) for i in range(0, len(X), ROWS_AT_ONCE)])

    def _ask(self, X: Floats) -> Floats:
        try:
            answer = np.asarray(self._function(X), dtype=np.float64)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
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
        return _from_module(model, _first_width(model), probabilities=loss == "cross_entropy")
    if isinstance(model, str | Path):
        from taskveil.onnx_models import read_onnx

        module, width = read_onnx(Path(model), logits=loss == "cross_entropy")
        return _from_module(module, width, probabilities=loss == "cross_entropy")
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        return _from_estimator(model, loss)
    raise TaskError(
        "a model must be a torch module, a fitted scikit-learn estimator or the path of an ONNX file, "
        f"got {type(model).__name__}."
    )


def side_by_side(tasks: Sequence[LinearTask | ModelTask]) -> nn.Module | None:
    """One module with the outputs of all tasks next to each other; None when one has no gradients."""
    modules = [task.torch_module if hasattr(task, "torch_module") else _affine(task.K, None) for task in tasks]
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
        return torch.cat([_rows(model(x)) for model in self.models], dim=1)


def _in_own_dtype(model: nn.Module, x: Tensor) -> Tensor:
    return _rows(model(x.to(module_dtype(model)))).to(x.dtype)


def _rows(answer: Tensor) -> Tensor:
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
    if "meta" in devices:
        raise TaskError("the model is on the meta device and holds no numbers: load its weights first.")
    moody = [
        m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm)
    ]
    if any(m.training and getattr(m, "p", 1.0) > 0 for m in moody):
        names = ", ".join(sorted({type(m).__name__ for m in moody}))
        raise TaskError(f"the model is in training mode, where {names} makes answers random: call model.eval() first.")


def _first_width(model: nn.Module) -> int | None:
    """What the first layer with parameters takes, when it is a plain linear one."""
    for layer in model.modules():
        if next(layer.parameters(recurse=False), None) is not None:
            return layer.in_features if isinstance(layer, nn.Linear) else None
    return None


def _from_module(model: nn.Module, width: int | None, *, probabilities: bool) -> FrozenModel:
    frozen = copy.deepcopy(model).eval().requires_grad_(False)
    dtype, device = module_dtype(frozen), module_device(frozen)

    def function(X: Floats) -> Floats:
        with torch.no_grad():
            return np.asarray(_rows(frozen(torch.tensor(X, dtype=dtype, device=device))).cpu(), dtype=np.float64)

    try:
        return FrozenModel(function, module=frozen, width=width, probabilities=probabilities)
    except TaskError:
        if width is None or isinstance(frozen, nn.Linear | nn.Sequential):
            raise
        # A module of one's own may reshape its input before the first layer: only data can tell the width.
        return FrozenModel(function, module=frozen, probabilities=probabilities)


def _from_estimator(model: Any, loss: str | None) -> FrozenModel:
    from sklearn.base import is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise TaskError(f"fit the model first: {error}") from error
    classifier = bool(is_classifier(model))
    if loss == "cross_entropy" and not (classifier and hasattr(model, "predict_proba")):
        raise TaskError(f"cross_entropy needs a classifier with probabilities; {type(model).__name__} is none.")
    if loss == "mse" and classifier:
        raise TaskError(f'{type(model).__name__} is a classifier: use loss="cross_entropy", or a loss of your own.')
    width = int(model.n_features_in_)
    own = copy.deepcopy(model)
    classes = np.asarray(own.classes_) if classifier else None

    def function(X: Floats) -> Floats:
        with warnings.catch_warnings():
            # Trained on a named table, asked with an array: the columns are the same, in the same order.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if classifier:
                return np.asarray(np.log(np.maximum(own.predict_proba(X), TINY_PROBABILITY)))
            return np.asarray(own.predict(X), dtype=np.float64)

    module = _as_module(own, classifier)
    if module is not None and _agrees(module, function, width, classifier):
        frozen = _from_module(module, width, probabilities=False)
        frozen.classes = classes
        return frozen
    return FrozenModel(function, width=width, classes=classes)


def _agrees(module: nn.Module, function: Callable[[Floats], Floats], width: int, classifier: bool) -> bool:
    """The converted model gives the original's predictions on records of several sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(256, width)) * rng.choice([0.1, 1.0, 10.0], size=(256, 1))
    with torch.no_grad():
        mine = _rows(module(torch.from_numpy(X)))
    theirs = function(X).reshape(len(X), -1)
    if classifier:
        mine, theirs = mine.softmax(dim=1), np.exp(theirs)
    return theirs.shape == tuple(mine.shape) and np.allclose(mine.numpy(), theirs, rtol=1e-7, atol=1e-9)


def _as_module(model: Any, classifier: bool) -> nn.Module | None:
    """The estimator as float64 torch layers, or None when it is not of the known kinds."""
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    layers: list[nn.Module] = []
    for scaler in steps[:-1]:
        if scaler in (None, "passthrough"):
            continue
        found = _scaler(scaler)
        if found is None:
            return None
        layers.append(found)
    last = _layers(steps[-1], classifier)
    return None if last is None else nn.Sequential(*layers, *last)


def _scaler(scaler: Any) -> nn.Module | None:
    """Scalers are affine maps, attribute by attribute: read off at 0 and 1."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if not isinstance(scaler, StandardScaler | MinMaxScaler | MaxAbsScaler | RobustScaler) or getattr(
        scaler, "clip", False
    ):
        return None
    ends = np.array([[0.0], [1.0]]) * np.ones(scaler.n_features_in_)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        at_zero, at_one = scaler.transform(ends)
    return _affine(np.diag(at_one - at_zero), at_zero)


def _layers(model: Any, classifier: bool) -> list[nn.Module] | None:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if isinstance(model, MLPClassifier | MLPRegressor):
        activations = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}
        layers: list[nn.Module] = []
        for weights, offset in zip(model.coefs_, model.intercepts_, strict=True):
            layers += [_affine(weights.T, offset), activations[model.activation]()]
        return [*layers[:-1], *_logits(classifier, model.coefs_[-1].shape[1])]
    if hasattr(model, "coef_") and hasattr(model, "intercept_") and not hasattr(model, "coefs_"):
        weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        offset = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(weights),))
        return [_affine(weights, offset), *_logits(classifier, len(weights))]
    return None


def _logits(classifier: bool, outputs: int) -> list[nn.Module]:
    """A binary classifier's single score z becomes the two logits (0, z)."""
    return [_affine(np.array([[0.0], [1.0]]), None)] if classifier and outputs == 1 else []


def _affine(weights: Floats, offset: Floats | None) -> nn.Linear:
    layer = nn.Linear(weights.shape[1], weights.shape[0], bias=offset is not None, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weights, dtype=np.float64)))
        if offset is not None:
            layer.bias.copy_(torch.from_numpy(np.array(offset, dtype=np.float64)))
    return layer.requires_grad_(False)
