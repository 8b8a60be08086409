"""All faults against a real collector, one after the other: a table of what was done, counted and found.

    python tests/faults/run.py                              # full size: about an hour and a half
    python tests/faults/run.py --short                      # minutes
    python tests/faults/run.py --page docs/reliability.md   # and write the page
    python tests/faults/run.py --only kills-sqlite --only slow --rows some.json     # some of them, for later:
    python tests/faults/run.py --merge some.json --merge others.json --page docs/reliability.md

Parts may run side by side in processes of their own; each then scans what it left behind itself. Exit code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import databases
from faults import access, duplicates, fuzz, kills, outages, slow, traces
from faults.harness import Row
from faults.page import page
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


def all_kills(run: Run) -> Iterator[Row]:
    times = run.count("kills")
    folder, file = run.sqlite("kills")
    yield kills.kills(folder, file, times=times)
    folder, database = run.postgres("kills")
    yield kills.kills(folder, database, times=times, database_every=5)
    for folder, either in run.both("kills-of-workers"):
        yield kills.kills(folder, either, times=max(2, times // 10), workers=2)


def all_outages(run: Run) -> Iterator[Row]:
    seconds = run.size["seconds"]
    for what, fault in (("database stopped", outages.stopped), ("database frozen", outages.frozen)):
        folder, database = run.postgres(what.replace(" ", "-"))
        collector = outages.collector_for(folder, database, commit_seconds=3.0)
        yield outages.outage(collector, fault(database), what, seconds=seconds)
    folder, file = run.sqlite("busy")
    collector = outages.collector_for(folder, file, commit_seconds=3.0)
    yield outages.outage(collector, outages.busy(file), "file locked by another process", seconds=seconds)
    folder, file = run.sqlite("file-size")
    collector = outages.collector_for(folder, file, commit_seconds=3.0)
    yield outages.outage(collector, outages.file_size_limit(collector), "files may not grow", seconds=seconds)
    if os.geteuid() == 0:
        yield from full_disks(run, seconds)
    for folder, either in run.both("worker"):
        collector = outages.collector_for(folder, either, workers=2)
        yield outages.outage(
            collector, outages.worker_killed(collector), "one worker of two killed", seconds=5.0, must_refuse=False
        )


def full_disks(run: Run, seconds: float) -> Iterator[Row]:
    """Real file systems without a byte left."""
    disk = run.folder / "disk-sqlite"
    with outages.small_disk(disk, 32):
        file = SqliteDatabase(disk)
        collector = outages.collector_for(run.folder / "full-sqlite", file, commit_seconds=3.0)
        yield outages.outage(collector, outages.disk_filled(disk), "disk full", seconds=seconds)
    disk = run.folder / "disk-postgres"
    with outages.small_disk(disk, 400):
        server = databases.start(disk / "postgres")
        try:
            collector = outages.collector_for(
                run.folder / "full-postgres", PostgresDatabase(server), commit_seconds=3.0
            )
            yield outages.outage(collector, outages.disk_filled(disk), "disk full", seconds=seconds)
        finally:
            server.stop()


def all_fuzz(run: Run) -> Iterator[Row]:
    for folder, database in run.both("bodies"):
        yield fuzz.fuzzed_bodies(folder, database, bodies=run.count("bodies"))
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


def all_traces(run: Run) -> Iterator[Row]:
    """Last: what it scans is what all the others left behind."""
    for folder, database in run.both("order"):
        yield traces.order(folder, database, reports=run.count("sent"))
    logs = sorted(run.folder.glob("**/collector.log"))
    files = {file for database in run.databases for file in database.files()}
    yield traces.left_behind(logs, sorted(files))


PARTS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "kills": all_kills,
    "outages": all_outages,
    "fuzz": all_fuzz,
    "duplicates": all_duplicates,
    "slow": all_slow,
    "access": all_access,
    "traces": all_traces,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Every fault against a real collector.")
    parser.add_argument("--short", action="store_true", help="small sizes: minutes")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be given several times")
    parser.add_argument("--page", type=Path, help="where to write the page")
    parser.add_argument("--keep", type=Path, help="where to leave releases, logs and databases")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskveil-faults-") as temporary:
        os.chmod(temporary, 0o755)  # PostgreSQL runs as somebody else when we are root
        run = Run(given.keep or Path(temporary), SHORT if given.short else FULL)
        rows, began = [], time.monotonic()
        try:
            for name, part in PARTS.items():
                if given.only and name not in given.only:
                    continue
                for row in part(run):
                    rows.append(row)
                    print(f"[{(time.monotonic() - began) / 60:5.1f} min] {row}", flush=True)
            if given.page is not None:
                minutes = (time.monotonic() - began) / 60
                given.page.write_text(
                    page(rows, run.server, minutes=minutes, size="short" if given.short else "full size")
                )
        finally:
            run.server.stop()
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
