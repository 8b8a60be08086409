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
    return list(found.values())


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

Written by `make faults` ({size}) on {date}: {cores} cores, {memory} GB of memory, {system}, Python {python},
SQLite {sqlite}, PostgreSQL {postgres}, {minutes} minutes. Collector, database and senders shared the machine.

Small versions of all of it run with `make test` (`tests/faults/test_faults.py`). There, deliberately broken collectors
also show that the checks can fail (`tests/faults/test_checks.py`).

| Fault | Done | Counted | Verdict |
|---|---|---|---|
{table}

## How to read it

- **kill −9** strikes all processes of the collector while writers send; each sends again until it is acknowledged.
  Some kills strike while the collector is starting. After every restart and at the end the rows are read straight from
  the database and held against the writers' diaries: every acknowledged id is there once, with its bytes; nothing is
  there that was not sent; the collector's counts are those of the rows. A killed process leaves what the system has
  in memory intact, so this is not the same as pulling the plug: against that stand SQLite's `synchronous=FULL` and
  PostgreSQL's `synchronous_commit=on`.
- **Outages** last as long as the table says while writers go on. Refusals must be 503 with `Retry-After`, `/readyz`
  must say 503, and nothing may be acknowledged that is not stored. "Files may not grow" is what a full disk looks like
  where there is no file system to fill.
- **Fuzzed bodies** are good ones with bytes changed, cut, spliced and announced wrongly, JSON with odd values, keys,
  letters and depths, and random bytes. Some are valid by chance, since an id may be any 16 bytes: every row is checked
  to be a report that a device can have made. **Fuzzed requests** break HTTP itself. **Schemathesis** makes requests of
  the collector's own OpenAPI document.
- **Slow clients** send headers or bodies byte by byte, do not read answers, or say nothing, and come back as soon as
  they are closed. Honest requests are timed from when they were due; "alone" is the worse of before and after.
- **Order of arrival**: reports are sent one after the other, and the round is closed. Figures are standard deviations
  (σ) of a random order: the rank correlation with the order of sending, and whether neighbours came together. More than
  {likely} either way is a complaint. PostgreSQL's own log (`pg_wal`) keeps what was written until its segments are used
  again, and is not part of this.
- **Logs and databases** of all the runs above are scanned for the devices' addresses, their ports (in logs), what
  stood in their headers, and the secrets of all tokens.
"""
