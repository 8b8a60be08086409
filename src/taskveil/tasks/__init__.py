"""The purpose of the data and the cost of a mistake: `LinearTask`, `MeanTask`, `ModelTask`, `MultiTask`, `SurveyTask`.

All tasks have the same methods: the records they take (`width`, `check_width`), their answers (`predict`), the loss of
using an estimate in place of a record (`losses`, `pairwise_losses`), and the loss of one constant answer
(`constant_loss`). Torch is needed for models that are torch modules, and for `torch_module`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.errors import DataError, TaskError
from taskveil.tasks.costs import LossName, SquaredError
from taskveil.tasks.linear import LinearTask, MeanTask
from taskveil.tasks.model import ModelTask
from taskveil.tasks.multi import MultiTask
from taskveil.tasks.survey import SurveyTask

__all__ = [
    "LinearTask",
    "LossName",
    "MeanTask",
    "ModelTask",
    "MultiTask",
    "SurveyTask",
    "Task",
    "as_linear",
    "check_single",
    "check_task",
    "needs_unbiased",
    "take_labels",
]

Task = LinearTask | MeanTask | ModelTask | MultiTask | SurveyTask


def check_task(task: Any) -> Task:
    """`task` itself, or a TaskError that says what a task is."""
    if not isinstance(task, LinearTask | MeanTask | ModelTask | MultiTask | SurveyTask):
        raise TaskError(
            f"task must be a LinearTask, MeanTask, ModelTask, MultiTask or SurveyTask, got {type(task).__name__}."
        )
    return task


def as_linear(task: Task, *, labelled: bool = True) -> LinearTask | None:
    """The LinearTask with the same loss, where there is one. A MeanTask is none: its designs must be unbiased.

    A linear model that is judged by squared error is one where its own answers are the truth: unless it is `labelled`.
    """
    if isinstance(task, MultiTask):
        return task.stacked()
    if isinstance(task, ModelTask) and not labelled and isinstance(task.cost, SquaredError) and task.lines is not None:
        return LinearTask(task.lines[0] / np.sqrt(task.outputs))
    return task if isinstance(task, LinearTask) else None


def needs_unbiased(task: Task, method: str) -> str | None:
    """Why a `method` whose answers are biased cannot serve the task, in a sentence; None if it can."""
    if not isinstance(task, MeanTask | SurveyTask):
        return None
    return (
        f"{method} shrinks the answers for single records towards the volunteers, so their mean is biased for other "
        f'populations. Use method="auto" or "means" for a {type(task).__name__}.'
    )


def check_single(task: Task | None) -> None:
    """A DataError for a task that is about all people: its single reports have no answers."""
    if isinstance(task, MeanTask | SurveyTask):
        raise DataError(
            "a report of this release says almost nothing about one person: it is for means and shares of all people. "
            "Use tv.estimate(veil, reports), or taskveil estimate."
        )


def take_labels(task: Task, y: Any, rows: slice | Array) -> Any:
    """The labels of some records, as they were given: None, one array, or one entry per task of a MultiTask."""
    if y is None:
        return None
    if isinstance(task, MultiTask):
        return tuple(take_labels(part, values, rows) for part, _, values in task.parted(y))
    return np.asarray(y)[rows]
