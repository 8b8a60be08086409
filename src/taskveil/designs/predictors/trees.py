"""Ensembles of decision trees as devices run them: trees of scikit-learn, XGBoost and LightGBM in that form, and the
predictor of boosted trees.

Libraries differ in what they compare: numbers rounded to single precision, "below" or "not above", values behind
scalers. All of these only ask whether a value lies above some bound. For each bound, bisection with the library's own
arithmetic finds the largest double that does not lie above it. So a converted tree decides as its original does for
every double. A conversion is used only if it gives the original's predictions on records at, beside and between all
thresholds.

The predictor is scikit-learn's histogram boosting. Held-out losses choose how many rounds there are, so that small
samples get small models. Devices run the mean of the folds' models.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from taskveil.arrays import Bools, Floats, Integers, own_arrays
from taskveil.client.latent_encoders import Encoder
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.client.trees import MOST_KNOTS, TreeEncoder, Walk
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily
from taskveil.designs.selection import MANIFEST
from taskveil.errors import DataError, TaskError

_LARGEST_LEAF = 2.0**30  # in whole numbers: rounding changes a leaf by a billionth of the largest

COMPARED = 512
"""Records on which a model in the form of a device is compared with its original."""

CLOSE = 1e-5
"""The error that such a form may have, as a share of the outputs: other orders of summation, and single precision."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """Raw outputs = offset + the sum of the leaves reached; with `logits`, class probabilities are their softmax.

    Shapes: attribute (E,), −1 for a leaf, in the order of `taskveil.client.trees.Walk`; threshold (splits,): values up
    to it go to the left; values (leaves, V); output (T,): the tree adds to the outputs from there on; offset (Z,).
    """

    width: int
    attribute: Integers
    threshold: Floats
    values: Floats
    output: Integers
    offset: Floats
    logits: bool

    def __post_init__(self) -> None:
        own_arrays(self)

    @classmethod
    def constant(cls, width: int, offset: Floats, *, logits: bool) -> Trees:
        """A tree that adds nothing to the offset (Z,), for records of so many attributes."""
        return cls(
            width=width,
            attribute=np.array([-1]),
            threshold=np.zeros(0),
            values=np.zeros((1, 1)),
            output=np.zeros(1, dtype=np.int64),
            offset=offset,
            logits=logits,
        )

    @cached_property
    def _ranked(self) -> tuple[Floats, Integers, Integers]:
        """Knots (K,), how many each attribute has (n,), and the rank of every split's (splits,)."""
        looked, threshold = self.attribute[self.attribute >= 0], self.threshold + 0.0  # minus zero is zero
        order = np.lexsort((threshold, looked))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(looked[order]) != 0) | (threshold[order][1:] != threshold[order][:-1])
        counts = np.bincount(looked[order[new]], minlength=self.width)
        if counts.max() > MOST_KNOTS or self.width > 2**15:
            raise DataError(f"devices compare with {MOST_KNOTS:,} thresholds of each of as many attributes at most.")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.cumsum(new) - 1
        return threshold[order[new]], counts, place - (np.cumsum(counts) - counts)[looked]

    @cached_property
    def _walk(self) -> Walk:
        return Walk(self.attribute.astype(np.int16), self._ranked[2].astype(np.int16))

    def __call__(self, X: Floats) -> Floats:
        """Records without NaN (N, n) → raw outputs (N, Z)."""
        knots, counts, _ = self._ranked
        by_attribute = np.split(knots, np.cumsum(counts)[:-1])
        outputs = np.tile(self.offset, (len(X), 1))
        first = self.output[self._walk.order]
        ranks = np.stack([np.searchsorted(known, x) for known, x in zip(by_attribute, X.T, strict=True)])
        reached = self.values[self._walk(ranks)]  # (T, N, V)
        for place in range(reached.shape[2]):
            np.add.at(outputs.T, first + place, reached[:, :, place])
        return outputs

    def first(self, count: int) -> Trees:
        """The first trees alone, with the same offset."""
        leaves = int(self._walk.leaves[:count].sum())
        nodes = 2 * leaves - count  # every tree has a leaf more than splits
        return replace(
            self,
            attribute=self.attribute[:nodes],
            threshold=self.threshold[: nodes - leaves],
            values=self.values[:leaves],
            output=self.output[:count],
        )

    def encoder(self, low: Floats, high: Floats, *, slope: float = 1.0, offset: float | Floats = 0.0) -> TreeEncoder:
        """The device's encoder of slope · raw + offset (Z,) for records between `low` and `high` (n,), leaves rounded
        to a billionth of the largest. With a slope below one, a classifier's answers are less sure."""
        if not (self.attribute >= 0).any():
            # Devices need a split: the first tree gets one, with its one leaf on both sides.
            nodes, values = np.concatenate([[0, -1], self.attribute]), np.concatenate([self.values[:1], self.values])
            split = replace(self, attribute=nodes, threshold=np.zeros(1), values=values)
            return split.encoder(low, high, slope=slope, offset=offset)
        shift = slope * self.offset + offset
        values = slope * self.values
        knots, counts, rank = self._ranked
        latents, per_leaf = len(shift), values.shape[1]
        largest, reach = np.zeros(latents), np.abs(shift)
        starts = np.concatenate([[0], np.cumsum(self._walk.leaves)[:-1]])
        most = np.maximum.reduceat(np.abs(values), starts, axis=0)  # of every tree
        for place in range(per_leaf):
            np.maximum.at(largest, self.output + place, most[:, place])
            np.add.at(reach, self.output + place, most[:, place])
        step = np.maximum(np.maximum(largest / _LARGEST_LEAF, reach / 2.0**51), 1e-280)
        step = np.clip(2.0 ** np.ceil(np.log2(step)), LEAST_STEP, LARGEST_STEP)
        tree = np.repeat(np.arange(len(self.output)), self._walk.leaves)
        steps = step[self.output[tree][:, None] + np.arange(per_leaf)]
        return TreeEncoder(
            low=low,
            high=high,
            knots=knots,
            counts=counts.astype(np.int64),
            attribute=self.attribute.astype(np.int16),
            rank=rank.astype(np.int16),
            values=np.rint(values / steps).astype(np.int32),
            output=self.output.astype(np.int16),
            offset=np.rint(shift / step).astype(np.int64),
            step=step,
            softmax=self.logits,
        )


def together(parts: Sequence[Trees], places: Sequence[Integers], offset: Floats, share: float) -> Trees:
    """One ensemble that adds to `offset` (Z,) a share of what every part does: its outputs are the outputs `places` of
    all. Leaves must have one value."""
    return Trees(
        width=parts[0].width,
        attribute=np.concatenate([part.attribute for part in parts]),
        threshold=np.concatenate([part.threshold for part in parts]),
        values=share * np.concatenate([part.values for part in parts]),
        output=np.concatenate([place[part.output] for part, place in zip(parts, places, strict=True)]),
        offset=offset,
        logits=parts[0].logits,
    )


_FARTHEST = float(np.finfo(np.float64).max)
_SCALERS = {("sklearn", name + "Scaler") for name in ("Standard", "MinMax", "MaxAbs", "Robust")}  # they keep the order


@dataclass(frozen=True)
class _Tree:
    """One tree as libraries hold it: arrays over nodes. A node whose `left` is negative is a leaf, 0 is the root."""

    left: Integers
    right: Integers
    attribute: Integers
    threshold: Floats
    values: Floats  # (nodes, V)


@dataclass(frozen=True, kw_only=True)
class _Ensemble:
    """What a library's model computes: offset (Z,) + sums of leaves, of the trees that add to output (T,) onwards."""

    trees: Sequence[_Tree]
    offset: Floats
    logits: bool
    output: Sequence[int] = field(default=())  # all from the first on, if not said
    seen: Callable[[Floats], Floats] | None = None  # what becomes of values before they are compared


def as_trees(estimator: Any) -> Trees | None:
    """The fitted estimator as trees that decide as it does, or None: not one of the known kinds, a subclass of them,
    categorical splits, an initial model that is no constant, an answer that is no sum, too large for a device.

    Known are scikit-learn's decision trees, forests, extra trees, gradient boosting and histogram gradient boosting,
    and the scikit-learn classes of XGBoost and LightGBM, all of them also behind scalers in a pipeline. A classifier's
    outputs are the probabilities of its classes, or logits of them where the model adds up logits; of two, (0, z).
    """
    named = f"{type(estimator).__module__}.{type(estimator).__name__}"
    steps = [step for _, step in estimator.steps] if named == "sklearn.pipeline.Pipeline" else [estimator]
    scalers, model = [step for step in steps[:-1] if step not in (None, "passthrough")], steps[-1]
    read = _READERS.get(_kind(model))
    if read is None or any(_kind(scaler) not in _SCALERS for scaler in scalers):
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # asked with an array, trained on a table; numbers as large as doubles go
            ensemble = read(model)
            trees = _joined(ensemble, scalers, int(steps[0].n_features_in_))
            return trees if _agrees(estimator, trees) else None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, DataError):
        return None  # no sum of trees, not fitted, too large, or of a version that keeps its trees elsewhere


def _kind(part: Any) -> tuple[str, str]:
    """The package and the class of a model or a scaler."""
    return type(part).__module__.split(".")[0], type(part).__name__


def _joined(ensemble: _Ensemble, scalers: Sequence[Any], width: int) -> Trees:
    """All trees in one list, thresholds in the values that records have."""
    orders = [_order(tree) for tree in ensemble.trees]
    pairs = list(zip(ensemble.trees, orders, strict=True))
    leaf = np.concatenate([tree.left[order] < 0 for tree, order in pairs])
    attribute = np.concatenate([tree.attribute[order] for tree, order in pairs]).astype(np.int64)
    threshold = np.concatenate([tree.threshold[order] for tree, order in pairs])[~leaf]
    values = np.concatenate([tree.values[order] for tree, order in pairs])[leaf]

    def seen(X: Floats) -> Floats:
        for scaler in scalers:
            X = np.asarray(scaler.transform(X.copy()), dtype=np.float64)
        return X if ensemble.seen is None else ensemble.seen(X)

    threshold = np.clip(threshold, -_FARTHEST, _FARTHEST)
    if scalers or ensemble.seen is not None:
        threshold = _bounds(attribute[~leaf], threshold, seen, width)
    return Trees(
        width=width,
        attribute=np.where(leaf, -1, attribute),
        threshold=threshold,
        values=values,
        output=np.array(ensemble.output or [0] * len(pairs), dtype=np.int64),
        offset=ensemble.offset,
        logits=ensemble.logits,
    )


def _order(tree: _Tree) -> Integers:
    """The nodes, each before what lies to its left, and that before what lies to its right."""
    left, right = tree.left.tolist(), tree.right.tolist()
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if left[node] >= 0:
            waiting += [right[node], left[node]]
    return np.array(found)


def _bounds(attribute: Integers, threshold: Floats, seen: Callable[[Floats], Floats], width: int) -> Floats:
    """(splits,): the largest double that the model sees at or below each threshold, where `seen` (N, n) → (N, n) never
    falls and leaves attributes apart."""
    order = np.argsort(attribute, kind="stable")
    counts = np.bincount(attribute, minlength=width)
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.zeros((int(counts.max(initial=1)), width))

    def above(values: Floats) -> Bools:
        table[row, attribute] = values
        return np.asarray(seen(table)[row, attribute] > threshold)

    far = np.full(len(order), _FARTHEST)
    return last_below(-far, far, above)


def last_below(low: Floats, high: Floats, above: Callable[[Floats], Bools]) -> Floats:
    """(N,): the largest doubles between low and high (N,) that are not `above`, which never falls; by bisection.

    Doubles are ordered as their bits are, those of negative ones turned around.
    """
    turned = np.int64(2**63 - 1)

    def place(value: Floats) -> Integers:
        bits = value.view(np.int64)
        return np.asarray(np.where(bits < 0, bits ^ turned, bits))

    def value(place: Integers) -> Floats:
        return np.asarray(np.where(place < 0, place ^ turned, place)).view(np.float64)

    first, last = place(low), place(high)
    for _ in range(64):
        middle = (first >> 1) + (last >> 1) + (first & last & 1)  # rounded down, without overflow
        right = above(value(middle))
        first, last = np.where(right, first, middle), np.where(right, middle, last)
    return value(first)


def _agrees(estimator: Any, trees: Trees) -> bool:
    """The same predictions on records whose values lie at thresholds, next to them and anywhere between."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(COMPARED, trees.width))
    looked = trees.attribute[trees.attribute >= 0]
    for column in np.unique(looked):
        knots = np.unique(trees.threshold[looked == column])
        knots = knots[np.abs(knots) < 1e30]  # beyond, models in single precision refuse records
        if len(knots):
            at = rng.choice(knots, size=COMPARED)
            beside = np.nextafter(at, rng.choice([-np.inf, np.inf], size=COMPARED))
            between = rng.uniform(knots[0] - 1.0, knots[-1] + 1.0, size=COMPARED)
            X[:, column] = np.choose(rng.integers(0, 3, size=COMPARED), [at, beside, between])
    mine = trees(X)
    if hasattr(estimator, "predict_proba"):
        theirs = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if trees.logits:
            mine = np.exp(mine - mine.max(axis=1, keepdims=True))
            mine /= mine.sum(axis=1, keepdims=True)
    else:
        theirs = np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)
    return mine.shape == theirs.shape and bool((np.abs(mine - theirs) <= CLOSE * np.abs(theirs).max()).all())


def _boosted(trees: Sequence[Sequence[_Tree]], start: Floats, classifier: bool, **more: Any) -> _Ensemble:
    """Rounds of one tree per output; a binary classifier's single one becomes the second of two logits."""
    outputs = len(trees[0])
    first = int(classifier and outputs == 1)
    offset = np.concatenate([np.zeros(first), np.broadcast_to(start, outputs)])
    output = [first + place for _ in trees for place in range(outputs)]
    return _Ensemble(
        trees=[tree for stage in trees for tree in stage], offset=offset, logits=classifier, output=output, **more
    )


# scikit-learn


def _single(X: Floats) -> Floats:
    return X.astype(np.float32).astype(np.float64)


def _sklearn_tree(model: Any, factor: float = 1.0) -> _Tree:
    grown = model.tree_
    values = grown.value[:, 0, :] if hasattr(model, "classes_") else grown.value[:, :, 0]
    if hasattr(model, "classes_"):
        values = values / values.sum(axis=1, keepdims=True)
    return _Tree(grown.children_left, grown.children_right, grown.feature, grown.threshold, factor * values)


def _forest(model: Any) -> _Ensemble:
    """One tree or the mean of many; classifiers give probabilities."""
    if isinstance(getattr(model, "classes_", None), list):
        raise ValueError("several labels per record")
    grown = getattr(model, "estimators_", [model])
    trees = [_sklearn_tree(tree, 1.0 / len(grown)) for tree in grown]
    return _Ensemble(trees=trees, offset=np.zeros(trees[0].values.shape[1]), logits=False, seen=_single)


def _gradient_boosting(model: Any) -> _Ensemble:
    if not (model.init_ == "zero" or type(model.init_).__name__.startswith("Dummy")):
        raise ValueError("an initial model that is no constant")
    start = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32)))[0]
    factor = 2.0 if model.loss == "exponential" else 1.0  # whose outputs are half the logits
    trees = [[_sklearn_tree(tree, factor * model.learning_rate) for tree in stage] for stage in model.estimators_]
    return _boosted(trees, factor * start, hasattr(model, "classes_"), seen=_single)


def _histogram_boosting(model: Any) -> _Ensemble:
    def read(tree: Any) -> _Tree:
        nodes = tree.nodes
        if nodes["is_categorical"].any():
            raise ValueError("categorical splits")
        leaf = nodes["is_leaf"] > 0
        left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        return _Tree(left, right, nodes["feature_idx"], nodes["num_threshold"], nodes["value"][:, None])

    trees = [[read(tree) for tree in stage] for stage in model._predictors]
    return _boosted(trees, np.ravel(model._baseline_prediction), hasattr(model, "classes_"))


# XGBoost: single precision, values below the threshold go to the left, sums in single precision


def _xgboost(model: Any) -> _Ensemble:
    booster = model.get_booster()
    best = getattr(booster, "best_iteration", None) if hasattr(model, "best_iteration") else None
    if best is not None:
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw(raw_format="json")))["learner"]
    grown = learner["gradient_booster"]["model"]

    def read(tree: Any) -> _Tree:
        if any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise ValueError("categorical splits, or several values in a leaf")
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        bound = np.array(tree["split_conditions"], dtype=np.float32)
        below = np.nextafter(bound, np.float32(-np.inf)).astype(np.float64)
        return _Tree(left, right, np.array(tree["split_indices"]), below, bound.astype(np.float64)[:, None])

    classifier = hasattr(model, "predict_proba")
    outputs = max(grown["tree_info"]) + 1
    first = int(classifier and outputs == 1)
    ensemble = _Ensemble(
        trees=[read(tree) for tree in grown["trees"]],
        offset=np.zeros(first + outputs),
        logits=classifier,
        output=[first + place for place in grown["tree_info"]],
        seen=_single,
    )
    # Where sums start is written in other ways in every version; the model itself says it at any record.
    record = np.zeros((1, model.n_features_in_))
    margin = np.ravel(model.predict(record, output_margin=True))
    start = margin - _joined(ensemble, (), model.n_features_in_)(record)[0, first:]
    ensemble.offset[first:] = start
    return ensemble


# LightGBM: double precision, values up to the threshold go to the left, and what is next to zero is zero


def _lightgbm(model: Any) -> _Ensemble:
    dumped = model.booster_.dump_model()
    trees = [_lightgbm_tree(tree["tree_structure"]) for tree in dumped["tree_info"]]
    outputs = int(dumped["num_tree_per_iteration"])
    return _boosted(
        [trees[start : start + outputs] for start in range(0, len(trees), outputs)],
        np.zeros(outputs),
        hasattr(model, "predict_proba"),
        seen=lambda X: np.where(np.abs(X) <= np.float32(1e-35), 0.0, X),
    )


def _lightgbm_tree(root: Any) -> _Tree:
    """A tree of nested dictionaries."""
    nodes, left, right = [root], [], []
    for node in nodes:  # which grows meanwhile
        if node.get("decision_type", "<=") != "<=":
            raise ValueError("categorical splits")
        split = "split_feature" in node
        left.append(len(nodes) if split else -1)
        right.append(len(nodes) + 1 if split else -1)
        nodes += [node["left_child"], node["right_child"]] if split else []

    def of(name: str) -> Any:
        return np.array([node.get(name, 0) for node in nodes], dtype=np.float64)

    places = np.array(left), np.array(right), of("split_feature").astype(np.int64)
    return _Tree(*places, of("threshold"), of("leaf_value")[:, None])


_FORESTS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
_READERS: dict[tuple[str, str], Callable[[Any], _Ensemble]] = {
    (package, kind + role): read
    for package, kinds, read in (
        ("sklearn", _FORESTS, _forest),
        ("sklearn", ("GradientBoosting",), _gradient_boosting),
        ("sklearn", ("HistGradientBoosting",), _histogram_boosting),
        ("xgboost", ("XGB", "XGBRF"), _xgboost),
        ("lightgbm", ("LGBM",), _lightgbm),
    )
    for kind in kinds
    for role in ("Classifier", "Regressor")
}
"""From a model's package and class to what reads it. Somebody else's class is none of these, whatever it extends."""


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
        parts = [trees for model in self.estimators if (trees := as_trees(model)) is not None]
        if len(parts) < len(self.estimators):  # they were checked against their own predictions
            raise TaskError("this scikit-learn keeps its trees in another way: install one of 1.5 to 1.9.")
        offset = self.offset.copy()
        for part, place in zip(parts, self.places, strict=True):
            offset[place] = part.offset
        per_round = [len(part.output) // model.n_iter_ for part, model in zip(parts, self.estimators, strict=True)]
        kept = [part.first(rounds * each) for part, each in zip(parts, per_round, strict=True)]
        return together(kept, self.places, offset, 1.0)


class BoostedTrees(PredictorFamily):
    """The family of boosted trees."""

    name = "trees"

    def seconds(self, evidence: Evidence) -> float:
        """About how much processor time cross-fitting takes, all folds being judged."""
        (count, width), outputs = evidence.X.shape, evidence.truth.shape[1]
        trees = LOOKS[-1] * (outputs if outputs > 2 or not evidence.cost.logits else 1)
        fits = evidence.folds + math.comb(evidence.folds, 2)
        return float(fits * trees * (4e-4 + 3e-6 * SETTINGS["max_leaf_nodes"] * width + 1e-9 * count * width))

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
