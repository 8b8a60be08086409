"""The task's own model on the device, when its owner shares it: nobody predicts its truth better.

A model that was fitted to the volunteers has seen their labels, and what it says of them is too good to calibrate
anything by. Copies that are fitted without a part of the volunteers say of that part what the model would say of
strangers: cross-fitting.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder
from taskveil.client.named import NamedEncoder
from taskveil.designs.predictors.honesty import steepness
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.designs.predictors.linear import affine_encoder
from taskveil.designs.predictors.networks import fit_architecture
from taskveil.designs.predictors.pipelines import table_lines, table_trees
from taskveil.designs.predictors.predictor import Evidence, Predictor
from taskveil.designs.predictors.tree_models import as_trees
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.tasks.models.estimators import from_estimator

OWN = "own"
"""What the predictor is called."""


def out_of_fold(task: ModelTask, X: Floats, y: Any, fold: Integers) -> Floats:
    """(N, S): what copies of the task's scikit-learn estimator, each fitted without one part, answer to that part.

    TaskError where the model cannot be fitted again (a torch module, an ONNX file). Without labels y the model itself
    is the truth, and what it says is what it says.

    Args:
        task: the model and its loss.
        X: the volunteers' records (N, n).
        y: their labels, or None.
        fold: the part of every volunteer (N,), from 0.
    """
    if y is None:
        return task.answers(X)
    if not hasattr(task.model, "get_params"):
        raise TaskError("only scikit-learn estimators can be fitted again without some of the volunteers.")
    from sklearn.base import clone

    labels, found = np.asarray(y), np.empty((len(X), task.outputs))
    for part in range(int(fold.max()) + 1):
        held = fold == part
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the fit of a copy has to say, the fit of the model said before
            try:
                records = X[~held] if task.frozen.frame is None else task.frozen.frame(X[~held])
                copy = clone(task.model).fit(records, labels[~held])
            except Exception as error:  # whatever someone else's estimator raises
                raise TaskError(f"the model cannot be fitted again without some of the volunteers: {error}") from error
            frozen = from_estimator(copy, task.cost, task.schema)
        outputs = frozen(X[held])
        if frozen.classes is not None and task.frozen.classes is not None:
            # A copy knows only the classes it has seen: of the others it says that they are next to impossible.
            order = np.argsort(task.frozen.classes)
            places = order[np.searchsorted(task.frozen.classes, frozen.classes, sorter=order)]
            every = np.full((len(outputs), task.outputs), np.log(1e-12))
            every[:, places] = outputs
            outputs = every
        found[held] = task.cost.answers(outputs)
    return found


def fit_own(task: ModelTask, y: Any, evidence: Evidence, *, unseen: bool) -> Predictor:
    """The task's own model as a device's encoder, honest about how sure it may be.

    Trees and networks become parts of the release; any other model is named by it, and Python clients bring it.

    Args:
        task: the model and its loss.
        y: the volunteers' labels as they were given, or None where the model is the truth.
        evidence: records, truth and parts of the volunteers.
        unseen: whether the model never saw the volunteers.
    """
    X, cost = evidence.X, evidence.cost
    if y is not None and not unseen and not hasattr(task.model, "get_params"):
        return _trained_anew(task, evidence)
    said = task.answers(X) if unseen or y is None else out_of_fold(task, X, y, evidence.fold)
    form = _form(task, evidence)
    if y is None or form.as_it_is:
        return Predictor(name=OWN, encoder=form.encoder(1.0, np.zeros(task.outputs)), held_out=said)
    outputs = cost.outputs(said) if form.logits else said
    slope = steepness(outputs, evidence.truth, logits=form.logits, cost=cost)
    offset = np.zeros(task.outputs) if form.logits else (1.0 - slope) * outputs.mean(axis=0)
    honest = slope * outputs + offset
    return Predictor(
        name=OWN,
        encoder=form.encoder(slope, offset),
        held_out=cost.answers(honest) if form.logits else np.clip(honest, *cost.latent_range(said)),
    )


def _trained_anew(task: ModelTask, evidence: Evidence) -> Predictor:
    """Networks of the model's architecture: its weights have seen the volunteers, theirs have not."""
    if task.torch_module is None:
        raise TaskError("the model cannot be fitted again: say volunteers_unseen=True if it never saw the volunteers.")
    try:
        return fit_architecture(task.torch_module, evidence, name=OWN)
    except TaskError as error:
        raise TaskError(f"{error} If the model never saw the volunteers, say volunteers_unseen=True.") from error


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How a device can run a model: whether its raw outputs are logits, and the encoder that gives slope · outputs +
    offset, as class probabilities where they are logits. A form that runs `as_it_is` knows neither slope nor offset."""

    logits: bool
    encoder: Callable[[float, Floats], Encoder]
    as_it_is: bool = False


def _form(task: ModelTask, evidence: Evidence) -> _Form:
    """The smallest form that says what the model says; a named function where there is none."""
    low, high, logits = evidence.low, evidence.high, bool(evidence.cost.logits)
    if (trees := as_trees(task.model) if task.takes_numbers else table_trees(task, evidence.X)) is not None:
        return _Form(
            logits=trees.logits, encoder=lambda slope, offset: trees.encoder(low, high, slope=slope, offset=offset)
        )
    if (lines := _lines(task, len(low)) if task.takes_numbers else table_lines(task, evidence.X)) is not None:
        weights, start = lines
        return _Form(
            logits=logits,
            encoder=lambda slope, offset: affine_encoder(
                low, high, slope * weights, slope * start + offset, softmax=logits
            ),
        )

    if task.torch_module is not None and (layers := as_layers(task.torch_module, len(low))) is not None:
        return _Form(
            logits=logits,
            encoder=lambda slope, offset: layers.encoder(
                low, high, evidence.X, slope=slope, offset=offset, softmax=logits
            ),
        )

    def named(slope: float, offset: Floats) -> Encoder:  # noqa: ARG001 - whoever brings the model knows neither
        return NamedEncoder.of(task.answers, name=task.encoder_name, low=low, high=high, latents=task.outputs)

    return _Form(logits=logits, encoder=named, as_it_is=True)


def _lines(task: ModelTask, width: int) -> tuple[Floats, Floats] | None:
    """Weights (S, n) and offset (S,) of a model that is a torch module and affine; None for any other."""
    if task.torch_module is None:
        return None
    start = task.predict(np.zeros((1, width)))[0]
    weights = (task.predict(np.eye(width)) - start).T
    rng = np.random.default_rng(0)
    points = rng.normal(size=(64, width)) * rng.choice([0.1, 1.0, 10.0], size=(64, 1))
    said = task.predict(points)
    return (weights, start) if np.allclose(points @ weights.T + start, said, rtol=1e-4, atol=1e-5) else None
