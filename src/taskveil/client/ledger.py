"""The device's record of its reports: no budget is spent twice, and no report leaves before it is recorded.

**Promise.** For every (release, round) at most one report exists. Its bytes are on the disk before the caller sees
them, and every later call returns the same bytes. The budgets of all recorded reports together never exceed the cap. A
kill, a crash, an interrupt or a full disk at any point leaves either no report or the recorded one. With a file that is
cut short, damaged or holds a budget below zero no report is made, because the budget that was spent is not known.

**Planned rounds.** Of a release over time (`panels`), at most one report exists for each block of rounds. The drawn
rounds are on the disk before they are used. The mark counts reports and does not cover drawn rounds. So a copy that has
forgotten the drawn rounds is refused if it lacks two reports or more. If it lacks one, the mark names this report, and
its block gets no other. The device then draws anew for the blocks that have not begun.

**How.** One SQLite transaction looks, adds up, randomises, inserts and commits with fsync (`synchronous=FULL`). Only
then the report is returned. `locking` lets one thread of one process at a time do so, without any signal in between. A
report that was drawn but not committed is discarded unseen. A new ledger appears with its table or not at all, so an
empty file means a loss.

**An older copy.** A ledger that was restored from an old copy has forgotten reports. A small file beside it, the mark
(`….mark`), therefore holds how many reports were recorded, what they cost, the XOR of the hashes of their releases and
rounds, and the hash of the last one. It is written after the commit and before the report is returned, so that every
report that left the device is in it. A ledger that is behind its mark, or holds other reports, is refused. One that
holds the last report holds all before it; a copy that was used elsewhere meanwhile does not. A kill between the two
writes leaves the ledger ahead: nothing is lost, and the mark follows. A disk that loses its last commit in a power cut,
or a copy older by one report, leaves the mark ahead by one. The device then goes on: this report is counted as spent,
and no other is made for its round. If both files are restored or deleted, the loss is not detected. The mark is not
synced: after a power cut it may be some seconds old.

The journal is a rollback journal. A write-ahead log would need one fsync instead of three. But its locks outlive
transactions, and a process loses them when it forks or when any of its code closes the file (a backup). The log can
then be deleted while another process still writes to it, and a recorded report is lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sqlite3
import stat
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import xor
from pathlib import Path

from taskveil.client.locking import PATIENCE, Result, alone, undisturbed
from taskveil.client.promise import rounded_up
from taskveil.errors import BudgetSpentError, LedgerError

_TABLE = """
CREATE TABLE reports (
    release BLOB NOT NULL, round TEXT NOT NULL, epsilon REAL NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (release, round)
) WITHOUT ROWID
"""
_DRAWN = "CREATE TABLE IF NOT EXISTS drawn (release BLOB PRIMARY KEY, places BLOB NOT NULL) WITHOUT ROWID"
_INHERITED: list[sqlite3.Connection] = []  # a fork must not even close its parent's connections
_LEDGERS: weakref.WeakSet[Ledger] = weakref.WeakSet()
_SLACK = 2.0**-40
"""A cap counts as met to 12 digits, so that a cap of 3ε allows three reports however 3ε was rounded."""

# How many reports were recorded, what they cost, which they are, which was the last, and a checksum.
_MARK = struct.Struct("<Qd32s32sI")
_FORMER_MARKS = struct.Struct("<Qd32sI"), struct.Struct("<QdI")  # did not say which was the last, or which they are

RESTORE = "No report was made. Restore its newest copy: an older one, or a new ledger, would forget what was spent."


class Ledger:
    """The budget that one person's device has spent, in one file for all releases and rounds.

    Close it, or use it as `with Ledger(path) as ledger:`. The reports stay in the file. SQLite's journal, the lock
    (`….lock`) and the mark (`….mark`) lie beside it. Only the owner can read these files.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from taskveil.client import Ledger
        >>> with TemporaryDirectory() as folder, Ledger(f"{folder}/budget.sqlite") as ledger:
        ...     first = ledger.once(bytes(32), "2026-W46", epsilon=1.0, cap=2.0, make=lambda: b"one")
        ...     again = ledger.once(bytes(32), "2026-W46", epsilon=1.0, cap=2.0, make=lambda: b"two")
        ...     again == first, ledger.spent
        (True, 1.0)
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self.path = Path(path)
            self._file = self.path.resolve()
            os.fsencode(self._file)
            # A path that is still a link leads to itself. A ledger made there would replace the link.
            odd = self._file.is_dir() or self._file.is_symlink() or "\0" in str(self._file)
            # SQLite deletes or overwrites files of these names beside another ledger.
            odd = odd or self._file.name.endswith(("-journal", "-wal", "-shm"))
        except (OSError, RuntimeError, ValueError, TypeError) as error:  # loops of links, invalid names
            raise LedgerError(f"{path!r} cannot be a ledger: pass the path of a file; no report was made.") from error
        if odd:
            raise LedgerError(f"{path!r} cannot be a ledger: pass the path of a file; no report was made.")
        self._mark = self._file.with_name(self._file.name + ".mark")
        # A reentrant lock: the hooks that run at a fork release it only in the thread that holds it.
        self._lock = threading.RLock()
        self._at_work: int | None = None  # the thread that is in the middle of a transaction
        self._connection: sqlite3.Connection | None = None
        self._inode = (0, 0)  # of the file the connection has open
        self._process = 0
        self._closed = False
        _LEDGERS.add(self)
        _ = self.spent  # a damaged ledger is refused at once

    def once(
        self,
        release: bytes,
        round: str,
        epsilon: float,
        cap: float,
        make: Callable[[], bytes],
        block: Sequence[str] = (),
    ) -> bytes | None:
        """The recorded report of this round, or a new one from `make` if the cap allows it.

        Args:
            release: the id of the release that makes the report.
            round: the name of the round.
            epsilon: the budget that a new report costs.
            cap: the budget that all recorded reports together may cost.
            make: draws a report; called at most once.
            block: rounds that have one report together.

        Returns:
            The report's bytes, recorded; None if another round of the block has, or had, a report.
        """
        if epsilon < 0:
            raise BudgetSpentError(f"the cost of a report must be 0 or more, got ε = {epsilon:g}; no report was made.")

        def transact(connection: sqlite3.Connection) -> bytes | None:
            with self._explained():
                budgets, spent, names = self._budgets(connection)
                found, name = self._find(connection, release, round), _hash(release, round.encode())
                lost = self._lost(connection, name)
                others = [other for other in block if other != round]
                taken = any(
                    self._find(connection, release, other) is not None
                    or self._lost(connection, _hash(release, other.encode()))
                    for other in others
                )
            if found is not None:
                return found
            if taken:
                return None
            if lost:
                raise LedgerError(
                    f"a report of the round {round!r} may have been sent, but the ledger {self.path} has lost it: no "
                    "other report was made. Other rounds go on."
                )
            if not math.fsum((spent, epsilon)) <= cap * (1 + _SLACK):
                raise BudgetSpentError(
                    f"this report costs ε = {rounded_up(epsilon)} and {rounded_up(spent)} of {cap:g} are spent "
                    "already: no report was made. Earlier rounds can be sent again as they are."
                )
            made = make()
            if self._process != os.getpid():
                raise LedgerError("a process that was forked while a report was made cannot record it; ask again.")
            with self._explained():
                connection.execute("INSERT INTO reports VALUES (?, ?, ?, ?)", (release, round, epsilon, made))
                connection.execute("COMMIT")
                if _inode(self._file) != self._inode:
                    raise LedgerError(f"{self.path} was replaced while a report was recorded in it. {RESTORE}")
                try:
                    self._write_mark(len(budgets) + 1, _total([*budgets, epsilon]), names ^ _number(name), name)
                except OSError as error:
                    raise LedgerError(
                        f"the report was recorded in {self.path}, but not in {self._mark} ({error}). Free some space "
                        "and ask again: the same report is returned."
                    ) from error
            return made

        return self._alone(transact)

    def drawn(self, release: bytes, draw: Callable[[], bytes] | None = None) -> bytes | None:
        """The rounds that were drawn for a release: those recorded, or new ones, recorded before they are returned.

        Args:
            release: the id of the release.
            draw: draws them, from entropy alone; without it, None is returned if there are none.
        """

        def transact(connection: sqlite3.Connection) -> bytes | None:
            with self._explained():
                self._budgets(connection)
                connection.execute(_DRAWN)
                query = "SELECT places, typeof(places) FROM drawn WHERE release = ?"
                row = connection.execute(query, (release,)).fetchone()
            if row is not None and row[1] != b"blob":
                raise LedgerError(f"the ledger {self.path} was altered: its drawn rounds are no bytes. {RESTORE}")
            if row is not None or draw is None:
                return None if row is None else bytes(row[0])
            places = draw()
            if self._process != os.getpid():
                raise LedgerError("a process that was forked while rounds were drawn cannot record them; ask again.")
            with self._explained():
                connection.execute("INSERT INTO drawn VALUES (?, ?)", (release, places))
                connection.execute("COMMIT")
                if _inode(self._file) != self._inode:
                    raise LedgerError(f"{self.path} was replaced while rounds were recorded in it. {RESTORE}")
            return places

        return self._alone(transact)

    def recorded(self, release: bytes, round: str) -> bytes | None:
        """The bytes of the report of a `release` in a `round`; None if there is none. No budget is spent."""

        def look(connection: sqlite3.Connection) -> bytes | None:
            with self._explained():
                self._budgets(connection)
                return self._find(connection, release, round)

        return self._alone(look)

    def costs(self, release: bytes, rounds: Sequence[str] = ()) -> list[float]:
        """What each recorded report of a `release` cost; also those that the ledger has lost, if they were of one of
        these `rounds`."""

        def listed(connection: sqlite3.Connection) -> list[float]:
            with self._explained():
                self._budgets(connection)  # all of them are budgets, or there is an error
                rows = connection.execute("SELECT epsilon FROM reports WHERE release = ?", (release,)).fetchall()
                lost = connection.execute("SELECT epsilon, bytes FROM reports WHERE release = x''").fetchall()
            names = {_hash(release, round.encode()) for round in rounds} if lost else set()
            return [float(cost) for (cost,) in rows] + [float(cost) for cost, name in lost if name in names]

        return self._alone(listed)

    @property
    def spent(self) -> float:
        """The sum of the budgets of all recorded reports."""

        def add_up(connection: sqlite3.Connection) -> float:
            with self._explained():
                return self._budgets(connection)[1]

        return self._alone(add_up)

    def close(self) -> None:
        """Close the file. A closed ledger makes no more reports."""
        self._undisturbed(self._close)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()

    def _undisturbed(self, work: Callable[[], Result]) -> Result:
        # A signal handler may run in the middle of a fork, which holds the lock for the thread that waits here. A
        # handler that raised may have kept the fork from releasing it.
        self._let_go()
        return undisturbed(work)

    def _alone(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The result of `work` in a transaction of one process at a time; rolled back unless committed inside."""

        def transact() -> Result:
            with self._turn(), contextlib.ExitStack() as stack:
                if self._closed:
                    raise LedgerError(f"the ledger {self.path} was closed; no report was made. Open it again.")
                before, self._at_work = self._at_work, threading.get_ident()
                stack.callback(setattr, self, "_at_work", before)
                with self._explained():
                    stack.enter_context(alone(self._file.with_name(self._file.name + ".lock")))
                    connection = self._open()
                    connection.execute("BEGIN IMMEDIATE")
                try:
                    return work(connection)
                finally:
                    if self._process == os.getpid() and connection.in_transaction:
                        connection.execute("ROLLBACK")

        return self._undisturbed(transact)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread of this process at a time; a LedgerError instead of waiting forever."""
        lock = self._lock
        if not lock.acquire(timeout=PATIENCE):
            raise LedgerError(
                f"another thread has held the ledger {self.path} for {PATIENCE:g} seconds; no report was made."
            )
        try:
            yield
        finally:
            lock.release()

    def _hold(self) -> None:
        """Before a fork. A fork from inside `make` holds the ledger already."""
        if self._at_work != threading.get_ident():
            self._lock.acquire(timeout=PATIENCE)

    def _let_go(self) -> None:
        """Release what `_hold` may have taken in this thread, as often as it did; harmless if it took nothing."""
        if self._at_work != threading.get_ident():
            with contextlib.suppress(RuntimeError):  # not this thread's, or not any more
                while True:
                    self._lock.release()

    def _renew(self) -> None:
        """In a new process: the thread that held the lock is not in it."""
        self._lock = threading.RLock()

    def _close(self) -> None:
        with self._turn():
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        elif self._connection is not None:
            _INHERITED.append(self._connection)
        self._connection = None

    def _open(self) -> sqlite3.Connection:
        """This process's connection: a fork must not share its parent's. The caller holds the lock."""
        if self._process != os.getpid():
            self._disconnect()
        if self._connection is not None and not (self._file.exists() and _inode(self._file) == self._inode):
            self._disconnect()  # replaced: a report in the old file would be unknown after a restart
        if self._connection is None:
            if not self._file.exists():
                _create(self._file)
            found = _inode(self._file)
            connection = _connect(self._file)
            try:
                connection.execute("PRAGMA journal_mode = PERSIST")  # overwritten in place: a new file costs more syncs
                connection.execute("PRAGMA synchronous = FULL")
                if connection.execute("PRAGMA quick_check(1)").fetchone() != (b"ok",):
                    raise LedgerError(f"the ledger {self.path} is damaged. {RESTORE}")
                whole = _whole(connection, self._file)
                if not (whole and connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'reports'").fetchone()):
                    raise LedgerError(f"{self.path} is no ledger: it was cut short, or is another file. {RESTORE}")
                if _inode(self._file) != found:
                    raise LedgerError(f"{self.path} was replaced while it was opened; no report was made. Try again.")
            except BaseException:
                connection.close()
                raise
            self._connection, self._inode, self._process = connection, found, os.getpid()
        return self._connection

    def _find(self, connection: sqlite3.Connection, release: bytes, round: str) -> bytes | None:
        row = connection.execute(
            "SELECT bytes, typeof(bytes) FROM reports WHERE release = ? AND round = ?", (release, round)
        ).fetchone()
        if row is not None and row[1] != b"blob":
            raise LedgerError(f"the ledger {self.path} was altered: it holds a report that is no bytes. {RESTORE}")
        return None if row is None else bytes(row[0])

    def _lost(self, connection: sqlite3.Connection, name: bytes) -> bool:
        """Whether the report with this hash of release and round was made, and lost with the ledger's last commit."""
        query = "SELECT 1 FROM reports WHERE release = x'' AND bytes = ?"
        return connection.execute(query, (name,)).fetchone() is not None

    def _budgets(self, connection: sqlite3.Connection) -> tuple[list[float], float, int]:
        """The budgets of all recorded reports, their sum, and the XOR of the hashes of their releases and rounds.

        The mark is compared with them, and follows them.
        """
        query = "SELECT epsilon, release, round, CASE release WHEN x'' THEN bytes END FROM reports"
        rows = connection.execute(query).fetchall()
        budgets = [row[0] for row in rows]
        if not all(type(budget) in (float, int) and 0 <= budget < math.inf for budget in budgets):
            raise LedgerError(f"the ledger {self.path} was altered: it holds a budget that is none. {RESTORE}")
        hashes = [_hash(release, round) if lost is None else lost for _, release, round, lost in rows]
        total, names = _total(budgets), reduce(xor, map(_number, hashes), 0)
        marked, cost, told, last = self._read_mark()
        lacking = None if told is None else (names ^ told).to_bytes(32, "little")  # if it is one
        if len(budgets) + 1 == marked and total < cost and lacking is not None and last in (None, lacking):
            budget, name = math.nextafter(cost - total, math.inf), lacking
            connection.execute("INSERT INTO reports VALUES (?, ?, ?, ?)", (b"", f"lost {marked}", budget, name))
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            return self._budgets(connection)
        other = len(budgets) == marked and told not in (None, names)
        # A ledger that holds the last report holds those before it, because no other ledger could have made it.
        other = other or (len(budgets) >= marked and last is not None and last not in hashes)
        if len(budgets) < marked or total < cost or other:
            raise LedgerError(
                f"the ledger {self.path} is an older copy or another ledger: it holds {len(budgets)} reports of "
                f"ε = {rounded_up(total)} together, but {marked}{' others' * other} of ε = {rounded_up(cost)} were "
                f"made ({self._mark}). {RESTORE} If there is none, delete both files to start anew; what was sent "
                "before still counts."
            )
        if len(budgets) > marked or told is None:
            self._write_mark(len(budgets), total, names, lacking if lacking and lacking in hashes else bytes(32))
        return budgets, total, names

    def _write_mark(self, count: int, cost: float, names: int, last: bytes) -> None:
        known = count, cost, names.to_bytes(32, "little"), last
        with open(self._mark, "r+b" if self._mark.exists() else "xb", opener=_private) as file:
            file.write(_MARK.pack(*known, zlib.crc32(_MARK.pack(*known, 0))))

    def _read_mark(self) -> tuple[int, float, int | None, bytes | None]:
        """What the mark holds; zeros if it was not written yet. Former marks have no last report, the first ones no XOR
        either. After a power cut the last one may be unknown."""
        try:
            with open(self._mark, "rb", opener=_private) as file:
                plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                raw = file.read(_MARK.size + 1) if plain else b"a pipe"
        except FileNotFoundError:
            return 0, 0.0, 0, None
        if not any(raw):  # a power cut can leave a file of no bytes, or of zeros
            return 0, 0.0, 0, None
        for kind in (_MARK, *_FORMER_MARKS):
            if len(raw) == kind.size:
                count, cost, *names, check = kind.unpack(raw)
                if check == zlib.crc32(kind.pack(count, cost, *names, 0)) and cost >= 0:
                    last = names[1] if len(names) > 1 and any(names[1]) else None
                    return count, cost, _number(names[0]) if names else None, last
        raise LedgerError(
            f"{self._mark} is damaged, or is another file: a ledger's mark belongs there. No report was made. If the "
            "ledger itself is no older copy, delete the mark alone: it is made anew."
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns errors of SQLite and of the system into one that says what to do."""
        try:
            yield
        except LedgerError:
            raise
        except (sqlite3.Error, OSError, ValueError, TypeError, OverflowError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise LedgerError(f"the ledger {self.path} is damaged ({error}). {RESTORE}") from error
            raise LedgerError(
                f"the ledger {self.path} cannot be used ({error}); no report was made. It must be a writable file on a "
                "disk with free space, and must survive restarts."
            ) from error


def _total(budgets: list[float]) -> float:
    """The least double that is not below the sum."""
    total = math.fsum(budgets)  # the nearest double, which may lie below
    return total if math.fsum([*budgets, -total]) <= 0 else math.nextafter(total, math.inf)


def _hash(release: bytes, round: bytes) -> bytes:
    """What the mark tells of a report."""
    return hashlib.sha256(release + round).digest()


def _number(hashed: bytes) -> int:
    return int.from_bytes(hashed, "little")


def _connect(path: Path) -> sqlite3.Connection:
    """Autocommit, because transactions are written out above; threads take turns through the ledger's lock."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE, check_same_thread=False)
    connection.text_factory = bytes  # a damaged file need not hold text
    return connection


def _whole(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has its full length. SQLite reads a missing end of the last page as zeros."""
    ((pages,), (size,)) = (connection.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
    return path.stat().st_size >= int(pages) * int(size)


def _inode(path: Path) -> tuple[int, int]:
    """The file that a name stands for now."""
    found = path.stat()
    return found.st_dev, found.st_ino


def _private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read. Waits for nobody at the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)


def _create(path: Path) -> None:
    """Make a new ledger with its table, readable by its owner only. It appears at once, never half of it."""
    handle, name = tempfile.mkstemp(".new", "ledger-", path.parent)  # a name that is nobody's ledger
    os.close(handle)
    draft = Path(name)
    connection = _connect(draft)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_TABLE)
    finally:
        connection.close()
    try:
        os.link(draft, path)  # not os.replace, which would overwrite a ledger that was made meanwhile
        draft.unlink()
    except FileExistsError:
        draft.unlink()
    except OSError:  # a file system without links
        if not path.exists():
            os.replace(draft, path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def default_path() -> Path:
    """The ledger of this user of the machine, where the system keeps the state of programs; its folder is made."""
    state = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    folder = (Path(state) if state else Path.home() / ".local" / "state") / "taskveil"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LedgerError(f"cannot make {folder} ({error}); pass ledger=path to a writable file.") from error
    return folder / "ledger.sqlite"


def _every(step: Callable[[Ledger], None]) -> Callable[[], None]:
    """A hook that takes a step with every open ledger.

    A signal handler can run in the middle of a hook, and one that raises ends the hook silently. The next call of the
    ledger then releases the lock, and waiting for it has a time limit.
    """

    def hook() -> None:
        for ledger in list(_LEDGERS):
            step(ledger)

    return hook


if hasattr(os, "register_at_fork"):
    # Before a fork, wait for transactions to end, so that no process starts in the middle of one.
    os.register_at_fork(before=_every(Ledger._hold))
    for _ in range(2):  # should a signal handler end the first
        os.register_at_fork(after_in_parent=_every(Ledger._let_go), after_in_child=_every(Ledger._renew))
