"""The schema of both databases, in numbered steps: each is applied once, in order, whoever opens the database first.

A step, once published, is never edited: what is to change goes into a new one. Every step of both lists is tested from
every earlier version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taskveil.collector.store import StoreError

Execute = Callable[..., Any]
"""SQL with `?` for parameters, and the parameters, to an iterable of rows."""

Step = tuple[str, ...]

SQLITE: tuple[Step, ...] = (
    (
        """CREATE TABLE releases (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
           open BOOLEAN NOT NULL, counted BOOLEAN NOT NULL, current INTEGER)""",
        # AUTOINCREMENT: a number is never used again, so that a forgotten round's does not come back as another's.
        """CREATE TABLE rounds (number INTEGER PRIMARY KEY AUTOINCREMENT, release INTEGER NOT NULL, name TEXT NOT NULL,
           open BOOLEAN NOT NULL, UNIQUE (release, name))""",
        """CREATE TABLE files (release INTEGER NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL,
           PRIMARY KEY (release, name)) WITHOUT ROWID""",
        # WITHOUT ROWID: the rows are the index, ordered by id. A rowid would number them as they came.
        """CREATE TABLE reports (release INTEGER NOT NULL, id BLOB NOT NULL, round INTEGER NOT NULL,
           payload BLOB NOT NULL, PRIMARY KEY (release, id)) WITHOUT ROWID""",
        """CREATE TABLE counts (round INTEGER NOT NULL, slot INTEGER NOT NULL, payload BLOB NOT NULL,
           count INTEGER NOT NULL, PRIMARY KEY (round, slot, payload)) WITHOUT ROWID""",
        """CREATE TABLE totals (round INTEGER NOT NULL, slot INTEGER NOT NULL, reports INTEGER NOT NULL,
           moments BLOB NOT NULL, PRIMARY KEY (round, slot)) WITHOUT ROWID""",
        """CREATE TABLE tokens (name TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest BLOB NOT NULL,
           scope TEXT NOT NULL, release TEXT, expires DOUBLE PRECISION, rate DOUBLE PRECISION) WITHOUT ROWID""",
    ),
)

UNVACUUMED = "WITH (autovacuum_enabled = false)"
"""Of tables whose rows are never updated or deleted: vacuuming these would do nothing but hold locks for long."""

UNSAMPLED = "ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN payload SET STATISTICS 0"
UNSAMPLED_TOTALS = "ALTER COLUMN reports SET STATISTICS 0, ALTER COLUMN moments SET STATISTICS 0"
UNSAMPLED_COUNTS = "ALTER COLUMN payload SET STATISTICS 0, ALTER COLUMN count SET STATISTICS 0"
"""ANALYZE would copy samples of columns into the planner's statistics, where they outlive a forgotten round."""

POSTGRES: tuple[Step, ...] = (
    (
        """CREATE TABLE releases (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE,
           name text NOT NULL, open boolean NOT NULL, counted boolean NOT NULL, current integer)""",
        """CREATE TABLE rounds (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, release integer NOT NULL,
           name text NOT NULL, open boolean NOT NULL, UNIQUE (release, name))""",
        """CREATE TABLE files (release integer NOT NULL, name text NOT NULL, content bytea NOT NULL,
           PRIMARY KEY (release, name))""",
        # What these three are is told in postgres_settling.py.
        f"""CREATE TABLE reports (release integer NOT NULL, id bytea NOT NULL, round integer NOT NULL,
           payload bytea NOT NULL, PRIMARY KEY (release, id)) {UNVACUUMED}""",
        f"CREATE TABLE settling (LIKE reports INCLUDING ALL) {UNVACUUMED}",
        f"CREATE TABLE arrivals (LIKE reports INCLUDING ALL) {UNVACUUMED}",
        *(f"ALTER TABLE {table} {UNSAMPLED}" for table in ("arrivals", "settling", "reports")),
        """CREATE TABLE counts (round integer NOT NULL, slot integer NOT NULL, payload bytea NOT NULL,
           count bigint NOT NULL, PRIMARY KEY (round, slot, payload))""",
        f"ALTER TABLE counts {UNSAMPLED_COUNTS}",
        """CREATE TABLE totals (round integer NOT NULL, slot integer NOT NULL, reports bigint NOT NULL,
           moments bytea NOT NULL, PRIMARY KEY (round, slot))""",
        f"ALTER TABLE totals {UNSAMPLED_TOTALS}",
        """CREATE TABLE tokens (name text PRIMARY KEY, key text NOT NULL UNIQUE, digest bytea NOT NULL,
           scope text NOT NULL, release text, expires double precision, rate double precision)""",
    ),
)


def migrate(execute: Execute, steps: Sequence[Step]) -> None:
    """Bring the schema up to the last of `steps`, inside a transaction that keeps everybody else out.

    The caller begins it (with the lock) and commits it: a step that fails leaves the database as it was.
    """
    execute("CREATE TABLE IF NOT EXISTS collector (schema INTEGER NOT NULL, changes BIGINT NOT NULL)")
    found = list(execute("SELECT schema FROM collector"))
    if not found:
        execute("INSERT INTO collector (schema, changes) VALUES (0, 0)")
    version = found[0][0] if found else 0
    if version > len(steps):
        raise StoreError(
            f"the database is of schema version {version}, and this taskveil knows versions up to {len(steps)} only: "
            "use the taskveil that wrote it, or a newer one."
        )
    for step in steps[version:]:
        for statement in step:
            execute(statement)
    execute("UPDATE collector SET schema = ?", (len(steps),))
