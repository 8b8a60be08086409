"""Handing tasks to a cluster, and its failures in one line each.

Ray is asked to do three things and no more: find machines, run functions on them, run those again whose machine was
lost. What must happen exactly once is seen to by whoever writes (`taskveil.jobs.storage`), never by Ray.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from taskveil.errors import ClusterError, TaskError, TaskveilError

EngineName = Literal["plain", "ray"]
Result = TypeVar("Result")

ATTEMPTS = 20
"""How often a task whose worker or machine was lost is run again: a task that kills its worker ends some time."""
_LOOK = 1.0  # seconds without any result after which we look whether the head is there
_ANSWERS = 5.0  # seconds in which it must answer
_GONE = 45.0  # seconds after which a head that does not answer is lost; after 60, Ray would end this process unasked


def check_engine(engine: str, address: str | None, workers: int | None) -> None:
    """A TaskError unless this says where to work: "plain" in this process, "ray" on a cluster."""
    if engine not in get_args(EngineName):
        raise TaskError(f'engine must be "plain" or "ray", got {engine!r}.')
    if engine == "plain" and (address is not None or workers is not None):
        raise TaskError('an address, and a number of workers, are about a Ray cluster: pass engine="ray" too.')
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
    """`function(shared, task)` for every task, each as soon as it is there; on a cluster that is `connected`.

    Args:
        function: runs on any machine of the cluster, a core each, and again if that is lost.
        tasks: small, one for every call.
        shared: what all of them need, sent to every machine once.
        workers: so many tasks at a time at most; by default as many as there are cores.
        num_gpus: graphics processors, or shares of one, that every task takes for itself.
        kept: what a failure leaves, as the last words of its message.
    """
    import ray

    with failures(kept):
        remote = ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=ATTEMPTS)(function)
        common = ray.put(shared)
        left = iter(tasks)
        waiting = [remote.remote(common, task) for task in islice(left, workers)]
        head = _Head()
        try:
            while waiting:
                done, waiting = ray.wait(waiting, timeout=_LOOK)
                waiting += [remote.remote(common, task) for task in islice(left, len(done))]
                yield from ray.get(done)
                head.look()
        finally:  # who failed, or wants no more, leaves nothing running on machines that others use
            for task in waiting:
                with contextlib.suppress(Exception):
                    ray.cancel(task, force=True)


class _Head:
    """The machine that keeps a cluster together, and whether there is any to work on."""

    def __init__(self) -> None:
        import ray

        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        self._address, self._answered = (host, int(port)), time.monotonic()
        self._worked = self._answered

    def look(self) -> None:
        """An error of Ray's if the head has not answered for long, or no machine had a core: Ray waits for another."""
        import ray

        with contextlib.suppress(OSError):
            socket.create_connection(self._address, timeout=_ANSWERS).close()
            self._answered = time.monotonic()
            if ray.cluster_resources().get("CPU", 0) >= 1:  # type: ignore[no-untyped-call]
                self._worked = self._answered
        if time.monotonic() - self._answered > _GONE:
            raise ray.exceptions.RaySystemError("the head does not answer")  # type: ignore[no-untyped-call]
        if time.monotonic() - self._worked > _GONE:
            raise ray.exceptions.NodeDiedError("no machine is left")  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def failures(kept: str) -> Iterator[None]:
    """Turns what Ray raises into the error of ours that was its cause, or a ClusterError of one line that ends with
    what is `kept`."""
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
            said.WorkerCrashedError: f"a task's worker was lost {ATTEMPTS + 1} times",
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
    """What went wrong on the worker: Ray wraps it, once or several times."""
    while True:
        inner = getattr(error, "cause", None) or error.__cause__
        if not isinstance(inner, BaseException):
            return error
        error = inner
