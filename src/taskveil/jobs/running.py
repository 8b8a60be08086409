"""Where the parts of a job are worked on: here, one after another, or on a Ray cluster.

On a cluster, Ray Data's `map_batches` moves *which* rows are to be worked on and what came of it, both a few numbers in
Arrow tables. Rows themselves are read where they are needed, from storage, by Arrow, some at a time: neither people's
records nor reports that are not published ever lie in the cluster's object store, which keeps copies on several
machines and spills to their disks.
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
from taskveil.jobs.plans import Part
from taskveil.jobs.ray_joining import connected
from taskveil.jobs.ray_working import EngineName, attended, check_engine, failures

with needs("a folder of records"):
    import pyarrow as pa

Result = TypeVar("Result")
_MOST_ROWS, _MOST = 1 << 22, 64  # in all, of parts that travel together; and so many of them
_RAISED, _SAYING = "raised", "saying"  # the columns of an error, in place of a result
PartProgress = Callable[[int, int], None]
"""Called with the number of rows done since the last call, and with that of all rows."""


class Work(Protocol[Result]):
    """What is done with a part, and how that travels."""

    def __call__(self, part: Part) -> Result:
        """What comes of a part."""
        ...

    def packed(self, result: Result) -> pa.Table:
        """The result as one row of a table."""
        ...

    def unpacked(self, row: pa.Table) -> Result:
        """The result that was packed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Engine:
    """`name` says where parts are worked on; on Ray, at the cluster's `address`, or on this machine, by so many
    `workers` at a time."""

    name: EngineName = "plain"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        check_engine(self.name, self.address, self.workers)

    def joined(self) -> AbstractContextManager[None]:
        """Connected to the cluster, inside: of several runs, each would else start one of its own."""
        return nullcontext() if self.name == "plain" else connected(self.address, workers=self.workers)

    def run(self, work: Work[Result], parts: Sequence[Part], *, kept: str) -> Iterator[tuple[Part, Result]]:
        """Every part with what came of it, as soon as it is there; `kept` is what a failure leaves, in words."""
        if self.name == "plain":
            yield from ((part, work(part)) for part in parts)
            return
        with self.joined(), failures(kept):
            yield from _on_ray(work, parts, self.workers)


def _on_ray(work: Work[Result], parts: Sequence[Part], workers: int | None) -> Iterator[tuple[Part, Result]]:
    import ray.data

    cores = ray.cluster_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
    if cores < 1:
        raise ClusterError("the cluster has no core to work on: add a machine to it.")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what goes wrong is said once, by us
    ray.data.DataContext.get_current().enable_progress_bars = False  # ours counts rows
    loads = _together(parts, min(workers or int(cores), int(cores)))
    asked = [pa.Table.from_pylist([asdict(part) for part in some]) for some in loads]
    results = ray.data.from_arrow(asked).map_batches(
        _worked(work),
        batch_format="pyarrow",
        batch_size=None,  # of all that travel together
        num_cpus=1,
        compute=ray.data.TaskPoolStrategy(size=workers and min(workers, len(asked))),  # or Ray warns of idle ones
    )  # Ray Data runs a part again for as long as its worker is lost, and leaves nobody another choice
    rows: Any
    for rows in attended(results.iter_batches(batch_format="pyarrow", batch_size=None, prefetch_batches=0)):
        if _RAISED in rows.column_names:
            raise _raised(*(rows.column(name)[0].as_py() for name in (_RAISED, _SAYING)))
        for place, number in enumerate(rows.column("part").to_pylist()):
            yield parts[number], work.unpacked(rows.slice(place, 1))


def _together(parts: Sequence[Part], cores: int) -> Iterator[list[Part]]:
    """Parts that travel together, because a core has nothing to do while Ray Data hands it the next, a sixth of a
    second each time. Fewer and fewer, so that at the end no core waits long for another; and never so many rows that
    nobody hears of them for long."""
    some: list[Part] = []
    left = len(parts)
    for part in parts:
        most = min(_MOST, math.ceil(left / (1.5 * cores)))
        if some and (len(some) >= most or sum(one.rows for one in some) + part.rows > _MOST_ROWS):
            yield some
            left -= len(some)
            some = []
        some.append(part)
    if some:
        yield some


def _worked(work: Work[Any]) -> Callable[[pa.Table], pa.Table]:
    """What a worker calls with a table of parts, and then answers with a table of results. What it raises travels as a
    result, too: of an error that Ray sees, only its traceback arrives."""

    sent_by = taskveil.__version__

    def all_of(asked: pa.Table) -> pa.Table:
        parts = [Part(**row) for row in asked.to_pylist()]
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
    """What an error of ours says, or the system's words; those of others may hold a record's."""
    return str(error) if isinstance(error, TaskveilError) else getattr(error, "strerror", None) or ""


def _raised(kind: str, saying: str) -> TaskveilError:
    """What a worker raised, if that is an error of ours, or a ClusterError that names it."""
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, TaskveilError):
        return known(saying)
    return ClusterError(f"a worker failed ({kind}{f': {saying}' if saying else ''}).")
