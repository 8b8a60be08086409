"""The task's own model on the device, when its owner shares it.

A model that was fitted to the volunteers has seen their labels, so its predictions for them are too good to calibrate
with. Copies that are fitted without some of the volunteers give out-of-fold predictions for these.

**Pipelines** over a table's named columns run on the numbers that records become. A pipeline turns columns into
features and has a model behind them. Suppose that every feature comes from one number and never falls where that
number rises (an encoder's ones and zeros, a scaled or imputed number). Then a split of a tree on a feature is a split
on that number. Where the whole pipeline is affine, devices run an affine map. The pipeline is not inspected for that,
but asked. A conversion is used only if it gives the pipeline's own predictions on records of every kind: anywhere in
the bounds, and near the volunteers, who may fill only a small part of the bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.base_field import BaseField
from taskveil.client.latent_encoders import Encoder, NamedEncoder
from taskveil.designs.crossfit import Evidence, Fit, PredictorFamily
from taskveil.designs.predictors.light import affine_encoder
from taskveil.designs.predictors.trees import CLOSE, COMPARED, Trees, as_trees, last_below
from taskveil.designs.predictors.whole_layers import Dense, Layers
from taskveil.errors import TaskError
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnType
from taskveil.tasks import ModelTask
from taskveil.tasks.models.estimators import TINY_PROBABILITY, from_estimator, unfitted

OWN = "own"
"""The name of this predictor."""


@dataclass(frozen=True, eq=False)
class Said:
    """A model with one setting: `function` maps records (N, n) to outputs (N, S)."""

    function: Callable[[Floats], Floats]

    def outputs(self, X: Floats) -> Floats:
        """(1, N, S)."""
        return self.function(X)[None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Own(PredictorFamily):
    """The family of the task's own model: copies are fitted again without some of the volunteers; devices run the model
    itself. Without labels y the model is the truth, and where it is `unseen`, it never saw the volunteers: then nothing
    is fitted again.

    `device` is the encoder of slope · outputs + shift (S,), as class probabilities where outputs are logits. A model
    that runs `as_it_is`, since it is the truth or is only named, has neither slope nor shift.
    """

    task: ModelTask
    y: Any
    device: Callable[[float, Floats], Encoder]
    logits: bool
    as_it_is: bool
    unseen: bool = False
    name, averaged = OWN, False

    @property
    def fits_again(self) -> bool:
        """Whether the model is fitted again without some of the volunteers."""
        return self.y is not None and not self.unseen

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:
        """One model for each set of rows, fitted to these volunteers and to no others; the given model for all."""
        cost = self.task.cost

        def said(answers: Callable[[Floats], Floats]) -> Said:
            return Said((lambda X: cost.outputs(answers(X))) if self.logits else answers)  # type: ignore[union-attr]

        whole = said(self.task.answers)
        return [
            said(refitted(self.task, evidence.X[own], np.asarray(self.y)[own]))
            if self.fits_again and len(own) < len(evidence)
            else whole
            for own in rows
        ]

    def encoder(self, evidence: Evidence, fits: Sequence[Fit], setting: int, slope: float, shift: Floats) -> Encoder:  # noqa: ARG002
        """The device's encoder of slope · outputs + shift (S,): the model itself, which has one setting."""
        return self.device(slope, shift)


def refitted(task: ModelTask, X: Floats, y: Any) -> Callable[[Floats], Floats]:
    """What a copy of the task's scikit-learn estimator, fitted to these records (N, n) and labels alone, answers.

    TaskError where the model cannot be fitted again (a torch module, an ONNX file).
    """
    if not hasattr(task.model, "get_params"):
        raise TaskError("only scikit-learn estimators can be fitted again without some of the volunteers.")
    known, seen = task.frozen.classes, np.unique(np.asarray(y))
    if known is not None and len(seen) == 1 and seen[0] in known:
        # Most estimators refuse to fit a single class.
        sure = task.cost.answers(np.where(known == seen[0], 0.0, np.log(TINY_PROBABILITY))[None])
        return lambda X: np.repeat(sure, len(X), axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit of the model itself has warned already
        try:
            copy = unfitted(task.model).fit(X if task.frozen.frame is None else task.frozen.frame(X), y)
        except Exception as error:  # whatever someone else's estimator raises
            raise TaskError(f"the model cannot be fitted again without some of the volunteers: {error}") from error
        frozen = from_estimator(copy, task.cost, task.schema, checked=task.frozen)
    places: Integers | None = None
    if frozen.classes is not None and known is not None:
        order = np.argsort(known)
        places = order[np.searchsorted(known, frozen.classes, sorter=order)]

    def answers(X: Floats) -> Floats:
        outputs = frozen(X)
        if places is not None:
            # A copy knows only the classes it has seen: the others get next to no probability.
            every = np.full((len(outputs), task.outputs), np.log(TINY_PROBABILITY))
            every[:, places] = outputs
            outputs = every
        return task.cost.answers(outputs)

    return answers


def own_model(task: ModelTask, y: Any, evidence: Evidence, *, unseen: bool) -> Own:
    """The family of the task's own model; TaskError where it would have to be fitted again and cannot be.

    Trees, linear models and networks become parts of the release, in the smallest form that gives the model's answers;
    any other model is named by it, and Python clients bring it.
    """
    if y is not None and not unseen and not hasattr(task.model, "get_params"):
        raise TaskError("the model cannot be fitted again without some of the volunteers.")
    low, high, logits = evidence.low, evidence.high, bool(evidence.cost.logits)

    def own(device: Callable[[float, Floats], Encoder], *, logits: bool = logits, as_it_is: bool = y is None) -> Own:
        return Own(task=task, y=y, unseen=unseen, device=device, logits=logits, as_it_is=as_it_is)

    if (lines := task.lines if task.takes_numbers else table_lines(task, evidence.X)) is not None:
        weights, start = lines
        return own(lambda a, b: affine_encoder(low, high, a * weights, a * start + b, softmax=logits))
    if (trees := as_trees(task.model) if task.takes_numbers else table_trees(task, evidence.X)) is not None:
        return own(lambda a, b: trees.encoder(low, high, slope=a, offset=b), logits=trees.logits)
    if (layers := _layers(task, len(low))) is not None:
        return own(lambda a, b: layers.encoder(low, high, evidence.X, slope=a, offset=b, softmax=logits))
    named = partial(NamedEncoder.of, task.answers, name=task.encoder_name, low=low, high=high, latents=task.outputs)
    return own(lambda *_: named(), as_it_is=True)


def _layers(task: ModelTask, width: int) -> Layers | None:
    """The model as layers that devices run; None where it is not made of them."""
    if (dense := task.frozen.relu_layers) is not None:
        last = len(dense) - 1
        layers = tuple(
            Dense(weights=weights, offset=offset, relu=place < last) for place, (weights, offset) in enumerate(dense)
        )
        return Layers(layers=layers, width=width, outputs=task.outputs)
    if not task.differentiable or hasattr(task.model, "get_params"):
        return None
    from taskveil.designs.predictors.layer_models import as_layers

    return None if task.torch_module is None else as_layers(task.torch_module, width)


@dataclass(frozen=True, kw_only=True, eq=False)
class Given(PredictorFamily):
    """The family of one callable of the caller's own, which never saw the volunteers."""

    named: NamedEncoder
    name, averaged, logits, as_it_is = "callable", False, False, True

    @classmethod
    def of(cls, function: Any, evidence: Evidence) -> Given:
        """The callable, which must give finite predictions that are not all alike."""
        name = getattr(function, "__qualname__", type(function).__name__)
        outputs = evidence.truth.shape[1]
        encoder = NamedEncoder.of(function, name=name, low=evidence.low, high=evidence.high, latents=outputs)
        said = encoder(evidence.X)
        if not np.isfinite(said).all():
            raise TaskError(
                f"the encoder must give {outputs} finite numbers for every record (N, {len(evidence.low)}): "
                "predictions of what answers are judged by, class probabilities for a classifier."
            )
        if np.ptp(said, axis=0).max() == 0:
            raise TaskError("the encoder gives the same prediction for all volunteers: there is nothing to report.")
        return cls(named=encoder)

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:  # noqa: ARG002 - nothing is fitted
        """The callable itself, for each set of rows."""
        return [Said(self.named)] * len(rows)

    def encoder(self, *_: Any) -> Encoder:
        """The callable, named by the release."""
        return self.named


# Pipelines over a table's named columns.


def table_trees(task: ModelTask, volunteers: Floats) -> Trees | None:
    """The task's pipeline as trees on the numbers that records become, or None: a feature of several numbers, or one
    that falls where its number rises, or a model behind them that is none of the known trees. It is compared with the
    pipeline also where the `volunteers` (N, n) are."""
    schema, frame = task.schema, task.frozen.frame
    if not schema or frame is None or len(getattr(task.model, "steps", ())) < 2:
        return None
    first, model = task.model[:-1], task.model.steps[-1][1]

    def features(X: Floats) -> Floats:
        found: Any = first.transform(frame(X))
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models asked with arrays
        try:
            trees = as_trees(model)
            source = None if trees is None else _sources(schema, features)
            if trees is None or source is None:
                return None
            looked = trees.attribute >= 0
            feature = trees.attribute[looked]
            moved = replace(
                trees,
                width=schema.width,
                attribute=np.where(looked, source[np.maximum(trees.attribute, 0)], -1),
                threshold=_moved(feature, trees.threshold, source, schema, features),
            )
        except (TypeError, ValueError, AttributeError, IndexError):  # whatever a transformer of one's own gives
            return None
    return moved if _agrees(task, schema, volunteers, lambda X: _answers(moved, X, task)) else None


def table_lines(task: ModelTask, volunteers: Floats) -> tuple[Floats, Floats] | None:
    """Weights (S, n) and offset (S,) of a pipeline whose outputs are affine in the numbers that records become, those
    of a classifier up to what all its logits share; None for any other. Compared also where the `volunteers` (N, n)
    are."""
    if not task.schema:
        return None
    X = records_of(task.schema, 8 * task.schema.width + COMPARED, np.random.default_rng(1))
    spread = np.maximum(X.std(axis=0), 1e-300)
    center = X.mean(axis=0)
    scaled = np.column_stack([(X - center) / spread, np.ones(len(X))])
    found = np.linalg.lstsq(scaled, _relative(task, task.predict(X)), rcond=1e-12)[0].T
    weights = found[:, :-1] / spread
    start = found[:, -1] - weights @ center
    return (weights, start) if _agrees(task, task.schema, volunteers, lambda X: X @ weights.T + start) else None


def records_of(schema: Schema, count: int, rng: np.random.Generator) -> Floats:
    """Random records of every kind as numbers (count, width): anywhere in the bounds, any value of a category, another
    one where volunteers had others, missing where that may be."""
    parts = []
    for of, field in zip(schema.types, schema.fields.fields, strict=True):
        low, high = (np.array(end) for end in field.box)
        part = rng.uniform(low, high, size=(count, len(low)))
        if field.exclusive:
            part = _ones(of, field)[rng.integers(0, len(_ones(of, field)), size=count)]
        part = field.rounded(part)
        if field.flagged:
            lost = rng.random(count) < 0.2
            part[:, -1] = 0.0
            part[lost] = field.expand([None])[0]
        parts.append(part)
    return np.hstack(parts)


def records_near(schema: Schema, volunteers: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Random records as numbers (count, width) as dense as the `volunteers` (N, width): every field is one of theirs, a
    number anywhere between two neighbours."""
    parts = []
    for field, place in zip(schema.fields.fields, schema.fields.places, strict=True):
        part = volunteers[rng.integers(0, len(volunteers), size=count), place]
        if not field.exclusive and field.holds[0] != "flag":
            there = part[:, -1] == 0 if field.missing else np.ones(count, dtype=bool)
            known = (
                volunteers[volunteers[:, place.stop - 1] == 0, place.start]
                if field.missing
                else volunteers[:, place.start]
            )
            if there.any():
                drawn = np.quantile(known, rng.random(int(there.sum())))
                part[there, 0] = field.rounded(drawn)
        parts.append(part)
    return np.hstack(parts)


def _ones(of: ColumnType, field: BaseField) -> Floats:
    """(K, width): every kind of value that a category can have."""
    width = len(field.box[0])
    return np.eye(width + (of.other not in field.words), width)


def _sources(schema: Schema, features: Callable[[Floats], Floats]) -> Integers | None:
    """The number (F,) that every feature comes from, any for a constant one; None where one comes from several."""
    rng = np.random.default_rng(0)
    X, others = records_of(schema, COMPARED, rng), records_of(schema, COMPARED, rng)
    before = features(X)
    source = np.full(before.shape[1], -1)
    for of, field, place in zip(schema.types, schema.fields.fields, schema.fields.places, strict=True):
        changed = X.copy()
        changed[:, place] = others[:, place]
        moved = (features(changed) != before).any(axis=0)
        if (source[moved] >= 0).any():
            return None
        if field.exclusive:
            ones = _ones(of, field)
            each = np.repeat(X[:1], len(ones), axis=0)
            each[:, place] = ones
            shown = features(each)[:, moved]
            single = ((shown == 0) | (shown == 1)).all() and (shown[: ones.shape[1]].sum(axis=0) == 1).all()
            if not single or shown[ones.shape[1] :].any():
                return None
            source[moved] = place.start + shown.argmax(axis=0)
        else:
            source[moved] = place.start
    return np.asarray(np.maximum(source, 0))


def _moved(
    feature: Integers, threshold: Floats, source: Integers, schema: Schema, features: Callable[[Floats], Floats]
) -> Floats:
    """(splits,): the largest number of its source at which a feature is not above each threshold, by bisection between
    the bounds; ones and zeros of a category are features as they are."""
    whole = np.zeros(schema.width, dtype=bool)
    for field, place in zip(schema.fields.fields, schema.fields.places, strict=True):
        whole[place] = field.exclusive
    low, high = schema.fields.box
    at = source[feature]
    base = schema.typical(1)[0]

    def passes(values: Floats) -> Any:
        """Whether the feature lies above its threshold, at these values of its source."""
        records = np.tile(base, (len(values), 1))
        records[np.arange(len(values)), at] = values
        return features(records)[np.arange(len(values)), feature] > threshold

    never, always = ~passes(high[at]), passes(low[at])
    last = last_below(low[at], high[at], passes)
    moved = np.where(never, high[at], np.where(always, np.nextafter(low[at], -np.inf), last))
    return np.where(whole[at], threshold, moved)


def _relative(task: ModelTask, outputs: Floats) -> Floats:
    """Outputs (N, S), those of a classifier less the first: softmax takes no notice of what all share."""
    return outputs - outputs[:, :1] if task.cost.logits is True else outputs


def _answers(trees: Trees, X: Floats, task: ModelTask) -> Floats:
    raw = trees(X)
    return raw if trees.logits or task.cost.logits is not True else np.log(np.maximum(raw, 1e-12))


def _agrees(task: ModelTask, schema: Schema, volunteers: Floats, mine: Callable[[Floats], Floats]) -> bool:
    """The pipeline's own answers on records of every kind, also of those that are like the volunteers'."""
    rng = np.random.default_rng(2)
    near = records_near(schema, volunteers, COMPARED, rng)
    X = np.vstack([records_of(schema, COMPARED, rng), near, volunteers[:COMPARED]])
    theirs = task.predict(X)
    found = mine(X)
    if found.shape != theirs.shape:
        return False
    answers = task.cost.answers
    theirs, found = answers(theirs), answers(found)
    return bool((np.abs(found - theirs) <= CLOSE * max(float(np.ptp(theirs)), 1e-12)).all())
