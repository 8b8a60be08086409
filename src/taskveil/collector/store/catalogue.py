"""Releases, rounds, counts and tokens in SQL that both databases understand. Every function runs in the caller's
transaction; `execute` takes SQL with `?` for parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from taskveil.arrays import Bytes, Floats, Integers
from taskveil.collector.store import StoredRelease, StoredRound, StoredToken, StoreUnavailableError
from taskveil.collector.store.batches import Growth, OpenRound
from taskveil.collector.store.migrations import Execute


def version(execute: Execute) -> int:
    """How often anything here was changed."""
    found: int = next(iter(execute("SELECT changes FROM collector")))[0]
    return found


def changed(execute: Execute) -> None:
    """Make `version` grow."""
    execute("UPDATE collector SET changes = changes + 1")


# Releases and rounds


def release_number(execute: Execute, release: str) -> int:
    """By which rows refer to a release; KeyError if it is unknown."""
    for (number,) in execute("SELECT number FROM releases WHERE id = ?", (release,)):
        return int(number)
    raise KeyError("the store has no such release.")


def round_number(execute: Execute, release: str, name: str) -> int:
    """By which rows refer to a round; KeyError if it is unknown."""
    owner = release_number(execute, release)
    for (number,) in execute("SELECT number FROM rounds WHERE release = ? AND name = ?", (owner, name)):
        return int(number)
    raise KeyError("the release has no such round.")


def round_names(execute: Execute, release: str, round: str | None) -> dict[int, str]:
    """The names of one round, or of all of a release, by number."""
    if round is not None:
        return {round_number(execute, release, round): round}
    owner = release_number(execute, release)
    return dict(execute("SELECT number, name FROM rounds WHERE release = ?", (owner,)))


def add_release(execute: Execute, id: str, *, name: str, counted: bool, files: Mapping[str, bytes], round: str) -> None:
    """As `Store.add_release`."""
    execute(
        "INSERT INTO releases (id, name, open, counted) VALUES (?, ?, TRUE, ?) "
        "ON CONFLICT (id) DO UPDATE SET open = TRUE, name = excluded.name",
        (id, name, counted),
    )
    owner = release_number(execute, id)
    execute("DELETE FROM files WHERE release = ?", (owner,))
    for file, content in files.items():
        execute("INSERT INTO files (release, name, content) VALUES (?, ?, ?)", (owner, file, content))
    open_round(execute, id, round)


def open_round(execute: Execute, release: str, name: str) -> None:
    """As `Store.open_round`."""
    owner = release_number(execute, release)
    execute(
        "INSERT INTO rounds (release, name, open) VALUES (?, ?, TRUE) "
        "ON CONFLICT (release, name) DO UPDATE SET open = TRUE",
        (owner, name),
    )
    execute("UPDATE releases SET current = ? WHERE number = ?", (round_number(execute, release, name), owner))
    changed(execute)


def set_open(execute: Execute, release: str, *, open: bool) -> None:
    """As `Store.set_open`."""
    execute("UPDATE releases SET open = ? WHERE number = ?", (open, release_number(execute, release)))
    changed(execute)


def close_round(execute: Execute, release: str, name: str) -> int:
    """No more reports. Returns the round's number."""
    number = round_number(execute, release, name)
    execute("UPDATE rounds SET open = FALSE WHERE number = ?", (number,))
    changed(execute)
    return number


def drop_round(execute: Execute, number: int) -> None:
    """Delete what is known of a round besides its reports. A release whose current round it was has none then: to
    fall back to another would file reports where nobody meant them to be.

    Its reports were left out when it was closed. If somebody has opened it again since, there may be new ones, which
    were acknowledged: then it stays."""
    if list(execute("SELECT 1 FROM rounds WHERE number = ? AND open", (number,))):
        raise StoreUnavailableError("the round was opened again while it was being forgotten: end it first.")
    execute("DELETE FROM counts WHERE round = ?", (number,))
    execute("DELETE FROM totals WHERE round = ?", (number,))
    execute("DELETE FROM rounds WHERE number = ?", (number,))
    execute("UPDATE releases SET current = NULL WHERE current = ?", (number,))
    changed(execute)


def releases(execute: Execute) -> tuple[StoredRelease, ...]:
    """As `Store.releases`."""
    # Releases first: a round that comes between the two statements is then one too many, never one too few.
    found = list(execute("SELECT number, id, name, open, counted, current FROM releases ORDER BY number"))
    rounds: dict[int, list[StoredRound]] = {}
    for owner, number, name, open, reports in execute(
        "SELECT release, number, name, open, (SELECT coalesce(sum(reports), 0) FROM totals WHERE round = number) "
        "FROM rounds ORDER BY number"
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
        )
        for number, id, name, open, counted, current in found
    )


def files(execute: Execute, release: str) -> dict[str, bytes]:
    """As `Store.files`."""
    owner = release_number(execute, release)
    return dict(execute("SELECT name, content FROM files WHERE release = ? ORDER BY name", (owner,)))


ROUNDS = (
    "SELECT rounds.number, releases.number, counted, rounds.open AND releases.open "
    "FROM rounds JOIN releases ON releases.number = rounds.release"
)


def rounds_by_number(rows: Iterable[tuple[Any, ...]], *, only_open: bool) -> dict[int, OpenRound]:
    """Those that take reports now, or all, from the rows of `ROUNDS`."""
    return {
        number: OpenRound(release=release, counted=bool(counted))
        for number, release, counted, open in rows
        if open or not only_open
    }


# Counts and totals


def add_totals(execute: Execute, number: int, slot: int, growth: Growth) -> None:
    """Add what a round gained, in the transaction that stores the reports: totals and rows are never apart."""
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
    """Replace the moments of a row of totals, which this transaction has locked, by `before` and `more` together."""
    total = added_up([unpacked(before), more]).astype("<f8").tobytes()
    execute("UPDATE totals SET moments = ? WHERE round = ? AND slot = ?", (total, number, slot))


def unpacked(blob: bytes) -> Floats:
    """Moments as `add_moments` stored them."""
    return np.frombuffer(blob, dtype="<f8").astype(np.float64)


def added_up(moments: Iterable[Floats]) -> Floats:
    """The sum; nothing (an empty array) adds nothing. Rounds that an earlier version began have fewer moments: what is
    missing there at the end is unknown (NaN) in the sum."""
    found = [one for one in moments if one.size]
    longest = max((one.size for one in found), default=0)
    total = np.zeros(longest)
    for one in found:
        total += np.pad(one, (0, longest - one.size), constant_values=np.nan)
    return total


def counts(execute: Execute, release: str, round: str | None) -> tuple[Bytes, Integers]:
    """As `Store.counts`."""
    found: dict[bytes, int] = {}
    for number in round_names(execute, release, round):
        for payload, count in execute("SELECT payload, count FROM counts WHERE round = ?", (number,)):
            found[payload] = found.get(payload, 0) + count
    ordered = sorted(found)
    payloads = np.frombuffer(b"".join(ordered), dtype=np.uint8)
    return payloads.reshape(len(ordered), -1 if ordered else 0), np.array([found[one] for one in ordered], np.int64)


def moments(execute: Execute, release: str, round: str | None) -> tuple[int, Floats]:
    """As `Store.moments`."""
    rows = [
        row
        for number in round_names(execute, release, round)
        for row in execute("SELECT reports, moments FROM totals WHERE round = ?", (number,))
    ]
    return sum(int(reports) for reports, _ in rows), added_up(unpacked(blob) for _, blob in rows)


def check(execute: Execute, reports: str) -> list[str]:
    """Where counts and totals differ from the rows of `reports` (SQL to select from): all is well if it is empty."""
    wrong = []
    stored = dict(execute("SELECT round, sum(reports) FROM totals GROUP BY round"))
    there = dict(execute(f"SELECT round, count(*) FROM {reports} GROUP BY round"))  # noqa: S608
    for number in sorted({*stored, *there}):
        if int(stored.get(number, 0)) != there.get(number, 0):
            wrong.append(f"round {number}: {stored.get(number, 0)} in totals, {there.get(number, 0)} rows")
    counted = {number for number, known in rounds_by_number(execute(ROUNDS), only_open=False).items() if known.counted}
    values: dict[tuple[int, bytes], int] = {}
    for number, payload, count in execute("SELECT round, payload, count FROM counts"):
        values[number, payload] = values.get((number, payload), 0) + count
    rows = {
        (number, payload): count
        for number, payload, count in execute(f"SELECT round, payload, count(*) FROM {reports} GROUP BY round, payload")  # noqa: S608
        if number in counted
    }
    differing = {key[0] for key in {*values, *rows} if values.get(key, 0) != rows.get(key, 0)}
    return wrong + [f"round {number}: counts of payloads differ from the rows" for number in sorted(differing)]


# Tokens


def add_token(execute: Execute, token: StoredToken) -> None:
    """As `Store.add_token`."""
    if list(execute("SELECT 1 FROM tokens WHERE name = ?", (token.name,))):
        raise ValueError("a token of this name is there already: revoke it first, or choose another name.")
    expires = None if token.expires is None else token.expires.timestamp()
    execute(
        "INSERT INTO tokens (name, key, digest, scope, release, expires, rate) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token.name, token.key, token.digest, token.scope, token.release, expires, token.rate),
    )
    changed(execute)


def tokens(execute: Execute) -> tuple[StoredToken, ...]:
    """As `Store.tokens`."""
    return tuple(
        StoredToken(
            name=name,
            key=key,
            digest=digest,
            scope=scope,
            release=release,
            expires=None if expires is None else datetime.fromtimestamp(expires, UTC),
            rate=rate,
        )
        for name, key, digest, scope, release, expires, rate in execute(
            "SELECT name, key, digest, scope, release, expires, rate FROM tokens ORDER BY name"
        )
    )


def revoke_token(execute: Execute, name: str) -> None:
    """As `Store.revoke_token`."""
    if not list(execute("SELECT 1 FROM tokens WHERE name = ?", (name,))):
        raise KeyError("the store has no such token.")
    execute("DELETE FROM tokens WHERE name = ?", (name,))
    changed(execute)
