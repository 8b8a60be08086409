"""All faults against a real collector, one after the other: a table of what was done, counted and found.

    python tests/faults/run.py                              # full size: about an hour and a half
    python tests/faults/run.py --short                      # minutes
    python tests/faults/run.py --page docs/operate/reliability.md   # and write the page
    python tests/faults/run.py --only kills-sqlite --only slow --rows some.json     # some of them, for later:
    python tests/faults/run.py --merge some.json --merge others.json --page docs/operate/reliability.md

Parts may run side by side, in processes of their own: each scans what itself has left behind. Exit code 1 if anything
was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import databases
from faults import access, duplicates, fuzz, kills, outages, slow, traces
from faults.harness import Row, collector_for
from faults.page import merged, page
from faults.stored import Database, PostgresDatabase, SqliteDatabase

FULL = {"kills": 200, "bodies": 100_000, "requests": 3000, "examples": 200, "reports": 10_000, "clients": 500,
        "seconds": 30.0, "honest": 15.0, "sent": 20_000, "rounds": 3}  # fmt: skip
SHORT = {"kills": 5, "bodies": 2000, "requests": 300, "examples": 10, "reports": 500, "clients": 40,
         "seconds": 4.0, "honest": 4.0, "sent": 2000, "rounds": 1}  # fmt: skip


class Run:
    """A folder with everything that a run leaves: releases, logs, databases."""

    def __init__(self, folder: Path, size: dict[str, float]) -> None:
        self.folder, self.size = folder, size
        self.server = databases.start(folder / "postgres")
        self.databases: list[Database] = []

    def sqlite(self, name: str) -> tuple[Path, SqliteDatabase]:
        """A folder and an empty file."""
        folder = self.folder / f"{name}-sqlite"
        self.databases.append(database := SqliteDatabase(folder))
        return folder, database

    def postgres(self, name: str) -> tuple[Path, PostgresDatabase]:
        """A folder and an empty database of the server."""
        folder = self.folder / f"{name}-postgres"
        folder.mkdir(parents=True, exist_ok=True)
        self.databases.append(database := PostgresDatabase(self.server))
        return folder, database

    def both(self, name: str) -> Iterator[tuple[Path, Database]]:
        """SQLite and PostgreSQL."""
        yield self.sqlite(name)
        yield self.postgres(name)

    def count(self, name: str) -> int:
        """One of the sizes."""
        return int(self.size[name])


def kills_sqlite(run: Run) -> Iterator[Row]:
    folder, file = run.sqlite("kills")
    yield kills.kills(folder, file, times=run.count("kills"))


def kills_postgres(run: Run) -> Iterator[Row]:
    folder, database = run.postgres("kills")
    yield kills.kills(folder, database, times=run.count("kills"), database_every=5)


def kills_workers(run: Run) -> Iterator[Row]:
    for folder, either in run.both("kills-of-workers"):
        yield kills.kills(folder, either, times=max(2, run.count("kills") // 10), workers=2)


def all_outages(run: Run) -> Iterator[Row]:
    seconds = run.size["seconds"]
    for what, fault in (("database stopped", outages.stopped), ("database frozen", outages.frozen)):
        folder, database = run.postgres(what.replace(" ", "-"))
        collector = collector_for(folder, database, commit_seconds=3.0)
        yield outages.outage(collector, fault(database), what, seconds=seconds)
    folder, file = run.sqlite("busy")
    collector = collector_for(folder, file, commit_seconds=3.0)
    yield outages.outage(collector, outages.busy(file), "file locked by another process", seconds=seconds)
    folder, file = run.sqlite("file-size")
    collector = collector_for(folder, file, commit_seconds=3.0)
    yield outages.outage(collector, outages.file_size_limit(collector), "files may not grow", seconds=seconds)
    if os.geteuid() == 0:
        yield from full_disks(run, seconds)
    for folder, either in run.both("worker"):
        collector = collector_for(folder, either, workers=2)
        yield outages.outage(
            collector, outages.worker_killed(collector), "one worker of two killed", seconds=5.0, must_refuse=False
        )


def full_disks(run: Run, seconds: float) -> Iterator[Row]:
    """Real file systems without a byte left."""
    disk = run.folder / "disk-sqlite"
    with outages.small_disk(disk, 32):
        file = SqliteDatabase(disk)
        collector = collector_for(run.folder / "full-sqlite", file, commit_seconds=3.0)
        yield outages.outage(collector, outages.disk_filled(disk), "disk full", seconds=seconds)
    disk = run.folder / "disk-postgres"
    with outages.small_disk(disk, 400):
        server = databases.start(disk / "postgres")
        try:
            collector = collector_for(run.folder / "full-postgres", PostgresDatabase(server), commit_seconds=3.0)
            yield outages.outage(collector, outages.disk_filled(disk), "disk full", seconds=seconds)
        finally:
            server.stop()


def bodies_sqlite(run: Run) -> Iterator[Row]:
    yield fuzz.fuzzed_bodies(*run.sqlite("bodies"), bodies=run.count("bodies"))


def bodies_postgres(run: Run) -> Iterator[Row]:
    yield fuzz.fuzzed_bodies(*run.postgres("bodies"), bodies=run.count("bodies"))


def all_requests(run: Run) -> Iterator[Row]:
    yield fuzz.fuzzed_requests(*run.sqlite("requests"), requests=run.count("requests"))
    yield fuzz.schemathesis(*run.sqlite("schemathesis"), examples=run.count("examples"))


def all_duplicates(run: Run) -> Iterator[Row]:
    for folder, database in run.both("duplicates"):
        yield duplicates.duplicates(folder, database, reports=run.count("reports"))


def all_slow(run: Run) -> Iterator[Row]:
    for folder, database in run.both("slow"):
        yield slow.slow_clients(folder, database, clients=run.count("clients"), seconds=run.size["honest"])


def all_access(run: Run) -> Iterator[Row]:
    for folder, database in run.both("access"):
        yield access.access(folder, database, rounds=run.count("rounds"))


def all_orders(run: Run) -> Iterator[Row]:
    for folder, database in run.both("order"):
        yield traces.order(folder, database, reports=run.count("sent"))


def left_behind(run: Run) -> Row:
    """Always and last: what it scans is what all the others left."""
    logs = sorted(run.folder.glob("**/collector.log"))
    files = {file for database in run.databases for file in database.files()}
    return traces.left_behind(logs, sorted(files))


PARTS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "kills-sqlite": kills_sqlite,
    "kills-postgres": kills_postgres,
    "kills-workers": kills_workers,
    "outages": all_outages,
    "bodies-sqlite": bodies_sqlite,
    "bodies-postgres": bodies_postgres,
    "requests": all_requests,
    "duplicates": all_duplicates,
    "slow": all_slow,
    "access": all_access,
    "orders": all_orders,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Every fault against a real collector.")
    parser.add_argument("--short", action="store_true", help="small sizes: minutes")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be given several times")
    parser.add_argument("--rows", type=Path, help="where to write the rows of the table, as JSON")
    parser.add_argument("--merge", type=Path, action="append", help="run nothing: take rows that --rows wrote")
    parser.add_argument("--page", type=Path, help="where to write the page")
    parser.add_argument("--keep", type=Path, help="where to leave releases, logs and databases")
    given = parser.parse_args()
    if given.merge:
        rows = merged([Row(**row) for file in given.merge for row in json.loads(file.read_text())])
    else:
        rows = done(given.only or list(PARTS), SHORT if given.short else FULL, given.keep)
    if given.rows is not None:
        given.rows.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if given.page is not None:
        given.page.write_text(page(rows, size="short" if given.short else "full size"))
    return 0 if all(row.passed for row in rows) else 1


def done(parts: list[str], size: dict[str, float], keep: Path | None) -> list[Row]:
    """The rows of these parts."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="taskveil-faults-") as temporary:
        os.chmod(temporary, 0o755)  # PostgreSQL runs as somebody else when we are root
        run, began = Run(keep or Path(temporary), size), time.monotonic()

        def note(row: Row) -> None:
            row.load = round(os.getloadavg()[0], 1)
            rows.append(row)
            print(f"[{(time.monotonic() - began) / 60:5.1f} min, load {row.load}] {row}", flush=True)

        try:
            for part in parts:
                for row in PARTS[part](run):
                    note(row)
            note(left_behind(run))
        finally:
            run.server.stop()
    return rows


if __name__ == "__main__":
    sys.exit(main())
