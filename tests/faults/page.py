"""docs/operate/reliability.md: the table of a run, where it ran, and how to read it."""

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

`make faults` kills, starves and floods real collectors. This is a run of {size} on {date} with commit {commit}:
{cores} cores, {memory} GB of memory, {system}, Python {python}, SQLite {sqlite}, PostgreSQL {postgres}. Collector,
database, senders and other work shared the machine. The load is the average number of processes that wanted to run in
the last minute; {cores} is a busy machine.

| Fault | Done | Counted | Load | Verdict |
|---|---|---|---|---|
{table}

## How to run it

```sh
make faults                                       # everything, about 90 minutes; writes this page
.venv/bin/python tests/faults/run.py --short      # minutes
.venv/bin/python tests/faults/run.py --only kills-sqlite --rows kills.json   # parts, which may run side by side
.venv/bin/python tests/faults/run.py --merge kills.json --merge others.json --page docs/operate/reliability.md
```

You need PostgreSQL's binaries. The rows with full disks also need root, because they mount small file systems. `make
test` runs small versions of everything (`tests/faults/test_faults.py`). Collectors with deliberate errors show that the
checks can fail (`tests/faults/test_checks.py`).

## How to read it

- **kill −9** ends all processes of the collector while writers send. Some kills come during a start. Each writer sends
  again until its reports are acknowledged. After each restart and at the end, the rows of the database are compared
  with the writers' diaries: each acknowledged id is there once, with its bytes; nothing else is there; the counts agree
  with the rows. A restart is timed until `/readyz` answers 200, and may take 10 seconds.
- **Outages**: writers continue. Refusals must be 503 with `Retry-After`. `/readyz` must be 503 while nothing is stored
  (counted in the second half). No report may be acknowledged without being stored. All writers must be acknowledged
  within 15 seconds after the outage. "Files may not grow" simulates a full disk. On a full disk some commits still
  succeed, in a log file that exists already.
- **Duplicates** are sent to two workers at the same moment.
- **Fuzzed bodies** are valid bodies with changed, missing and moved bytes, wrong lengths, odd JSON, and random bytes.
  Some are valid by chance, because an id may be any 16 bytes. Each stored row must be a report that a device can make.
  **Fuzzed requests** break HTTP itself. **Schemathesis** makes requests from the collector's OpenAPI document.
- **Slow clients** send headers or bodies byte by byte, do not read answers, or send nothing. They come back when they
  are closed. Honest requests may take at most twice as long beside them, at the median and the 99th percentile.
  "Alone" is the slower of before and after.
- **Tokens**: each endpoint with each token that it must refuse. The answer must be 401 or 403, and nothing may change.
- **Order of arrival**: reports are sent one after the other, and the round is closed. The numbers are standard
  deviations (σ) of a random order: the rank correlation with the order of sending, and how often neighbours came
  together. More than
  {likely} is a failure. PostgreSQL's write-ahead log (`pg_wal`) is not part of this.
- **Logs and databases** of all runs are searched for the devices' addresses, their ports (in logs), their headers, and
  the secrets of all tokens.

## What was not tested

- **Loss of power** and crashes of the system. A killed process leaves its data in the system's memory. SQLite's
  `synchronous=FULL` and PostgreSQL's `fsync` protect against this, if the disk works correctly.
- **Disks that fail** or return wrong bytes; network file systems.
- **Several machines**: a database across a real network, standby servers, failover, PgBouncer.
- Days of operation, clocks that jump, a machine without free memory, files of many gigabytes.
- Containers. A test runs nginx ([operations.md](operations.md)).
"""
