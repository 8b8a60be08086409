"""How long an estimate from a Parquet file of reports takes, and how much memory, on one core:

    python benchmarks/estimates_speed.py [REPORTS, by default 10000000]

For every kind of report: a codebook's code number, Laplace noise on eight numbers, a response between levels, sums of
codewords, a lattice of 18 coordinates. Seconds (of one core) and peak memory are those of a process that loads the
release, reads the file and estimates all that is measured, with intervals. The memory must not grow with the file; that
a tenth of the reports takes as much shows it. Reports are drawn again from 100,000 real ones: making ten million is not
what is measured.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import taskveil as tv
from taskveil.jobs.commands import tally_tables
from taskveil.jobs.reports import RELEASE
from taskveil.jobs.tables import BATCH_ROWS

MOST_SECONDS = {"lattice, 18 coordinates": 30.0}
"""What is promised for ten million reports; 5 for all others."""
MADE = 100_000


class Measured(NamedTuple):
    """One estimate: seconds of reading and counting, of the estimate itself, and the process's peak in MB."""

    kind: str
    reports: int
    reading: float
    estimating: float
    peak: float


def releases() -> dict[str, tv.Veil]:
    """A veil of every kind for the same 2,000 volunteers with eight attributes."""
    X = volunteers()
    weights = np.diag(1.0 / X.std(axis=0))
    return {
        "codebook, ε = 2": tv.design(X, tv.LinearTask(weights), epsilon=2.0, method="codebook"),
        "codebook, ε = 8": tv.design(X, tv.LinearTask(weights), epsilon=8.0, method="codebook"),
        "Laplace, 8 numbers": tv.design(X, tv.LinearTask(weights), epsilon=2.0, method="task_agnostic"),
        "levels, ε = 2": tv.design(X, tv.MeanTask(weights), epsilon=2.0),
        "sums, ε = 16": tv.design(X, tv.LinearTask(weights), epsilon=16.0, method="codebook"),
        "lattice, 18 coordinates": tv.design(
            volunteers(18), tv.LinearTask(np.eye(18)), epsilon=60.0, method="codebook"
        ),
    }


def volunteers(width: int = 8) -> np.ndarray:
    """Correlated attributes (2000, width), some of them skewed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, width)) @ rng.normal(size=(width, width)).T
    return np.column_stack([X[:, :6], np.exp(X[:, 6:] / 4)])


def write(veil: tv.Veil, path: Path, count: int) -> None:
    """So many reports, in one row group."""
    rng = np.random.default_rng(1)
    people = volunteers(veil.encoder.width)
    real = veil.privatize(people[rng.integers(len(people), size=MADE)])
    fields = [pa.field(f"report_{place}", pa.int64(), nullable=False) for place in range(real.shape[1])]
    schema = pa.schema(fields, metadata={RELEASE: veil.release_id.encode()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, BATCH_ROWS):
            rows = real[rng.integers(MADE, size=min(BATCH_ROWS, count - start))]
            writer.write_batch(pa.record_batch([pa.array(column) for column in rows.T], schema=schema))


def measure(release: Path, reports: Path) -> tuple[float, float, float]:
    """In this process: seconds of reading, seconds of estimating, peak memory in MB."""
    start = time.process_time()
    (veil,), (counted,) = tally_tables([release], [reports])
    read = time.process_time()
    assert counted.count == pq.read_metadata(reports).num_rows
    estimate = tv.estimate(veil, counted)
    assert all(row.low <= row.high for rows in estimate.groups.values() for row in rows)
    done = time.process_time()
    return read - start, done - read, peak_memory()


def peak_memory() -> float:
    """Of this process, in MB. (`resource` counts the process that started it, too.)"""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else float("nan")


def measured(count: int) -> list[Measured]:
    """All kinds of reports, each in a process of its own with one thread."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for place, (kind, veil) in enumerate(releases().items()):
            release = Path(folder) / f"release{place}"
            veil.save(release)
            for rows in (count // 10, count):
                reports = Path(folder) / "reports.parquet"
                write(veil, reports, rows)
                command = [sys.executable, __file__, "--measure", str(release), str(reports)]
                printed = subprocess.run(
                    ["env", "OMP_NUM_THREADS=1", *command], capture_output=True, text=True, check=True
                ).stdout
                reading, estimating, peak = map(float, printed.split())
                found.append(Measured(kind, rows, reading, estimating, peak))
    return found


def main(count: int = 10_000_000) -> None:
    """Print the table."""
    print("| reports | kind | reading, s | estimating, s | peak, MB | |")
    print("| --- | --- | --- | --- | --- | --- |")
    for one in measured(count):
        seconds, most = one.reading + one.estimating, MOST_SECONDS.get(one.kind, 5.0)
        verdict = "" if one.reports < count else f"{'≤' if seconds <= most else 'MORE THAN'} {most:g} s"
        print(
            f"| {one.reports:,} | {one.kind} | {one.reading:.2f} | {one.estimating:.2f} | {one.peak:.0f} | {verdict} |"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(*measure(Path(sys.argv[2]), Path(sys.argv[3])))
    else:
        main(*map(int, sys.argv[1:]))
