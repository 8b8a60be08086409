"""The predictors that compete for a model's codebook: all that are allowed on the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.encoders import Encoder, NamedEncoder
from taskveil.designs.crossfit import Evidence, Family, Fit, expected_seconds
from taskveil.designs.on_device import OnDevice
from taskveil.designs.predictors.boosted import BoostedTrees
from taskveil.designs.predictors.light import Light
from taskveil.designs.predictors.linear import Linear
from taskveil.designs.predictors.own import Said, own_model
from taskveil.errors import TaskError, UnusedModelWarning, callers_line
from taskveil.tasks import ModelTask, Task
from taskveil.tasks.costs import OwnLoss
from taskveil.tasks.model import is_torch_module

MAX_TREE_SECONDS = 6.0
"""Processor time that the fits of trees may take, about, for trees to be a candidate of encoder="auto". Tables with
many columns and classes take longer. Networks are always a candidate, since pictures need them."""


def families(task: Task, y: Any, evidence: Evidence, allowed: OnDevice) -> list[Family]:
    """Everything that may compete.

    Args:
        task: what is to be predicted, and perhaps shared.
        y: the volunteers' labels as they were given.
        evidence: what predictors learn from.
        allowed: what may run on devices.
    """
    if is_torch_module(allowed.encoder):
        from taskveil.designs.predictors.networks import Architecture

        return [Architecture.of(allowed.encoder, evidence)]
    if not isinstance(allowed.encoder, str):
        return [Given.of(allowed.encoder, evidence)]
    found: list[Family] = [Linear()] if allowed.allows("linear") else []
    if not (allowed.encoder == "auto" and y is None and isinstance(task, ModelTask) and task.lines is not None):
        # Where a linear model is itself the truth, a linear predictor is enough.
        found += [Light()] if allowed.allows("light") else []
        trees = BoostedTrees()
        quick = allowed.encoder == "trees" or expected_seconds(trees, evidence, judging=True) <= MAX_TREE_SECONDS
        found += [trees] if allowed.allows("trees") and quick else []
    if allowed.allows("own"):
        found += _own(task, y, evidence, allowed)
    return found


def _own(task: Task, y: Any, evidence: Evidence, allowed: OnDevice) -> list[Family]:
    """The task's own model, where it can be judged out-of-fold; TaskError where it was asked for and cannot."""
    if not isinstance(task, ModelTask) or isinstance(task.cost, OwnLoss):
        if allowed.encoder == "own":
            raise TaskError(
                'encoder="own" takes one model and a loss with a name: several models, and a loss of your own, are '
                'served by "auto".'
            )
        return []
    trained_anew = y is not None and not allowed.volunteers_unseen and not hasattr(task.model, "get_params")
    try:
        if trained_anew and (module := task.torch_module if task.differentiable else None) is not None:
            from taskveil.designs.predictors.networks import Architecture

            return [Architecture.of(module, evidence, name="own")]
        return [own_model(task, y, evidence, unseen=allowed.volunteers_unseen)]
    except TaskError as error:
        leave_out(error, allowed)
        return []


def leave_out(error: TaskError, allowed: OnDevice) -> None:
    """Warn that the shared model cannot compete; TaskError where it was asked for."""
    if allowed.encoder == "own":
        raise TaskError(f"{error} If the model never saw the volunteers, say volunteers_unseen=True.") from error
    said = f"the shared model takes no part in the design: {error}"
    warnings.warn(said, UnusedModelWarning, stacklevel=callers_line())


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """The family of one callable of the caller's own, which never saw the volunteers."""

    function: Callable[[Floats], Floats]
    named: NamedEncoder
    name: str = "callable"
    averaged: bool = False
    logits: bool = False
    as_it_is: bool = True

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
        return cls(function=encoder, named=encoder)

    def seconds(self, evidence: Evidence) -> float:  # noqa: ARG002 - nothing is fitted
        """About how much processor time one fit takes: none."""
        return 0.0

    def fit(self, evidence: Evidence, rows: Sequence[Integers]) -> Sequence[Fit]:  # noqa: ARG002 - nothing is fitted
        """The callable itself, for each set of rows."""
        return [Said(self.function)] * len(rows)

    def encoder(
        self,
        evidence: Evidence,  # noqa: ARG002 - the release names the callable, and that is all
        fits: Sequence[Fit],  # noqa: ARG002
        setting: int,  # noqa: ARG002
        slope: float,  # noqa: ARG002
        shift: Floats,  # noqa: ARG002
    ) -> Encoder:
        """The callable, named by the release."""
        return self.named
