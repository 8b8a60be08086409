"""The device's memory of what was reported: no budget is spent twice, and nothing unrecorded ever leaves.

**Promise.** For every (release, round) at most one report exists. Its bytes are on the disk before the caller sees
them, and every later call returns the same bytes. The budgets of all recorded reports never exceed the cap together. A
kill, a crash or a full disk at any point leaves either no report or the recorded one.

**How.** One SQLite transaction: look, add up, randomise, insert, commit with fsync (`synchronous=FULL`), and only then
return. `BEGIN IMMEDIATE` lets one process at a time do so. A report that was drawn but not committed is forgotten
unseen.

The journal is a rollback journal. A write-ahead log would need one fsync instead of three, but its locks outlive
transactions, and a process loses them when it forks or when anything in it closes the file (a backup): the log can then
be deleted under a process that still writes to it, and a recorded report is forgotten.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from taskveil.client.rounding import rounded_up
from taskveil.errors import BudgetSpentError, LedgerError, TaskveilError

_TABLE = """
CREATE TABLE IF NOT EXISTS reports (
    release BLOB NOT NULL, round TEXT NOT NULL, epsilon REAL NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (release, round)
) WITHOUT ROWID
"""
_INHERITED: list[sqlite3.Connection] = []  # a fork must not even close its parent's connections
_LEDGERS: weakref.WeakSet[Ledger] = weakref.WeakSet()
_SLACK = 2.0**-40
"""A cap counts as met to 12 digits, so that a cap of 3ε allows three reports however 3ε was rounded."""


class Ledger:
    """What one person's device has spent, in a file shared by all releases and rounds.

    Close it, or use it as `with Ledger(path) as ledger:`; what was recorded stays in the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        self._closed = False
        _LEDGERS.add(self)
        with self._lock, self._told():
            self._open()

    def once(self, release: bytes, round: str, epsilon: float, cap: float, make: Callable[[], bytes]) -> bytes:
        """The recorded report of this round, or a new one from `make` if the cap allows it."""
        if epsilon < 0:
            raise BudgetSpentError(f"a report cannot cost ε = {epsilon:g}.")
        with self._lock, self._told():
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                found = connection.execute(
                    "SELECT bytes FROM reports WHERE release = ? AND round = ?", (release, round)
                ).fetchone()
                if found:
                    connection.execute("ROLLBACK")
                    return bytes(found[0])
                spent = _total(connection)
                if not math.fsum((spent, epsilon)) <= cap * (1 + _SLACK):
                    raise BudgetSpentError(
                        f"this report costs ε = {rounded_up(epsilon)} and {rounded_up(spent)} of {cap:g} are spent "
                        "already: no report was made. Earlier rounds can be sent again as they are."
                    )
                made = make()
                connection.execute("INSERT INTO reports VALUES (?, ?, ?, ?)", (release, round, epsilon, made))
                connection.execute("COMMIT")
                return made
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @property
    def spent(self) -> float:
        """The budgets of all recorded reports together."""
        with self._lock, self._told():
            return _total(self._open())

    def close(self) -> None:
        """Let go of the file. A closed ledger makes no more reports."""
        with self._lock:
            self._closed = True
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _open(self) -> sqlite3.Connection:
        """This process's connection: a fork must not share its parent's."""
        if self._closed:
            raise LedgerError(f"the ledger {self.path} was closed; no report was made. Open it again.")
        if self._connection is not None and self._process != os.getpid():
            _INHERITED.append(self._connection)
            self._connection = None
        if self._connection is None:
            # Autocommit: transactions are written out above. Threads take turns through the lock.
            connection = sqlite3.connect(self.path.resolve(), isolation_level=None, timeout=30, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode = PERSIST")  # overwritten in place: a new file costs more syncs
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(_TABLE)
            except BaseException:
                connection.close()
                raise
            self._connection, self._process = connection, os.getpid()
        return self._connection

    def _told(self) -> _Told:
        return _Told(self.path)


class _Told:
    """Turns SQLite's errors into one that says what to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, OSError)) and not isinstance(error, TaskveilError):
            raise LedgerError(
                f"the ledger {self.path} cannot be used ({error}); no report was made. It must be a writable file on a "
                "disk with room, and must survive restarts."
            ) from error


def _total(connection: sqlite3.Connection) -> float:
    return math.fsum(row[0] for row in connection.execute("SELECT epsilon FROM reports"))


def default_path() -> Path:
    """One ledger per user of this machine, where the system keeps programs' state."""
    state = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(state) if state else Path.home() / ".local" / "state") / "taskveil" / "ledger.sqlite"


_HELD: list[Ledger] = []


def _hold() -> None:
    """Before a fork: wait for transactions to end, so that no process is born in the middle of one."""
    for ledger in list(_LEDGERS):
        ledger._lock.acquire()
        _HELD.append(ledger)


def _release() -> None:
    while _HELD:
        _HELD.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)
