"""`method="auto"`: try the designers that fit, judge them on held-out volunteers, keep the best for each budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taskveil.designs.problem import Designer, Problem
from taskveil.designs.threads import one_thread
from taskveil.losses import Considered
from taskveil.tasks import Task
from taskveil.veil import Veil

FOLDS = 3
MANY = 2000
"""From here on one held-out third says enough."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of several designers, for every budget by itself; `veil.considered` says what was seen.

    Every fold of the volunteers is judged by veils designed on the others, so no part of the choice sees its own data;
    the designer of least expected loss is then given all volunteers. A single one that fits needs no judging.
    """

    name: str
    candidates: tuple[Designer, ...]

    def why_not(self, task: Task) -> str | None:
        """Why none of the designers serves the task; None if one does."""
        reasons = [designer.why_not(task) for designer in self.candidates]
        refused = [reason for reason in reasons if reason is not None]
        return " ".join(dict.fromkeys(refused)) if len(refused) == len(reasons) else None

    def seeded(self, task: Task) -> bool:
        """Whether one of the designers depends on the seed."""
        return any(designer.seeded(task) for designer in self._fitting(task))

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed, each as soon as it is there."""
        fitting = self._fitting(problem.task)
        for seed in seeds:
            if len(fitting) == 1:
                yield from fitting[0].designs(problem, epsilons, [seed])
                continue
            seen = held_out_losses(fitting, problem, epsilons, seed)
            for designer in fitting:
                won = [epsilon for epsilon in epsilons if seen[epsilon][0].method == designer.name]
                if won:
                    for epsilon, _, veil in designer.designs(problem, won, [seed]):
                        yield epsilon, seed, replace(veil, considered=seen[epsilon])

    def _fitting(self, task: Task) -> list[Designer]:
        return [designer for designer in self.candidates if designer.why_not(task) is None]


@one_thread()
def held_out_losses(
    designers: Sequence[Designer], problem: Problem, epsilons: Sequence[float], seed: int
) -> dict[float, tuple[Considered, ...]]:
    """For every budget the designers' expected losses on volunteers they were not given, the least first."""
    fold = np.random.default_rng(seed).permutation(len(problem.X)) % FOLDS
    judged = range(1) if len(problem.X) >= MANY else range(FOLDS)
    total = {(epsilon, designer.name): 0.0 for epsilon in epsilons for designer in designers}
    for designer in designers:
        for f in judged:
            rest, held = problem.some(fold != f), problem.some(fold == f)
            for epsilon, _, veil in designer.designs(rest, epsilons, [seed]):
                total[epsilon, designer.name] += float(veil.losses(held.X, held.y).sum())
    count = int(np.isin(fold, judged).sum())
    return {
        epsilon: tuple(
            sorted(
                (Considered(method=d.name, held_out_loss=float(total[epsilon, d.name] / count)) for d in designers),
                key=lambda entry: entry.held_out_loss,
            )
        )
        for epsilon in epsilons
    }
