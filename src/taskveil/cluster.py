"""Work on more than one machine: joining a Ray cluster, handing it tasks, and its failures in one line each.

Ray is asked to do three things and no more: find machines, run functions on them, run those again whose machine was
lost. What must happen exactly once is seen to by whoever writes (`taskveil.engines.storage`), never by Ray.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal, TypeVar, get_args

from taskveil.client.locking import alone
from taskveil.errors import ClusterError, LedgerError, MissingExtraError, TaskError, TaskveilError, needs

EngineName = Literal["plain", "ray"]
Result = TypeVar("Result")

ATTEMPTS = 20
"""How often a task whose worker or machine was lost is run again: a task that kills its worker ends some time."""
_ANSWERS = 5.0  # seconds in which somebody must answer at a cluster's address
_JOINED = 15.0  # seconds in which a cluster must have taken us in
_GONE = 45.0  # seconds after which a head that does not answer is lost; after 60, Ray would end this process unasked
_SHORT = 21  # letters of the folder for temporary ones: sockets lie 82 below, and their names may have 103
_PREFIX, _LOCK = "tv-ray-", "lock"
_LOOK = 1.0  # seconds without any result after which we look whether the head is there
_JOIN = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"


def check_engine(engine: str, address: str | None, workers: int | None) -> None:
    """A TaskError unless this says where to work: "plain" in this process, "ray" on a cluster."""
    if engine not in get_args(EngineName):
        raise TaskError(f'engine must be "plain" or "ray", got {engine!r}.')
    if engine == "plain" and (address is not None or workers is not None):
        raise TaskError('an address, and a number of workers, are about a Ray cluster: pass engine="ray" too.')
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise TaskError(f"workers is a whole number from 1 up, got {workers!r}.")


@contextlib.contextmanager
def connected(address: str | None = None, *, workers: int | None = None) -> Iterator[None]:
    """A Ray cluster to work on, inside. Whoever is connected already stays so, and keeps the connection afterwards.

    Args:
        address: of a cluster's head, host:port, of which this machine is a part; "auto" for one that runs on this
            machine. By default what RAY_ADDRESS says, or a cluster of this machine alone, started now, for nobody
            without its token, and ended afterwards, with all that it left on the disk.
        workers: cores that a cluster of our own has, as far as this machine has them; by default all.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # whoever wants to be counted by Ray's makers says so
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray writes of failures here, in its words and ours too
    if "ray" not in sys.modules:  # which reads these when it is imported, and not again
        # What is left of a job whose cluster was lost would else look for another on this machine, and join that.
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    if address == "local" and "RAY_AUTH_MODE" not in os.environ:
        # Ray listens on every interface, whatever it is told, and whoever reaches it may run code: let nobody but
        # ourselves. Left alone, it keeps a token in a file that others may read, or asks for none.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        if getattr(sys.modules.get("ray"), "_raylet", None) is not None:
            sys.modules["ray"]._raylet.Config.initialize("")  # imported before, so it reads them now
    try:
        with needs("--engine ray", extra="ray"):
            import ray
    except MissingExtraError:
        os.environ.pop("RAY_AUTH_MODE", None)  # or whoever has Ray after all would be out of step with it
        raise
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    with contextlib.ExitStack() as stack:
        home = None
        if address == "local":
            home = stack.enter_context(_own_folder())
            cores = os.cpu_count() or 1
            options |= {
                "num_cpus": min(workers or cores, cores),
                "include_dashboard": False,
                "_temp_dir": os.path.join(home, "r"),
            }
        else:
            _check_joins(address)
        try:
            with _silence(), _temporary_in(home):
                ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise _unreachable(address, str(error)) from error
        stack.callback(ray.shutdown)
        yield


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


def attended(results: Iterable[Result]) -> Iterator[Result]:
    """Results that Ray computes, as they come; or an error soon after the cluster was lost, or Ctrl-C was pressed:
    Ray itself would wait for long, and end this process unasked."""
    came: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    left = threading.Event()

    def fetch() -> None:
        try:
            for result in results:
                came.put((True, result))
                if left.is_set():
                    return
        except BaseException as error:
            came.put((False, error))
        else:
            came.put((False, None))

    threading.Thread(target=fetch, daemon=True).start()
    head = _Head()
    try:
        while True:
            try:
                good, result = came.get(timeout=_LOOK)
            except queue.Empty:
                head.look()
                continue
            if good:
                yield result
            elif result is not None:
                raise result
            else:
                return
    finally:
        left.set()


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


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """Where a cluster of our own keeps its logs, its sockets, and what does not fit into memory: volunteers' records,
    for example. Ray makes its folders such that everybody may write there, so they lie in one that is only ours."""
    within = tempfile.gettempdir() if len(tempfile.gettempdir()) < _SHORT or os.name != "posix" else "/tmp"  # noqa: S108
    _forget_clusters(Path(within))
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=within, ignore_cleanup_errors=True) as folder,
        alone(Path(folder) / _LOCK),
    ):
        yield folder


@contextlib.contextmanager
def _temporary_in(folder: str | None) -> Iterator[None]:
    """Processes that are started inside have their temporary files in a folder, if one is given: a worker that is
    killed while it opens a release leaves that, too, where it is deleted with all else."""
    before = os.environ.get("TMPDIR")
    os.environ |= {} if folder is None else {"TMPDIR": folder}
    try:
        yield
    finally:
        os.environ.pop("TMPDIR", None)
        os.environ |= {} if before is None else {"TMPDIR": before}


def _forget_clusters(within: Path) -> None:
    """Delete what clusters of ours left whose driver was killed, which then holds its lock no more."""
    for folder in within.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, LedgerError):
            if time.time() - folder.lstat().st_mtime > _GONE and (folder / _LOCK).exists():
                with alone(folder / _LOCK, patience=0.0):
                    rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps off the terminal what Ray's compiled code says there of itself."""
    sys.stderr.flush()
    shown, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nothing)


def _check_joins(address: str) -> None:
    """A ClusterError unless a cluster at this address takes us in. Tried by another process, because Ray's own code
    tries for minutes, writes to the terminal as it does so, and ends the process."""
    if address.startswith("ray://"):
        raise ClusterError(
            f"{address} is for Ray's client, which folders and sweeps do not go through: run this on a machine of the "
            "cluster, with host:port or auto as its address."
        )
    host, _, port = address.rpartition(":")
    if host and port.isdigit():  # else "auto", or a name that Ray knows
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWERS).close()
        except OSError as error:
            raise _unreachable(address, error.strerror or str(error)) from error
    try:
        tried = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", _JOIN, address], timeout=_JOINED, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, _said((error.stderr or b"").decode(errors="replace"))) from None
    if tried.returncode:
        raise _unreachable(address, _said(tried.stderr))


def _said(output: str) -> str:
    """Why a cluster did not take us in, by what Ray wrote."""
    if "InvalidAuthToken" in output:
        return "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"
    raised = [line for line in output.splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return raised[-1].partition(": ")[2] if raised else "what listens there is none"


def _unreachable(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason.partition(chr(10))[0].rstrip('. ')}). Start one with `ray start "
        "--head`, or leave out the address to work on this machine alone."
    )
