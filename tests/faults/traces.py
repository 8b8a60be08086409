"""What must not be left behind: addresses, ports, headers, tokens, ids in logs; and the order in which reports came."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from faults.harness import LISTENED, SECRETS, Collector, Row, add_token, collector_for
from faults.sending import FORWARDED, MARK, PORTS, SOURCE, Diary, Maker, Writer
from faults.stored import Database, PostgresDatabase, SqliteDatabase

LIKELY = 5.0
"""Standard deviations that a statistic of a random order may be off by."""


def needles() -> dict[str, list[bytes]]:
    """What devices sent along, by kind. Secrets also as the bytes that their digits stand for."""
    halves = [text.rpartition("_")[2] for text in SECRETS]
    return {
        "addresses": [SOURCE.encode(), FORWARDED.encode()],
        "headers": [MARK.encode()],
        "tokens": [half.encode() for half in halves] + [bytes.fromhex(half) for half in halves],
        "ports": [b":%d" % port for port in PORTS - LISTENED],
    }


def found_in(files: Iterable[Path], sought: dict[str, list[bytes]]) -> dict[str, int]:
    """How many of the needles of each kind are somewhere in the files."""
    patterns = {
        kind: re.compile(b"(?:" + b"|".join(map(re.escape, some)) + rb")\b") for kind, some in sought.items() if some
    }
    found: dict[str, set[bytes]] = {kind: set() for kind in sought}
    for file in files:
        try:
            content = file.read_bytes()
        except FileNotFoundError:  # a database tidies up meanwhile
            continue
        for kind, pattern in patterns.items():
            found[kind].update(pattern.findall(content))
    return {kind: len(some) for kind, some in found.items()}


def left_behind(logs: Sequence[Path], files: Sequence[Path]) -> Row:
    """Scan every log and every file of every database after everything that was done."""
    sought = needles()
    ports = {"ports": sought.pop("ports")}
    # In a database of random bytes a few digits mean nothing: ports are sought in logs.
    counts = found_in([*logs, *files], sought) | found_in(logs, ports)
    lines = sum(log.read_bytes().count(b"\n") for log in logs)
    return Row(
        name="logs and databases",
        done="all that the runs above left is scanned for what senders brought",
        counts={"logs": len(logs), "lines": lines, "files of databases": len(files)} | counts,
        complaints=[f"{count} {kind} found" for kind, count in counts.items() if count],
    )


def order(folder: Path, database: Database, *, reports: int, collector: Collector | None = None) -> Row:
    """Send reports one after the other, close the round, and look for the order of sending in whatever is stored."""
    if collector is None:
        collector = collector_for(folder, database)
    upload, admin = add_token(database, "upload"), add_token(database, "admin")
    with collector.running():
        sent = asyncio.run(_send_in_order(collector, upload, reports))
        log_before = collector.log.read_bytes()
        closed = collector.ask(
            "POST", f"/v1/releases/{collector.releases[0].id}/rounds/first/close", token=admin, seconds=300
        )
    complaints = [] if closed.status in (200, 204) else [f"the round could not be closed: {closed.status}"]
    places = {id: place for place, id in enumerate(sent)}
    counts: dict[str, object] = {"reports": len(sent)}
    for way, ids in stored_orders(database, sent).items():
        rank, together = order_left([places[id] for id in ids])
        counts[way] = f"{len(ids):,} found, {rank:+.1f} and {together:+.1f} σ"
        if max(abs(rank), abs(together)) > LIKELY:
            complaints.append(f"{way} tells the order of arrival")
    times = log_before.count(b"\n")
    counts["lines of log"] = times
    if times > len(sent) / 20:
        complaints.append("the log has a line for every request: their times")
    counts["ids in the log"] = sum(id.hex().encode() in log_before for id in sent)
    if counts["ids in the log"]:
        complaints.append("reports are named in the log")
    return Row(
        name=f"order of arrival, {database.kind}",
        done=f"{len(sent):,} reports one after the other; correlation of sending and stored order, by rank and of "
        "neighbours, after the round was closed",
        counts=counts,
        complaints=complaints,
    )


async def _send_in_order(collector: Collector, token: str, count: int) -> list[bytes]:
    diary, maker = Diary(), Maker(collector.releases[0].veil)
    writer = Writer(collector.address, token, diary)
    for _ in range(0, count, 5):
        await writer.send(maker.reports(5))
    writer.close()
    return list(diary.sent)


def stored_orders(database: Database, sent: Sequence[bytes]) -> dict[str, list[bytes]]:
    """Every order that somebody with the database in hand sees the ids in."""
    known = set(sent)
    orders = {"rows as they come": [row.id for row in database.rows()]}
    if isinstance(database, SqliteDatabase):
        for file in database.files():
            orders[f"bytes of the file{file.suffix.removeprefix('.db')}"] = ids_in(file.read_bytes(), known)
    if isinstance(database, PostgresDatabase):
        for table in ("reports", "sorting", "arrivals"):
            for column in ("ctid", "xmin::text::bigint"):
                rows = database.select(f"SELECT id FROM {table} ORDER BY {column}, id")
                orders[f"{table} by {column.partition(':')[0]}"] = [bytes(row[0]) for row in rows]
        for name, file in database.table_files().items():
            orders[f"bytes of {name}"] = ids_in(file.read_bytes(), known)
    return {way: ids for way, ids in orders.items() if len(ids) > 10}


def ids_in(content: bytes, known: set[bytes]) -> list[bytes]:
    """The known ids that a file holds, in the order in which they lie there first."""
    first = np.unique(np.array([int.from_bytes(id[:8], "little") for id in known], dtype=np.uint64))
    places: list[int] = []
    for shift in range(8):
        count = (len(content) - shift) // 8
        if count > 0:
            words = np.frombuffer(content, dtype="<u8", count=count, offset=shift)
            places += (np.flatnonzero(np.isin(words, first)) * 8 + shift).tolist()
    found = [content[place : place + 16] for place in sorted(places)]
    return list(dict.fromkeys(id for id in found if id in known))


def order_left(sequence: Sequence[int]) -> tuple[float, float]:
    """How far a stored sequence of sending places is from a random one, in standard deviations.

    First Spearman's correlation of place and rank, which any trend moves; then how near neighbours in the store were
    when they were sent, which also sees batches that were stored together in a shuffled order.
    """
    ranks = np.argsort(np.argsort(sequence)).astype(float)
    n = len(ranks)
    rho = np.corrcoef(np.arange(n), ranks)[0, 1]
    nearness = np.abs(np.diff(ranks)).mean() / n - 1 / 3
    return float(rho * np.sqrt(n - 1)), float(nearness / np.sqrt(1 / 18 / n))
