"""Runs the parts of a job, or other tasks: in this process, one after another, or on a Ray cluster.

Ray does three things: it finds machines, runs functions on them, and repeats those whose machine was lost. Ray does not
ensure that a part is written exactly once: `taskveil.jobs.storage` does. Each failure becomes an error of one line.

Only descriptions of parts and of results go through a cluster: a few numbers each. Each worker reads its rows from
storage, some at a time. People's records and unpublished reports never lie in the cluster's object store, which keeps
copies on several machines and spills to their disks.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import taskveil
from taskveil.errors import ClusterError, TaskError, TaskveilError
from taskveil.jobs.ray_cluster import ANSWER_SECONDS, connected

if TYPE_CHECKING:
    from taskveil.jobs.plans import JobPart

EngineName = Literal["plain", "ray"]
Result = TypeVar("Result")
RowProgress = Callable[[int, int | None], None]
"""Called with the number of rows done since the last call, and the number of all rows; None if that is not known."""

MOST_RETRIES = 20
"""Of a task whose worker or machine was lost. A task that always kills its worker must end."""
_LOST_SECONDS = 45.0  # after which a head that does not answer is lost; after 60, Ray would end this process itself


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where parts are worked on: `name` is "plain" or "ray". Ray uses the cluster at `address`, or this machine, and at
    most `workers` workers at a time."""

    name: EngineName = "plain"
    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        check_engine(self.name, self.address, self.workers)

    def joined(self) -> contextlib.AbstractContextManager[None]:
        """Keeps one connection to the cluster for several runs. Otherwise each run starts a cluster of its own."""
        return contextlib.nullcontext() if self.name == "plain" else connected(self.address, workers=self.workers)

    def run(
        self, work: Callable[[JobPart], Result], parts: Sequence[JobPart], *, kept: str
    ) -> Iterator[tuple[JobPart, Result]]:
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
def _fetched(work: Any) -> Callable[[JobPart], Any]:
    """The work that Ray keeps, fetched once by each worker: then it opens a release once for all its parts."""
    import ray

    return ray.get(work)  # type: ignore[no-any-return]


def check_engine(engine: str, address: str | None, workers: int | None) -> None:
    """A TaskError unless these are valid: "plain" runs in this process, "ray" on a cluster."""
    if engine not in get_args(EngineName):
        raise TaskError(f'engine must be "plain" or "ray", got {engine!r}.')
    if engine == "plain" and (address is not None or workers is not None):
        raise TaskError('an address and a number of workers are for a Ray cluster: pass engine="ray" too.')
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise TaskError(f"workers is a whole number from 1 up, got {workers!r}.")


def in_any_order(
    function: Callable[[Any, Any], Result],
    tasks: Sequence[Any],
    *,
    shared: Any,
    workers: int | None = None,
    num_gpus: float = 0.0,
    kept: str = "",
) -> Iterator[Result]:
    """The results of `function(shared, task)` for all tasks, in the order in which they are ready. Needs `connected`.

    Args:
        function: runs on any machine of the cluster, on one core, and again if the machine is lost.
        tasks: small objects, one for every call.
        shared: the data that all tasks need, sent to every machine once.
        workers: the largest number of tasks at a time; by default the number of cores.
        num_gpus: graphics processors, or a share of one, for every task.
        kept: the last sentence of an error message: what remains after a failure.
    """
    import ray

    with failures(kept):
        remote = ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=MOST_RETRIES)(function)
        common = ray.put(shared)
        left = iter(tasks)
        waiting = [remote.remote(common, task) for task in islice(left, workers)]
        head = _Head()
        try:
            while waiting:
                done, waiting = ray.wait(waiting, timeout=ANSWER_SECONDS)
                waiting += [remote.remote(common, task) for task in islice(left, len(done))]
                yield from ray.get(done)
                head.look()
        finally:  # after a failure, or if the caller stops, no task keeps running
            for task in waiting:
                with contextlib.suppress(Exception):
                    ray.cancel(task, force=True)


class _Head:
    """The head of a cluster: whether it answers, and whether the cluster has a machine to work on."""

    def __init__(self) -> None:
        import ray

        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        self._address, self._answered = (host, int(port)), time.monotonic()
        self._worked = self._answered

    def look(self) -> None:
        """Raise Ray's error if the head has not answered, or no machine had a core, for too long. Ray would wait."""
        import ray

        with contextlib.suppress(OSError):
            socket.create_connection(self._address, timeout=ANSWER_SECONDS).close()
            self._answered = time.monotonic()
            if ray.cluster_resources().get("CPU", 0) >= 1:  # type: ignore[no-untyped-call]
                self._worked = self._answered
        if time.monotonic() - self._answered > _LOST_SECONDS:
            raise ray.exceptions.RaySystemError("the head does not answer")  # type: ignore[no-untyped-call]
        if time.monotonic() - self._worked > _LOST_SECONDS:
            raise ray.exceptions.NodeDiedError("no machine is left")  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def failures(kept: str) -> Iterator[None]:
    """Turns an error of Ray into the taskveil error that caused it, or into a ClusterError of one line that ends with
    `kept`."""
    import ray.exceptions as said

    try:
        yield
    except Exception as error:
        cause = _cause(error)
        if isinstance(cause, TaskveilError):
            raise cause from None
        reasons = {
            said.ObjectStoreFullError: "the cluster's memory for shared objects is full, and its disk too",
            said.OutOfDiskError: "a machine of the cluster has no disk space left",
            said.OutOfMemoryError: "a machine of the cluster ran out of memory, and a task was ended",
            said.WorkerCrashedError: f"a task's worker was lost {MOST_RETRIES + 1} times",
            said.NodeDiedError: "a machine of the cluster was lost, and no other could take over",
            said.RaySystemError: "the connection to the cluster was lost",
            ConnectionError: "the connection to the cluster was lost",
        }
        reason = next((text for kind, text in reasons.items() if isinstance(cause, kind)), None)
        if isinstance(cause, said.RaySystemError) and "deserialize" in str(cause):
            reason = (
                "a machine of the cluster cannot read what it was sent: install the same taskveil, the same packages "
                "and the same Python on all of them"
            )
        if reason is None and not isinstance(cause, said.RayError):
            raise cause from None
        raise ClusterError(f"{reason or f'the cluster failed ({type(cause).__name__})'}. {kept}".strip()) from error


def _cause(error: BaseException) -> BaseException:
    """The error on the worker: Ray wraps it, once or several times."""
    while True:
        inner = getattr(error, "cause", None) or error.__cause__
        if not isinstance(inner, BaseException):
            return error
        error = inner
