"""Runs the parts of a job: in this process, one after another, or on a Ray cluster.

Only descriptions of parts and of results go through a cluster: a few numbers each. Each worker reads its rows from
storage, some at a time. People's records and unpublished reports never lie in the cluster's object store, which keeps
copies on several machines and spills to their disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import taskveil
from taskveil.errors import ClusterError, TaskveilError
from taskveil.jobs.plans import JobPart
from taskveil.jobs.ray_cluster import connected
from taskveil.jobs.ray_tasks import EngineName, check_engine, failures, in_any_order

Result = TypeVar("Result")
PartWork = Callable[[JobPart], Result]
RowProgress = Callable[[int, int | None], None]
"""Called with the number of rows done since the last call, and the number of all rows; None if that is not known."""


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
            import ray

            if ray.cluster_resources().get("CPU", 0) < 1:  # type: ignore[no-untyped-call]
                raise ClusterError("the cluster has no core to work on: add a machine to it.")
            shared = (ray.put(work), taskveil.__version__)
            yield from in_any_order(_worked, parts, shared=shared, workers=self.workers, kept=kept)


def _worked(shared: tuple[Any, str], part: JobPart) -> tuple[JobPart, Any]:
    """A part and its result, on a worker. An error that is not taskveil's is only named: its message may quote
    records."""
    work, version = shared
    if taskveil.__version__ != version:
        raise ClusterError(
            f"a machine of the cluster has taskveil {taskveil.__version__}, and this one {version}: install the same "
            "on all."
        )
    try:
        return part, _fetched(work)(part)
    except TaskveilError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None)
        raise ClusterError(f"a worker failed ({type(error).__name__}{f': {reason}' if reason else ''}).") from None


@lru_cache(maxsize=1)
def _fetched(work: Any) -> PartWork[Any]:
    """The work that Ray keeps, fetched once by each worker: then it opens a release once for all its parts."""
    import ray

    found: PartWork[Any] = ray.get(work)
    return found
