"""docs/reliability.md: the table of a run, where it ran, and how to read it."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import databases
from faults import traces
from faults.harness import ROOT, Row


def merged(rows: Sequence[Row]) -> list[Row]:
    """Rows of several runs: those that only count and are alike are one."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        first = found.setdefault((row.name, row.done), row)
        if first is not row:
            first.counts = {name: first.counts[name] + count for name, count in row.counts.items()}
            first.complaints += row.complaints
            first.load = max(first.load, row.load)
    return sorted(found.values(), key=lambda row: row.name == "logs and databases")  # that one last


def page(rows: Sequence[Row], *, size: str) -> str:
    """The whole page. It names no host."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return TEXT.format(
        size=size,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        memory=f"{memory:.0f}",
        system=platform.system(),
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        postgres=_output([str((databases.POSTGRES or Path()) / "postgres"), "--version"]).split()[2],
        commit=_output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        likely=f"{traces.LIKELY:.0f}",
        table="\n".join(map(_line, rows)),
    )


def _line(row: Row) -> str:
    verdict = "as it should be" if row.passed else "; ".join(row.complaints).replace("\n", " ")
    return f"| {row.name} | {row.done} | {row.counted()} | {row.load:.1f} | {verdict} |"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


TEXT = """\
# What the collector survives

The collector killed, starved, flooded and lied to, on purpose: `make faults`, {size}, on {date} with commit
{commit}. {cores} cores, {memory} GB of memory, {system}, Python {python}, SQLite {sqlite}, PostgreSQL {postgres}.
Collector, database and senders shared the machine, and other work did: the load is the average number of processes that
wanted to run in the minute before a line was done, where {cores} is a machine that is just busy.

| Fault | Done | Counted | Load | Verdict |
|---|---|---|---|---|
{table}

## How to run it

```sh
make faults                                       # all of it, one after the other: an hour and a half; writes this page
.venv/bin/python tests/faults/run.py --short      # minutes
.venv/bin/python tests/faults/run.py --only kills-sqlite --rows kills.json   # parts, which may run side by side
.venv/bin/python tests/faults/run.py --merge kills.json --merge others.json --page docs/reliability.md
```

It needs PostgreSQL's binaries, and root for the rows with full disks (it mounts small file systems); without root these
are left out. Small versions of all of it run with `make test` (`tests/faults/test_faults.py`). There, deliberately
broken collectors show that the checks can fail (`tests/faults/test_checks.py`).

## How to read it

- **kill −9** strikes all processes of the collector while writers send; each sends again until it is acknowledged.
  Some kills strike while the collector is starting. After every restart and at the end the rows are read straight from
  the database and held against the writers' diaries: every acknowledged id is there once, with its bytes; nothing is
  there that was not sent; the collector's counts are those of the rows. A killed process leaves what the system has
  in memory intact, so this is not the same as pulling the plug: against that stand SQLite's `synchronous=FULL` and
  PostgreSQL's `synchronous_commit=on`. A restart is timed from the start of the process until `/readyz` says yes, and
  may take 10 seconds.
- **Outages** last as long as the table says while writers go on. Refusals must be 503 with `Retry-After`, `/readyz`
  must say 503 while nothing is stored (counted in the second half), nothing may be acknowledged that is not stored, and
  everybody must be acknowledged within 15 seconds of its end. "Files may not grow" is what a full disk looks like where
  there is no file system to fill. On a disk that is full some commits still find room, in a log that is there already.
- **Duplicates** are sent at once to two workers, so that copies of a report meet at the same moment.
- **Fuzzed bodies** are good ones with bytes changed, cut, spliced and announced wrongly, JSON with odd values, keys,
  letters and depths, and random bytes. Some are valid by chance, since an id may be any 16 bytes: every row is checked
  to be a report that a device can have made. **Fuzzed requests** break HTTP itself. **Schemathesis** makes requests of
  the collector's own OpenAPI document.
- **Slow clients** send headers or bodies byte by byte, do not read answers, or say nothing, and come back as soon as
  they are closed. Honest requests are timed from when they were due; "alone" is the worse of before and after. They may
  take twice as long beside slow clients, at the median and at the 99th percentile.
- **Tokens**: every endpoint that wants one, with each that must not open it: 401 or 403, and nothing has changed.
- **Order of arrival**: reports are sent one after the other, and the round is closed. Figures are standard deviations
  (σ) of a random order: the rank correlation with the order of sending, and whether neighbours came together. More than
  {likely} either way is a complaint. PostgreSQL's own log (`pg_wal`) keeps what was written until its segments are used
  again, and is not part of this.
- **Logs and databases** of all the runs above are scanned for the devices' addresses, their ports (in logs), what
  stood in their headers, and the secrets of all tokens.

## What was not tested

- **Loss of power**, and a system that crashes: a process that is killed leaves what it wrote in the system's memory.
  What stands against that is `synchronous=FULL` and `fsync`, and a disk that does what it says.
- **Disks that fail** or return other bytes than were written; network file systems.
- **Several machines**: collectors on more than one, a database across a real network, standby servers, failover,
  PgBouncer. Everything here was on one machine's loopback and sockets.
- Days of operation, clocks that jump, a machine without memory left, and files of many gigabytes.
- Proxies and containers: see [operations.md](operations.md).
"""
