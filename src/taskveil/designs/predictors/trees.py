"""Ensembles of decision trees as devices run them, and trees of scikit-learn, XGBoost and LightGBM in that form.

Libraries differ in what they compare: numbers rounded to single precision, "below" or "not above", values behind
scalers. All of these only ask whether a value lies above some bound. For each bound, bisection with the library's own
arithmetic finds the largest double that does not lie above it. So a converted tree decides as its original does for
every double. A conversion is used only if it gives the original's predictions on records at, beside and between all
thresholds.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.client.trees import MOST_KNOTS, TreeEncoder, Walk
from taskveil.errors import DataError

_LARGEST_LEAF = 2.0**30  # in whole numbers: rounding changes a leaf by a billionth of the largest
_ROWS_AT_ONCE = 1024  # records that walk through the trees together


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
        for start in range(0, len(X), _ROWS_AT_ONCE):
            part = X[start : start + _ROWS_AT_ONCE]
            ranks = np.stack([np.searchsorted(known, x) for known, x in zip(by_attribute, part.T, strict=True)])
            reached = self.values[self._walk(ranks)]  # (T, B, V)
            for place in range(reached.shape[2]):
                np.add.at(outputs[start : start + _ROWS_AT_ONCE].T, first + place, reached[:, :, place])
        return outputs

    def first(self, count: int) -> Trees:
        """The first trees alone, with the same offset."""
        if count == 0:
            return self.constant(self.width, self.offset, logits=self.logits)
        leaves = int(self._walk.leaves[:count].sum())
        nodes = 2 * leaves - count  # every tree has a leaf more than splits
        return replace(
            self,
            attribute=self.attribute[:nodes],
            threshold=self.threshold[: nodes - leaves],
            values=self.values[:leaves],
            output=self.output[:count],
        )

    def encoder(self, low: Floats, high: Floats, *, slope: float = 1.0, offset: Floats | None = None) -> TreeEncoder:
        """The device's encoder of slope · raw + offset for records between `low` and `high` (n,), leaves rounded to a
        billionth of the largest.

        Args:
            low: the least value of every attribute.
            high: the largest.
            slope: what raw outputs are multiplied by: below one, a classifier's answers are less sure.
            offset: (Z,), what is added; nothing by default.
        """
        if not (self.attribute >= 0).any():
            return self._with_a_split().encoder(low, high, slope=slope, offset=offset)
        shift = slope * self.offset + (0.0 if offset is None else offset)
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

    def _with_a_split(self) -> Trees:
        """The same outputs where no tree splits: the first does, with its one leaf on both sides."""
        return replace(
            self,
            attribute=np.concatenate([[0, -1], self.attribute]),
            threshold=np.zeros(1),
            values=np.concatenate([self.values[:1], self.values]),
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
_SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")  # they keep every attribute's order
_COMPARED = 512  # records on which a conversion is compared with its original


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
    tolerance: float = 1e-9  # of the largest prediction: what another order of summation may change


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
    read = _READERS.get((type(model).__module__.split(".")[0], type(model).__name__))
    if read is None or any(type(scaler).__name__ not in _SCALERS for scaler in scalers):
        return None
    if any(type(scaler).__module__.split(".")[0] != "sklearn" for scaler in scalers):
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # asked with an array, trained on a table; numbers as large as doubles go
            ensemble = read(model)
            if ensemble is None:
                return None
            trees = _joined(ensemble, scalers, int(steps[0].n_features_in_))
            return trees if _agrees(estimator, trees, ensemble.tolerance) else None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, DataError):
        return None  # not fitted, too large, or of a version that keeps its trees elsewhere


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
    # Doubles are ordered as their bits are, those of negative ones turned around.
    low, high = (np.full(len(order), as_place(np.array(end))) for end in (-_FARTHEST, _FARTHEST))
    table = np.zeros((int(counts.max(initial=1)), width))
    for _ in range(64):
        middle = between(low, high)
        table[row, attribute] = from_place(middle)
        right = seen(table)[row, attribute] > threshold
        low, high = np.where(right, low, middle), np.where(right, middle, high)
    return from_place(low)


def between(low: Integers, high: Integers) -> Integers:
    """Halfway, rounded down, without overflow."""
    return np.asarray((low >> 1) + (high >> 1) + (low & high & 1))


def as_place(value: Floats) -> Integers:
    """Where doubles (N,) stand among all doubles: neighbours differ by 1."""
    bits = value.view(np.int64)
    return np.asarray(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))


def from_place(place: Integers) -> Floats:
    """The doubles (N,) that stand there."""
    return np.asarray(np.where(place < 0, place ^ np.int64(2**63 - 1), place)).view(np.float64)


def _agrees(estimator: Any, trees: Trees, tolerance: float) -> bool:
    """The same predictions on records whose values lie at thresholds, next to them and anywhere between."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_COMPARED, trees.width))
    looked = trees.attribute[trees.attribute >= 0]
    for column in np.unique(looked):
        knots = np.unique(trees.threshold[looked == column])
        knots = knots[np.abs(knots) < 1e30]  # beyond, models in single precision refuse records
        if len(knots):
            at = rng.choice(knots, size=_COMPARED)
            beside = np.nextafter(at, rng.choice([-np.inf, np.inf], size=_COMPARED))
            between = rng.uniform(knots[0] - 1.0, knots[-1] + 1.0, size=_COMPARED)
            X[:, column] = np.choose(rng.integers(0, 3, size=_COMPARED), [at, beside, between])
    mine = trees(X)
    if hasattr(estimator, "predict_proba"):
        theirs = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        if trees.logits:
            mine = np.exp(mine - mine.max(axis=1, keepdims=True))
            mine /= mine.sum(axis=1, keepdims=True)
    else:
        theirs = np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)
    return mine.shape == theirs.shape and bool((np.abs(mine - theirs) <= tolerance * np.abs(theirs).max()).all())


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


def _forest(model: Any) -> _Ensemble | None:
    """One tree or the mean of many; classifiers give probabilities."""
    if isinstance(getattr(model, "classes_", None), list):
        return None  # several labels per record
    grown = getattr(model, "estimators_", [model])
    trees = [_sklearn_tree(tree, 1.0 / len(grown)) for tree in grown]
    return _Ensemble(trees=trees, offset=np.zeros(trees[0].values.shape[1]), logits=False, seen=_single)


def _gradient_boosting(model: Any) -> _Ensemble | None:
    if not (model.init_ == "zero" or type(model.init_).__name__.startswith("Dummy")):
        return None
    start = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32)))[0]
    factor = 2.0 if model.loss == "exponential" else 1.0  # whose outputs are half the logits
    trees = [[_sklearn_tree(tree, factor * model.learning_rate) for tree in stage] for stage in model.estimators_]
    return _boosted(trees, factor * start, hasattr(model, "classes_"), seen=_single)


def _histogram_boosting(model: Any) -> _Ensemble | None:
    stages = [[tree.nodes for tree in stage] for stage in model._predictors]
    if any(nodes["is_categorical"].any() for stage in stages for nodes in stage):
        return None

    def read(nodes: Any) -> _Tree:
        leaf = nodes["is_leaf"] > 0
        left, right = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
        return _Tree(left, right, nodes["feature_idx"], nodes["num_threshold"], nodes["value"][:, None])

    start = np.ravel(model._baseline_prediction)
    return _boosted([[read(nodes) for nodes in stage] for stage in stages], start, hasattr(model, "classes_"))


# XGBoost: single precision, values below the threshold go to the left, sums in single precision


def _xgboost(model: Any) -> _Ensemble | None:
    booster = model.get_booster()
    best = getattr(booster, "best_iteration", None) if hasattr(model, "best_iteration") else None
    if best is not None:
        booster = booster[: best + 1]
    learner = json.loads(bytes(booster.save_raw(raw_format="json")))["learner"]
    grown = learner["gradient_booster"]["model"]
    if any(any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in grown["trees"]):
        return None

    def read(tree: Any) -> _Tree:
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
        tolerance=1e-5,
    )
    # Where sums start is written in other ways in every version; the model itself says it at any record.
    record = np.zeros((1, model.n_features_in_))
    margin = np.ravel(model.predict(record, output_margin=True))
    start = margin - _joined(ensemble, (), model.n_features_in_)(record)[0, first:]
    ensemble.offset[first:] = start
    return ensemble


# LightGBM: double precision, values up to the threshold go to the left, and what is next to zero is zero


def _near_zero(X: Floats) -> Floats:
    return np.where(np.abs(X) <= np.float32(1e-35), 0.0, X)


def _lightgbm(model: Any) -> _Ensemble | None:
    dumped = model.booster_.dump_model()
    grown = [_lightgbm_tree(tree["tree_structure"]) for tree in dumped["tree_info"]]
    if any(tree is None for tree in grown):
        return None
    outputs = int(dumped["num_tree_per_iteration"])
    trees = [tree for tree in grown if tree is not None]
    return _boosted(
        [trees[start : start + outputs] for start in range(0, len(trees), outputs)],
        np.zeros(outputs),
        hasattr(model, "predict_proba"),
        seen=_near_zero,
    )


def _lightgbm_tree(root: Any) -> _Tree | None:
    """A tree of nested dictionaries; None if it has categorical splits."""
    nodes, left, right = [root], [], []
    for node in nodes:  # which grows meanwhile
        if node.get("decision_type", "<=") != "<=":
            return None
        split = "split_feature" in node
        left.append(len(nodes) if split else -1)
        right.append(len(nodes) + 1 if split else -1)
        nodes += [node["left_child"], node["right_child"]] if split else []

    def of(name: str) -> Any:
        return np.array([node.get(name, 0) for node in nodes], dtype=np.float64)

    places = np.array(left), np.array(right), of("split_feature").astype(np.int64)
    return _Tree(*places, of("threshold"), of("leaf_value")[:, None])


_FORESTS = ("DecisionTree", "ExtraTree", "RandomForest", "ExtraTrees")
_READERS: dict[tuple[str, str], Callable[[Any], _Ensemble | None]] = {
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
