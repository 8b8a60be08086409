"""Reports in PostgreSQL (psycopg 3): for several machines, or a database that is operated already.

Everything lies in a schema of its own, `taskveil`. How reports come to lie in the order of ids, while others come, is
told in postgres_settling.py.

**Durability.** `ingest` returns after a COMMIT with `synchronous_commit` on; a server that does not write to the disk
(`fsync` off) is refused. If the connection breaks during the commit nobody knows whether it happened: that is a
StoreUnavailableError, and the same reports again are duplicates if it did.

**Writers.** Several may bring the same ids at once: each looks for its ids, inserts the rest in the order of ids (so no
two wait for each other in a circle), and if fewer rows were made than it expected, another was quicker: it starts
again, alone. Counts are rows of their own for every process (`slot`): writers do not wait for each other's commits.

**Threads.** Any thread may call any method; each has a connection to itself for that long. Connections need a session
of their own: behind PgBouncer use its session mode.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg import errors, sql

from taskveil.arrays import Integers
from taskveil.collector.journal import failed, journal
from taskveil.collector.store import (
    StoreError,
    StoreUnavailableError,
    Submission,
    catalogue,
    migrations,
    postgres_settling,
)
from taskveil.collector.store.batches import Batch
from taskveil.collector.store.migrations import Execute
from taskveil.collector.store.pool import Pool
from taskveil.collector.store.postgres_ingest import COLUMNS, OvertakenError, grow, insert
from taskveil.collector.store.postgres_settling import Connection, executing
from taskveil.collector.store.sql import PAGE, SqlStore

MODES = ("ROW EXCLUSIVE", *["SHARE ROW EXCLUSIVE"] * 3)
"""How an ingest locks `arrivals`: beside other writers; if one of them was in its way, alone."""

LOOK_EVERY = 5000
"""Reports that a process stores between two looks whether it is time to settle."""

SETTLE_AGAIN = 10.0
"""Seconds between a settling for which there was no chance and the next."""

PATIENCE_SHARE = 0.7
"""Of `busy_seconds`, after which an ingest gives up: a settling that waits for its turn gives up before."""

PASSING = ("the database system is", "too many", "connection slots", "recovery")
"""Words of a server that refuses a connection for now: it starts or stops, or has too many."""


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
        self._commit_seconds = 0.0
        """What commits took lately, at most."""
        self._settle_after = -math.inf
        self._settler: threading.Thread | None = None
        self._settles_on: Connection | None = None
        self._closing = threading.Event()
        with self._translated(opening=True), self._pool.lend() as connection:
            if not allow_unsafe and connection.execute("SHOW fsync").fetchone() != ("on",):
                raise StoreError("the PostgreSQL server may lose what it acknowledges: turn its fsync on.")
            self._migrate(connection)

    def close(self) -> None:
        """Give back all connections; a settling that is under way is broken off, and left to the next."""
        self._closing.set()
        if self._settler is not None:
            while self._settler.is_alive():
                if self._settles_on is not None:
                    self._settles_on.cancel()
                self._settler.join(0.1)
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
            if opening and "FATAL" not in text:
                raise StoreUnavailableError(
                    f"no PostgreSQL server answers at this address ({name}): does it run, and are host and port right?"
                ) from None
            raise StoreUnavailableError(f"the database cannot be used just now ({name}).") from None
        except (errors.UndefinedTable, errors.InvalidSchemaName, errors.InsufficientPrivilege) as error:
            raise StoreError(
                f"the database lacks tables or rights that are needed ({type(error).__name__}): its user must own the "
                "schema taskveil, or be allowed to make it."
            ) from None
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
            # A server that vanished (its machine, not its process) tells nobody: without these an answer is awaited for
            # two hours.
            keepalives_idle=seconds,
            keepalives_interval=1,
            keepalives_count=seconds,
            application_name="taskveil",
        )
        try:
            connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
            connection.execute(f"SET lock_timeout = {int(self._busy_seconds * 1000)}")
            # Settling counts on statements that see what was committed before each of them; a database or a role may
            # have another default.
            connection.execute("SET default_transaction_isolation TO 'read committed'")
            # By its index, always: a planner that guesses reads (and sorts) a whole table for every page of it.
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
            execute("SELECT pg_advisory_xact_lock(?)", (postgres_settling.LOCK + 1,))
            # Only if it is missing: the right to make schemas is needed even for one that is there.
            if list(execute("SELECT 1 WHERE to_regnamespace(quote_ident(?)) IS NULL", (self._schema,))):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            migrations.migrate(execute, migrations.POSTGRES)

    # Reports

    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """As `Store.ingest`."""
        began = time.monotonic()
        for mode in MODES:
            with self._translated(), self._writers.lend() as connection:
                try:
                    fates = self._ingest(connection, submissions, mode)
                except (OvertakenError, errors.DeadlockDetected, errors.SerializationFailure):
                    connection.execute("ROLLBACK")
                    continue
            self._commit_seconds = max(time.monotonic() - began, 0.9 * self._commit_seconds)
            self._since_look += sum(map(len, fates))
            if self._since_look >= LOOK_EVERY:
                self._since_look = 0
                self._settle_beside()
            return fates
        raise StoreUnavailableError("the database is busy: other writers were in the way time and again.")

    def _ingest(self, connection: Connection, submissions: Sequence[Submission], mode: str) -> list[Integers]:
        """One transaction in four exchanges with the server."""
        opened = connection.execute(f"BEGIN; LOCK TABLE arrivals IN {mode} MODE; {catalogue.ROUNDS}")
        while opened.nextset():
            pass
        batch = Batch.of(submissions, catalogue.rounds_by_number(opened, only_open=True))
        fates = batch.fates(insert(connection, batch) if len(batch.order) else {})
        grow(connection, self._slot, batch.growth(fates))
        connection.execute("COMMIT")
        return fates

    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """As `SqlStore.page`."""
        of_round = "" if round is None else f"AND round = {round:d}"
        whole = " UNION ALL ".join(
            f"(SELECT id, round, payload FROM {table} WHERE release = ? AND id > ? {of_round} ORDER BY id LIMIT {PAGE})"  # noqa: S608
            for table in ("arrivals", "settling", "reports")
        )
        return list(execute(f"{whole} ORDER BY id LIMIT {PAGE}", (release, after) * 3))

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
            patience = self._patience()
            if not postgres_settling.settle(connection, forget=forget, wait=self._settle_seconds, patience=patience):
                raise StoreUnavailableError("somebody else is settling reports for long: try again later.")
            # Dropped files go at the next checkpoint, and so do the segments of the server's log (with `wal_recycle`
            # off, else they are overwritten in time). A user who may not hurry that leaves it to the server.
            with suppress(errors.InsufficientPrivilege):
                connection.execute("SELECT pg_switch_wal()")
            with suppress(errors.InsufficientPrivilege):
                connection.execute("CHECKPOINT")

    def _patience(self) -> float:
        """Seconds that a settling may keep others waiting: long enough for a commit that is under way."""
        return min(postgres_settling.PATIENCE + self._commit_seconds, PATIENCE_SHARE * self._busy_seconds)

    def _settle_beside(self) -> None:
        """Look, in a thread, whether arrivals have grown enough to be settled."""
        if self._closing.is_set() or (self._settler is not None and self._settler.is_alive()):
            return
        if time.monotonic() < self._settle_after:
            return
        self._settler = threading.Thread(target=self._settle_if_due, name="settling", daemon=True)
        self._settler.start()

    def _settle_if_due(self) -> None:
        try:
            with self._translated(), self._pool.lend() as connection:
                self._settles_on = connection
                if postgres_settling.due(executing(connection)):
                    postgres_settling.settle(connection, patience=self._patience())
        except StoreError as error:
            self._settle_after = time.monotonic() + SETTLE_AGAIN
            if not self._closing.is_set():
                journal.warning("Reports were not brought into the order of ids; the next try is soon: %s", error)
        except Exception as error:  # a thread's own last words would quote rows
            failed("Reports could not be brought into the order of ids.", error)
        finally:
            self._settles_on = None
