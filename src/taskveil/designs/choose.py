"""`method="auto"`: try the designs that fit the task and budget, judge them on held-out design data, keep the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.task import Task, take_labels
from taskveil.veil import Considered, Veil

Floats = NDArray[np.float64]
Design = Callable[[Floats, Any], Veil]
"""Volunteers' records and their labels (None without) to a veil."""

FOLDS = 3


def choose(X: Floats, y: Any, task: Task, designs: dict[str, Design], seed: int) -> Veil:
    """The design of least expected loss on held-out volunteers, refitted on all; `veil.considered` says why.

    Every fold of the volunteers is judged by a veil designed on the others, so no part of the choice sees its own data.
    """
    fold = np.random.default_rng(seed).permutation(len(X)) % FOLDS
    considered = []
    for method, make in designs.items():
        total = 0.0
        for f in range(FOLDS):
            rest, held = fold != f, fold == f
            total += (
                make(X[rest], take_labels(task, y, rest)).loss(X[held], take_labels(task, y, held)).mean * held.sum()
            )
        considered.append(Considered(method=method, held_out_loss=total / len(X)))
    considered.sort(key=lambda entry: entry.held_out_loss)
    best = designs[considered[0].method](X, y)
    return replace(best, considered=tuple(considered))
