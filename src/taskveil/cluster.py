"""Work on more than one machine: joining a Ray cluster, handing it tasks, and its failures in one line each.

Ray is asked to do three things and no more: find machines, run functions on them, run those again whose machine was
lost. What must happen exactly once is seen to by whoever writes (`taskveil.engines.storage`), never by Ray.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from taskveil.errors import ClusterError, TaskveilError, needs

Result = TypeVar("Result")

ATTEMPTS = 20
"""How often a task whose worker or machine was lost is run again: a task that kills its worker ends some time."""
_PATIENCE = 5.0  # seconds in which a cluster's address must answer


@contextlib.contextmanager
def connected(address: str | None = None, *, workers: int | None = None) -> Iterator[None]:
    """A Ray cluster to work on, inside. Whoever is connected already stays so, and keeps the connection afterwards.

    Args:
        address: of a cluster's head, host:port; ray://host:port from outside the cluster; "auto" for one that runs on
            this machine. By default what RAY_ADDRESS says, or a cluster of this machine alone, started now, reached
            from here alone, and ended afterwards.
        workers: cores that a cluster of our own has; by default all.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # whoever wants to be counted by Ray's makers says so
    if address == "local" and "ray" not in sys.modules:  # which reads this when it is imported, and not again
        # Ray listens on every interface, and whoever reaches it may run code: let nobody but ourselves.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with needs("--engine ray", extra="ray"):
        import ray
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        options |= {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    else:
        _answers(address)
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _unreachable(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def in_any_order(
    function: Callable[[Any, Any], Result],
    tasks: Sequence[Any],
    *,
    shared: Any,
    num_gpus: float = 0.0,
    kept: str = "",
) -> Iterator[Result]:
    """`function(shared, task)` for every task, each as soon as it is there; on a cluster that is `connected`.

    Args:
        function: runs on any machine of the cluster, a core each, and again if that is lost.
        tasks: small, one for every call.
        shared: what all of them need, sent to every machine once.
        num_gpus: graphics processors, or shares of one, that every task takes for itself.
        kept: what a failure leaves, as the last words of its message.
    """
    import ray

    with failures(kept):
        remote = ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=ATTEMPTS)(function)
        common = ray.put(shared)
        waiting = [remote.remote(common, task) for task in tasks]
        while waiting:
            done, waiting = ray.wait(waiting)
            yield from ray.get(done)


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


def _answers(address: str) -> None:
    """A ClusterError unless somebody listens at host:port: Ray itself would try for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", or a name that Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> ClusterError:
    reason = (getattr(error, "strerror", None) or str(error).partition("\n")[0]).rstrip(".")
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason}). Start one with `ray start --head`, or leave out the address "
        "to work on this machine alone."
    )
