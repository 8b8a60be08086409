"""How reports come to lie in the order of their ids in PostgreSQL, whose tables lie as they were filled.

Two things would tell who came when: a table's rows lie in the order in which they were inserted, and every row carries
the number of the transaction that made it (`xmin`). Both end when rows are copied, in the order of ids, into a new
table by one transaction. So there are three tables with the same columns:

    arrivals   what was ingested lately
    settling   former arrivals that are being copied (empty between two settlings)
    reports    what was settled: in the order of ids, all by one transaction

To settle is, for the one process that holds the advisory lock:

1. *rotate*, a short transaction: `arrivals` becomes `settling`, and a new, empty table is `arrivals`;
2. *merge*, a long one: copy `reports` and `settling` into a new table in the order of ids, then, for a moment alone,
   put it in the place of `reports`, empty `settling`, and rewrite counts and totals likewise.

Ingest goes on during the copy. It needs the three tables to stay what they are within a transaction, so its first
statement locks `arrivals` (ROW EXCLUSIVE), and so does everybody who swaps tables (in a mode that excludes it), always
in the order arrivals, settling, reports, counts, totals: no two can wait for each other in a circle. Its other
statements begin after that lock was granted and therefore see what the last swap left (READ COMMITTED: every statement
takes its snapshot after its locks). An id is looked for in all three tables.

A reader's statement names the tables in the same order, locks them for its own length only and sees each report exactly
once, before or after the swap. A backup (pg_dump) keeps its locks for long: then a swap would wait, and ingest behind
it; so it gives up after its patience, which is what a commit takes and `PATIENCE` more, and tries again, later. A
process that dies while copying leaves `settling` as it was (its transaction is undone), and the next to settle begins
with the merge.

Forgetting a round is a merge that leaves it out: the files of the old tables are deleted. PostgreSQL's own log (pg_wal)
holds what was written until its segments are used again: see docs/operations.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors

from taskveil.collector.store import StoreUnavailableError, catalogue
from taskveil.collector.store.batches import Growth
from taskveil.collector.store.migrations import UNSAMPLED, UNSAMPLED_COUNTS, UNVACUUMED, Execute

Connection = psycopg.Connection[tuple[Any, ...]]

LOCK = 0x7461736B5E771E
"""The advisory lock of whoever settles."""

LEAST = 2**20
"""Bytes of arrivals below which an open round is left alone: some 10,000 reports."""

SHARE = 0.5
"""Arrivals are settled when they have grown to this part of what is settled: each report is copied a few times."""

PATIENCE = 0.5
"""Seconds that a swap waits for its locks, and therefore keeps ingest waiting, beyond what a commit takes: with less
than that, a swap would never have its turn among commits that follow each other."""

TRIES = 3
"""To put a copy in its place before it is thrown away."""


def executing(connection: Connection) -> Execute:
    """`execute` as the catalogue wants it: `?` for parameters."""

    def execute(statement: str, parameters: Sequence[Any] = ()) -> Any:
        return connection.execute(statement.replace("?", "%s"), parameters, binary=True)

    return execute


def due(execute: Execute) -> bool:
    """Whether arrivals have outgrown what an open round may leave unsettled."""
    arrivals, reports = next(iter(execute("SELECT pg_relation_size('arrivals'), pg_relation_size('reports')")))
    # A table that another process swaps at this moment has no size: then it is not our turn.
    return arrivals is not None and reports is not None and arrivals > max(LEAST, SHARE * reports)


def settle(connection: Connection, *, forget: int | None = None, wait: float = 0.0, patience: float = PATIENCE) -> bool:
    """Bring all that has arrived into the order of ids, leaving out the round `forget` (closed before).

    Returns False if somebody else settled for longer than `wait` seconds. StoreUnavailableError if somebody kept the
    tables locked for that long. Others are kept waiting for `patience` seconds at a time.
    """
    execute = executing(connection)
    until = time.monotonic() + wait
    while not next(iter(execute("SELECT pg_try_advisory_lock(?)", (LOCK,))))[0]:
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    # Not in a `finally`: after an error the connection is closed, and the lock is gone with it.
    if not _empty(execute, "settling"):  # somebody was killed while copying
        _merge(connection, execute, None, until, patience)
    with connection.transaction():
        _become_owner(execute)
        _lock(connection, execute, "arrivals, settling", until, patience)
        execute("DROP TABLE settling")
        execute("ALTER TABLE arrivals RENAME TO settling")
        execute(f"CREATE TABLE arrivals (LIKE settling INCLUDING ALL) {UNVACUUMED}")
        execute(f"ALTER TABLE arrivals {UNSAMPLED}")
    if forget is not None or not _empty(execute, "settling"):
        _merge(connection, execute, forget, until, patience)
    execute("SELECT pg_advisory_unlock(?)", (LOCK,))
    return True


def _merge(connection: Connection, execute: Execute, forget: int | None, until: float, patience: float) -> None:
    with connection.transaction():
        _become_owner(execute)
        execute("SET LOCAL statement_timeout = 0")  # a copy takes as long as it takes
        execute("SET LOCAL enable_seqscan = on")  # a store's connections have it off
        execute("SET LOCAL work_mem = '64MB'")
        execute("SET LOCAL maintenance_work_mem = '64MB'")
        execute(f"CREATE TABLE merged (LIKE reports) {UNVACUUMED}")
        execute(
            "INSERT INTO merged SELECT * FROM (SELECT * FROM settling UNION ALL SELECT * FROM reports) AS both_of_them "
            "WHERE round IS DISTINCT FROM ?::integer ORDER BY release, id",
            (forget,),
        )
        execute("ALTER TABLE merged ADD PRIMARY KEY (release, id)")
        execute(f"ALTER TABLE merged {UNSAMPLED}")
        _lock(connection, execute, "arrivals, settling, reports, counts, totals", until, patience, tries=TRIES)
        execute("DROP TABLE reports")
        execute("ALTER TABLE merged RENAME TO reports")
        execute("TRUNCATE settling")
        if forget is not None:
            catalogue.drop_round(execute, forget)
        _rewrite_counts(execute)


def _rewrite_counts(execute: Execute) -> None:
    """Their rows tell too when a payload came last. Afterwards all are of one transaction, the slots are added up."""
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
        total.moments = catalogue.added_up([total.moments, catalogue.unpacked(blob)])
    execute("TRUNCATE totals")
    for number, total in totals.items():
        catalogue.add_totals(execute, number, 0, total)


def _become_owner(execute: Execute) -> None:
    """Until the end of the transaction: a superuser who ends a round must not leave tables that the collector's own
    role cannot use."""
    execute("SELECT set_config('role', pg_get_userbyid(relowner), TRUE) FROM pg_class WHERE oid = 'reports'::regclass")


def _lock(
    connection: Connection, execute: Execute, tables: str, until: float, patience: float, *, tries: int = 1
) -> None:
    """Lock tables until the end of the transaction, in spite of those who lock them for long, but never making others
    wait for longer than `patience` at a time."""
    execute(f"SET LOCAL lock_timeout = {int(patience * 1000)}")
    while True:
        try:
            with connection.transaction():
                execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            return
        except errors.LockNotAvailable:
            tries -= 1
            if time.monotonic() >= until and tries <= 0:
                raise StoreUnavailableError(
                    "the reports could not be brought into the order of ids: for longer than "
                    f"{patience:.1f} s somebody reads (a backup?) or commits."
                ) from None
        time.sleep(patience)


def _empty(execute: Execute, table: str) -> bool:
    return not list(execute(f"SELECT 1 FROM {table} LIMIT 1"))  # noqa: S608
