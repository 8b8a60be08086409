"""The store: the tables of the database, and everything that SQLite and PostgreSQL do in the same way.

For each report the tables hold the release, the round, the id and the value, and nothing about the order of arrival.
Ids are random, and rows are ordered by them.

Methods block. Their changes are durable when they return. Several threads and processes may use one database at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from taskveil.arrays import Bytes, Floats, Integers
from taskveil.collector.store.rows import (
    Growth,
    OpenRound,
    StoredRelease,
    StoredRound,
    StoredToken,
    StoreError,
    StoreUnavailableError,
    Submission,
)

PAGE = 2**14
"""Reports that `payloads` reads in one transaction."""

Execute = Callable[..., Any]
"""Takes SQL with `?` for parameters, and the parameters. Returns an iterable of rows."""

# The schema, in numbered steps. A published step is never edited: a change is a new step.

Step = tuple[str, ...]

COUNTED_ROUNDS: Step = (
    "ALTER TABLE releases ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE releases ADD COLUMN planned INTEGER",
)
"""How many rounds were deleted, whose reports cost people budget all the same, and how many are planned."""

SQLITE_STEPS: tuple[Step, ...] = (
    (
        """CREATE TABLE releases (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
           open BOOLEAN NOT NULL, counted BOOLEAN NOT NULL, current INTEGER)""",
        # AUTOINCREMENT never uses a number twice: the number of a deleted round must not come back.
        """CREATE TABLE rounds (number INTEGER PRIMARY KEY AUTOINCREMENT, release INTEGER NOT NULL, name TEXT NOT NULL,
           open BOOLEAN NOT NULL, UNIQUE (release, name))""",
        """CREATE TABLE files (release INTEGER NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL,
           PRIMARY KEY (release, name)) WITHOUT ROWID""",
        # WITHOUT ROWID: the rows are the index, ordered by id. A row id would number them in the order of arrival.
        """CREATE TABLE reports (release INTEGER NOT NULL, id BLOB NOT NULL, round INTEGER NOT NULL,
           payload BLOB NOT NULL, PRIMARY KEY (release, id)) WITHOUT ROWID""",
        """CREATE TABLE counts (round INTEGER NOT NULL, slot INTEGER NOT NULL, payload BLOB NOT NULL,
           count INTEGER NOT NULL, PRIMARY KEY (round, slot, payload)) WITHOUT ROWID""",
        """CREATE TABLE totals (round INTEGER NOT NULL, slot INTEGER NOT NULL, reports INTEGER NOT NULL,
           moments BLOB NOT NULL, PRIMARY KEY (round, slot)) WITHOUT ROWID""",
        """CREATE TABLE tokens (name TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, digest BLOB NOT NULL,
           scope TEXT NOT NULL, release TEXT, expires DOUBLE PRECISION, rate DOUBLE PRECISION) WITHOUT ROWID""",
    ),
    (),
    COUNTED_ROUNDS,
)

UNVACUUMED = "WITH (autovacuum_enabled = false)"
"""For tables whose rows are never updated or deleted: a vacuum would do nothing but hold locks."""

UNSAMPLED = "ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN payload SET STATISTICS 0"
UNSAMPLED_TOTALS = "ALTER COLUMN reports SET STATISTICS 0, ALTER COLUMN moments SET STATISTICS 0"
UNSAMPLED_COUNTS = "ALTER COLUMN payload SET STATISTICS 0, ALTER COLUMN count SET STATISTICS 0"
"""ANALYZE would copy samples of these columns into the planner's statistics, where they outlive a deleted round."""

POSTGRES_STEPS: tuple[Step, ...] = (
    (
        """CREATE TABLE releases (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE,
           name text NOT NULL, open boolean NOT NULL, counted boolean NOT NULL, current integer)""",
        """CREATE TABLE rounds (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, release integer NOT NULL,
           name text NOT NULL, open boolean NOT NULL, UNIQUE (release, name))""",
        """CREATE TABLE files (release integer NOT NULL, name text NOT NULL, content bytea NOT NULL,
           PRIMARY KEY (release, name))""",
        # postgres.py explains these three tables.
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
    ("ALTER TABLE settling RENAME TO sorting",),
    COUNTED_ROUNDS,
)


def migrate(execute: Execute, steps: Sequence[Step]) -> None:
    """Apply the steps that the database does not have yet.

    The caller begins a transaction that locks out others, and commits it. A step that fails changes nothing.
    """
    execute("CREATE TABLE IF NOT EXISTS collector (schema INTEGER NOT NULL, changes BIGINT NOT NULL)")
    found = list(execute("SELECT schema FROM collector"))
    if not found:
        execute("INSERT INTO collector (schema, changes) VALUES (0, 0)")
    version = found[0][0] if found else 0
    if version > len(steps):
        raise StoreError(
            f"the database has schema version {version}, and this taskveil knows only versions up to {len(steps)}: "
            "use the taskveil that wrote it, or a newer one."
        )
    for step in steps[version:]:
        for statement in step:
            execute(statement)
    execute("UPDATE collector SET schema = ?", (len(steps),))


class Store(ABC):
    """A database of reports. KeyError: the database has no such release, round or token.

    A subclass defines its transactions, `with` blocks that give an `Execute`. An exception inside undoes all changes.
    """

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Execute]:
        """A transaction that changes nothing and waits for no writer."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Execute]:
        """A transaction that is durable when the `with` block ends. Nobody else stores reports during it."""

    @abstractmethod
    def page(self, execute: Execute, release: int, round: int | None, after: bytes) -> list[tuple[bytes, int, bytes]]:
        """Id, round and payload of the next `PAGE` reports in the order of ids, from the first id above `after`."""

    @abstractmethod
    def all_reports(self) -> str:
        """The SQL that stands for a table of all reports."""

    @abstractmethod
    def ingest(self, submissions: Sequence[Submission]) -> list[Integers]:
        """Store all submissions in one durable transaction. Returns the `Fate` of each report (N,) of each submission.

        An id is unique in its release, also across rounds. Two submissions of one call may contain the same id.
        """

    @abstractmethod
    def close_round(self, release: str, name: str) -> None:
        """Take no more reports for the round, and rewrite the database's files in the order of ids."""

    @abstractmethod
    def forget_round(self, release: str, name: str) -> int:
        """Delete a round for good, in the database's files too. Returns how many reports it had."""

    @abstractmethod
    def size(self) -> tuple[int, int | None]:
        """The bytes of the database, and those that are free on its disk; None if this machine does not know them."""

    @abstractmethod
    def ping(self) -> None:
        """StoreUnavailableError unless the database answers and can be written to."""

    def version(self) -> int:
        """A number that grows when releases, rounds or tokens change (not when reports come). Cheap to ask."""
        with self.reading() as execute:
            found: int = next(iter(execute("SELECT changes FROM collector")))[0]
            return found

    # Releases and rounds

    def add_release(self, id: str, *, name: str, counted: bool, files: Mapping[str, bytes], round: str) -> None:
        """Store a release's `files` ("client/manifest.json" …), open it, and open `round` as its current round. If the
        release is already there, it is opened again and its files are replaced."""
        with self.writing() as execute:
            execute(
                "INSERT INTO releases (id, name, open, counted) VALUES (?, ?, TRUE, ?) "
                "ON CONFLICT (id) DO UPDATE SET open = TRUE, name = excluded.name",
                (id, name, counted),
            )
            owner = release_number(execute, id)
            execute("DELETE FROM files WHERE release = ?", (owner,))
            for file, content in files.items():
                execute("INSERT INTO files (release, name, content) VALUES (?, ?, ?)", (owner, file, content))
            _open_round(execute, id, round)

    def releases(self) -> tuple[StoredRelease, ...]:
        """All releases, in the order in which they were added."""
        with self.reading() as execute:
            # Releases first: a round that comes between the two statements is then one too many, never one too few.
            columns = "number, id, name, open, counted, current, forgotten, planned"
            found = list(execute(f"SELECT {columns} FROM releases ORDER BY number"))  # noqa: S608
            rounds: dict[int, list[StoredRound]] = {}
            for owner, number, name, open, reports in execute(
                "SELECT release, number, name, open, "
                "(SELECT coalesce(sum(reports), 0) FROM totals WHERE round = number) FROM rounds ORDER BY number"
            ):
                known = StoredRound(number=number, name=name, open=bool(open), reports=int(reports))
                rounds.setdefault(owner, []).append(known)
        return tuple(
            StoredRelease(
                id=id,
                name=name,
                open=bool(open),
                counted=bool(counted),
                current=next((one.name for one in rounds.get(number, []) if one.number == current), ""),
                rounds=tuple(rounds.get(number, [])),
                forgotten=forgotten,
                planned=planned,
            )
            for number, id, name, open, counted, current, forgotten, planned in found
        )

    def files(self, release: str) -> dict[str, bytes]:
        """The files that `add_release` stored."""
        with self.reading() as execute:
            owner = release_number(execute, release)
            return dict(execute("SELECT name, content FROM files WHERE release = ? ORDER BY name", (owner,)))

    def set_open(self, release: str, *, open: bool) -> None:
        """Set whether the release takes reports."""
        with self.writing() as execute:
            execute("UPDATE releases SET open = ? WHERE number = ?", (open, release_number(execute, release)))
            _changed(execute)

    def plan(self, release: str, rounds: int) -> None:
        """Set how many rounds the release is to have in all."""
        with self.writing() as execute:
            execute("UPDATE releases SET planned = ? WHERE number = ?", (rounds, release_number(execute, release)))
            _changed(execute)

    def open_round(self, release: str, name: str) -> None:
        """Open a new or closed round and make it the current one. Other rounds do not change."""
        with self.writing() as execute:
            _open_round(execute, release, name)

    # Reports

    def counts(self, release: str, round: str | None = None) -> tuple[Bytes, Integers]:
        """The different payloads (K, size) of a counted release, in ascending order, and the count of each (K,). Each
        ingest updates the counts, so no report is read."""
        found: dict[bytes, int] = {}
        with self.reading() as execute:
            for number in round_names(execute, release, round):
                for payload, count in execute("SELECT payload, count FROM counts WHERE round = ?", (number,)):
                    found[payload] = found.get(payload, 0) + count
        ordered = sorted(found)
        payloads = np.frombuffer(b"".join(ordered), dtype=np.uint8)
        return payloads.reshape(len(ordered), -1 if ordered else 0), np.array([found[one] for one in ordered], np.int64)

    def moments(self, release: str, round: str | None = None) -> tuple[int, Floats]:
        """The number of reports, and the sum of their `Submission.moments` (empty if there are none)."""
        with self.reading() as execute:
            return moments(execute, release, round)

    def payloads(self, release: str, round: str | None = None) -> Iterator[tuple[list[str], Bytes]]:
        """All reports in the order of their ids, a page at a time: the round's name of each, and payloads (N, size).

        Memory is constant, and a reader does not disturb writers. Each page is a transaction of its own, because a long
        one would keep SQLite from emptying its log and PostgreSQL from rewriting tables. A report that was stored
        before the first page comes exactly once. One that is stored or deleted meanwhile may come or not."""
        with self.reading() as execute:
            names = round_names(execute, release, round)
            owner = release_number(execute, release)
        after, only = b"", None if round is None else next(iter(names))
        while True:
            with self.reading() as execute:
                found = self.page(execute, owner, only, after)
                if not {number for _, number, _ in found} <= names.keys():  # a round that was opened meanwhile
                    names = round_names(execute, release, None)
            if found:
                payloads = np.frombuffer(b"".join(payload for _, _, payload in found), dtype=np.uint8)
                yield [names[number] for _, number, _ in found], payloads.reshape(len(found), -1)
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def check(self) -> list[str]:
        """Each difference between the counts or totals and the reports themselves, in words; empty if there is none.
        Reads all reports and lets nobody write meanwhile."""
        reports, wrong = self.all_reports(), []
        with self.writing() as execute:
            stored = dict(execute("SELECT round, sum(reports) FROM totals GROUP BY round"))
            there = dict(execute(f"SELECT round, count(*) FROM {reports} GROUP BY round"))  # noqa: S608
            for number in sorted({*stored, *there}):
                if int(stored.get(number, 0)) != there.get(number, 0):
                    wrong.append(f"round {number}: {stored.get(number, 0)} in totals, {there.get(number, 0)} rows")
            every = rounds_by_number(execute(ROUNDS), only_open=False)
            counted = {number for number, known in every.items() if known.counted}
            values: dict[tuple[int, bytes], int] = {}
            for number, payload, count in execute("SELECT round, payload, count FROM counts"):
                values[number, payload] = values.get((number, payload), 0) + count
            by_payload = f"SELECT round, payload, count(*) FROM {reports} GROUP BY round, payload"  # noqa: S608
            rows = {(number, payload): count for number, payload, count in execute(by_payload) if number in counted}
        differing = {key[0] for key in {*values, *rows} if values.get(key, 0) != rows.get(key, 0)}
        return wrong + [f"round {number}: counts of payloads differ from the rows" for number in sorted(differing)]

    # Tokens

    def add_token(self, token: StoredToken) -> None:
        """Store a token; ValueError if there is one of this name."""
        expires = None if token.expires is None else token.expires.timestamp()
        with self.writing() as execute:
            if list(execute("SELECT 1 FROM tokens WHERE name = ?", (token.name,))):
                raise ValueError("there is already a token of this name: revoke it first, or choose another name.")
            execute(
                "INSERT INTO tokens (name, key, digest, scope, release, expires, rate) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (token.name, token.key, token.digest, token.scope, token.release, expires, token.rate),
            )
            _changed(execute)

    def tokens(self) -> tuple[StoredToken, ...]:
        """All tokens, also expired ones."""
        columns = ("name", "key", "digest", "scope", "release", "expires", "rate")
        with self.reading() as execute:
            rows = execute(f"SELECT {', '.join(columns)} FROM tokens ORDER BY name")  # noqa: S608
            found = [dict(zip(columns, row, strict=True)) for row in rows]
        for one in found:
            one["expires"] = None if one["expires"] is None else datetime.fromtimestamp(one["expires"], UTC)
        return tuple(StoredToken(**one) for one in found)

    def revoke_token(self, name: str) -> None:
        """Delete a token: it allows nothing any more."""
        with self.writing() as execute:
            if not list(execute("SELECT 1 FROM tokens WHERE name = ?", (name,))):
                raise KeyError("the store has no such token.")
            execute("DELETE FROM tokens WHERE name = ?", (name,))
            _changed(execute)


# Steps of a transaction


def _changed(execute: Execute) -> None:
    """Make `Store.version` grow."""
    execute("UPDATE collector SET changes = changes + 1")


def release_number(execute: Execute, release: str) -> int:
    """The number by which rows refer to a release."""
    for (number,) in execute("SELECT number FROM releases WHERE id = ?", (release,)):
        return int(number)
    raise KeyError("the store has no such release.")


def _round_number(execute: Execute, release: str, name: str) -> int:
    """The number by which rows refer to a round."""
    owner = release_number(execute, release)
    for (number,) in execute("SELECT number FROM rounds WHERE release = ? AND name = ?", (owner, name)):
        return int(number)
    raise KeyError("the release has no such round.")


def round_names(execute: Execute, release: str, round: str | None) -> dict[int, str]:
    """The names of one round, or of all rounds of a release, by number."""
    if round is not None:
        return {_round_number(execute, release, round): round}
    owner = release_number(execute, release)
    return dict(execute("SELECT number, name FROM rounds WHERE release = ?", (owner,)))


def _open_round(execute: Execute, release: str, name: str) -> None:
    owner = release_number(execute, release)
    execute(
        "INSERT INTO rounds (release, name, open) VALUES (?, ?, TRUE) "
        "ON CONFLICT (release, name) DO UPDATE SET open = TRUE",
        (owner, name),
    )
    execute("UPDATE releases SET current = ? WHERE number = ?", (_round_number(execute, release, name), owner))
    _changed(execute)


def close_round(execute: Execute, release: str, name: str) -> int:
    """Take no more reports. Returns the round's number."""
    number = _round_number(execute, release, name)
    execute("UPDATE rounds SET open = FALSE WHERE number = ?", (number,))
    _changed(execute)
    return number


def drop_round(execute: Execute, number: int) -> None:
    """Delete everything about a closed round except its reports.

    If it was the current round, the release has none afterwards: another round would get reports that nobody meant for
    it. If somebody opened the round again meanwhile, it may have new, acknowledged reports. Then it stays.
    """
    if list(execute("SELECT 1 FROM rounds WHERE number = ? AND open", (number,))):
        raise StoreUnavailableError("the round was opened again while it was being deleted: close it first.")
    execute("DELETE FROM counts WHERE round = ?", (number,))
    execute("DELETE FROM totals WHERE round = ?", (number,))
    execute(
        "UPDATE releases SET forgotten = forgotten + 1 WHERE number IN (SELECT release FROM rounds WHERE number = ?)",
        (number,),
    )
    execute("DELETE FROM rounds WHERE number = ?", (number,))
    execute("UPDATE releases SET current = NULL WHERE current = ?", (number,))
    _changed(execute)


ROUNDS = (
    "SELECT rounds.number, releases.number, counted, rounds.open AND releases.open "
    "FROM rounds JOIN releases ON releases.number = rounds.release"
)


def rounds_by_number(rows: Iterable[tuple[Any, ...]], *, only_open: bool) -> dict[int, OpenRound]:
    """The rounds that take reports now, or all, from the rows of `ROUNDS`."""
    return {
        number: OpenRound(release=release, counted=bool(counted))
        for number, release, counted, open in rows
        if open or not only_open
    }


def add_totals(execute: Execute, number: int, slot: int, growth: Growth) -> None:
    """Add what a round gained, in the transaction that stores the reports, so that totals and rows always agree."""
    (before,) = next(
        iter(
            execute(
                "INSERT INTO totals (round, slot, reports, moments) VALUES (?, ?, ?, ?) ON CONFLICT (round, slot) "
                "DO UPDATE SET reports = totals.reports + excluded.reports RETURNING moments",
                (number, slot, growth.reports, b""),
            )
        )
    )
    if growth.moments.size:
        add_moments(execute, number, slot, before, growth.moments)


def add_moments(execute: Execute, number: int, slot: int, before: bytes, more: Floats) -> None:
    """Set the moments of a row of totals, which this transaction has locked, to the sum of `before` and `more`."""
    total = added_up([unpacked(before), more]).astype("<f8").tobytes()
    execute("UPDATE totals SET moments = ? WHERE round = ? AND slot = ?", (total, number, slot))


def unpacked(blob: bytes) -> Floats:
    """Moments as `add_moments` stored them."""
    return np.frombuffer(blob, dtype="<f8").astype(np.float64)


def added_up(moments: Iterable[Floats]) -> Floats:
    """The sum; an empty array adds nothing."""
    total = np.zeros(0)
    for one in moments:
        total = total + one if total.size and one.size else one if one.size else total
    return total


def moments(execute: Execute, release: str, round: str | None) -> tuple[int, Floats]:
    """As `Store.moments`."""
    rows = [
        row
        for number in round_names(execute, release, round)
        for row in execute("SELECT reports, moments FROM totals WHERE round = ?", (number,))
    ]
    return sum(int(reports) for reports, _ in rows), added_up(unpacked(blob) for _, blob in rows)


# Connections


class Closable(Protocol):
    """A connection of a `Pool`."""

    def close(self) -> Any:
        """Close it."""


PooledConnection = TypeVar("PooledConnection", bound=Closable)


class Pool(Generic[PooledConnection]):
    """Lends each connection to one thread at a time, and opens a new one if none is idle.

    If an exception is raised while a connection is used, it is closed and not lent again: the next caller must not get
    an open transaction or a dead server."""

    def __init__(self, open: Callable[[], PooledConnection]) -> None:
        self._open = open
        self._idle: list[PooledConnection] = []  # its `append` and `pop` are atomic
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[PooledConnection]:
        """A connection for one `with` block."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._open()
        try:
            yield connection
        except BaseException:
            with suppress(Exception):
                connection.close()
            raise
        self._idle.append(connection)
        if self._closed:
            self.drop_idle()

    def drop_idle(self) -> None:
        """Close the idle connections: if one was found dead, the others usually are too."""
        while self._idle:
            with suppress(Exception):
                self._idle.pop().close()

    def close(self) -> None:
        """Close all connections; a lent one when it is given back."""
        self._closed = True
        self.drop_idle()
