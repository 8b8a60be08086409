"""Reports as a step of a scikit-learn pipeline, for experiments: what is a model worth on what reports leave?

As a device's retry repeats its bytes, a table that is transformed again by the same design repeats its reports, while
it is among the last that this process transformed. scikit-learn's checks ask for that, and it costs nobody anything.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from taskveil.arrays import Floats, Integers
from taskveil.designs.designing import design
from taskveil.designs.on_device import CLIENT_BYTES
from taskveil.records.inference import needs_schema
from taskveil.records.schema import Schema
from taskveil.tasks import LinearTask
from taskveil.tasks.linear import spreads
from taskveil.veil import Veil


class PrivateReports(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer: `fit` designs for volunteers, `transform` reports every record and estimates it back.

    Every `transform` spends ε of everybody in the table: the same people in another table, after another fit or in
    another process are reported anew, and have spent 2ε, 3ε, … Only the very same table, transformed again by the same
    design in the same process, repeats its reports. It is for experiments on records that one may look at; people's
    devices run `taskveil.client.Client`, which remembers what was spent.

    Arrays give arrays of estimates (N, n). A table with text, dates or missing values gives a table with the same
    columns and types, without those that no report can carry (`Schema.of` says which).

    After `fit`, `veil_` is the design.

    Args:
        task: what the data is for; by default every column counts alike, in units of its own spread, a category as one.
        epsilon: the budget of one report.
        method, encoder, answers, share_model, volunteers_unseen, client_bytes, latent_dim, domain, seed, device: as in
            `taskveil.design`.
    """

    def __init__(
        self,
        task: Any = None,
        *,
        epsilon: float = 1.0,
        method: Any = "auto",
        encoder: Any = "auto",
        answers: str = "direct",
        share_model: bool = False,
        volunteers_unseen: bool = False,
        client_bytes: int = CLIENT_BYTES,
        latent_dim: int | None = None,
        domain: Any = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.task = task
        self.epsilon = epsilon
        self.method = method
        self.encoder = encoder
        self.answers = answers
        self.share_model = share_model
        self.volunteers_unseen = volunteers_unseen
        self.client_bytes = client_bytes
        self.latent_dim = latent_dim
        self.domain = domain
        self.seed = seed
        self.device = device

    def fit(self, X: Any, y: Any = None) -> PrivateReports:
        """Design for the volunteers X (N, n).

        Args:
            X: their records, an array of finite numbers or a table.
            y: their labels, where the task is a model; others do not look at them.
        """
        given = isinstance(self.domain, Schema)
        mixed = given or needs_schema(X)
        records = validate_data(self, X, ensure_min_samples=2, dtype=np.float64, skip_check_array=mixed)
        task = (
            _every_column(X if mixed else records, self.domain if given else None) if self.task is None else self.task
        )
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
            return self.veil_.estimates(_reports(self.veil_, records))
        found = self.veil_.decode(_reports(self.veil_, schema.expand(X)))
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
        tags.non_deterministic = True  # a report that could be drawn again would be none
        return tags


MOST_TABLES = 32
"""Whose reports are remembered."""

_remembered: OrderedDict[tuple[str, bytes], Integers] = OrderedDict()
_one_at_a_time = Lock()


def _reports(veil: Veil, records: Floats) -> Integers:
    """Reports of records (N, n): those of the same table and release, if it was one of the last; else new ones."""
    table = sha256(np.ascontiguousarray(records).tobytes() + repr(records.shape).encode()).digest()
    with _one_at_a_time:
        key = (veil.release_id, table)
        if key not in _remembered:
            _remembered[key] = veil.privatize(records)
        _remembered.move_to_end(key)
        while len(_remembered) > MOST_TABLES:
            _remembered.popitem(last=False)
        return _remembered[key]


def _every_column(X: Any, given: Schema | None) -> LinearTask:
    """The task of estimating every column of X in units of its spread; a constant one counts nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to warn of is said by the design
        schema = Schema.for_volunteers(X, given)
    spread = spreads(schema.expand(X), schema)
    return LinearTask(np.diag(np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)))
