"""Reports in one SQLite file: the collector's default, for one machine.

**Durability.** The database uses a write-ahead log with `synchronous=FULL`: each commit is on the disk before `ingest`
returns. If the process is killed (tested with SIGKILL), the next process that opens the file finds all committed
transactions in the log. With FULL this also holds when the machine loses power. With NORMAL the last commits could be
lost then.

**Order.** Reports are a WITHOUT ROWID table: its rows are an index by release and id, and ids are random. The order of
arrival is still visible below that: in the order of cells within a page, in the numbers of pages, and in the log. So
`close_round` rewrites the file (VACUUM copies each table in the order of its index) and empties the log. The rows of
one commit are inserted in the order of ids. `secure_delete` makes SQLite overwrite deleted rows; `forget_round` also
rewrites the file.

**Threads and processes.** Any thread may call any method. Writers wait for each other for at most `busy_seconds`.
Readers see the last commit and do not wait.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from taskveil.arrays import Integers
from taskveil.collector.store import base
from taskveil.collector.store.base import Execute, Pool, Store
from taskveil.collector.store.rows import Batch, Key, StoreError, StoreUnavailableError, Submission

PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "journal_size_limit = 67108864")

TEMPORARY_ERRORS = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_PERM),
}
"""Another process writes, the disk is full or missing, or the file is not writable now."""

ROWS_PER_STATEMENT = 200
"""Each statement releases Python's global lock and must wait for it afterwards. In a process that is busy with
requests, one statement for each row would make a commit take seconds."""


class SqliteStore(Store):
    """A store in one file. A missing file is created, readable by its owner only."""

    def __init__(self, url: str, *, busy_seconds: float = 5.0) -> None:
        """Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db`.
        busy_seconds: How long to wait for other writers before StoreUnavailableError.
        """
        self._file = Path(url.removeprefix("sqlite:///"))
        if not url.startswith("sqlite:///") or self._file.name in ("", ":memory:"):
            raise StoreError("the address of an SQLite database is sqlite:///FILE.")
        self._busy_seconds = busy_seconds
        self._writer_lock = threading.Lock()
        self._pool = Pool(self._connect)
        self._migrated = False
        self._make_file()
        self._inode = self._file.stat().st_ino
        try:
            with self.reading():
                pass
        except BaseException:
            self._pool.close()
            raise

    def close(self) -> None:
        """As `Store.close`. The last process that closes the file empties the log."""
        self._pool.close()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """As `Store.reading`."""
        with self._translated(), self._pool.lend() as connection:
            connection.execute("BEGIN")
            yield connection.execute
            connection.execute("COMMIT")

    def ping(self) -> None:
        """As `Store.ping`. SQLite skips unchanged pages, but it writes the one with `user_version`."""
        with self.writing() as execute:
            ((number,),) = execute("PRAGMA user_version")
            execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """As `Store.writing`."""
        with self._writing() as connection:
            yield connection.execute

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._one_writer(), self._translated(), self._pool.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            # If the file was deleted or replaced, an open connection would write what nobody can read.
            self._require_file()
            connection.execute("COMMIT")

    @contextmanager
    def _one_writer(self) -> Iterator[None]:
        if not self._writer_lock.acquire(timeout=self._busy_seconds):
            raise StoreUnavailableError("the database is busy: another writer did not finish in time.")
        try:
            yield
        finally:
            self._writer_lock.release()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turns SQLite's errors into the store's."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            self._pool.drop_idle()
            if code & 0xFF in TEMPORARY_ERRORS:
                raise StoreUnavailableError(f"the database cannot be used now ({name}).") from None
            if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise StoreError(
                    f"the file is not an SQLite database, or it is damaged ({name}): name another, or restore a backup."
                ) from None
            raise

    def _connect(self) -> sqlite3.Connection:
        self._require_file()
        connection = sqlite3.connect(
            f"{self._file.absolute().as_uri()}?mode=rw",  # never creates a file: a deleted one must be an error
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=2 * ROWS_PER_STATEMENT,
        )
        try:
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            if not self._migrated:
                connection.execute("BEGIN IMMEDIATE")
                base.migrate(connection.execute, base.SQLITE_STEPS)
                connection.execute("COMMIT")
                self._migrated = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_file(self) -> None:
        """Create an empty file that only its owner can read, if there is none. It is created under another name and
        linked: opening and closing a file that SQLite has open in this process would release SQLite's locks."""
        if self._file.exists():
            return
        try:
            with NamedTemporaryFile(dir=self._file.parent) as empty, suppress(FileExistsError):
                os.link(empty.name, self._file)
        except OSError as error:
            raise StoreError(f"the database file cannot be opened or created: {error.strerror}.") from None

    def _require_file(self) -> None:
        try:
            inode = self._file.stat().st_ino
        except OSError:
            inode = -1
        if inode != self._inode:
            self._pool.drop_idle()
            if inode == -1:
                raise StoreUnavailableError("the database file was deleted.")
            self._inode, self._migrated = inode, False  # perhaps by a backup: the next call opens it
            raise StoreUnavailableError("the database file was replaced.")

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """As `Store.ingest`."""
        with self._writing() as connection:
            batch = Batch.of(submissions, base.rounds_by_number(connection.execute(base.ROUNDS), only_open=True))
            fates = self._insert(connection, batch)
            for number, growth in batch.growth(fates).items():
                _for_many(
                    connection,
                    "INSERT INTO counts (round, slot, payload, count) VALUES {} "
                    "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    [(number, 0, payload, count) for payload, count in sorted(growth.counts.items())],
                )
                base.add_totals(connection.execute, number, 0, growth)
        return fates

    def _insert(self, connection: sqlite3.Connection, batch: Batch) -> list[Integers]:
        """Insert all rows at once; only if some ids were stored before, look which. Nearly always all are new."""
        insert = "INSERT INTO reports (release, id, round, payload) VALUES {} ON CONFLICT DO NOTHING"
        look = "SELECT release, id, payload FROM reports WHERE (release, id) IN (VALUES {})"
        rows = batch.rows()
        ordered = [rows[place] for place in batch.order.tolist()]
        connection.execute("SAVEPOINT all_new")
        if sum(made.rowcount for made in _for_many(connection, insert, ordered)) == len(ordered):
            return batch.fates({})
        connection.execute("ROLLBACK TO all_new")
        looked = _for_many(connection, look, [row[:2] for row in ordered])
        stored: dict[Key, bytes] = {(release, id): payload for found in looked for release, id, payload in found}
        _for_many(connection, insert, [row for row in ordered if row[:2] not in stored])
        return batch.fates(stored)

    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """As `Store.page`."""
        return list(
            execute(
                "SELECT id, round, payload FROM reports WHERE release = ? AND id > ? AND (? IS NULL OR round = ?) "
                "ORDER BY id LIMIT ?",
                (release, after, round, round, base.PAGE),
            )
        )

    def all_reports(self) -> str:
        """As `Store.all_reports`."""
        return "reports"

    def close_round(self, release: str, name: str) -> None:
        """As `Store.close_round`. Writers wait meanwhile: seconds for millions of reports."""
        with self.writing() as execute:
            base.close_round(execute, release, name)
        self._rewrite()

    def forget_round(self, release: str, name: str) -> int:
        """As `Store.forget_round`. If it fails halfway (another process reads for too long), the round stays closed and
        empty until it is deleted again."""
        with self.writing() as execute:
            number = base.close_round(execute, release, name)
            owner = base.release_number(execute, release)
            reports, _ = base.moments(execute, release, name)
            execute("DELETE FROM reports WHERE release = ? AND round = ?", (owner, number))
            execute("DELETE FROM counts WHERE round = ?", (number,))
            execute("DELETE FROM totals WHERE round = ?", (number,))
        self._rewrite()
        with self.writing() as execute:
            base.drop_round(execute, number)
        return reports

    def size(self) -> tuple[int, int | None]:
        """As `Store.size`, with the log."""
        used = 0
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):  # SQLite deletes the log when the last connection is closed
                used += self._file.with_name(self._file.name + end).stat().st_size
        return used, shutil.disk_usage(self._file.parent).free

    def _rewrite(self) -> None:
        """Rewrite the file in the order of ids, and empty the log."""
        until = time.monotonic() + self._busy_seconds
        with self._one_writer(), self._translated(), self._pool.lend() as connection:
            connection.execute("VACUUM")
            while True:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return
                if time.monotonic() > until:
                    raise StoreUnavailableError(
                        "the file could not be rewritten: another process reads it for too long."
                    )
                time.sleep(0.01)


def _for_many(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[sqlite3.Cursor]:
    """Execute a statement for these rows, many at once. They replace the {} in it."""
    done = []
    for start in range(0, len(rows), ROWS_PER_STATEMENT):
        some = rows[start : start + ROWS_PER_STATEMENT]
        marks = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
        done.append(connection.execute(statement.format(marks), [value for row in some for value in row]))
    return done
