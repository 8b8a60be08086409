"""`method="auto"`: try the designs that fit, judge them on held-out volunteers, keep the best for each budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.losses import Considered
from taskveil.tasks import Task, take_labels
from taskveil.veil import Veil

Make = Callable[[str, Floats, Any, Sequence[float]], Iterable[tuple[float, Veil]]]
"""Method, volunteers' records, their labels (None without) and budgets to a veil for every budget."""

FOLDS = 3
MANY = 2000
"""From here on one held-out third says enough."""


def choose(
    X: Floats, y: Any, task: Task, methods: Sequence[str], epsilons: Sequence[float], make: Make, seed: int
) -> Iterator[tuple[float, Veil]]:
    """For every budget the design of least expected loss on held-out volunteers, refitted on all.

    Every fold of the volunteers is judged by veils designed on the others, so no part of the choice sees its own data;
    `veil.considered` says what was seen.
    """
    if len(methods) == 1:
        yield from make(methods[0], X, y, epsilons)
        return
    fold = np.random.default_rng(seed).permutation(len(X)) % FOLDS
    judged = range(1) if len(X) >= MANY else range(FOLDS)
    total = {(epsilon, method): 0.0 for epsilon in epsilons for method in methods}
    for method in methods:
        for f in judged:
            rest, held = fold != f, fold == f
            for epsilon, veil in make(method, X[rest], take_labels(task, y, rest), epsilons):
                total[epsilon, method] += veil.loss(X[held], take_labels(task, y, held)).mean * held.sum()
    count = int(np.isin(fold, judged).sum())
    considered = {
        epsilon: sorted(
            (Considered(method=method, held_out_loss=float(total[epsilon, method] / count)) for method in methods),
            key=lambda entry: entry.held_out_loss,
        )
        for epsilon in epsilons
    }
    for method in methods:
        won = [epsilon for epsilon in epsilons if considered[epsilon][0].method == method]
        if won:
            for epsilon, veil in make(method, X, y, won):
                yield epsilon, replace(veil, considered=tuple(considered[epsilon]))
