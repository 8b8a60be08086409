"""Boosted trees by scikit-learn's histogram implementation, and their mean on the device.

Held-out losses choose how many rounds there are, so that small samples get small models.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder
from taskveil.designs.crossfit import Evidence, Fit
from taskveil.designs.predictors.trees import Trees, as_trees, together
from taskveil.designs.selection import MANIFEST
from taskveil.errors import TaskError

MOST_LEAVES = 8192
"""Leaves of an encoder, at most: ten bytes each, and the knots."""

LOOKS = (2, 4, 7, 12, 20, 34, 60)
"""Rounds after which held-out losses are compared; a round adds one tree for every output."""

SETTINGS: dict[str, Any] = {
    "max_iter": LOOKS[-1],
    "learning_rate": 0.15,
    "max_leaf_nodes": 6,
    "max_bins": 64,
    "max_features": 0.5,
    "l2_regularization": 3.0,
    "early_stopping": False,
}
"""Of scikit-learn's histogram gradient boosting."""

_LEAST_WEIGHT = 1e-6  # of a class in a record that has others
_LEAF_SIZES = (8, 50)  # the least number of volunteers in a leaf: a hundredth of all, between these


@dataclass(frozen=True, kw_only=True, eq=False)
class Boosted:
    """The trees of one fit: of a classifier all classes together, otherwise one ensemble for every value."""

    estimators: list[Any]
    places: list[Integers]  # which of the S outputs each ensemble has
    offset: Floats  # (S,), where the others stay
    width: int

    def outputs(self, X: Floats) -> Floats:
        """(looks, N, S): outputs after so many rounds each."""
        found = np.tile(self.offset, (len(LOOKS), len(X), 1))
        for model, place in zip(self.estimators, self.places, strict=True):
            classifier = hasattr(model, "staged_decision_function")
            stages = model.staged_decision_function(X) if classifier else model.staged_predict(X)
            for done, outputs in enumerate(stages, start=1):
                if done in LOOKS:
                    columns = place[-1:] if outputs.ndim == 1 else place
                    found[LOOKS.index(done)][:, columns] = outputs.reshape(len(X), -1)
        return found

    def trees(self, rounds: int) -> Trees:
        """After so many rounds."""
        if not self.estimators:
            return Trees.constant(self.width, self.offset, logits=True)
        parts = []
        for model in self.estimators:
            converted = as_trees(model)
            if converted is None:  # it was checked against its own predictions
                raise TaskError("this scikit-learn keeps its trees in another way: install one of 1.5 to 1.9.")
            parts.append(converted)
        offset = self.offset.copy()
        for part, place in zip(parts, self.places, strict=True):
            offset[place] = part.offset
        per_round = [len(part.output) // model.n_iter_ for part, model in zip(parts, self.estimators, strict=True)]
        kept = [part.first(rounds * each) for part, each in zip(parts, per_round, strict=True)]
        return together(kept, self.places, offset, 1.0)


@dataclass(frozen=True)
class BoostedTrees:
    """The family of boosted trees."""

    name: str = "trees"
    averaged: bool = True
    logits: bool = True
    as_it_is: bool = False

    def seconds(self, evidence: Evidence) -> float:
        """About how much processor time one fit takes."""
        (count, width), outputs = evidence.X.shape, evidence.truth.shape[1]
        trees = LOOKS[-1] * (outputs if outputs > 2 or not evidence.cost.logits else 1)
        return float(trees * (4e-4 + 3e-6 * SETTINGS["max_leaf_nodes"] * width + 1e-9 * count * width))

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others."""
        logits = bool(evidence.cost.logits)
        return [_fit(evidence.X[own], evidence.truth[own], logits, evidence.seed) for own in rows]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:
        """The device's encoder of slope · mean outputs + shift (S,), of as many folds' models as a device can store."""
        every = np.arange(evidence.truth.shape[1])
        parts = [fit.trees(LOOKS[setting]) for fit in fits if isinstance(fit, Boosted)]
        fits_in = np.cumsum([len(part.values) for part in parts]) <= _most_leaves(evidence)
        parts = parts[: max(1, int(fits_in.sum()))]
        mean = together(parts, [every] * len(parts), np.mean([part.offset for part in parts], axis=0), 1.0 / len(parts))
        return mean.encoder(evidence.low, evidence.high, slope=slope, offset=shift)


def _most_leaves(evidence: Evidence) -> int:
    """As many as fit beside the knots, at ten bytes each and some for their trees."""
    knots = 8 * (SETTINGS["max_bins"] + 3) * evidence.X.shape[1]
    return int(np.clip((evidence.most_bytes - MANIFEST - knots) // 12, 0, MOST_LEAVES))


def _fit(X: Floats, truth: Floats, logits: bool, seed: int) -> Boosted:
    """One model of the records given."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    share = int(np.clip(len(X) // 100, *_LEAF_SIZES))
    settings = SETTINGS | {"random_state": seed}
    every, width = truth.mean(axis=0), X.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns that hold one value
        if not logits:
            values = [HistGradientBoostingRegressor(min_samples_leaf=share, **settings).fit(X, t) for t in truth.T]
            places = [np.array([place]) for place in range(len(values))]
            return Boosted(estimators=values, places=places, offset=every, width=width)
        classes = np.flatnonzero((truth > _LEAST_WEIGHT).any(axis=0))
        # A class that nobody here has is as likely as one record among all would make it.
        start = np.log(every[classes])
        start -= start[0] if len(classes) == 2 else start.mean()  # as scikit-learn's logits start
        offset = np.full(truth.shape[1], logsumexp(start) - np.log(len(X)))
        offset[classes] = start
        if len(classes) < 2:  # of one class nothing is to be learnt
            return Boosted(estimators=[], places=[], offset=offset, width=width)
        # A record that is half of one class and half of another is two records of half the weight.
        row, label = np.nonzero(truth > _LEAST_WEIGHT)
        model = HistGradientBoostingClassifier(min_samples_leaf=share * len(row) // len(X), **settings)
        if len(row) == len(X):
            model.fit(X, label)
        else:
            model.fit(_coarse(X)[row], label, sample_weight=truth[row, label])
    return Boosted(estimators=[model], places=[classes], offset=offset, width=width)


def _coarse(X: Floats) -> Floats:
    """Records whose attributes have as many values as scikit-learn has bins: finding bins for records of different
    weights takes it far longer than all trees."""
    found = np.empty_like(X)
    for column, values in enumerate(X.T):
        kept = np.unique(np.quantile(values, np.linspace(0.0, 1.0, SETTINGS["max_bins"]), method="closest_observation"))
        found[:, column] = kept[np.searchsorted(kept, values, side="right") - 1]
    return found
