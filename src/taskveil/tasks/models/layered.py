"""Models as layers of numbers, and models that turn out to be linear: all with numpy and scipy alone.

scikit-learn's linear, logistic and multi-layer models, also behind scalers, become plain arrays that predict, give
gradients and say whether they are linear. Any other model is probed: records of many sizes show whether its outputs, or
its logits, are linear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit, ndtri, softmax

from taskveil.arrays import Floats
from taskveil.errors import TaskError

Activation = Literal["relu", "tanh", "logistic", "identity"]

_BENDS: dict[Activation, Callable[[Floats], Floats]] = {
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "logistic": expit,
    "identity": lambda z: z,
}
_SLOPES: dict[Activation, Callable[[Floats], Floats]] = {
    "relu": lambda a: np.asarray(a > 0, dtype=np.float64),
    "tanh": lambda a: 1.0 - a**2,
    "logistic": lambda a: a * (1.0 - a),
    "identity": np.ones_like,
}
"""The derivative of every activation, from its value."""

CLOSE = 1e-5
"""The difference of equal outputs, as a share of the outputs' spread."""

_SIZES: Floats = np.asarray(10.0 ** np.arange(-1, 10), dtype=np.float64)
"""Of the records that are asked about. A model that bends does so somewhere: networks that were fitted to attributes of
thousands bend in thousands, and trees have their splits there."""
_PER_SIZE = 24  # records of every size


class ScalerForm(NamedTuple):
    """(x − center) · slope + offset, attribute by attribute: each (n,)."""

    center: Floats
    slope: Floats
    offset: Floats


class DenseForm(NamedTuple):
    """x ↦ weights x + offset: weights (m, n), offset (m,)."""

    weights: Floats
    offset: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Layered:
    """Scalers, then dense layers with an activation between them: records (N, n) → values or logits (N, m)."""

    scalers: tuple[ScalerForm, ...]
    layers: tuple[DenseForm, ...]
    activation: Activation | None
    """Of a multi-layer model, also one without hidden layers; None for a linear one."""

    def __call__(self, X: Floats) -> Floats:
        """Records (N, n) → outputs (N, m)."""
        return self.behind_scalers(self.scaled(X))

    def scaled(self, X: Floats) -> Floats:
        """Records (N, n) → what the first dense layer takes. By scikit-learn's own formula: attributes far from zero,
        such as times, would lose their digits in another."""
        for scaler in self.scalers:
            X = (X - scaler.center) * scaler.slope + scaler.offset
        return X

    def behind_scalers(self, scaled: Floats) -> Floats:
        """What the scalers give (N, n) → outputs (N, m)."""
        return self._values(scaled)[-1]

    def pulled_back(self, X: Floats, pull: Floats) -> Floats:
        """(N, n): the gradient of Σ pull · outputs at records (N, n), for a `pull` (N, m) on the outputs."""
        values = self._values(self.scaled(X))
        for place in reversed(range(len(self.layers))):
            pull = pull @ self.layers[place].weights
            pull = pull * _SLOPES[self.activation or "identity"](values[place]) if place > 0 else pull
        for scaler in reversed(self.scalers):
            pull = pull * scaler.slope
        return pull

    @property
    def lines(self) -> tuple[Floats, Floats] | None:
        """Weights (m, n) and offset (m,) of the same function, where it is linear; else None."""
        folded = self._folded()
        if folded is None or (len(self.layers) > 1 and self.activation not in (None, "identity")):
            return None
        (weights, offset), *others = folded
        for layer in others:
            weights, offset = layer.weights @ weights, layer.weights @ offset + layer.offset
        return weights, offset

    @property
    def relu_layers(self) -> tuple[tuple[Floats, Floats], ...] | None:
        """The dense layers of the same function as a network with ReLU between its layers; None for linear models and
        for other activations."""
        if self.activation == "relu":
            folded = self._folded()
            return None if folded is None else tuple((layer.weights, layer.offset) for layer in folded)
        lines = None if self.activation is None else self.lines
        return None if lines is None else (lines,)

    def typical_scaled(self) -> Floats:
        """(N, n): numbers like those that scalers make of records, of the three smallest sizes."""
        return _points(self.layers[0].weights.shape[1], _SIZES[:3])

    def _folded(self) -> tuple[DenseForm, ...] | None:
        """The layers with all scalers inside the first; None where that costs digits, as it does for an attribute that
        lies very far from zero."""
        (weights, offset), *others = self.layers
        X = scaled = self.typical_scaled()
        for scaler in reversed(self.scalers):
            offset = offset + weights @ (scaler.offset - scaler.center * scaler.slope)
            weights = weights * scaler.slope
            X = (X - scaler.offset) / scaler.slope + scaler.center
        mine, true = X @ weights.T + offset, scaled @ self.layers[0].weights.T + self.layers[0].offset
        if not (np.abs(mine - true) <= CLOSE * np.ptp(true, axis=0) + 1e-300).all():
            return None
        return DenseForm(weights, offset), *others

    def _values(self, scaled: Floats) -> list[Floats]:
        """What every layer takes (N, …), from the first on, and what the last gives."""
        values = [scaled]
        with np.errstate(all="ignore"):  # on devices, what depends on a record must not be said aloud
            for place, (weights, offset) in enumerate(self.layers):
                z = values[-1] @ weights.T + offset
                values.append(z if place == len(self.layers) - 1 else _BENDS[self.activation or "identity"](z))
        return values


def layered(model: Any, classifier: bool) -> Layered | None:
    """The fitted estimator in this form, or None when it is not of the known kinds."""
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    scalers = [_scaler(step) for step in steps[:-1] if step not in (None, "passthrough")]
    found = _layers(steps[-1], classifier)
    if found is None or any(scaler is None for scaler in scalers):
        return None
    layers, activation = found
    if classifier and len(layers[-1].weights) == 1:
        # A binary classifier's single score z becomes the two logits (0, z).
        weights, offset = layers[-1]
        both = DenseForm(np.vstack([np.zeros_like(weights), weights]), np.append(0.0, offset))
        layers = (*layers[:-1], both)
    return Layered(scalers=tuple(s for s in scalers if s is not None), layers=layers, activation=activation)


def agrees(form: Layered, model: Any, function: Callable[[Floats], Floats], classifier: bool) -> bool:
    """Whether a form gives the predictions of the original `function` on records like those that the model was fitted
    to: of several sizes behind its scalers."""
    X = form.typical_scaled()
    for _, scaler in reversed(getattr(model, "steps", [])[:-1]):
        X = X if scaler in (None, "passthrough") else scaler.inverse_transform(X)
    mine, theirs = form(X), function(X).reshape(len(X), -1)
    if classifier:
        mine, theirs = softmax(mine, axis=1), np.exp(theirs)
    return mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=1e-7, atol=1e-9)


def _scaler(scaler: Any) -> ScalerForm | None:
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if getattr(scaler, "clip", False):
        return None

    def given(name: str, default: float) -> Any:
        value = getattr(scaler, name, None)
        return default if value is None else value

    def all_of(*values: Any) -> ScalerForm:
        width = scaler.n_features_in_
        return ScalerForm(*(np.array(np.broadcast_to(value, width), dtype=np.float64) for value in values))

    if isinstance(scaler, MinMaxScaler):
        return all_of(0.0, scaler.scale_, scaler.min_)
    if isinstance(scaler, StandardScaler | MaxAbsScaler | RobustScaler):
        center = given("mean_" if isinstance(scaler, StandardScaler) else "center_", 0.0)
        return all_of(center if getattr(scaler, "with_mean", True) else 0.0, 1.0 / given("scale_", 1.0), 0.0)
    return None


def _layers(model: Any, classifier: bool) -> tuple[tuple[DenseForm, ...], Activation | None] | None:
    """The dense layers of a linear or multi-layer model and the activation between them."""
    from scipy.sparse import issparse
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if classifier and not _is_logistic(model):
        return None
    if isinstance(model, MLPClassifier | MLPRegressor):
        if model.activation not in _BENDS:
            return None
        pairs = zip(model.coefs_, model.intercepts_, strict=True)
        return tuple(_dense(weights.T, offset) for weights, offset in pairs), model.activation
    if hasattr(model, "coef_") and hasattr(model, "intercept_") and not hasattr(model, "coefs_"):
        slopes: Any = model.coef_
        slopes = slopes.toarray() if issparse(slopes) else slopes  # type: ignore[attr-defined]
        return (_dense(np.atleast_2d(slopes), model.intercept_),), None
    return None


def _dense(weights: Any, offset: Any) -> DenseForm:
    """Copies in double precision; one offset may stand for all outputs."""
    own = np.array(weights, dtype=np.float64)
    return DenseForm(own, np.array(np.broadcast_to(np.asarray(offset, dtype=np.float64), (len(own),))))


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


# Models of other kinds are asked whether they are linear.

Lines = tuple[Floats, Floats]
"""Weights (m, n) and offset (m,): outputs = weights x + offset."""

_STEP_SIZE = 2.0**10  # at which weights are measured; at smaller steps the offset costs them digits


def probed_lines(
    model: Callable[[Floats], Floats], width: int, rounding: float, *, up_to_shift: bool = False
) -> Lines | None:
    """Weights and offset of a model that is linear to the last digits of its precision, at records of all sizes; None
    for any other, and for one that says the same of all.

    Args:
        model: records (N, n) → outputs (N, m); a TaskError of its own means that it is not linear.
        width: the number of attributes n.
        rounding: the relative error of one operation in the model's precision.
        up_to_shift: outputs count up to a number that is added to all those of a record: the first is made 0.
    """

    def asked(X: Floats) -> Floats:
        said = model(X)
        return said - said[:, :1] if up_to_shift else said

    points = _points(width, _SIZES)
    slack = (16.0 + 4.0 * np.sqrt(width)) * rounding
    try:
        start = asked(np.zeros((1, width)))[0]
        said, opposite = asked(points), asked(-points)
        # Most models are found out by a few records, whatever the number of attributes.
        if not (np.abs(said + opposite - 2.0 * start) <= slack * _sizes(said, opposite, start)).all():
            return None
        steps = _STEP_SIZE * np.eye(width)
        weights = ((asked(steps) - asked(-steps)) / (2.0 * _STEP_SIZE)).T
    except TaskError:
        return None
    size = np.abs(points) @ np.abs(weights).T + np.abs(start)
    if up_to_shift:
        size = size + size.max(axis=1, keepdims=True)
    straight = (np.abs(points @ weights.T + start - said) <= slack * size).all()
    return (weights, start) if straight and weights.any() else None


def _points(width: int, sizes: Floats) -> Floats:
    """(N, width) numbers of several sizes, spread like normal ones, but by a formula: the audit wants no generator
    within a device's reach."""
    count = _PER_SIZE * len(sizes)
    share = np.sin(np.arange(1, count * width + 1)) * 43758.5453 % 1.0
    normal = ndtri(np.clip(share, 1e-6, 1 - 1e-6)).reshape(count, width)
    return np.asarray(normal * np.repeat(sizes, _PER_SIZE)[:, None])


def _sizes(said: Floats, opposite: Floats, start: Floats) -> Floats:
    """(N, 1): how large the numbers are that were added up to answers: about the largest answer to a record of that
    size."""
    largest = np.maximum(np.abs(said), np.abs(opposite)).max(axis=1).reshape(-1, _PER_SIZE).max(axis=1)
    return np.asarray(np.repeat(largest, _PER_SIZE)[:, None] + np.abs(start).max())
