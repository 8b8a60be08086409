"""Designers of one's own, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import taskveil as tv
from taskveil.designs.problem import Problem
from taskveil.peers import baselines
from taskveil.tasks import LinearTask, Task


@dataclass(frozen=True)
class Noisy:
    """Noise on the record itself, with a share of the budget; remembers what it was asked for."""

    name: str = "noisy"
    share: float = 1.0
    several: bool = False
    asked: list[tuple[float, int]] = field(default_factory=list)

    def why_not(self, task: Task) -> str | None:
        return None if isinstance(task, LinearTask) else "noise is for linear tasks."

    def seeded(self, task: Task) -> bool:
        return self.several

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        assert problem.linear is not None
        for epsilon in epsilons:
            for seed in seeds:
                self.asked.append((epsilon, seed))
                veil = baselines.task_agnostic(problem.linear, self.share * epsilon)
                yield epsilon, seed, replace(veil, method=self.name)


@dataclass(frozen=True)
class Plain:
    """As `Noisy`, with fields that a resumed sweep can tell apart."""

    share: float = 1.0
    weights: np.ndarray = field(default_factory=lambda: np.ones(3))
    dims: tuple[int, ...] = (1, 2)
    name: str = "plain"

    def why_not(self, task: Task) -> str | None:
        return None

    def seeded(self, task: Task) -> bool:
        return False

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        return Noisy(share=self.share).designs(problem, epsilons, seeds)


def by_record(task: Any) -> Any:
    """The same task whose models answer the estimated record."""
    if isinstance(task, tv.MultiTask):
        return tv.MultiTask([(by_record(part), weight) for part, weight in task.parts])
    return replace(task, answering="record") if isinstance(task, tv.ModelTask) else task
