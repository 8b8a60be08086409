"""Locks between processes, work that signals do not interrupt, and temporary folders with an owner.

**Alone.** SQLite's own locks are POSIX locks. A process loses them as soon as any of its code closes the locked file (a
backup, a second ledger), and another process could then make a second report for the same round. `alone` locks a file
of its own, which serves no other purpose. The lock belongs to one file descriptor.

**Undisturbed.** A signal handler that raises (Ctrl-C) may run between any two steps of Python code, for example between
BEGIN and the `try` that would roll it back. Python runs handlers in the main thread only, so `undisturbed` does the
work in another thread. The caller may be interrupted; the transaction ends normally.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from shutil import rmtree
from typing import TypeVar

from taskveil.errors import LedgerError

PATIENCE = 30.0
"""Seconds to wait for other threads and processes."""

Result = TypeVar("Result")

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _leave(_: int) -> None:
        """Closing the file releases the lock."""
else:
    import fcntl

    def _take(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _leave(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextlib.contextmanager
def alone(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """A lock on a file, held inside: one thread of one process of this machine at a time.

    Raises LedgerError after `patience` seconds. The file is made if it is missing, readable by its owner only. It is
    not deleted: two processes could then hold the lock at once.
    """
    deadline, pause, owner = time.monotonic() + patience, 0.0005, os.getpid()
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # never inherited by another program
        try:
            if _take(handle) and _names(path, handle):  # else deleted or replaced meanwhile: others lock the new one
                yield
                return
        finally:
            # A process that was forked inside has the lock too, until it ends: closing the file would not release it.
            if os.getpid() == owner:
                _leave(handle)
            os.close(handle)
        if time.monotonic() > deadline:
            raise LedgerError(
                f"another process has held {path} for too long; no report was made. Try again when it is done."
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _names(path: Path, handle: int) -> bool:
    """Whether the path still stands for the file that is open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def own_folder(prefix: str, *, within: str | None = None, quiet: float = 0.0) -> Iterator[Path]:
    """A new temporary folder that only its owner can open, deleted afterwards.

    It is locked while the process lives. Folders with the same prefix and without a living owner are deleted first: a
    process that was killed left them.

    Args:
        prefix: of the folder's name.
        within: where it lies, by default where the system keeps temporary files.
        quiet: seconds for which a folder without an owner is left alone: something in it may still be ending.
    """
    place = Path(within or tempfile.gettempdir())
    for lock in place.glob(f"{prefix}*/lock"):
        with contextlib.suppress(OSError, LedgerError):
            if time.time() - lock.parent.lstat().st_mtime >= quiet:
                with alone(lock, patience=0.0):
                    rmtree(lock.parent, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as folder,
        alone(Path(folder) / "lock"),
    ):
        yield Path(folder)


def undisturbed(work: Callable[[], Result]) -> Result:
    """The result of `work`, or its error. Signal handlers run beside it, never in the middle of it.

    If a handler raises, the caller sees that at once, and `work` is finished nevertheless.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    try:
        begun = in_thread(work)
    except RuntimeError as error:
        raise LedgerError(f"no thread could be started ({error}); no report was made.") from error
    # `begun.result()` would wait too. But if a handler raises in the middle of a condition's wait, that ends with an
    # error about the condition's lock in place of the handler's.
    done = _thread.allocate_lock()
    done.acquire()
    begun.add_done_callback(lambda _: done.release())
    done.acquire()
    return begun.result()


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """The future result of `work`, in a thread of its own that no signal handler enters and no exit waits for."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # Not threading.Thread, which waits for the thread twice: without the fsync, that doubles the time of a report.
    _thread.start_new_thread(run, ())
    return future
