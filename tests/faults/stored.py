"""What lies in a database, read behind the collector's back, and held against what senders were told."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import psycopg

import databases
from faults.sending import Diary
from processes import below


class Stored(NamedTuple):
    """One row."""

    id: bytes
    payload: bytes
    round: int


class Database(Protocol):
    """A real database that can fail on command."""

    kind: str
    url: str

    def rows(self) -> list[Stored]:
        """All reports, repetitions included, in whatever order the database gives them."""
        ...

    def inconsistencies(self) -> list[str]:
        """Where the collector's counts differ from the rows, or the database from itself."""
        ...

    def files(self) -> list[Path]:
        """All that it has on the disk."""
        ...

    def kill(self) -> None:
        """kill −9 of the database server."""

    def stop(self) -> None:
        """Shut the server down."""

    def start(self) -> None:
        """Whatever happened to it before."""

    def freeze(self) -> None:
        """Stop its processes where they are."""

    def thaw(self) -> None:
        """Let them go on."""


class SqliteDatabase:
    """A file. It has no server that could fail by itself."""

    kind = "SQLite"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "collector.db"
        self.url = f"sqlite:///{self.file}"

    def _select(self, query: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.file, timeout=60)) as db:
            return db.execute(query).fetchall()

    def rows(self) -> list[Stored]:
        return [Stored(*row) for row in self._select("SELECT id, payload, round FROM reports")]

    def inconsistencies(self) -> list[str]:
        (said,) = self._select("PRAGMA integrity_check")[0]
        return ([] if said == "ok" else [f"SQLite finds its file damaged: {said}"]) + _miscounted(
            self._select, "reports"
        )

    def files(self) -> list[Path]:
        return sorted(self.file.parent.glob(f"{self.file.name}*"))

    def kill(self) -> None:
        raise NotImplementedError("SQLite has no server")

    stop = start = freeze = thaw = kill


class PostgresDatabase:
    """A database of its own on a server that only this run uses."""

    kind = "PostgreSQL"
    tables = "(SELECT * FROM arrivals UNION ALL SELECT * FROM sorting UNION ALL SELECT * FROM reports) AS everything"
    """The three between which rows move, in the order in which the collector locks them."""

    def __init__(self, server: databases.Server) -> None:
        self.server = server
        name = f"faults_{uuid4().hex}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        self.url = server.address(name)

    def select(self, query: str) -> list[Any]:
        """Rows of any query, of none that has none."""
        with psycopg.connect(self.url, autocommit=True, options="-c search_path=taskveil") as db:
            found = db.execute(query)  # type: ignore[call-overload]
            return [] if found.description is None else found.fetchall()

    def rows(self) -> list[Stored]:
        return [Stored(*row) for row in self.select(f"SELECT id, payload, round FROM {self.tables}")]

    def inconsistencies(self) -> list[str]:
        return _miscounted(self.select, self.tables)

    def files(self) -> list[Path]:
        return sorted(path for path in self.server.folder.rglob("*") if path.is_file())

    def table_files(self) -> dict[str, Path]:
        """The files of the collector's tables and indexes, written out."""
        self.select("CHECKPOINT")
        found = self.select(
            "SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relnamespace = 'taskveil'::regnamespace"
        )
        return {name: self.server.folder / "data" / path for name, path in sorted(found) if path}

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.restart()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self.server.process is not None
        for pid in (self.server.process.pid, *below(self.server.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _miscounted(select: Any, tables: str) -> list[str]:
    """Rounds whose totals, or whose counts of values, are not what the rows say."""
    rows = dict(select(f"SELECT round, count(*) FROM {tables} GROUP BY round"))
    totals = {number: int(count) for number, count in select("SELECT round, sum(reports) FROM totals GROUP BY round")}
    wrong = [
        f"round {number}: {totals.get(number, 0)} counted and {rows.get(number, 0)} rows"
        for number in sorted({*rows, *totals})
        if totals.get(number, 0) != rows.get(number, 0)
    ]
    of_counted = "SELECT rounds.number FROM rounds JOIN releases ON releases.number = rounds.release WHERE counted"
    counted = {number for (number,) in select(of_counted)}
    values = Counter(
        {
            (number, bytes(payload)): count
            for number, payload, count in select(
                f"SELECT round, payload, count(*) FROM {tables} GROUP BY round, payload"
            )
        }
    )
    said: Counter[tuple[int, bytes]] = Counter()
    for number, payload, count in select("SELECT round, payload, sum(count) FROM counts GROUP BY round, payload"):
        said[number, bytes(payload)] += int(count)
    differing = {key[0] for key in {*values, *said} if key[0] in counted and values[key] != said[key]}
    return wrong + [f"round {number}: counts of values are not those of the rows" for number in sorted(differing)]


def compare(rows: Sequence[Stored], diary: Diary, acknowledged: set[bytes] | None = None) -> list[str]:
    """What is wrong with these rows, given the diary; `acknowledged`: what was when the rows were read."""
    acknowledged = diary.acknowledged if acknowledged is None else acknowledged
    payloads = {row.id: row.payload for row in rows}
    found = {
        "acknowledged and not stored": len(acknowledged - payloads.keys()),
        "stored more than once": len(rows) - len(payloads),
        "stored and never sent": len(payloads.keys() - diary.sent.keys()),
        "stored with other bytes than were sent": sum(
            payload != diary.sent.get(id, payload) for id, payload in payloads.items()
        ),
    }
    return [f"{count} reports {what}" for what, count in found.items() if count]
