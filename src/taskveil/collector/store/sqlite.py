"""Reports in one SQLite file: the collector's default, for one machine.

**Durability.** Write-ahead log with `synchronous=FULL`: the log is synced at every commit, before `ingest` returns. A
process killed at any point (tested with SIGKILL) leaves committed transactions in the log, and the next one to open the
file finds them; what was under way is gone. FULL is what makes that true of a machine that loses power, too: with
NORMAL, SQLite's default advice for this kind of log, the last commits may be lost then.

**Order.** Reports are a WITHOUT ROWID table: the rows are its index, by release and id, and ids are random. What
remains is underneath: within a page of the file cells lie as they were inserted, pages are numbered as they were
needed, and the log holds commits one after the other. So `close_round` has the file rewritten (VACUUM, which goes
through each table in the order of its index) and empties the log. Rows of one commit are inserted in the order of ids.
`secure_delete` makes SQLite overwrite what is deleted; `forget_round` rewrites the file besides.

**Threads and processes.** Any thread may call any method. Writers of one process wait for each other in line, those of
different processes as SQLite has them wait, for `busy_seconds` at most. Readers see the last commit and wait for none.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from taskveil.arrays import Integers
from taskveil.collector.store import StoreError, StoreUnavailableError, Submission, catalogue, migrations
from taskveil.collector.store.batches import Batch, Key
from taskveil.collector.store.migrations import Execute
from taskveil.collector.store.pool import Pool
from taskveil.collector.store.sql import PAGE, SqlStore

PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "journal_size_limit = 67108864")

PASSING = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_PERM),
}
"""What may be better later: somebody else writes, the disk is full or away, the file is not writable just now."""


TOGETHER = 200
"""Rows of one statement. Python's lock is let go for every statement and has to be waited for afterwards: while the
same process is busy with requests, a statement for each row would make a commit take seconds."""


class SqliteStore(SqlStore):
    """The store in one file, which is made (readable by its owner alone) if it is not there."""

    def __init__(self, url: str, *, busy_seconds: float = 5.0) -> None:
        """Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db`.
        busy_seconds: How long to wait for other writers before StoreUnavailableError.
        """
        self._file = Path(url.removeprefix("sqlite:///"))
        if not url.startswith("sqlite:///") or self._file.name in ("", ":memory:"):
            raise StoreError("the address of an SQLite database is sqlite:///FILE.")
        self._busy_seconds = busy_seconds
        self._line = threading.Lock()
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
        """Close the file. The last to close it empties the log."""
        self._pool.close()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """As `SqlStore.reading`."""
        with self._translated(), self._pool.lend() as connection:
            connection.execute("BEGIN")
            yield connection.execute
            connection.execute("COMMIT")

    def ping(self) -> None:
        """As `Store.ping`. SQLite writes no page whose bytes stay the same, unless it holds a number of the file's."""
        with self.writing() as execute:
            ((number,),) = execute("PRAGMA user_version")
            execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """As `SqlStore.writing`."""
        with self._writing() as connection:
            yield connection.execute

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._in_line(), self._translated(), self._pool.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            # Of a file that was deleted or replaced, an open connection goes on writing what nobody will ever read.
            self._require_file()
            connection.execute("COMMIT")

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        if not self._line.acquire(timeout=self._busy_seconds):
            raise StoreUnavailableError("the database is busy: another writer did not finish in time.")
        try:
            yield
        finally:
            self._line.release()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as the store's."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
            name = getattr(error, "sqlite_errorname", type(error).__name__)
            self._pool.drop_idle()
            if code & 0xFF in PASSING:
                raise StoreUnavailableError(f"the database cannot be used just now ({name}).") from None
            if code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise StoreError(
                    f"the file is no SQLite database, or a damaged one ({name}): name another, or restore a backup."
                ) from None
            raise

    def _connect(self) -> sqlite3.Connection:
        self._require_file()
        connection = sqlite3.connect(
            f"{self._file.absolute().as_uri()}?mode=rw",  # never makes a file: one that vanished must be missed
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=2 * TOGETHER,
        )
        try:
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            if not self._migrated:
                connection.execute("BEGIN IMMEDIATE")
                migrations.migrate(connection.execute, migrations.SQLITE)
                connection.execute("COMMIT")
                self._migrated = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_file(self) -> None:
        """An empty file that its owner alone can read, if there is none. It is made elsewhere and linked: to open and
        close a file that SQLite has open in this process would take away SQLite's locks."""
        if self._file.exists():
            return
        try:
            with NamedTemporaryFile(dir=self._file.parent) as empty, suppress(FileExistsError):
                os.link(empty.name, self._file)
        except OSError as error:
            raise StoreError(f"the database file cannot be opened or made: {error.strerror}.") from None

    def _require_file(self) -> None:
        try:
            inode = self._file.stat().st_ino
        except OSError:
            inode = -1
        if inode != self._inode:
            self._pool.drop_idle()
            if inode == -1:
                raise StoreUnavailableError("the database file is not there any more.")
            self._inode, self._migrated = inode, False  # from a backup perhaps: the next call opens that one
            raise StoreUnavailableError("the database file was replaced.")

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """As `Store.ingest`."""
        with self._writing() as connection:
            batch = Batch.of(
                submissions, catalogue.rounds_by_number(connection.execute(catalogue.ROUNDS), only_open=True)
            )
            fates = self._insert(connection, batch)
            for number, growth in batch.growth(fates).items():
                _for_many(
                    connection,
                    "INSERT INTO counts (round, slot, payload, count) VALUES {} "
                    "ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    [(number, 0, payload, count) for payload, count in sorted(growth.counts.items())],
                )
                catalogue.add_totals(connection.execute, number, 0, growth)
        return fates

    def _insert(self, connection: sqlite3.Connection, batch: Batch) -> list[Integers]:
        """Nearly always all reports are new, and then the number of rows that were made tells."""
        insert = "INSERT INTO reports (release, id, round, payload) VALUES {} ON CONFLICT DO NOTHING"
        look = "SELECT release, id, payload FROM reports WHERE (release, id) IN (VALUES {})"
        rows = batch.rows()
        ordered = [rows[place] for place in batch.order.tolist()]
        connection.execute("SAVEPOINT hopeful")
        if sum(made.rowcount for made in _for_many(connection, insert, ordered)) == len(ordered):
            return batch.fates({})
        connection.execute("ROLLBACK TO hopeful")
        looked = _for_many(connection, look, [row[:2] for row in ordered])
        stored: dict[Key, bytes] = {(release, id): payload for found in looked for release, id, payload in found}
        _for_many(connection, insert, [row for row in ordered if row[:2] not in stored])
        return batch.fates(stored)

    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """As `SqlStore.page`."""
        return list(
            execute(
                "SELECT id, round, payload FROM reports WHERE release = ? AND id > ? AND (? IS NULL OR round = ?) "
                "ORDER BY id LIMIT ?",
                (release, after, round, round, PAGE),
            )
        )

    def rows(self) -> str:
        """As `SqlStore.rows`."""
        return "reports"

    def close_round(self, release: str, name: str) -> None:
        """As `Store.close_round`. Rewriting keeps writers out: seconds for millions of reports."""
        with self.writing() as execute:
            catalogue.close_round(execute, release, name)
        self._rewrite()

    def forget_round(self, release: str, name: str) -> int:
        """As `Store.forget_round`. If it fails half-way (somebody reads for too long), the round is there, closed and
        empty, until it is forgotten again."""
        with self.writing() as execute:
            number = catalogue.close_round(execute, release, name)
            owner = catalogue.release_number(execute, release)
            reports, _ = catalogue.moments(execute, release, name)
            execute("DELETE FROM reports WHERE release = ? AND round = ?", (owner, number))
            execute("DELETE FROM counts WHERE round = ?", (number,))
            execute("DELETE FROM totals WHERE round = ?", (number,))
        self._rewrite()
        with self.writing() as execute:
            catalogue.drop_round(execute, number)
        return reports

    def _rewrite(self) -> None:
        """Every page of the file in the order of ids, and nothing in the log."""
        until = time.monotonic() + self._busy_seconds
        with self._in_line(), self._translated(), self._pool.lend() as connection:
            connection.execute("VACUUM")
            while True:
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return
                if time.monotonic() > until:
                    raise StoreUnavailableError("somebody reads the database for too long: it could not be rewritten.")
                time.sleep(0.01)


def _for_many(connection: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> list[sqlite3.Cursor]:
    """Execute a statement for these rows, which stand for {} in it, many at once."""
    done = []
    for start in range(0, len(rows), TOGETHER):
        some = rows[start : start + TOGETHER]
        marks = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
        done.append(connection.execute(statement.format(marks), [value for row in some for value in row]))
    return done
