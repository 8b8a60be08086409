"""The task's own model on the device, when its owner shares it.

A model that was fitted to the volunteers has seen their labels, so its predictions for them are too good to calibrate
with. Copies that are fitted without some of the volunteers give out-of-fold predictions for these.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder, NamedEncoder
from taskveil.designs.crossfit import Evidence, Family, Fit
from taskveil.designs.predictors.light import affine_encoder
from taskveil.designs.predictors.pipelines import table_lines, table_trees
from taskveil.designs.predictors.trees import as_trees
from taskveil.designs.predictors.whole_layers import Dense, Layers
from taskveil.errors import TaskError
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
class Own(Family):
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
class Given(Family):
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
