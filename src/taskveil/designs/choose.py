"""`method="auto"`: try the designs that fit the task and budget, judge them on held-out design data, keep the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.veil import Considered, Veil

Floats = NDArray[np.float64]
Design = Callable[[Floats, Any], Veil]
"""Volunteers' records and their labels (None without) to a veil."""

FOLDS = 3


def choose(X: Floats, y: Any, designs: dict[str, Design], seed: int) -> Veil:
    """The design of least expected loss on held-out volunteers, refitted on all; `veil.considered` says why.

    Every fold of the volunteers is judged by a veil designed on the others, so no part of the choice sees its own data.
    """
    fold = np.random.default_rng(seed).permutation(len(X)) % FOLDS
    labels = None if y is None else np.asarray(y)

    def part(mask: NDArray[np.bool_]) -> Any:
        return None if labels is None else labels[mask]

    considered = []
    for method, make in designs.items():
        losses = [
            make(X[fold != f], part(fold != f)).loss(X[fold == f], part(fold == f)).mean * (fold == f).sum()
            for f in range(FOLDS)
        ]
        considered.append(Considered(method=method, held_out_loss=float(sum(losses)) / len(X)))
    considered.sort(key=lambda entry: entry.held_out_loss)
    best = designs[considered[0].method](X, labels)
    return replace(best, considered=tuple(considered))
