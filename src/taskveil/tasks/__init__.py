"""What the data is for, and what a mistake costs: `LinearTask`, `ModelTask`, `MultiTask`.

All three answer the same questions: which records they take (`width`, `check_width`), what they compute (`predict`),
what it costs to use an estimate in place of a record (`losses`, `pairwise_losses`), and what it would cost to know
nothing (`constant_loss`). Only a ModelTask needs torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.errors import TaskError
from taskveil.tasks.costs import LossName
from taskveil.tasks.linear import LinearTask
from taskveil.tasks.model import ModelTask
from taskveil.tasks.multi import MultiTask

__all__ = ["LinearTask", "LossName", "ModelTask", "MultiTask", "Task", "as_linear", "check_task", "take_labels"]

Task = LinearTask | ModelTask | MultiTask


def check_task(task: Any) -> Task:
    """`task` itself, or a TaskError that says what a task is."""
    if not isinstance(task, LinearTask | ModelTask | MultiTask):
        raise TaskError(f"task must be a LinearTask, ModelTask or MultiTask, got {type(task).__name__}.")
    return task


def as_linear(task: Task) -> LinearTask | None:
    """The LinearTask with the same loss, where there is one."""
    if isinstance(task, MultiTask):
        return task.stacked()
    return task if isinstance(task, LinearTask) else None


def take_labels(task: Task, y: Any, rows: slice | Array) -> Any:
    """The labels of some records, as they were given: None, one array, or one entry per task of a MultiTask."""
    if y is None:
        return None
    if isinstance(task, MultiTask):
        return tuple(take_labels(part, values, rows) for part, _, values in task.parted(y))
    return np.asarray(y)[rows]
