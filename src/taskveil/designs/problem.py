"""The problem that a designer solves, and the protocol of designers, open to your own.

Your own designer is an object with the four members of `Designer`. Pass it to `taskveil.design(method=...)` or
`taskveil.sweep(methods=[...])`. `examples/own_method.py` is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats, Integers
from taskveil.designs.bounds import heaviest, resistant, resistant_labels, warn_of
from taskveil.designs.domain import Ball, Box, Domain, Points, fit_domain
from taskveil.designs.moments import LinearProblem
from taskveil.errors import DataError, DomainError, DoubtfulColumnWarning, TaskError, callers_line
from taskveil.progress import SILENT, Progress
from taskveil.records.schema import Schema
from taskveil.records.tables import as_volunteers, column_names
from taskveil.tasks import LinearTask, MeanTask, Task, as_linear, check_task, take_labels
from taskveil.veil import Veil
from taskveil.veil.veil import as_delta
from taskveil.veil.volunteers import FOLDS, common_values

EncoderName = Literal["auto", "linear", "light", "trees", "own"]

CLIENT_BYTES = 512 * 1024
"""The default limit for a client folder: about the size of a picture on a page."""


@dataclass(frozen=True, kw_only=True)
class OnDevice:
    """Limits for the part of a design that runs on devices. Linear tasks have a small linear encoder of their own.

    The guarantee does not depend on any of it: the mechanism bounds every value that an encoder computes.

    Args:
        encoder: for a model, what the device computes: "linear", "light" (one hidden layer), "trees" (boosted trees),
            "own" (the task's own model), or "auto". "auto" compares those that are allowed, and the mean of several, by
            held-out loss; of those within 1% of the lowest it takes the smallest. It leaves out "trees" where fitting
            them would take too long (`MAX_TREE_SECONDS`). Or a torch module of dense and convolution layers, whose
            architecture is trained again from new weights. Or any callable from records (N, n) to predictions (N, S)
            that was not fitted to the volunteers: only Python clients can run it.
        share_model: the task's own model may run on the devices. Everybody who has a device then has the model. With
            labels, a scikit-learn model is fitted again up to 15 times without some of the volunteers.
        volunteers_unseen: the model was not fitted to the volunteers, so its predictions for them are out-of-sample.
        max_bytes: the largest size of the release's client folder, in bytes.
        latent_dim: the largest number of values in a report; chosen by the design if None.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> from sklearn.linear_model import LogisticRegression
        >>> y = (X[:, 0] > 0).astype(int)
        >>> task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
        >>> veil = tv.design(X, task, epsilon=2.0, y=y, on_device=tv.OnDevice(encoder="linear", max_bytes=20_000))
        >>> veil.size.client_bytes <= 20_000
        True
    """

    encoder: Any = "auto"
    share_model: bool = False
    volunteers_unseen: bool = False
    max_bytes: int = CLIENT_BYTES
    latent_dim: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.encoder, str):
            if self.encoder not in get_args(EncoderName):
                raise TaskError(
                    f"encoder must be one of {', '.join(get_args(EncoderName))}, a torch module or a callable; "
                    f"got {self.encoder!r}."
                )
        elif not callable(self.encoder) or isinstance(self.encoder, type):
            raise TaskError(f"encoder must be a name, a torch module or a callable; got {type(self.encoder).__name__}.")
        if self.encoder == "own" and not self.share_model:
            raise TaskError(
                'encoder="own" puts the task\'s own model on every device, and everybody who has one has the model. If '
                "you want that, pass share_model=True."
            )
        if isinstance(self.max_bytes, bool) or not isinstance(self.max_bytes, int) or self.max_bytes < 1024:
            raise TaskError(f"max_bytes must be a whole number of at least 1024, got {self.max_bytes!r}.")

    def allows(self, name: EncoderName) -> bool:
        """Whether an encoder of that name may compete."""
        if name == "own" and not self.share_model:
            return False
        return bool(self.encoder in ("auto", name)) if isinstance(self.encoder, str) else False


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
    schema: Schema = None  # type: ignore[assignment]  # without one, `__post_init__` makes one of numbers
    """What records consist of: X holds the numbers that they become."""
    drawn: Integers | None = None
    """Which volunteer each row is (N,), where they were drawn with weights and some came several times."""
    delta: float = 0.0
    """The probability with which the ε of a report may fail; above 0 only Gaussian noise uses it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.schema or Schema.numbers(self.X.shape[1]))

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
        delta: float = 0.0,
    ) -> Problem:
        """A problem from the arguments of a caller, after all checks.

        Args:
            X: volunteers' records (N, n): array, pandas, polars or Arrow table. Every fold needs one.
            task: what the data is for.
            y: the volunteers' labels, where the task has some.
            domain: the set in which records may lie; volunteers outside are projected into it. By default the hull of
                their records, with outliers clipped (see `designs.bounds`).
            schema: the fields of a table's records; by default they are inferred.
            on_device: limits for what runs on devices; by default small encoders that do not contain the task's model.
            torch_device: where torch computes.
            progress: gets the progress of designers. The caller opens and closes it.
            columns: names of the attributes in warnings; by default the table's own.
            rows: numbers (N,) of the records in warnings; by default 0, 1, 2, …
            delta: the probability with which the ε of a report may fail.
        """
        check_task(task)
        if isinstance(domain, Schema) or not isinstance(schema, Schema | None):
            raise DomainError("domain= takes a tv.Box, tv.Ball or tv.Points, and schema= takes a tv.Schema.")
        if column_names(X) is None and not schema:
            X = as_volunteers(X, fewest=FOLDS)  # the schema of an array says nothing about what is wrong with it
        given, schema, on_device = schema, Schema.for_volunteers(X, schema), on_device or OnDevice()
        if not schema.unbounded and isinstance(domain, Box | Ball | Points) and domain.dim != schema.width:
            raise DomainError(
                "records with text, dates or missing values are bounded by a schema: schema=tv.Schema.of(X), whose "
                f"fields you may replace. (As numbers they are {schema.width}; this {type(domain).__name__} has "
                f"{domain.dim}.)"
            )
        records, task = as_numbers(X, task, y, schema, fewest=FOLDS)
        latent_dim = on_device.latent_dim
        if latent_dim is not None and not 1 <= latent_dim <= records.shape[1]:
            raise TaskError(f"latent_dim must lie between 1 and {records.shape[1]}, got {latent_dim}.")
        y, wild_labels = resistant_labels(task, y, len(records))
        free = schema.unbounded and domain is None
        bounded, wild = resistant(records, task) if free else (records, [])
        warn = partial(warn_of, columns=columns or column_names(X), rows=rows, stacklevel=callers_line() + 1)
        warn(wild, wild_labels, bounded=True)
        if free and not wild:
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
            delta=as_delta(delta),
        )

    @property
    def answering(self) -> str:
        """How reports are answered: "record" if a model of the task asks for that, else "direct"."""
        parts = [part for part, _, _ in self.task.parted()]
        return "record" if any(getattr(part, "answering", "") == "record" for part in parts) else "direct"

    @property
    def served(self) -> Task:
        """The task that designs are made for: the linear one with the same loss, if there is one."""
        own = self.on_device.encoder in ("auto", "linear") if isinstance(self.on_device.encoder, str) else False
        return as_linear(self.task, labelled=self.y is not None or not own) or self.task

    @property
    def linear(self) -> LinearProblem | None:
        """The problem of the linear theory; None if the task is a model."""
        if not isinstance(self.task, LinearTask):
            return None
        latent_dim = self.on_device.latent_dim
        return LinearProblem(X=self.X, task=self.task, domain=self.domain, latent_dim=latent_dim, delta=self.delta)

    def some(self, rows: NDArray[Any]) -> Problem:
        """The same problem for some of the volunteers. The domain stays: users may still be anywhere in it."""
        drawn = None if self.drawn is None else self.drawn[rows]
        return replace(self, X=self.X[rows], y=take_labels(self.task, self.y, rows), drawn=drawn)

    def like(self, population: Population, seed: int) -> Problem:
        """The same problem for a sample of the volunteers that is like a population: as many of them, drawn by their
        weights. A volunteer of large weight is drawn several times, others not at all."""
        weights = population.weights(self.X)
        count = len(self.X)
        # Evenly spaced marks: everybody is drawn as often as their weight says, rounded down or up.
        marks = (np.arange(count) + np.random.default_rng(seed).random()) / count * weights.sum()
        rows = np.searchsorted(np.cumsum(weights), marks).clip(0, count - 1)
        return replace(self.some(rows), drawn=rows)


def as_numbers(X: Any, task: Task, y: Any, schema: Schema, *, fewest: int) -> tuple[Floats, Task]:
    """Volunteers' records as numbers (N, n), at least `fewest`, and the task on these, checked with its labels."""
    records = as_volunteers(schema.expand(X), fewest=fewest, names=schema.columns if schema.named else None)
    records, rare = common_values(records, schema)
    if rare:
        warnings.warn(
            f"few volunteers have a value of {', '.join(rare)}: the design does not use these values, which sums over "
            "so few people would reveal. Leave the field out, or ask more volunteers.",
            DoubtfulColumnWarning,
            stacklevel=callers_line(),
        )
    task = (task.scaled(records, schema) if isinstance(task, MeanTask) else task).on(schema)
    task.labels(y, len(records))
    return records, task


def _inside(domain: Domain, records: Floats) -> Floats:
    """The records (N, n), projected into the domain; DataError if all of them are the same there."""
    if np.ptp(records, axis=0).max() == 0:
        raise DataError("all volunteers' records are identical: there is nothing to learn or to report.")
    inside = domain.project(records)
    if np.ptp(inside, axis=0).max() == 0:
        raise DataError(
            "brought inside the domain, all volunteers' records are identical: check that its units are the data's."
        )
    return inside


class Population(Protocol):
    """A population to reweight volunteers to: `taskveil.estimate(..., assume="cells")` is one."""

    def weights(self, records: Floats) -> Floats:
        """The weights (N,) of volunteers with these records (N, n)."""
        ...


@runtime_checkable
class Designer(Protocol):
    """Turns a problem into veils. A veil enforces its own guarantee, so that no designer can weaken it."""

    @property
    def name(self) -> str:
        """Its name in tables, plots and `veil.method`."""
        ...

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task, in a sentence; None if it can."""
        ...

    def seeded(self, task: Task) -> bool:
        """Whether designs vary much with the seed, so that a sweep should try several."""
        ...

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterable[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed, in any order, each as soon as it is made. A veil that costs more
        than its ε is refused. Report progress to `problem.progress`: `begin` with the amount of work, then
        `advance`."""
        ...


class Unseeded:
    """A mixin for designers whose results hardly depend on the seed."""

    def seeded(self, task: Task) -> bool:  # noqa: ARG002
        """False: one seed is enough."""
        return False


@runtime_checkable
class Formula(Protocol):
    """A designer without veils: a sweep compares others with its expected losses."""

    def expected_losses(self, problem: Problem, epsilon: float, X: Floats) -> Floats:
        """The expected loss (N,) of every record of X (N, n)."""
        ...


@runtime_checkable
class AtOnce(Protocol):
    """A designer that learns several designs together: alone, each would be a different one."""

    def at_once(self, task: Task) -> bool:
        """Whether `designs` must be called once for all budgets and seeds of a `task`."""
        ...
