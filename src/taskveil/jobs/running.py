"""Runs the parts of a job: in this process, one after another, or on a Ray cluster.

On a cluster, Ray Data's `map_batches` moves the descriptions of parts and of results: a few numbers in Arrow tables.
Each worker reads its rows from storage, some at a time. People's records and unpublished reports never lie in the
cluster's object store, which keeps copies on several machines and spills to their disks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import taskveil
from taskveil import errors
from taskveil.errors import ClusterError, TaskveilError, needs
from taskveil.jobs.plans import JobPart
from taskveil.jobs.ray_joining import connected
from taskveil.jobs.ray_working import EngineName, attended, check_engine, failures

with needs("a folder of records"):
    import pyarrow as pa

Result = TypeVar("Result")
LOAD_ROWS, LOAD_PARTS = 1 << 22, 64
"""The most rows, and the most parts, of a load that goes to a worker at once."""
_RAISED, _SAYING = "raised", "saying"  # the columns of an error, instead of a result
RowProgress = Callable[[int, int | None], None]
"""Called with the number of rows done since the last call, and the number of all rows; None if that is not known."""


class PartWork(Protocol[Result]):
    """The work on a part, and how its result travels."""

    def __call__(self, part: JobPart) -> Result:
        """The result of a part."""
        ...

    def packed(self, result: Result) -> pa.Table:
        """The result as one row of a table."""
        ...

    def unpacked(self, row: pa.Table) -> Result:
        """The result that was packed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where parts are worked on: `name` is "plain" or "ray". Ray uses the cluster at `address`, or this machine, and at
    most `workers` workers at a time."""

    name: EngineName = "plain"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        check_engine(self.name, self.address, self.workers)

    def joined(self) -> AbstractContextManager[None]:
        """Keeps one connection to the cluster for several runs. Otherwise each run starts a cluster of its own."""
        return nullcontext() if self.name == "plain" else connected(self.address, workers=self.workers)

    def run(self, work: PartWork[Result], parts: Sequence[JobPart], *, kept: str) -> Iterator[tuple[JobPart, Result]]:
        """Every part with its result, as soon as it is there; an error message ends with `kept`, which says what a
        failure leaves."""
        if self.name == "plain":
            yield from ((part, work(part)) for part in parts)
            return
        with self.joined(), failures(kept):
            yield from _on_ray(work, parts, self.workers)


def _on_ray(work: PartWork[Result], parts: Sequence[JobPart], workers: int | None) -> Iterator[tuple[JobPart, Result]]:
    import ray.data

    cores = ray.cluster_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
    if cores < 1:
        raise ClusterError("the cluster has no core to work on: add a machine to it.")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # taskveil reports errors itself
    ray.data.DataContext.get_current().enable_progress_bars = False  # taskveil's bar counts rows
    loads = _loads(parts, min(workers or int(cores), int(cores)))
    asked = [pa.Table.from_pylist([asdict(part) for part in some]) for some in loads]
    results = ray.data.from_arrow(asked).map_batches(
        _worked(work),
        batch_format="pyarrow",
        batch_size=None,  # a batch is a load
        num_cpus=1,
        compute=ray.data.TaskPoolStrategy(size=workers and min(workers, len(asked))),  # or Ray warns of idle ones
    )  # Ray Data runs a part again as often as its worker is lost; this cannot be changed
    rows: Any
    for rows in attended(results.iter_batches(batch_format="pyarrow", batch_size=None, prefetch_batches=0)):
        if _RAISED in rows.column_names:
            raise _raised(*(rows.column(name)[0].as_py() for name in (_RAISED, _SAYING)))
        for place, number in enumerate(rows.column("part").to_pylist()):
            yield parts[number], work.unpacked(rows.slice(place, 1))


def _loads(parts: Sequence[JobPart], cores: int) -> Iterator[list[JobPart]]:
    """Loads of parts for the workers. A core is idle for a sixth of a second before each load, so a load has many
    parts. Later loads have fewer, so that at the end no core waits long for another; and no load has so many rows that
    progress is not shown for long."""
    some: list[JobPart] = []
    left = len(parts)
    for part in parts:
        most = min(LOAD_PARTS, math.ceil(left / (1.5 * cores)))
        if some and (len(some) >= most or sum(one.rows for one in some) + part.rows > LOAD_ROWS):
            yield some
            left -= len(some)
            some = []
        some.append(part)
    if some:
        yield some


def _worked(work: PartWork[Any]) -> Callable[[pa.Table], pa.Table]:
    """The function that turns a table of parts into a table of results on a worker. An error travels as a result, too:
    Ray would pass on only its traceback."""
    sent_by = taskveil.__version__

    def all_of(asked: pa.Table) -> pa.Table:
        parts = [JobPart(**row) for row in asked.to_pylist()]
        try:
            if taskveil.__version__ != sent_by:
                raise ClusterError(
                    f"a machine of the cluster has taskveil {taskveil.__version__}, and this one {sent_by}: install "
                    "the same on all."
                )
            results = pa.concat_tables([work.packed(work(part)) for part in parts])
            return results.append_column("part", pa.array([part.number for part in parts]))
        except Exception as error:
            return pa.table({_RAISED: [type(error).__name__], _SAYING: [_saying(error)]})

    return all_of


def _saying(error: Exception) -> str:
    """The message of a taskveil error, or the operating system's. Other messages may quote records."""
    return str(error) if isinstance(error, TaskveilError) else getattr(error, "strerror", None) or ""


def _raised(kind: str, saying: str) -> TaskveilError:
    """The taskveil error that a worker raised, or a ClusterError that names another error."""
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, TaskveilError):
        return known(saying)
    return ClusterError(f"a worker failed ({kind}{f': {saying}' if saying else ''}).")
