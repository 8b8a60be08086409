"""Boosted trees for tables, cross-fitted: one model per fold, which does not see it, and their average on the device.

How many leaves trees have and how many rounds there are is decided by what the folds' models say of the volunteers they
did not see, all folds together, so that small samples get small models, down to a constant. The average of the models
predicts better than one model of all volunteers; where it would be too large for a device, that one is fitted instead.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from taskveil.arrays import Floats, Integers
from taskveil.designs.on_device import MANIFEST
from taskveil.designs.predictors.honesty import steepness
from taskveil.designs.predictors.predictor import Evidence, Predictor
from taskveil.designs.predictors.tree_models import as_trees
from taskveil.designs.predictors.trees import Trees, together
from taskveil.designs.threads import one_thread
from taskveil.errors import TaskError
from taskveil.tasks.costs import Learnable

MOST_LEAVES = 8192
"""Of an encoder: ten bytes each, and the knots."""

_LEAVES = (3, 6, 16)  # of a tree: candidates, the simplest first
_SMALL = 500  # volunteers; fewer get no trees of many leaves
_MANY = 20_000  # volunteers; more need not be protected from learning too much
_WORK = 2**20  # attributes times leaves of a model: pictures of many classes get the smallest trees alone
_CELLS = 2**21  # numbers that a model learns from, of a thousand volunteers at least
_TREES, _MOST_ROUNDS, _LEAST_ROUNDS = 400, 120, 30  # of one model: outputs share the time
_RATE, _BINS, _SEEN, _PULL = 0.1, 64, 0.5, 3.0  # learning rate, bins, share of attributes per split, pull towards 0
_LEAST_WEIGHT = 1e-6  # of a class in a record that has others
_LEAST_LEAF, _LARGEST_LEAST = 8, 50  # volunteers in a leaf at least: a hundredth of all, between these


@one_thread()
def fit_boosted(evidence: Evidence) -> Predictor:
    """Boosted trees that predict the truth, with honest predictions of all volunteers; class probabilities may be soft.

    The encoder stays below about 100 KB, and below what devices can store.
    """
    X, truth, cost, fold = evidence.X, evidence.truth, evidence.cost, evidence.fold
    logits = bool(cost.logits)
    parts = [fold == part for part in np.unique(fold)]
    candidates = [leaves for leaves in _LEAVES if leaves <= 6 or len(X) >= _SMALL]
    quick = [leaves for leaves in candidates if X.shape[1] * truth.shape[1] * _rounds(truth) * leaves <= _WORK]
    candidates = quick or candidates[:1]
    candidates = candidates[-1:] if len(X) >= _MANY else candidates
    if logits and any(len(_classes(truth[~held])) < 2 for held in parts):
        candidates = []  # of one class nothing is to be learnt
    chosen = _constant(truth, parts, cost)
    most = _most_leaves(evidence)
    for leaves in candidates:
        rounds = max(1, min(_rounds(truth), most // (leaves * truth.shape[1])))
        models = [_fit(X[~held], truth[~held], logits, leaves, rounds, evidence.seed) for held in parts]
        chosen = _better(chosen, _best_rounds(models, X, truth, parts, cost))
    slope = steepness(chosen.outputs, truth, logits=logits, cost=cost)
    centre = 0.0 if logits else chosen.outputs.mean(axis=0)
    shift = np.broadcast_to((1.0 - slope) * centre, truth.shape[1:])
    return Predictor(
        name="trees",
        encoder=_on_device(chosen, evidence, most).encoder(evidence.low, evidence.high, slope=slope, offset=shift),
        held_out=cost.answers(centre + slope * (chosen.outputs - centre)),
    )


def _most_leaves(evidence: Evidence) -> int:
    """As many as fit beside the knots, at ten bytes each and some for their trees."""
    knots = 8 * (_BINS + 3) * evidence.X.shape[1]
    return int(np.clip((evidence.most_bytes - MANIFEST - knots) // 12, 0, MOST_LEAVES))


@dataclass(frozen=True, kw_only=True)
class _Model:
    """The trees of one fit: of a classifier all classes together, otherwise one ensemble for every value."""

    estimators: list[Any]
    places: list[Integers]  # which of the S outputs each ensemble has
    offset: Floats  # (S,), where the others stay

    def staged(self, X: Floats, looks: Integers) -> Floats:
        """(looks, N, S): outputs after so many rounds each."""
        found = np.tile(self.offset, (len(looks), len(X), 1))
        wanted = {int(look): row for row, look in enumerate(looks)}
        for model, place in zip(self.estimators, self.places, strict=True):
            classifier = hasattr(model, "staged_decision_function")
            stages = model.staged_decision_function(X) if classifier else model.staged_predict(X)
            for done, outputs in enumerate(stages, start=1):
                if done in wanted:
                    found[wanted[done]][:, place[-1:] if outputs.ndim == 1 else place] = outputs.reshape(len(X), -1)
        return found

    def trees(self, rounds: int) -> Trees:
        """After so many rounds."""
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


@dataclass(frozen=True, kw_only=True)
class _Choice:
    """Models after so many rounds, what they say of the folds they did not see (N, S), and what that costs (N,)."""

    models: list[_Model]
    leaves: int
    rounds: int
    outputs: Floats
    losses: Floats


def _constant(truth: Floats, parts: list[Any], cost: Learnable) -> _Choice:
    """What can be said without looking at the record."""
    outputs = np.empty(truth.shape)
    for held in parts:
        outputs[held] = cost.best_constant(truth[~held], lambda: truth)
    return _Choice(models=[], leaves=1, rounds=0, outputs=outputs, losses=cost.losses(outputs, truth))


def _best_rounds(models: list[_Model], X: Floats, truth: Floats, parts: list[Any], cost: Learnable) -> _Choice:
    """The number of rounds of least loss, all folds together."""
    estimator = models[0].estimators[0]
    looks = np.unique(np.geomspace(1, estimator.max_iter, 40).astype(np.int64))
    outputs = np.empty((len(looks), *truth.shape))
    for model, held in zip(models, parts, strict=True):
        outputs[:, held] = model.staged(X[held], looks)
    losses = np.stack([cost.losses(found, truth) for found in outputs])
    best = int(losses.mean(axis=1).argmin())
    return _Choice(
        models=models,
        leaves=estimator.max_leaf_nodes,
        rounds=int(looks[best]),
        outputs=outputs[best],
        losses=losses[best],
    )


def _better(simple: _Choice, rival: _Choice) -> _Choice:
    """The simpler one, unless the rival's losses are lower by more than a standard error of their mean difference."""
    gains = simple.losses - rival.losses
    return rival if gains.mean() > gains.std() / np.sqrt(len(gains)) else simple


def _rounds(truth: Floats) -> int:
    return int(np.clip(_TREES // truth.shape[1], _LEAST_ROUNDS, _MOST_ROUNDS))


def _fit(X: Floats, truth: Floats, logits: bool, leaves: int, rounds: int, seed: int) -> _Model:
    """One model of the records given."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if X.size > _CELLS:
        some = np.random.default_rng(seed).permutation(len(X))[: max(1000, _CELLS // X.shape[1])]
        X, truth = X[some], truth[some]
    share = int(np.clip(len(X) // 100, _LEAST_LEAF, _LARGEST_LEAST))
    settings = {
        "max_iter": rounds,
        "learning_rate": min(3 * _RATE, _RATE * _MOST_ROUNDS / _rounds(truth)),
        "max_leaf_nodes": leaves,
        "max_bins": _BINS,
        "max_features": _SEEN,
        "l2_regularization": _PULL,
        "early_stopping": False,
        "random_state": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns that hold one value
        if not logits:
            values = [HistGradientBoostingRegressor(min_samples_leaf=share, **settings).fit(X, t) for t in truth.T]
            return _Model(
                estimators=values, places=[np.array([s]) for s in range(len(values))], offset=truth.mean(axis=0)
            )
        # A record that is half of one class and half of another is two records of half the weight.
        row, label = np.nonzero(truth > _LEAST_WEIGHT)
        model = HistGradientBoostingClassifier(min_samples_leaf=share * len(row) // len(X), **settings)
        if len(row) == len(X):
            model.fit(X, label)
        else:
            model.fit(_coarse(X)[row], label, sample_weight=truth[row, label])
    # A class that nobody here has is as likely as one record among all would make it.
    classes = _classes(truth)
    start = np.log(truth[:, classes].mean(axis=0))
    start -= start[0] if len(classes) == 2 else start.mean()  # as scikit-learn's logits start
    offset = np.full(truth.shape[1], logsumexp(start) - np.log(len(X)))
    offset[classes] = start
    return _Model(estimators=[model], places=[classes], offset=offset)


def _coarse(X: Floats) -> Floats:
    """Records whose attributes have as many values as scikit-learn has bins: finding bins for records of different
    weights takes it far longer than all trees."""
    found = np.empty_like(X)
    for column, values in enumerate(X.T):
        kept = np.unique(np.quantile(values, np.linspace(0.0, 1.0, _BINS), method="closest_observation"))
        found[:, column] = kept[np.searchsorted(kept, values, side="right") - 1]
    return found


def _classes(truth: Floats) -> Integers:
    """The classes (C,) that some record has."""
    return np.flatnonzero((truth > _LEAST_WEIGHT).any(axis=0))


def _on_device(chosen: _Choice, evidence: Evidence, most: int) -> Trees:
    """The average of the folds' models, or one of all volunteers where that has too many leaves."""
    X, truth, logits = evidence.X, evidence.truth, bool(evidence.cost.logits)
    if chosen.rounds == 0:
        return Trees.constant(X.shape[1], chosen.outputs.mean(axis=0), logits=logits)
    models, outputs = chosen.models, truth.shape[1]
    if len(models) * chosen.rounds * outputs * chosen.leaves > most:
        models = [_fit(X, truth, logits, chosen.leaves, chosen.rounds, evidence.seed)]
    parts = [model.trees(chosen.rounds) for model in models]
    every = np.arange(outputs)
    return together(parts, [every] * len(parts), np.mean([part.offset for part in parts], axis=0), 1.0 / len(parts))
