"""Reports as a step of a scikit-learn pipeline, for experiments: how well does a model do on estimated records?

Two of scikit-learn's checks ask for the same output twice (`check_estimators_pickle` and `check_fit_idempotent`).
Reports are random, so these two fail, as the tests declare; all others pass.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from taskveil.designs.designing import design
from taskveil.errors import refusing_old_arguments
from taskveil.records.inference import needs_schema
from taskveil.records.schema import Schema
from taskveil.tasks import LinearTask
from taskveil.tasks.linear import spreads
from taskveil.veil import Veil
from taskveil.veil.veil import as_epsilon


class PrivateReports(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer: `fit` designs for volunteers, `transform` reports every record and estimates it back.

    Every `transform` makes new reports and spends ε of everybody in the table, also if the same table is transformed
    again: after k calls these people have spent kε. Use it for experiments on records that you may look at. People's
    devices run `taskveil.client.Client`, which counts what was spent.

    Arrays give arrays of estimates (N, n). A table with text, dates or missing values gives a table with the same
    columns and types, without those that no report can carry (`Schema.of` says which).

    After `fit`, `veil_` is the design.

    Args:
        task: what the data is for; by default every column counts alike, in units of its own spread, a category as one.
        epsilon: the budget of one report.
        delta, method, on_device, domain, schema, seed, torch_device: as in `taskveil.design`.

    Example:
        >>> import numpy as np
        >>> from taskveil.sklearn import PrivateReports
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> PrivateReports(epsilon=4.0, method="task_aware").fit(X).transform(X).shape
        (200, 2)
    """

    @refusing_old_arguments
    def __init__(
        self,
        task: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        method: Any = "auto",
        on_device: Any = None,
        domain: Any = None,
        schema: Any = None,
        seed: int = 0,
        torch_device: str = "cpu",
    ) -> None:
        self.task = task
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.on_device = on_device
        self.domain = domain
        self.schema = schema
        self.seed = seed
        self.torch_device = torch_device

    def fit(self, X: Any, y: Any = None) -> PrivateReports:
        """Design for the volunteers X (N, n).

        Args:
            X: their records, an array of finite numbers or a table.
            y: their labels, where the task is a model; others do not look at them.
        """
        as_epsilon(self.epsilon)  # every transform is one report: a budget over time is refused
        mixed = self.schema is not None or needs_schema(X)
        records = validate_data(self, X, ensure_min_samples=2, dtype=np.float64, skip_check_array=mixed)
        task = _every_column(X if mixed else records, self.schema) if self.task is None else self.task
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "task"}
        named = X if hasattr(self, "feature_names_in_") else records
        self.veil_: Veil = design(named, task, y=None if isinstance(task, LinearTask) else y, **options)
        return self

    def transform(self, X: Any) -> Any:
        """Estimates of the records X (N, n), each from a report of its own. This spends ε of everybody in X."""
        check_is_fitted(self)
        schema = self.veil_.schema
        records = validate_data(self, X, reset=False, dtype=np.float64, skip_check_array=not schema.unbounded)
        if schema.unbounded:  # transformers give arrays of numbers, unless `set_output` asks for tables
            return self.veil_.estimates(self.veil_.privatize(records))
        found = self.veil_.decode(self.veil_.privatize(schema.expand(X)))
        if hasattr(found, "iloc") and hasattr(X, "iloc"):
            found.index = X.index
        return found

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of what `transform` gives: those of the records, without the ones left out.

        Args:
            input_features: must be the names that it was fitted to; for records without names, what to call them.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        schema = self.veil_.schema
        return names if schema.unbounded else np.asarray(schema.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def _every_column(X: Any, given: Schema | None) -> LinearTask:
    """The task of estimating every column of X in units of its spread; a constant column has the weight 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the design gives the same warnings
        schema = Schema.for_volunteers(X, given)
    spread = spreads(schema.expand(X), schema)
    return LinearTask(np.diag(np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)))
