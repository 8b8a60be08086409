"""Reports in PostgreSQL (psycopg 3): for several machines, or a database that is operated already.

Everything lies in a schema of its own, `taskveil`. How reports come to lie in the order of ids, while others come, is
told in settling.py.

**Durability.** `ingest` returns after a COMMIT with `synchronous_commit` on; a server that does not write to the disk
(`fsync` off) is refused. If the connection breaks during the commit nobody knows whether it happened: that is a
StoreUnavailableError, and the same reports again are duplicates if it did.

**Writers.** Several may bring the same ids at once: each looks for its ids, inserts the rest in the order of ids (so no
two wait for each other in a circle), and if fewer rows were made than it expected, another was quicker: it starts
again. Counts are rows of their own for every process (`slot`), so that writers do not wait for each other's commits.

**Threads.** Any thread may call any method; each has a connection to itself for that long. Connections need a session
of their own: behind PgBouncer use its session mode.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import psycopg
from psycopg import errors, sql

from taskveil.arrays import Integers
from taskveil.server.collector.store import (
    StoreError,
    StoreUnavailableError,
    Submission,
    catalogue,
    migrations,
    settling,
)
from taskveil.server.collector.store.batches import Batch, Growth, Key
from taskveil.server.collector.store.connections import Pool
from taskveil.server.collector.store.migrations import Execute
from taskveil.server.collector.store.settling import Connection
from taskveil.server.collector.store.sql import PAGE, SqlStore

FEW = 100
"""Up to so many reports arrays as parameters are quicker than COPY into a temporary table."""

ATTEMPTS = 10
"""That an ingest makes when other writers are in its way."""

LOOK_EVERY = 5000
"""Reports that a process stores between two looks whether it is time to settle."""

COLUMNS = "release integer, id bytea, round integer, payload bytea"
ARRAYS = "unnest(%s::integer[], %s::bytea[], %s::integer[], %s::bytea[]) AS come (release, id, round, payload)"
STORE = """
    WITH looked AS MATERIALIZED (
        SELECT come.*, coalesce(
            (SELECT payload FROM arrivals WHERE release = come.release AND id = come.id),
            (SELECT payload FROM settling WHERE release = come.release AND id = come.id),
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

PASSING = ("the database system is", "too many", "connection slots", "recovery")
"""Words of a server that refuses a connection for now: it starts or stops, or has too many."""

log = logging.getLogger(__name__)


class _Overtaken(Exception):
    """Another writer stored one of our ids between our look and our insert."""


class PostgresStore(SqlStore):
    """The store in a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        busy_seconds: float = 5.0,
        settle_seconds: float = 60.0,
        schema: str = "taskveil",
        allow_unsafe: bool = False,
    ) -> None:
        """Args:
        url: `postgresql://USER:PASSWORD@HOST/DATABASE`, as libpq reads it.
        busy_seconds: How long to wait for a connection and for locks before StoreUnavailableError.
        settle_seconds: How long `close_round` and `forget_round` wait for those who read for long, a backup say.
        schema: Where the tables are; made if the user may and it is not there.
        allow_unsafe: Take a server that runs without fsync (for tests).
        """
        self._url = url
        self._busy_seconds = busy_seconds
        self._settle_seconds = settle_seconds
        self._schema = schema
        self._slot = 1 + secrets.randbelow(2**15)
        self._pool = Pool(self._connect)
        self._writers = Pool(lambda: self._connect(writing=True))
        self._since_look = 0
        self._settler: threading.Thread | None = None
        self._closing = threading.Event()
        with self._translated(opening=True), self._pool.lend() as connection:
            if not allow_unsafe and connection.execute("SHOW fsync").fetchone() != ("on",):
                raise StoreError("the PostgreSQL server runs with fsync off: what it acknowledges may be lost.")
            self._migrate(connection)

    def close(self) -> None:
        """Give back all connections; a settling that is under way is finished first."""
        self._closing.set()
        if self._settler is not None:
            self._settler.join()
        self._pool.close()
        self._writers.close()

    # Transactions

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """As `SqlStore.reading`: every statement for itself, since one that began before tables were swapped and went
        on after would look into new tables with old eyes."""
        with self._translated(), self._pool.lend() as connection:
            yield executing(connection)

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """As `SqlStore.writing`."""
        with self._translated(), self._pool.lend() as connection, connection.transaction():
            connection.execute("LOCK TABLE arrivals IN SHARE ROW EXCLUSIVE MODE")
            yield executing(connection)

    def ping(self) -> None:
        """As `Store.ping`, without keeping any ingest waiting."""
        with self.reading() as execute:
            execute("UPDATE collector SET changes = changes")

    @contextmanager
    def _translated(self, *, opening: bool = False) -> Iterator[None]:
        """PostgreSQL's errors as the store's: without their text, which may name hosts and users."""
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
            self._pool.drop_idle()
            self._writers.drop_idle()
            text, name = str(error), type(error).__name__
            # libpq gives no code for a connection that was refused; a server that is up says FATAL.
            if opening and "FATAL" in text and not any(one in text for one in PASSING):
                raise StoreError("the PostgreSQL server refuses this user, password or database name.") from None
            raise StoreUnavailableError(f"the database cannot be used just now ({name}).") from None
        except (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege) as error:
            raise StoreError(f"the database lacks tables or rights that it had ({type(error).__name__}).") from None
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None and opening:  # not the server's word: libpq could not read the address
                raise StoreError("the address is not one that PostgreSQL understands.") from None
            raise

    def _connect(self, *, writing: bool = False) -> Connection:
        seconds = max(2, round(self._busy_seconds))
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=seconds,
            tcp_user_timeout=seconds * 1000,
            application_name="taskveil",
        )
        try:
            connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
            connection.execute(f"SET lock_timeout = {int(self._busy_seconds * 1000)}")
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
            execute("SELECT pg_advisory_xact_lock(?)", (settling.LOCK + 1,))
            # Only if it is missing: the right to make schemas is needed even for one that is there.
            if list(execute("SELECT 1 WHERE to_regnamespace(quote_ident(?)) IS NULL", (self._schema,))):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            migrations.migrate(execute, migrations.POSTGRES)

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """As `Store.ingest`."""
        for _ in range(ATTEMPTS):
            with self._translated(), self._writers.lend() as connection:
                try:
                    fates = self._ingest(connection, submissions)
                except (_Overtaken, errors.DeadlockDetected, errors.SerializationFailure):
                    connection.execute("ROLLBACK")
                    continue
            self._since_look += sum(map(len, fates))
            if self._since_look >= LOOK_EVERY:
                self._since_look = 0
                self._settle_beside()
            return fates
        raise StoreUnavailableError("the database is busy: other writers were in the way time and again.")

    def _ingest(self, connection: Connection, submissions: Sequence[Submission]) -> list[Integers]:
        """One transaction in four exchanges with the server."""
        opened = connection.execute(f"BEGIN; LOCK TABLE arrivals IN ROW EXCLUSIVE MODE; {catalogue.ROUNDS}")
        while opened.nextset():
            pass
        batch = Batch.of(submissions, catalogue.rounds_by_number(opened, only_open=True))
        fates = batch.fates(self._insert(connection, batch) if len(batch.order) else {})
        self._grow(connection, batch.growth(fates))
        connection.execute("COMMIT")
        return fates

    def _insert(self, connection: Connection, batch: Batch) -> dict[Key, bytes]:
        """Store what is new; return what is stored already under the keys of this batch."""
        if len(batch.order) <= FEW:
            rows = batch.rows()
            columns = list(zip(*[rows[place] for place in batch.order.tolist()], strict=True))
            found = connection.execute(STORE.format(ARRAYS), [list(one) for one in columns], binary=True).fetchall()
        else:
            with connection.cursor() as cursor, cursor.copy("COPY come FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(copied(batch))
            found = connection.execute(STORE.format("come"), binary=True).fetchall()
        stored = {(release, id): payload for release, id, payload in found if id is not None}
        made = next(count for count, id, _ in found if id is None)
        if made + len(stored) != len(batch.order):
            raise _Overtaken
        return stored

    def _grow(self, connection: Connection, grown: dict[int, Growth]) -> None:
        if not grown:
            return
        rows = [
            (number, payload, count)
            for number, growth in grown.items()
            for payload, count in sorted(growth.counts.items())
        ]
        numbers, payloads, counts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
        reports = [growth.reports for growth in grown.values()]
        parameters = [
            *(numbers, [self._slot] * len(rows), payloads, counts),
            *(list(grown), [self._slot] * len(grown), reports, [b""] * len(grown)),
        ]
        for number, before in connection.execute(GROW, parameters, binary=True).fetchall():
            if grown[number].moments.size:
                catalogue.add_moments(executing(connection), number, self._slot, before, grown[number].moments)

    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """As `SqlStore.page`."""
        of_one = (
            "(SELECT id, round, payload FROM {} WHERE release = ? AND id > ? "
            "AND round = coalesce(?::integer, round) ORDER BY id LIMIT ?)"
        )
        whole = " UNION ALL ".join(of_one.format(table) for table in ("arrivals", "settling", "reports"))
        return list(execute(f"{whole} ORDER BY id LIMIT {PAGE}", (release, after, round, PAGE) * 3))

    def rows(self) -> str:
        """As `SqlStore.rows`."""
        return "(SELECT * FROM arrivals UNION ALL SELECT * FROM settling UNION ALL SELECT * FROM reports) AS every"

    # Order

    def close_round(self, release: str, name: str) -> None:
        """As `Store.close_round`. If settling is not possible now, the round is closed, and an error says so."""
        with self.writing() as execute:
            catalogue.close_round(execute, release, name)
        self._settle(None)

    def forget_round(self, release: str, name: str) -> int:
        """As `Store.forget_round`. If settling is not possible now, the round is closed, and an error says so."""
        with self.writing() as execute:
            number = catalogue.close_round(execute, release, name)
            reports, _ = catalogue.moments(execute, release, name)
        self._settle(number)
        return reports

    def _settle(self, forget: int | None) -> None:
        with self._translated(), self._pool.lend() as connection:
            if not settling.settle(connection, executing(connection), forget=forget, wait=self._settle_seconds):
                raise StoreUnavailableError("somebody else is settling reports for long: try again later.")
            # Dropped files go at the next checkpoint, and so do the segments of the server's log (with `wal_recycle`
            # off, else they are overwritten in time). A user who may not hurry that leaves it to the server.
            with suppress(errors.InsufficientPrivilege):
                connection.execute("SELECT pg_switch_wal()")
            with suppress(errors.InsufficientPrivilege):
                connection.execute("CHECKPOINT")

    def _settle_beside(self) -> None:
        """Look, in a thread, whether arrivals have grown enough to be settled."""
        if self._closing.is_set() or (self._settler is not None and self._settler.is_alive()):
            return
        self._settler = threading.Thread(target=self._settle_if_due, name="settling", daemon=True)
        self._settler.start()

    def _settle_if_due(self) -> None:
        try:
            with self._translated(), self._pool.lend() as connection:
                execute = executing(connection)
                if settling.due(execute):
                    settling.settle(connection, execute)
        except StoreError as error:
            log.warning("reports were not settled, the next try is soon: %s", error)


def executing(connection: Connection) -> Execute:
    """`execute` as the catalogue wants it: `?` for parameters."""

    def execute(statement: str, parameters: Sequence[Any] = ()) -> Any:
        return connection.execute(statement.replace("?", "%s"), parameters, binary=True)

    return execute


def copied(batch: Batch) -> bytes:
    """The different reports of a batch as COPY's binary format wants them."""
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
