"""What every designer is given, and what it must be: the protocol behind each method's name, open to your own.

A designer of your own is an object with the four members of `Designer`; pass it to `taskveil.design(method=...)` or
`taskveil.sweep(methods=[...])`. `examples/own_method.py` is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers
from taskveil.designs.bounds import heaviest, resistant, resistant_labels, warn_of
from taskveil.designs.domain import Ball, Box, Domain, Points, fit_domain
from taskveil.designs.moments import LinearProblem
from taskveil.designs.on_device import OnDevice
from taskveil.errors import DataError, DomainError, DoubtfulColumnWarning, TaskError, callers_line
from taskveil.progress import SILENT, Progress
from taskveil.records.conversion import as_volunteers, column_names
from taskveil.records.schema import Schema
from taskveil.tasks import LinearTask, Task, as_linear, check_task, take_labels
from taskveil.veil import Veil
from taskveil.veil.volunteers import common_values

FEWEST = 5
"""Volunteers a design needs at least: "auto" holds some out, what it judges holds some of the others out, and two must
be left to fit to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Volunteers' records X (N, n), the task with their labels y, and where records may lie.

    All records lie inside the domain, as every user's will. `on_device`, `torch_device` and `progress` are those of
    `taskveil.design`. Several linear tasks arrive as the one LinearTask with the same loss.
    """

    X: Floats
    task: Task
    domain: Domain
    y: Any = None
    on_device: OnDevice = field(default_factory=OnDevice)
    torch_device: str = "cpu"
    progress: Progress = SILENT
    schema: Schema | None = None
    """What records consist of, where they have natural values: X holds the numbers that they become."""
    drawn: Integers | None = None
    """Which volunteer each row is (N,), where they were drawn with weights and some came several times."""

    @classmethod
    def of(
        cls,
        X: Any,
        task: Task,
        *,
        y: Any = None,
        domain: Domain | None = None,
        schema: Schema | None = None,
        on_device: OnDevice | None = None,
        torch_device: str = "cpu",
        progress: Progress = SILENT,
        columns: tuple[str, ...] | None = None,
        rows: Integers | None = None,
    ) -> Problem:
        """A problem from what callers have; whatever is wrong with it is said here.

        Args:
            X: volunteers' records (N, n): array, pandas, polars or Arrow table.
            task: what the data is for.
            y: the volunteers' labels, where the task has some.
            domain: where records may lie, and where volunteers outside are brought. By default the volunteers' cloud,
                with single cells that are out of line with all others brought back (see `designs.bounds`).
            schema: the fields of a table's records; by default they are inferred.
            on_device: limits for what runs on devices; by default it is small and contains no model of the task's.
            torch_device: where torch computes.
            progress: what designers call with what is done. The one who starts the work opens and closes it.
            columns: what warnings call the attributes; by default the table's own names.
            rows: the numbers (N,) by which the caller knows the records, where they are not 0, 1, 2, …
        """
        check_task(task)
        if isinstance(domain, Schema) or not isinstance(schema, Schema | None):
            raise DomainError("domain= takes a tv.Box, tv.Ball or tv.Points, and schema= takes a tv.Schema.")
        given, schema, on_device = schema, Schema.for_volunteers(X, schema), on_device or OnDevice()
        if schema is not None and isinstance(domain, Box | Ball | Points) and domain.dim != schema.width:
            raise DomainError(
                "records with text, dates or missing values are bounded by a schema: schema=tv.Schema.of(X), whose "
                f"fields you may replace. (As numbers they are {schema.width}; this {type(domain).__name__} has "
                f"{domain.dim}.)"
            )
        records, task = as_numbers(X, task, y, schema, fewest=FEWEST)
        latent_dim = on_device.latent_dim
        if latent_dim is not None and not 1 <= latent_dim <= records.shape[1]:
            raise TaskError(f"latent_dim must lie between 1 and {records.shape[1]}, got {latent_dim}.")
        y, wild_labels = resistant_labels(task, y, len(records))
        bounded, wild = resistant(records, task) if domain is None and schema is None else (records, [])
        warn = partial(warn_of, columns=columns or column_names(X), rows=rows, stacklevel=callers_line() + 1)
        warn(wild, wild_labels, bounded=True)
        if domain is None and schema is None and not wild:
            warn(heaviest(records), bounded=False)
        domain = fit_domain(given if domain is None else domain, bounded)
        return cls(
            X=_inside(domain, bounded),
            task=task,
            y=y,
            domain=domain,
            on_device=on_device,
            torch_device=torch_device,
            progress=progress,
            schema=schema,
        )

    @property
    def answering(self) -> str:
        """How reports are answered: "record" if a model of the task asks for that, else "direct"."""
        parts = [part for part, _, _ in self.task.parted()]
        return "record" if any(getattr(part, "answering", "") == "record" for part in parts) else "direct"

    @property
    def served(self) -> Task:
        """The task that designs are made for: a linear one with the same loss, where there is one."""
        own = self.on_device.encoder in ("auto", "linear") if isinstance(self.on_device.encoder, str) else False
        return as_linear(self.task, labelled=self.y is not None or not own) or self.task

    @property
    def linear(self) -> LinearProblem | None:
        """The problem as the linear theory sees it; None when the task is a model."""
        if not isinstance(self.task, LinearTask):
            return None
        latent_dim = self.on_device.latent_dim
        return LinearProblem(X=self.X, task=self.task, domain=self.domain, latent_dim=latent_dim)

    def some(self, rows: NDArray[Any]) -> Problem:
        """The same problem for some of the volunteers. The domain stays: users may still be anywhere in it."""
        drawn = None if self.drawn is None else self.drawn[rows]
        return replace(self, X=self.X[rows], y=take_labels(self.task, self.y, rows), drawn=drawn)

    def like(self, population: Population, seed: int) -> Problem:
        """The same problem for volunteers who are together like a population: as many of them, drawn by their
        weights, so that those who stand for many come several times and some not at all."""
        weights = population.weights(self.X)
        count = len(self.X)
        # Marks that are evenly spaced: everybody comes as often as they count, or once more.
        marks = (np.arange(count) + np.random.default_rng(seed).random()) / count * weights.sum()
        rows = np.searchsorted(np.cumsum(weights), marks).clip(0, count - 1)
        return replace(self.some(rows), drawn=rows)


def as_numbers(X: Any, task: Task, y: Any, schema: Schema | None, *, fewest: int) -> tuple[Floats, Task]:
    """Volunteers' records as numbers (N, n), at least `fewest`, and the task on these, checked with its labels."""
    records = as_volunteers(X if schema is None else schema.expand(X), fewest=fewest)
    records, rare = common_values(records, schema)
    if rare:
        warnings.warn(
            f"few volunteers have a value of {', '.join(rare)}: the design does not use these values, which sums over "
            "so few people would reveal. Leave the field out, or ask more volunteers.",
            DoubtfulColumnWarning,
            stacklevel=callers_line(),
        )
    if schema is None:
        task.check_width(records.shape[1])
        task.check_columns(column_names(X))
    else:
        task = task.on(schema)
    task.labels(y, len(records))
    return records, task


def _inside(domain: Domain, records: Floats) -> Floats:
    """The records as devices would see them, some of which must differ."""
    if np.ptp(records, axis=0).max() == 0:
        raise DataError("all volunteers' records are identical: there is nothing to learn or to report.")
    inside = domain.project(records)
    if np.ptp(inside, axis=0).max() == 0:
        raise DataError(
            "brought inside the domain, all volunteers' records are identical: check that its units are the data's."
        )
    return inside


class Population(Protocol):
    """People that volunteers are reweighted to be like: `taskveil.estimate(..., assume="cells")` is one."""

    def weights(self, records: Floats) -> Floats:
        """How much each of the volunteers with these records (N, n) counts (N,)."""
        ...


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
        is computed once. A veil that costs more than its ε is refused. `problem.progress` takes how far it is: `begin`
        with what there is to do, then `advance`."""
        ...


class Unseeded:
    """What designers inherit whose seed decides nothing, or only starts a search that ends much alike."""

    def seeded(self, task: Task) -> bool:  # noqa: ARG002
        """One seed is enough."""
        return False


@runtime_checkable
class Formula(Protocol):
    """What a designer is besides that makes no veils: known by its expected losses, to compare others with in a
    sweep."""

    def expected_losses(self, problem: Problem, epsilon: float, X: Floats) -> Floats:
        """The expected loss (N,) of every record of X (N, n)."""
        ...


@runtime_checkable
class AtOnce(Protocol):
    """What a designer is besides that learns several designs together: each would be another one if it were alone."""

    def at_once(self, task: Task) -> bool:
        """Whether all budgets and seeds of a `task` are to be asked for in one call of `designs`."""
        ...
