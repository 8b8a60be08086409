"""What every designer is given, and what it must be: the protocol behind each method's name, open to your own.

A designer of your own is an object with the four members of `Designer`; pass it to `taskveil.design(method=...)` or
`taskveil.sweep(methods=[...])`. `examples/own_method.py` is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats
from taskveil.designs.domain import Domain, fit_domain
from taskveil.designs.moments import LinearProblem
from taskveil.errors import DataError, TaskError
from taskveil.records import as_volunteers, column_names
from taskveil.tasks import LinearTask, Task, check_task, take_labels
from taskveil.veil import Veil


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Volunteers' records X (N, n) that are not all identical, the task with their labels y, and where records may lie.

    The rest is what `taskveil.design` says: at most `latent_dim` numbers in a report, and where and how visibly to
    learn. Several linear tasks arrive as the one LinearTask with the same loss.
    """

    X: Floats
    task: Task
    domain: Domain
    y: Any = None
    latent_dim: int | None = None
    device: str = "cpu"
    progress: bool = False

    def __post_init__(self) -> None:
        if np.ptp(self.X, axis=0).max() == 0:
            raise DataError("all volunteers' records are identical: there is nothing to learn or to report.")

    @classmethod
    def of(
        cls,
        X: Any,
        task: Task,
        *,
        y: Any = None,
        domain: Domain | None = None,
        latent_dim: int | None = None,
        device: str = "cpu",
        progress: bool = False,
    ) -> Problem:
        """A problem from what callers have; whatever is wrong with it is said here.

        Args:
            X: volunteers' records (N, n): array, pandas, polars or Arrow table of finite numbers.
            task: what the data is for.
            y: the volunteers' labels, where the task has some.
            domain: where records may lie; by default the volunteers' cloud.
            latent_dim: at most this many numbers in a report.
            device: where torch computes.
            progress: show how far learning is.
        """
        records = as_volunteers(X)
        check_task(task).check_width(records.shape[1])
        task.check_columns(column_names(X))
        task.labels(y, len(records))
        if latent_dim is not None and not 1 <= latent_dim <= records.shape[1]:
            raise TaskError(f"latent_dim must lie between 1 and {records.shape[1]}, got {latent_dim}.")
        return cls(
            X=records,
            task=task,
            y=y,
            domain=fit_domain(domain, records),
            latent_dim=latent_dim,
            device=device,
            progress=progress,
        )

    @property
    def linear(self) -> LinearProblem | None:
        """The problem as the linear theory sees it; None when the task is a model."""
        if not isinstance(self.task, LinearTask):
            return None
        return LinearProblem(X=self.X, task=self.task, domain=self.domain, latent_dim=self.latent_dim)

    def some(self, rows: NDArray[Any]) -> Problem:
        """The same problem for some of the volunteers. The domain stays: users may still be anywhere in it."""
        return replace(self, X=self.X[rows], y=take_labels(self.task, self.y, rows))


@runtime_checkable
class Designer(Protocol):
    """Turns a problem into veils. The promise is the veil's own, so no designer can weaken it."""

    @property
    def name(self) -> str:
        """What tables, pictures and `veil.method` call it."""
        ...

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task, in a sentence; None if it can."""
        ...

    def seeded(self, task: Task) -> bool:
        """Whether one seed says little about the next, so that a sweep should try several."""
        ...

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterable[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed, in any order, best as soon as each is there. What they can share
        is computed once. A veil that costs more than its ε is refused."""
        ...
