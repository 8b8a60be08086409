"""The arguments of a sweep as one object, checked, and the Ray cluster that it may use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from taskveil.designs.designing import Method, designer_of
from taskveil.designs.domain import Domain
from taskveil.designs.over_time import Budget, OverTime, without_delta
from taskveil.designs.problem import Designer, OnDevice
from taskveil.errors import RENAMED, TaskError
from taskveil.jobs.running import check_engine
from taskveil.progress import Progress, Show
from taskveil.records.schema import Schema
from taskveil.veil.loss_intervals import check_block
from taskveil.veil.veil import as_delta, as_epsilon


@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster to work on.

    Args:
        address: of the cluster (host:port, "auto"); by default a cluster of this machine alone.
        workers: how many work at a time; by default as many as there are cores.
        gpus: graphics processors, or fractions of one, that every task reserves. Above 0, torch trains on them.

    Example:
        >>> import taskveil as tv
        >>> tv.Ray(workers=4)  # pass it as engine= to tv.sweep
        Ray(address=None, workers=4, gpus=0.0)
    """

    address: str | None = None
    workers: int | None = None
    gpus: float = 0.0

    def __post_init__(self) -> None:
        check_engine("ray", self.address, self.workers)
        if not 0 <= self.gpus < float("inf"):
            raise TaskError(f"gpus is the number that every task takes, such as 1 or 0.5; got {self.gpus!r}.")


SweepEngine = Ray | Literal["cuda"] | None
"""Where designs are made: on a cluster, or in this process, with torch on a graphics processor or on none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepOptions:
    """The arguments of `sweep` and `sweep_segments`, which say what each means. Budgets, seeds and methods are checked
    and in order: see `budgets`, `all_seeds` and `designers`."""

    epsilons: Iterable[Budget]
    delta: float = 0.0
    methods: Sequence[Method] | None = None
    y: Any = None
    test: Any = None
    seeds: int | Sequence[int] = 1
    block: int = 1
    on_device: OnDevice = field(default_factory=OnDevice)
    domain: Domain | None = None
    schema: Schema | None = None
    resume: str | Path | None = None
    engine: SweepEngine = None
    progress: bool | Show | Progress | None = None
    segment: Any = None
    segment_test: Any = None
    releases: str | Path | None = None
    budgets: list[float] = field(init=False)
    all_seeds: list[int] = field(init=False)
    designers: list[Designer] | None = field(init=False)

    def __post_init__(self) -> None:
        check_block(self.block)
        if self.engine not in (None, "cuda") and not isinstance(self.engine, Ray):
            known = RENAMED.get(
                f'engine="{self.engine}"', 'is no engine: pass "cuda" for torch, or engine=tv.Ray(), or leave it out'
            )
            raise TaskError(f'engine="{self.engine}" {known}.')
        if isinstance(self.methods, str) or not isinstance(self.methods, Iterable | None):
            raise TaskError(_LISTS)
        if not isinstance(self.epsilons, Iterable):
            raise TaskError(_LISTS)
        delta = as_delta(self.delta)
        budgets = sorted({each for epsilon in self.epsilons for each in _budgets(without_delta(epsilon, delta))})
        seeds = list(range(self.seeds)) if isinstance(self.seeds, int) else list(dict.fromkeys(self.seeds))
        if not budgets or not seeds:
            raise TaskError(
                f"a sweep needs at least one budget and one seed; got {len(budgets)} budgets, {len(seeds)} seeds."
            )
        designers = None if self.methods is None else designers_of(self.methods)
        for name, value in (("budgets", budgets), ("all_seeds", seeds), ("designers", designers)):
            object.__setattr__(self, name, value)

    @property
    def torch_device(self) -> str:
        """Where torch trains."""
        return "cuda" if (self.engine.gpus if isinstance(self.engine, Ray) else self.engine) else "cpu"

    @property
    def tested(self) -> tuple[Any, Any]:
        """Records and labels to test on, (None, None) without."""
        return self.test if isinstance(self.test, tuple) and len(self.test) == 2 else (self.test, None)


def _budgets(epsilon: Any) -> list[float]:
    """The budget of a report; of a budget over time, those of the numbers of reports that are compared."""
    if isinstance(epsilon, OverTime):
        return [epsilon.epsilon(reports) for reports in epsilon.compared]
    return [as_epsilon(epsilon)]


def designers_of(methods: Sequence[Method]) -> list[Designer]:
    """The designers of the methods, at least one and no name twice."""
    designers = [designer_of(method) for method in methods]
    if not designers:
        raise TaskError("a sweep needs at least one method; got 0 methods.")
    names = [designer.name for designer in designers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TaskError(f"two methods of the sweep are named {twice!r}: give each a name of its own.")
    return designers


_LISTS = 'methods and epsilons come as lists: methods=["codebook"], epsilons=[1.0, 2.0].'
