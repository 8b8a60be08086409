"""Reports in PostgreSQL (psycopg 3): for several machines, or for a database that you already operate.

All tables are in a schema of their own, `taskveil`.

**Durability.** `ingest` returns after a COMMIT with `synchronous_commit` on. A server with `fsync` off is refused. If
the connection breaks during the commit, nobody knows whether it happened. Then `ingest` raises StoreUnavailableError,
and the same reports sent again are duplicates if it did happen.

**Writers.** Several writers may bring the same ids at once. Each looks for its ids and inserts the missing ones in the
order of ids, so that two writers cannot wait for each other in a circle. If fewer rows were inserted than expected,
another writer was faster, and the transaction is repeated with an exclusive lock. Each process has count rows of its
own (`slot`), so that writers do not wait for each other's commits.

**Order.** A PostgreSQL table shows the order of arrival in two ways: rows lie where they were inserted, and each row
has the number of its transaction (`xmin`). Both disappear when one transaction copies the rows, sorted by id, into a
new table. So there are three tables with the same columns:

    arrivals   reports that were ingested recently
    sorting    former arrivals that are being copied (otherwise empty)
    reports    sorted by id, all written by one transaction

`sort_arrivals` holds an advisory lock, so only one process sorts at a time. It has two steps:

1. a short transaction: `arrivals` becomes `sorting`, and a new, empty table becomes `arrivals`;
2. a long transaction: copy `reports` and `sorting`, sorted by id, into a new table. Then lock the tables for a moment,
   replace `reports` by the new table, empty `sorting`, and rewrite counts and totals in the same way.

`ingest` continues during the copy. Its first statement locks `arrivals` (ROW EXCLUSIVE). Everybody who swaps tables
locks it in a mode that excludes this, always in the order arrivals, sorting, reports, counts, totals: there is no
deadlock. The next statements of `ingest` start after it has the lock, so they see the tables of the last swap (READ
COMMITTED takes a snapshot for each statement). An id is looked up in all three tables.

A reader's statement names the tables in the same order and locks them only while it runs. It sees each report exactly
once, before or after the swap. A backup (pg_dump) holds its locks for long. A swap would wait for it, and `ingest`
would wait behind the swap. So a swap gives up after `SWAP_WAIT_SECONDS` plus the time of a commit, and is tried again
later. If a process dies during the copy, its transaction is undone, and the next process starts with step 2.

To delete a round, a copy leaves it out, and the old table's files are deleted. PostgreSQL's write-ahead log (pg_wal)
keeps what was written until its segments are reused: see docs/operate/operations.md.

**Threads.** Any thread may call any method. Connections need a session of their own: with PgBouncer use session mode.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import psycopg
from psycopg import errors, sql

from taskveil.arrays import Integers
from taskveil.collector.journal import failed, journal
from taskveil.collector.store import base
from taskveil.collector.store.base import UNSAMPLED, UNSAMPLED_COUNTS, UNVACUUMED, Execute, Pool, Store
from taskveil.collector.store.rows import Batch, Growth, Key, StoreError, StoreUnavailableError, Submission

Connection = psycopg.Connection[tuple[Any, ...]]

ADVISORY_LOCK = 0x7461736B5E771E
"""Held by the process that sorts arrivals. The next number is held while the schema is updated."""

LOCK_MODES = ("ROW EXCLUSIVE", *["SHARE ROW EXCLUSIVE"] * 3)
"""How `ingest` locks `arrivals`: first shared with other writers; after a collision, alone."""

REPORTS_BETWEEN_CHECKS = 5000
"""Reports that a process stores before it checks again whether arrivals must be sorted."""

SORT_SHARE = 0.5
"""Arrivals are sorted when they reach this share of the sorted reports. So each report is copied three times."""

SWAP_WAIT_SECONDS = 0.5
"""How long a swap waits for its locks, and keeps `ingest` waiting, in addition to the time of a commit. With less, a
swap would never get its locks between commits that follow each other."""

MAX_ROWS_AS_PARAMETERS = 100
"""Up to this number of reports, arrays as parameters are faster than COPY into a temporary table."""

TEMPORARY_REFUSALS = ("the database system is", "too many", "connection slots", "recovery")
"""Texts of a server that refuses a connection for now: it starts or stops, or has too many."""

COLUMNS = "release integer, id bytea, round integer, payload bytea"
ARRAYS = "unnest(%s::integer[], %s::bytea[], %s::integer[], %s::bytea[]) AS come (release, id, round, payload)"
STORE = """
    WITH looked AS MATERIALIZED (
        SELECT come.*, coalesce(
            (SELECT payload FROM arrivals WHERE release = come.release AND id = come.id),
            (SELECT payload FROM sorting WHERE release = come.release AND id = come.id),
            (SELECT payload FROM reports WHERE release = come.release AND id = come.id)) AS stored
        FROM {}
    ), made AS (
        INSERT INTO arrivals SELECT release, id, round, payload FROM looked WHERE stored IS NULL ORDER BY release, id
        ON CONFLICT DO NOTHING RETURNING 1
    )
    SELECT release, id, stored FROM looked WHERE stored IS NOT NULL
    UNION ALL SELECT count(*)::integer, NULL, NULL FROM made"""
GROW = """
    WITH counted AS (
        INSERT INTO counts SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bytea[], %s::bigint[])
        ON CONFLICT (round, slot, payload) DO UPDATE SET count = counts.count + excluded.count
    )
    INSERT INTO totals SELECT * FROM unnest(%s::integer[], %s::integer[], %s::bigint[], %s::bytea[])
    ON CONFLICT (round, slot) DO UPDATE SET reports = totals.reports + excluded.reports RETURNING round, moments"""


class OvertakenError(Exception):
    """Another writer stored one of our ids between our look and our insert: repeat the transaction."""


class PostgresStore(Store):
    """A store in a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        busy_seconds: float = 5.0,
        sort_seconds: float = 60.0,
        schema: str = "taskveil",
        allow_unsafe: bool = False,
    ) -> None:
        """Args:
        url: `postgresql://USER:PASSWORD@HOST/DATABASE`, as libpq reads it.
        busy_seconds: How long to wait for a connection and for locks before StoreUnavailableError.
        sort_seconds: How long `close_round` and `forget_round` wait for long readers, for example a backup.
        schema: The PostgreSQL schema of the tables. It is created if it is missing.
        allow_unsafe: Accept a server that runs without fsync (for tests).
        """
        self._url = url
        self._busy_seconds = busy_seconds
        self._sort_seconds = sort_seconds
        self._schema = schema
        self._slot = 1 + secrets.randbelow(2**15)
        self._pool = Pool(self._connect)
        self._writers = Pool(lambda: self._connect(writing=True))
        self._reports_since_check = 0
        self._commit_seconds = 0.0
        """The longest recent commit."""
        self._no_sort_before = -math.inf
        self._sort_thread: threading.Thread | None = None
        self._sort_connection: Connection | None = None
        self._closing = threading.Event()
        with self._translated(opening=True), self._pool.lend() as connection:
            if not allow_unsafe and connection.execute("SHOW fsync").fetchone() != ("on",):
                raise StoreError("the PostgreSQL server may lose reports that it acknowledged: turn its fsync on.")
            self._migrate(connection)

    def close(self) -> None:
        """As `Store.close`. A sort that is running is cancelled; the next process repeats it."""
        self._closing.set()
        if self._sort_thread is not None:
            while self._sort_thread.is_alive():
                if self._sort_connection is not None:
                    self._sort_connection.cancel()
                self._sort_thread.join(0.1)
        self._pool.close()
        self._writers.close()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """As `Store.reading`. Each statement is a transaction of its own: one that continued after a swap would see the
        new tables as they were before it."""
        with self._translated(), self._pool.lend() as connection:
            yield executing(connection)

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """As `Store.writing`."""
        with self._translated(), self._pool.lend() as connection, connection.transaction():
            connection.execute("LOCK TABLE arrivals IN SHARE ROW EXCLUSIVE MODE")
            yield executing(connection)

    def ping(self) -> None:
        """As `Store.ping`. No ingest waits for it."""
        with self.reading() as execute:
            execute("UPDATE collector SET changes = changes")

    @contextmanager
    def _translated(self, *, opening: bool = False) -> Iterator[None]:
        """Turns PostgreSQL's errors into the store's, without their text, which may name hosts and users."""
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
            self._pool.drop_idle()
            self._writers.drop_idle()
            text, name = str(error), type(error).__name__
            # libpq gives no code for a refused connection. A server that runs says FATAL.
            if opening and "FATAL" in text and not any(one in text for one in TEMPORARY_REFUSALS):
                raise StoreError("the PostgreSQL server refuses this user, password or database name.") from None
            if opening and "FATAL" not in text:
                raise StoreUnavailableError(
                    f"no PostgreSQL server answers at this address ({name}): does it run, and are host and port right?"
                ) from None
            raise StoreUnavailableError(f"the database cannot be used now ({name}).") from None
        except (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege) as error:
            raise StoreError(
                f"tables or rights are missing in the database ({type(error).__name__}): its user must own the "
                "schema taskveil, or be allowed to create it."
            ) from None
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None and opening:  # from libpq, which could not read the address
                raise StoreError("the address is not one that PostgreSQL understands.") from None
            raise

    def _connect(self, *, writing: bool = False) -> Connection:
        seconds = max(2, round(self._busy_seconds))
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=seconds,
            tcp_user_timeout=seconds * 1000,
            # If the server's machine vanishes, nothing says so: without these we would wait for two hours.
            keepalives_idle=seconds,
            keepalives_interval=1,
            keepalives_count=seconds,
            application_name="taskveil",
        )
        try:
            connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
            connection.execute(f"SET lock_timeout = {int(self._busy_seconds * 1000)}")
            # Sorting needs statements that each see the last commit. A database or a role may have another default.
            connection.execute("SET default_transaction_isolation TO 'read committed'")
            # Always use the index: the planner could otherwise read and sort a whole table for each page of it.
            connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off")
            if connection.execute("SHOW synchronous_commit").fetchone() in (("off",), ("local",)):
                connection.execute("SET synchronous_commit TO on")
            if writing:
                connection.execute(f"CREATE TEMPORARY TABLE come ({COLUMNS}) ON COMMIT DELETE ROWS")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: Connection) -> None:
        execute = executing(connection)
        with connection.transaction():
            execute("SELECT pg_advisory_xact_lock(?)", (ADVISORY_LOCK + 1,))
            # Only if it is missing: CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if it is there.
            if list(execute("SELECT 1 WHERE to_regnamespace(quote_ident(?)) IS NULL", (self._schema,))):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            base.migrate(execute, base.POSTGRES_STEPS)

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """As `Store.ingest`."""
        began = time.monotonic()
        for mode in LOCK_MODES:
            with self._translated(), self._writers.lend() as connection:
                try:
                    fates = self._ingest(connection, submissions, mode)
                except (OvertakenError, errors.DeadlockDetected, errors.SerializationFailure):
                    connection.execute("ROLLBACK")
                    continue
            self._commit_seconds = max(time.monotonic() - began, 0.9 * self._commit_seconds)
            self._reports_since_check += sum(map(len, fates))
            if self._reports_since_check >= REPORTS_BETWEEN_CHECKS:
                self._reports_since_check = 0
                self._start_sorting()
            return fates
        raise StoreUnavailableError("the database is busy: other writers were faster several times.")

    def _ingest(self, connection: Connection, submissions: Sequence[Submission], mode: str) -> list[Integers]:
        """One transaction in four exchanges with the server."""
        opened = connection.execute(f"BEGIN; LOCK TABLE arrivals IN {mode} MODE; {base.ROUNDS}")
        while opened.nextset():
            pass
        batch = Batch.of(submissions, base.rounds_by_number(opened, only_open=True))
        fates = batch.fates(_insert(connection, batch) if len(batch.order) else {})
        _grow(connection, self._slot, batch.growth(fates))
        connection.execute("COMMIT")
        return fates

    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """As `Store.page`."""
        of_round = "" if round is None else f"AND round = {round:d}"
        first = f"ORDER BY id LIMIT {base.PAGE:d}"
        whole = " UNION ALL ".join(
            f"(SELECT id, round, payload FROM {table} WHERE release = ? AND id > ? {of_round} {first})"  # noqa: S608
            for table in ("arrivals", "sorting", "reports")
        )
        return list(execute(f"{whole} {first}", (release, after) * 3))

    def all_reports(self) -> str:
        """As `Store.all_reports`."""
        return "(SELECT * FROM arrivals UNION ALL SELECT * FROM sorting UNION ALL SELECT * FROM reports) AS every"

    # Order

    def close_round(self, release: str, name: str) -> None:
        """As `Store.close_round`. If reports cannot be sorted now, the round is closed and an error is raised."""
        with self.writing() as execute:
            base.close_round(execute, release, name)
        self._sort(None)

    def forget_round(self, release: str, name: str) -> int:
        """As `Store.forget_round`. If reports cannot be sorted now, the round is closed and an error is raised."""
        with self.writing() as execute:
            number = base.close_round(execute, release, name)
            reports, _ = base.moments(execute, release, name)
        self._sort(number)
        return reports

    def size(self) -> tuple[int, int | None]:
        """As `Store.size`. The disk is another machine's."""
        with self.reading() as execute:
            ((found,),) = execute("SELECT pg_database_size(current_database())")
            return int(found), None

    def _sort(self, forget: int | None) -> None:
        with self._translated(), self._pool.lend() as connection:
            wait = self._swap_wait_seconds()
            if not sort_arrivals(connection, forget=forget, seconds=self._sort_seconds, swap_wait=wait):
                raise StoreUnavailableError("another process has been sorting reports for long: try again later.")
            # Dropped files are deleted at the next checkpoint, and segments of the server's log too (with `wal_recycle`
            # off; otherwise they are overwritten later). A user without these rights leaves it to the server.
            with suppress(errors.InsufficientPrivilege):
                connection.execute("SELECT pg_switch_wal()")
            with suppress(errors.InsufficientPrivilege):
                connection.execute("CHECKPOINT")

    def _swap_wait_seconds(self) -> float:
        """How long a swap may keep others waiting: long enough for a running commit, shorter than `ingest` waits."""
        return min(SWAP_WAIT_SECONDS + self._commit_seconds, 0.7 * self._busy_seconds)

    def _start_sorting(self) -> None:
        """Check in a thread whether there are enough arrivals to sort."""
        if self._closing.is_set() or (self._sort_thread is not None and self._sort_thread.is_alive()):
            return
        if time.monotonic() < self._no_sort_before:
            return
        self._sort_thread = threading.Thread(target=self._sort_if_due, name="sorting", daemon=True)
        self._sort_thread.start()

    def _sort_if_due(self) -> None:
        try:
            with self._translated(), self._pool.lend() as connection:
                self._sort_connection = connection
                if sort_due(executing(connection)):
                    sort_arrivals(connection, swap_wait=self._swap_wait_seconds())
        except StoreError as error:
            self._no_sort_before = time.monotonic() + self._sort_seconds
            if not self._closing.is_set():
                journal.warning("Reports were not sorted by id; the next attempt is soon: %s", error)
        except Exception as error:  # the text that a thread prints by itself would quote rows
            failed("Reports could not be sorted by id.", error)
        finally:
            self._sort_connection = None


def executing(connection: Connection) -> Execute:
    """`execute` with `?` for parameters."""

    def execute(statement: str, parameters: Sequence[Any] = ()) -> Any:
        return connection.execute(statement.replace("?", "%s"), parameters, binary=True)

    return execute


# Ingest, inside a transaction that has locked `arrivals`


def _insert(connection: Connection, batch: Batch) -> dict[Key, bytes]:
    """Store the new reports. Returns what was already stored under the keys of this batch."""
    if len(batch.order) <= MAX_ROWS_AS_PARAMETERS:
        rows = batch.rows()
        columns = zip(*[rows[place] for place in batch.order.tolist()], strict=True)
        found = connection.execute(STORE.format(ARRAYS), [list(one) for one in columns], binary=True).fetchall()
    else:
        with connection.cursor() as cursor, cursor.copy("COPY come FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_copy_format(batch))
        found = connection.execute(STORE.format("come"), binary=True).fetchall()
    stored = {(release, id): payload for release, id, payload in found if id is not None}
    made = next(count for count, id, _ in found if id is None)
    if made + len(stored) != len(batch.order):
        raise OvertakenError
    return stored


def _grow(connection: Connection, slot: int, grown: dict[int, Growth]) -> None:
    """Add what rounds gained to their counts and totals."""
    if not grown:
        return
    rows = [
        (number, payload, count) for number, growth in grown.items() for payload, count in sorted(growth.counts.items())
    ]
    numbers, payloads, counts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    reports = [growth.reports for growth in grown.values()]
    parameters = [
        *(numbers, [slot] * len(rows), payloads, counts),
        *(list(grown), [slot] * len(grown), reports, [b""] * len(grown)),
    ]
    for number, before in connection.execute(GROW, parameters, binary=True).fetchall():
        if grown[number].moments.size:
            base.add_moments(executing(connection), number, slot, before, grown[number].moments)


def _copy_format(batch: Batch) -> bytes:
    """The different reports of a batch in the binary format of COPY."""
    parts = [b"PGCOPY\n\xff\r\n\0" + bytes(8)]
    winners, at = batch.winners, 0
    for place in batch.places:
        one = batch.submissions[place]
        here = winners[at : at + len(one.ids)]
        at += len(one.ids)
        size = one.payloads.shape[1]
        fields = [("fields", ">i2")]
        for name, width in (("release", 4), ("id", 16), ("round", 4), ("payload", size)):
            fields += [(f"{name}_size", ">i4"), (name, ">i4" if name in ("release", "round") else f"({width},)u1")]
        rows = np.zeros(int(here.sum()), dtype=fields)
        rows["fields"] = 4
        rows["release_size"] = rows["round_size"] = 4
        rows["id_size"], rows["payload_size"] = 16, size
        rows["release"], rows["round"] = batch.rounds[one.round].release, one.round
        rows["id"], rows["payload"] = one.ids[here], one.payloads[here]
        parts.append(rows.tobytes())
    return b"".join([*parts, b"\xff\xff"])


# Sorting


def sort_due(execute: Execute) -> bool:
    """Whether there are so many arrivals that they must be sorted while a round is open."""
    arrivals, reports = next(iter(execute("SELECT pg_relation_size('arrivals'), pg_relation_size('reports')")))
    # A table that another process is swapping has no size. Then that process sorts.
    return arrivals is not None and reports is not None and arrivals > SORT_SHARE * reports


def sort_arrivals(
    connection: Connection, *, forget: int | None = None, seconds: float = 0.0, swap_wait: float = SWAP_WAIT_SECONDS
) -> bool:
    """Sort all arrivals by id, and leave out the closed round `forget`.

    Returns False if another process sorted for more than `seconds`. StoreUnavailableError if another session locked the
    tables for that long. A swap keeps others waiting for at most `swap_wait` seconds at a time.
    """
    execute = executing(connection)
    until = time.monotonic() + seconds
    while not next(iter(execute("SELECT pg_try_advisory_lock(?)", (ADVISORY_LOCK,))))[0]:
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    # No `finally`: after an error the connection is closed, which releases the lock.
    if not _empty(execute, "sorting"):  # a process was killed during the copy
        _merge(connection, execute, None, until, swap_wait)
    with connection.transaction():
        _become_owner(execute)
        _lock(connection, execute, "arrivals, sorting", until, swap_wait)
        execute("DROP TABLE sorting")
        execute("ALTER TABLE arrivals RENAME TO sorting")
        execute(f"CREATE TABLE arrivals (LIKE sorting INCLUDING ALL) {UNVACUUMED}")
        execute(f"ALTER TABLE arrivals {UNSAMPLED}")
    if forget is not None or not _empty(execute, "sorting"):
        _merge(connection, execute, forget, until, swap_wait)
    execute("SELECT pg_advisory_unlock(?)", (ADVISORY_LOCK,))
    return True


def _merge(connection: Connection, execute: Execute, forget: int | None, until: float, swap_wait: float) -> None:
    began = time.monotonic()
    with connection.transaction():
        _become_owner(execute)
        execute("SET LOCAL statement_timeout = 0")  # a copy may take long
        execute("SET LOCAL enable_seqscan = on")  # it is off for the store's connections
        execute("SET LOCAL work_mem = '64MB'")
        execute("SET LOCAL maintenance_work_mem = '64MB'")
        execute(f"CREATE TABLE merged (LIKE reports) {UNVACUUMED}")
        execute(
            "INSERT INTO merged SELECT * FROM (SELECT * FROM sorting UNION ALL SELECT * FROM reports) AS both_of_them "
            "WHERE round IS DISTINCT FROM ?::integer ORDER BY release, id",
            (forget,),
        )
        execute("ALTER TABLE merged ADD PRIMARY KEY (release, id)")
        execute(f"ALTER TABLE merged {UNSAMPLED}")
        until = max(until, 2 * time.monotonic() - began)  # a wait as long as the copy took, before it is thrown away
        _lock(connection, execute, "arrivals, sorting, reports, counts, totals", until, swap_wait)
        execute("DROP TABLE reports")
        execute("ALTER TABLE merged RENAME TO reports")
        execute("TRUNCATE sorting")
        if forget is not None:
            base.drop_round(execute, forget)
        _rewrite_counts(execute)


def _rewrite_counts(execute: Execute) -> None:
    """Rewrite counts and totals in one transaction, with the slots added up: their rows also show what came last."""
    execute("CREATE TABLE merged (LIKE counts INCLUDING ALL)")
    execute(f"ALTER TABLE merged {UNSAMPLED_COUNTS}")
    execute(
        "INSERT INTO merged SELECT round, 0, payload, sum(count) FROM counts GROUP BY round, payload "
        "ORDER BY round, payload"
    )
    execute("DROP TABLE counts")
    execute("ALTER TABLE merged RENAME TO counts")
    totals: dict[int, Growth] = {}
    for number, reports, blob in execute("SELECT round, reports, moments FROM totals ORDER BY round, slot"):
        total = totals.setdefault(number, Growth())
        total.reports += reports
        total.moments = base.added_up([total.moments, base.unpacked(blob)])
    execute("TRUNCATE totals")
    for number, total in totals.items():
        base.add_totals(execute, number, 0, total)


def _become_owner(execute: Execute) -> None:
    """Act as the tables' owner until the end of the transaction. Otherwise a superuser who closes a round would create
    tables that the collector's role cannot use."""
    execute("SELECT set_config('role', pg_get_userbyid(relowner), TRUE) FROM pg_class WHERE oid = 'reports'::regclass")


def _lock(connection: Connection, execute: Execute, names: str, until: float, swap_wait: float) -> None:
    """Lock tables until the end of the transaction. Others wait for at most `swap_wait` seconds at a time."""
    execute(f"SET LOCAL lock_timeout = {int(swap_wait * 1000)}")
    while True:
        try:
            with connection.transaction():
                execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")
            return
        except errors.LockNotAvailable:
            if time.monotonic() >= until:
                raise StoreUnavailableError(
                    "the reports could not be sorted by id: another session reads (a backup?) or commits for longer "
                    f"than {swap_wait:.1f} s."
                ) from None
        time.sleep(swap_wait)


def _empty(execute: Execute, table: str) -> bool:
    return not list(execute(f"SELECT 1 FROM {table} LIMIT 1"))  # noqa: S608
