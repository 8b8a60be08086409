"""The task's own model on the device: as an encoder, and what it says of volunteers it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.latent_encoders import Encoder, NamedEncoder
from taskveil.designs.codebooks.model import evidence_of
from taskveil.designs.crossfit import FOLDS, PredictorFamily, calibrate, cross_fit
from taskveil.designs.predictors.own import Own
from taskveil.designs.problem import Problem
from taskveil.designs.selection import folds_of, people
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask
from taskveil.tasks.costs import OwnLoss
from taskveil.tasks.model import is_torch_module


def model_of(problem: Problem) -> ModelTask:
    """The problem's task, which must be one model: designers say so in `why_not`."""
    if not isinstance(problem.task, ModelTask):
        raise TaskError("the simple ways run the task's own model on the device: pass a ModelTask.")
    return problem.task


def has_outputs(task: ModelTask, count: int) -> bool:
    """Whether the model has so many outputs; a model that was never asked may have any."""
    return task.width is None or task.outputs == count


def held_out_answers(problem: Problem, seed: int) -> Floats:
    """What the model answers to every volunteer (N, S), each by a copy fitted without it: scikit-learn's estimators are
    fitted again, networks trained anew.

    The model itself answers where it is the truth, where it never saw the volunteers, and where it cannot be fitted
    again: its user would have nothing better either.
    """
    task, X = model_of(problem), problem.X
    if problem.y is None or problem.on_device.volunteers_unseen or isinstance(task.cost, OwnLoss):
        return task.answers(X)
    person = people(X)
    fold = folds_of(person, min(FOLDS, int(person.max()) + 1), np.random.default_rng(seed))
    evidence = evidence_of(problem, task.cost, task.truth(X, problem.y), fold, seed)
    try:
        family: PredictorFamily = as_it_is(task, problem.y)
        if is_torch_module(task.model):
            from taskveil.designs.predictors.networks import Architecture

            family = Architecture.of(task.model, evidence)
        return calibrate(cross_fit(family, evidence, judging=False).final, evidence).predicted
    except TaskError:  # it can neither be fitted again nor trained anew
        return task.answers(X)


def as_it_is(task: ModelTask, y: Any) -> Own:
    """The family of a model that is not calibrated and that devices run by name: its outputs are out-of-fold answers
    of its copies."""

    def none(*_: Any) -> Encoder:
        raise TaskError("a model that is run as it is has no encoder of ours.")

    return Own(task=task, y=y, device=none, logits=bool(task.cost.logits), as_it_is=True)


def model_encoder(problem: Problem, says: str, latents: int, function: Callable[[Floats], Floats]) -> NamedEncoder:
    """The model as an encoder that a release names and does not contain.

    Args:
        problem: whose model it is, and where its records lie.
        says: what the function says of a record, in words, for people who have to supply it.
        latents: how many numbers the function gives.
        function: records (N, n) → latents (N, Z).
    """
    box, name = problem.domain.bounding_box, f"{type(model_of(problem).model).__name__}: {says}"
    return NamedEncoder.of(function, name=name, low=box.low, high=box.high, latents=latents)
