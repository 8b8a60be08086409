"""scikit-learn estimators as tasks: linear, logistic and multi-layer models, also behind scalers, are run as layers of
numbers that are checked against the original's predictions, and become torch modules where somebody asks for one. Every
other estimator stays a black box: it predicts, and designs that need gradients say that they cannot use it.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import TaskError, needs
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.frozen import DOUBLE, FrozenModel
from taskveil.tasks.models.layered import Layered, agrees, layered

if TYPE_CHECKING:
    import torch

TINY_PROBABILITY = 1e-12


def from_estimator(
    model: Any, cost: Cost, schema: Schema | None = None, *, checked: FrozenModel | None = None
) -> FrozenModel:
    """A frozen copy of a fitted estimator; a classifier's outputs are logits. TaskError where `cost` judges others.

    With a `schema` it takes the numbers that records become, and the estimator gets tables like the volunteers'. Where
    a model with the same settings was `checked`, the estimator is neither copied nor checked again.
    """
    with needs("an estimator as a task"):
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
    own = copy.deepcopy(model) if checked is None else model
    classes = np.asarray(own.classes_) if classifier else None
    named, features = _names(own), _features(model)
    by_numbers = not schema or (
        named is None and features == schema.width and (schema.plain or features != len(schema))
    )
    frame = _tables(own, named, features, schema) if schema and not by_numbers else _frame(named)
    width = None if schema else features

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

    form = None if width is None else layered(own, classifier)
    if form is not None and agrees(form, own, function, classifier):
        frozen = FrozenModel(form, width=width, classes=classes, layered=form, make_module=_as_module, rounding=DOUBLE)
    else:
        frozen = FrozenModel(function, classes=classes, frame=frame)
        if checked is not None:
            frozen.trust(checked)
        try:
            frozen.check_width(width) if width is not None else None
        except TaskError as error:
            # It may take other things than numbers, which only a schema can tell; then the model itself refused them.
            if named is None and isinstance(error.__cause__, TaskError | None):
                raise
    frozen.columns = named
    frozen.takes_numbers = by_numbers or bool(schema and schema.plain and named in (None, schema.names))
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


def _as_module(form: Layered) -> torch.nn.Module:
    """The layers as a torch module; MissingExtraError where torch is not installed."""
    with needs("torch_module", extra="torch"):
        from taskveil.tasks.models.modules import LayeredModule

    return LayeredModule(form)


def unfitted(model: Any) -> Any:
    """A copy of a scikit-learn estimator that has learnt nothing yet, or TaskError.

    `clone` keeps what `FrozenEstimator` holds, and some estimators keep fitted parts as parameters: a copy of such a
    model would still know the labels of everybody.
    """
    from sklearn.base import BaseEstimator, clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_is_fitted

    fresh = clone(model)
    for part in [fresh, *fresh.get_params(deep=True).values()]:
        if isinstance(part, BaseEstimator) and hasattr(part, "fit") and get_tags(part).requires_fit:
            try:
                check_is_fitted(part)
            except NotFittedError:
                continue
            raise TaskError(
                f"a copy of the {type(model).__name__} keeps a fitted {type(part).__name__}, which may have seen the "
                "volunteers."
            )
    return fresh
