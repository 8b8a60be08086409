"""scikit-learn estimators as tasks: linear, logistic and multi-layer models, also behind scalers, become torch modules
that are checked against the original's predictions. Every other estimator stays a black box: it predicts, and designs
that need gradients say that they cannot use it.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.errors import TaskError
from taskveil.schema import Schema
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.frozen import FrozenModel
from taskveil.tasks.models.modules import affine, from_module, rows_of

TINY_PROBABILITY = 1e-12


def from_estimator(model: Any, cost: Cost, schema: Schema | None = None) -> FrozenModel:
    """A frozen copy of a fitted estimator; a classifier's outputs are logits. TaskError where `cost` judges others.

    With a `schema` it takes the numbers that records become, and the estimator gets tables like the volunteers'.
    """
    from sklearn.base import is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise TaskError(f"fit the model first: {error}") from error
    classifier = bool(is_classifier(model))
    if cost.logits is True and not (classifier and hasattr(model, "predict_proba")):
        raise TaskError(f"{cost.name} needs a classifier with probabilities; {type(model).__name__} is none.")
    if cost.logits is False and classifier:
        raise TaskError(
            f'{type(model).__name__} is a classifier: use loss="cross_entropy" or "zero_one", or a loss of your own.'
        )
    if classifier and not hasattr(model, "predict_proba"):
        raise TaskError(f"{type(model).__name__} gives no probabilities: only classifiers that do are supported.")
    if classifier and (isinstance(model.classes_, list) or np.ndim(model.classes_) != 1):
        raise TaskError(f"{type(model).__name__} gives several labels per record: make one task of each.")
    own = copy.deepcopy(model)
    classes = np.asarray(own.classes_) if classifier else None
    named, features = _names(own), _features(model)
    by_numbers = schema is None or (
        named is None and features == schema.width and (schema.plain or features != len(schema))
    )
    frame = _frame(named) if schema is None or by_numbers else _tables(own, named, features, schema)
    width = features if schema is None else None

    def function(X: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on devices, what depends on a record must not be said aloud
            records = frame(np.array(X))  # scalers with copy=False would write into the caller's
            if not classifier:
                return np.asarray(own.predict(records), dtype=np.float64)
            chances = np.asarray(own.predict_proba(records))
            if not np.allclose(chances.sum(axis=1), 1.0):
                raise TaskError("its probabilities do not add up to one: several labels per record are not supported")
            return np.asarray(np.log(np.maximum(chances, TINY_PROBABILITY)))

    module = None if width is None else _as_module(own, classifier)
    if module is not None and _agrees(own, module, function, classifier):
        frozen = from_module(module, width)
        frozen.classes = classes
    else:
        frozen = FrozenModel(function, classes=classes, frame=frame)
        try:
            frozen.check_width(width) if width is not None else None
        except TaskError as error:
            # It may take other things than numbers, which only a schema can tell; then the model itself refused them.
            if named is None and isinstance(error.__cause__, TaskError | None):
                raise
    frozen.columns = named
    frozen.takes_numbers = by_numbers or (schema is not None and schema.plain and named in (None, schema.names))
    frozen.bind = lambda schema: from_estimator(own, cost, schema)
    return frozen


def _names(model: Any) -> tuple[str, ...] | None:
    """The columns that a model was fitted to, of which LightGBM knows "a b" as "a_b"; None if to an array, of which it
    says Column_0, Column_1, …"""
    named = getattr(model, "feature_names_in_", None)
    names = None if named is None else tuple(map(str, named))
    return None if names == tuple(f"Column_{place}" for place in range(len(names or ()))) else names


def _frame(named: tuple[str, ...] | None) -> Callable[[Floats], Any]:
    """From numbers (N, n) to what the estimator takes: a table by its names, if it knows some."""
    if named is None:
        return lambda X: X
    try:
        import pandas as pd
    except ImportError:
        return lambda X: X
    return lambda X: pd.DataFrame(X, columns=list(named))


def _tables(own: Any, named: tuple[str, ...] | None, features: int | None, schema: Schema) -> Callable[[Floats], Any]:
    """From the numbers (N, width) of records to tables like the volunteers', with the columns that the estimator knows,
    in its order; TaskError where the records have others. An estimator that was fitted to an array gets arrays."""
    if named is not None:
        known = {name.replace(" ", "_"): name for name in schema.names}
        named = tuple(name if name in schema.names else known.get(name, name) for name in named)
    extra = sorted(set(schema.names) - set(named or schema.names))
    if extra:
        raise TaskError(
            f"the model was fitted to the columns {', '.join(named or ())}, and not to {', '.join(extra)}. "
            "Select them: X[list(model.feature_names_in_)]."
        )
    if named is None and features is not None and features != len(schema):
        raise TaskError(
            f"the model takes {features} attributes; the records have {len(schema)} fields, which become "
            f"{schema.width} numbers (schema.columns)."
        )
    # A column that the schema left out may be one that the model's first step drops.
    names = [name for name in named or schema.names if name in schema.names]

    def as_they_were(X: Floats) -> Any:
        return schema.for_model(X)[names]

    def in_pandas(X: Floats) -> Any:  # estimators are not fitted to Arrow's tables
        return schema.for_model(X).to_pandas()[names]

    tables = as_they_were if schema.library == "pandas" else in_pandas
    if schema.library == "polars":
        with contextlib.suppress(Exception), warnings.catch_warnings():  # whatever one fitted to pandas raises
            warnings.simplefilter("ignore")
            own.predict(as_they_were(schema.typical(1)))
            tables = as_they_were
    return tables if named is not None else lambda X: np.asarray(tables(X))


def _features(model: Any) -> int | None:
    """The number of attributes; a pipeline's, when its first step is "passthrough", of the first that knows."""
    steps = [model, *(step for _, step in getattr(model, "steps", []))]
    return next((int(step.n_features_in_) for step in steps if hasattr(step, "n_features_in_")), None)


def _agrees(model: Any, module: nn.Module, function: Callable[[Floats], Floats], classifier: bool) -> bool:
    """The converted model gives the original's predictions on records like those it was trained on: of several sizes
    behind its scalers, and for classifiers small enough that no probability is 0 or 1."""
    # Spread like normal numbers, but by a formula: the audit wants no generator within a device's reach.
    width = _features(model) or 0
    share = np.sin(np.arange(1, 256 * width + 1)) * 43758.5453 % 1.0
    X = ndtri(np.clip(share, 1e-6, 1 - 1e-6)).reshape(256, width) * np.resize([0.1, 1.0, 10.0], (256, 1))
    if classifier:
        last = list(module.children())[_scalers(model) :]
        with torch.no_grad():
            scores = nn.Sequential(*last)(torch.from_numpy(X))
            X *= min(1.0, 4.0 / float((scores.amax(1) - scores.amin(1)).max() + 1e-300))
    for _, scaler in reversed(getattr(model, "steps", [])[:-1]):
        X = X if scaler in (None, "passthrough") else scaler.inverse_transform(X)
    with torch.no_grad():
        mine = rows_of(module(torch.from_numpy(X)))
    theirs = function(X).reshape(len(X), -1)
    if classifier:
        mine, theirs = mine.softmax(dim=1), np.exp(theirs)
    return theirs.shape == tuple(mine.shape) and np.allclose(mine.numpy(), theirs, rtol=1e-7, atol=1e-9)


def _scalers(model: Any) -> int:
    """How many steps before the last do something."""
    return sum(step not in (None, "passthrough") for _, step in getattr(model, "steps", [])[:-1])


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


class _Scaler(nn.Module):
    """(x − center) · slope + offset, attribute by attribute."""

    center: Tensor
    slope: Tensor
    offset: Tensor

    def __init__(self, center: Any, slope: Any, offset: Any, width: int) -> None:
        super().__init__()
        for name, value in (("center", center), ("slope", slope), ("offset", offset)):
            self.register_buffer(name, torch.from_numpy(np.array(np.broadcast_to(value, width), dtype=np.float64)))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.center) * self.slope + self.offset


def _scaler(scaler: Any) -> nn.Module | None:
    """scikit-learn's own formula: attributes far from zero, such as times, would lose their digits in another."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if getattr(scaler, "clip", False):
        return None

    def given(name: str, default: float) -> Any:
        value = getattr(scaler, name, None)
        return default if value is None else value

    width = scaler.n_features_in_ if hasattr(scaler, "n_features_in_") else 0
    if isinstance(scaler, MinMaxScaler):
        return _Scaler(0.0, scaler.scale_, scaler.min_, width)
    if isinstance(scaler, StandardScaler | MaxAbsScaler | RobustScaler):
        center = given("mean_" if isinstance(scaler, StandardScaler) else "center_", 0.0)
        return _Scaler(center if getattr(scaler, "with_mean", True) else 0.0, 1.0 / given("scale_", 1.0), 0.0, width)
    return None


def _layers(model: Any, classifier: bool) -> list[nn.Module] | None:
    from scipy.sparse import issparse
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if classifier and not _is_logistic(model):
        return None
    if isinstance(model, MLPClassifier | MLPRegressor):
        activations = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}
        layers: list[nn.Module] = []
        for weights, offset in zip(model.coefs_, model.intercepts_, strict=True):
            layers += [affine(weights.T, offset), activations[model.activation]()]
        return [*layers[:-1], *_logits(classifier, model.coefs_[-1].shape[1])]
    if hasattr(model, "coef_") and hasattr(model, "intercept_") and not hasattr(model, "coefs_"):
        slopes: Any = model.coef_
        slopes = slopes.toarray() if issparse(slopes) else slopes  # type: ignore[attr-defined]
        weights = np.atleast_2d(np.asarray(slopes, dtype=np.float64))
        offset = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), (len(weights),))
        return [affine(weights, offset), *_logits(classifier, len(weights))]
    return None


def _is_logistic(model: Any) -> bool:
    """Whether probabilities are the softmax (or, of two classes, the sigmoid) of the scores. The type decides: far from
    the data other links look alike."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
    from sklearn.neural_network import MLPClassifier

    if isinstance(model, MLPClassifier):
        return bool(model.out_activation_ == "softmax" or model.n_outputs_ == 1)
    if isinstance(model, SGDClassifier):
        return bool(model.loss == "log_loss" and len(model.classes_) == 2)
    return isinstance(model, LogisticRegression | LogisticRegressionCV | LinearDiscriminantAnalysis)


def _logits(classifier: bool, outputs: int) -> list[nn.Module]:
    """A binary classifier's single score z becomes the two logits (0, z)."""
    return [affine(np.array([[0.0], [1.0]]), None)] if classifier and outputs == 1 else []
