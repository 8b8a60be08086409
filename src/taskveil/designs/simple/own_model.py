"""The task's own model on the device: as an encoder, and what it says of volunteers it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.named import NamedEncoder
from taskveil.designs.folds import folds_of, people
from taskveil.designs.problem import Problem
from taskveil.errors import TaskError
from taskveil.tasks import ModelTask

FOLDS = 5


def model_of(problem: Problem) -> ModelTask:
    """The problem's task, which must be one model: designers say so in `why_not`."""
    if not isinstance(problem.task, ModelTask):
        raise TaskError("the simple ways run the task's own model on the device: pass a ModelTask.")
    return problem.task


def held_out_answers(problem: Problem, seed: int) -> Floats:
    """What the model answers to every volunteer (N, S), each by a copy fitted without it.

    The model itself answers where it is the truth, where it never saw the volunteers, and where it cannot be fitted
    again: a user of a torch module would have nothing better either.
    """
    task, X = model_of(problem), problem.X
    if problem.y is None or problem.on_device.volunteers_unseen or not hasattr(task.model, "get_params"):
        return task.answers(X)
    from taskveil.designs.predictors.own import out_of_fold

    person = people(X)
    fold = folds_of(person, min(FOLDS, int(person.max()) + 1), np.random.default_rng(seed))
    return out_of_fold(task, X, problem.y, fold)


def model_encoder(problem: Problem, name: str, latents: int, function: Callable[[Floats], Floats]) -> NamedEncoder:
    """The model as an encoder that a release names and does not contain.

    Args:
        problem: whose model it is, and where its records lie.
        name: what the release calls it.
        latents: how many numbers the function gives.
        function: records (N, n) → latents (N, Z).
    """
    box = problem.domain.bounding_box
    return NamedEncoder.of(function, name=name, low=box.low, high=box.high, latents=latents)
