"""The parts of `python benchmarks/ray.py`, which says how they are measured."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from benchmarks.scaling import paper, people, shapes, storage
from benchmarks.scaling.machine import Watch, WorkerMemory, stamp

import taskveil as tv
from taskveil.jobs.commands import decode_tables, privatize_tables, tally_tables
from taskveil.jobs.plans import MANIFEST
from taskveil.jobs.ray_cluster import connected
from taskveil.jobs.running import Engine

ROOT = Path(__file__).resolve().parents[2]
SCALING_BAR, CORE_BAR, MEMORY_BAR, SWEEP_BAR, DESIGNS = 1.6, 0.8, 500, 1.6, 24
PLAIN, ONE, TWO = Engine(), Engine(name="ray", workers=1), Engine(name="ray", workers=2)
NAMES = {PLAIN: "plain", ONE: "one worker", TWO: "two workers"}
SWEEP = {
    "methods": ["codebook", "task_aware", "task_agnostic"],
    "epsilons": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "seeds": 1,
}

missed: list[str] = []
Found = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How much is to be measured: so many `rows`, `repeat` times, with tables and reports in `folder`."""

    folder: Path
    rows: int
    repeat: int

    def of(self, kind: str) -> tuple[Path, Path, Path]:
        """Tables, release, and where reports go."""
        reports = self.folder / f"reports-{kind}-{self.rows}"
        return people.tables(self.folder, kind, self.rows), people.release(self.folder, kind), reports

    def reports(self) -> tuple[Path, Path]:
        """Reports of all rows, made now where they are not there, and their release."""
        source, release, reports = self.of("codebook")
        if not (reports / MANIFEST).exists():
            privatize_tables(release, source, reports)
        return reports, release


def say(what: str, value: str, ok: bool | None = None, bar: str = "") -> None:
    """One line, and the bar that it is held against."""
    verdict = "" if ok is None else f"  {'ok' if ok else 'MISSED'} (bar: {bar})"
    print(f"{what:50s} {value}{verdict}", flush=True)
    if ok is False:
        missed.append(what)


def anew(folder: Path) -> Path:
    """A target that is not there."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def cluster(asked: Asked) -> Iterator[Found]:
    """A cluster of two cores, after a small job: its workers have imported and opened everything."""
    source = people.tables(asked.folder, "codebook", 20_000, file_rows=5_000)
    release, target = people.release(asked.folder, "codebook"), anew(asked.folder / "first")
    began = time.monotonic()
    with connected(workers=2):
        up = time.monotonic()
        privatize_tables(release, source, target, engine=TWO)
        started = {"start_s": round(up - began, 1), "first_job_s": round(time.monotonic() - up, 1)}
        say("  start of the cluster, and a first small job, s", " and ".join(map(str, started.values())))
        yield started


def turns(what: str, engines: Sequence[Engine], rows: int, repeat: int, job: Callable[[Engine], object]) -> Found:
    """Rows a second of every engine, in turns whose order is reversed every other time; and how they compare."""
    rates: dict[Engine, list[float]] = {engine: [] for engine in engines}
    used: dict[Engine, list[float]] = {engine: [] for engine in engines}
    others, disk, began = 0.0, 0, time.monotonic()
    for turn in range(repeat):
        for engine in engines[:: (-1) ** turn]:
            watch, start = Watch(), time.monotonic()
            job(engine)
            rates[engine].append(rows / (time.monotonic() - start))
            used[engine].append(rows / watch.ours)
            others, disk = others + watch.others, disk + watch.disk
    others /= time.monotonic() - began
    found: Found = {"rows": rows, "others": round(others, 1), "processor": {}}
    for engine, some in rates.items():
        found[NAMES[engine]], found["processor"][NAMES[engine]] = round(median(some)), round(median(used[engine]))
        moved = f"{min(some):,.0f} to {max(some):,.0f}; {median(used[engine]):,.0f} a second of processor"
        say(f"{what}, {NAMES[engine]}, rows/s", f"{median(some):,.0f} ({moved})")
    for name, other, cores in (("scaling", ONE, 1), ("per core", PLAIN, 2)):
        if other in rates:
            found[name] = round(median(two / cores / one for two, one in zip(rates[TWO], rates[other], strict=True)), 3)
    say("  meanwhile", f"others used {others:.1f} cores; {disk / 1e9:.1f} GB came from disk")
    return found


def privatize(asked: Asked) -> Found:
    """Records to reports."""
    source, release, target = asked.of("codebook")
    with cluster(asked) as started, WorkerMemory() as memory:
        found = turns(
            "privatize", [PLAIN, ONE, TWO], asked.rows, asked.repeat,
            lambda engine: privatize_tables(release, source, anew(target), engine=engine),
        )  # fmt: skip
    manifest = json.loads((target / MANIFEST).read_text())
    parts = sorted(target.glob("part-*"))
    counts = manifest["rows"], sum(part["rows"] for part in manifest["parts"]), sum(map(_rows, parts))
    told = ", ".join(f"{count:,}" for count in counts)
    say("  reports: manifest, its parts, the files", told, set(counts) == {asked.rows}, f"{asked.rows:,}")
    scaling, per_core = found["scaling"], found["per core"]
    say("  two workers against one", f"{scaling:.2f} ×", scaling >= SCALING_BAR, f"{SCALING_BAR} ×")
    say("  two workers, each, against plain", f"{per_core:.2f} ×", per_core >= CORE_BAR, f"{CORE_BAR} ×")
    say("  peak memory of a worker", str(memory), memory.most <= MEMORY_BAR, f"{MEMORY_BAR} MB")
    record, report = (sum(at.stat().st_size for at in some) / asked.rows for some in (source.iterdir(), parts))
    say("  bytes of a record and of a report", f"{record:.1f} and {report:.2f}")
    return found | started | {"memory": memory.most, "record bytes": round(record, 1), "report bytes": round(report, 3)}


def decode(asked: Asked) -> Found:
    """Reports to estimates of 30 attributes each."""
    reports, release = asked.reports()
    target = asked.folder / "estimates"
    with cluster(asked), WorkerMemory() as memory:
        found = turns(
            "decode", [PLAIN, TWO], asked.rows, asked.repeat,
            lambda engine: decode_tables(release, reports, anew(target), engine=engine),
        )  # fmt: skip
    say("  peak memory of a worker", str(memory))
    size = sum(at.stat().st_size for at in target.glob("part-*")) / asked.rows
    anew(target)
    return found | {"memory": memory.most, "estimate bytes": round(size, 1)}


def estimate(asked: Asked) -> Found:
    """Reports to what they add up to, and that to means with intervals."""
    reports, release = asked.reports()
    with cluster(asked), WorkerMemory() as memory:
        found = turns(
            "add up", [PLAIN, TWO], asked.rows, 2 * asked.repeat + 1,
            lambda engine: tally_tables([release], [reports], engine=engine),
        )  # fmt: skip
        ((veil,), (tally,)) = tally_tables([release], [reports], engine=TWO)
        ((_,), (here,)) = tally_tables([release], [reports])
    same = np.array_equal(tally.codes, here.codes) and np.array_equal(tally.total, here.total)
    say("  reports counted, the same numbers as plain", f"{tally.count:,}", same and tally.count == asked.rows, "all")
    began = time.monotonic()
    tv.estimate(veil, tally)
    seconds = time.monotonic() - began
    say("  means with intervals of that, s", f"{seconds:.2f}")
    say("  peak memory of a worker", str(memory))
    return found | {"solving": round(seconds, 2), "memory": memory.most}


def kinds(asked: Asked) -> Found:
    """Records to reports with Laplace noise, and of a table with words and holes; a tenth of the rows."""
    fewer = Asked(folder=asked.folder, rows=max(asked.rows // 10, 2 << 20), repeat=asked.repeat)
    found: Found = {}
    with cluster(asked):
        for kind in ("laplace", "mixed"):
            where = fewer.of(kind)
            with WorkerMemory() as memory:
                found[kind] = turns(
                    kind, [PLAIN, TWO], fewer.rows, fewer.repeat,
                    lambda engine, where=where: privatize_tables(where[1], where[0], anew(where[2]), engine=engine),
                )  # fmt: skip
            say("  peak memory of a worker", str(memory))
            found[kind]["memory"] = memory.most
    return found


def odd_shapes(asked: Asked) -> Found:
    """Memory of a worker that has done nothing else, with tables of unusual shapes."""
    found: Found = {}
    for name, job in shapes.jobs(asked.folder).items():
        with connected(workers=1), WorkerMemory() as memory:
            job(ONE)
        say(name, str(memory))
        found[name] = memory.most
    return found


def sweep(asked: Asked) -> Found:
    """Designs one after the other, and by two workers."""
    X = people.people(people.VOLUNTEERS, 1)
    task = tv.LinearTask(np.diag(1.0 / X.std(axis=0)))
    times: dict[str, list[float]] = {"plain": [], "ray": []}
    losses: dict[str, list[float]] = {}
    with cluster(asked):
        watch, start = Watch(), time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few records are all out of line
            tv.sweep(X[:200], task, engine=tv.Ray(), **SWEEP | {"epsilons": [1.0, 2.0]})  # type: ignore[arg-type]
        for turn in range(asked.repeat):
            for engine in list(times)[:: (-1) ** turn]:
                began = time.monotonic()
                points = tv.sweep(X, task, engine=tv.Ray() if engine == "ray" else None, **SWEEP).points  # type: ignore[arg-type]
                times[engine].append(time.monotonic() - began)
                losses[engine] = [point.loss for point in points]
        others = watch.others / (time.monotonic() - start)
    designs, same = len(losses["plain"]), losses["plain"] == losses["ray"]
    say("designs, with the same losses", f"{designs}", same and designs == DESIGNS, f"{DESIGNS}, bit for bit")
    here, there = (median(some) for some in times.values())
    say("one after the other, and by two workers, s", f"{here:.1f} and {there:.1f}")
    ratio = median(one / two for one, two in zip(*times.values(), strict=True))
    say("  two workers against one after the other", f"{ratio:.2f} ×", ratio >= SWEEP_BAR, f"{SWEEP_BAR} ×")
    say("  meanwhile", f"others used {others:.1f} cores")
    found = {"plain": round(here, 1), "two workers": round(there, 1), "scaling": round(ratio, 3)}
    return found | {"designs": designs, "others": round(others, 1)}


def database(asked: Asked) -> Found:
    """Reports of one byte in PostgreSQL; a tenth of the rows."""
    found = storage.measured(asked.folder, asked.rows // 10)
    for name, value in found.items():
        say(name, f"{value:,}")
    return found


def _rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


PARTS = {part.__name__: part for part in (privatize, decode, estimate, kinds, odd_shapes, sweep, database)}


def main(description: str | None) -> int:
    """Measure what the command line asks for; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS))
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="turns of each")
    parser.add_argument("--folder", type=Path, help="for tables, releases and reports; by default a temporary one")
    parser.add_argument("--keep", action="store_true", help="leave all that is in the folder for the next time")
    parser.add_argument("--json", type=Path, help="put what was found in there, and leave what other parts found")
    parser.add_argument("--paper", type=Path, help="measure nothing: write the tables of this page from --json")
    given = parser.parse_args()
    kept = (given.json or paper.MEASURED).resolve()
    if given.paper:
        paper.write(given.paper, json.loads(kept.read_text()))
        return 0
    # A folder of our own in the one that was named: it is deleted, with all that is in it.
    home = (given.folder or Path(tempfile.gettempdir())).resolve() / "taskveil-ray-benchmark"
    home.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    try:
        for name in given.only or PARTS:
            measured = stamp()
            print(f"\n{name}: {PARTS[name].__doc__} {measured['date']}, {measured['commit']}, load {measured['load']}")
            found = PARTS[name](Asked(folder=home, rows=given.rows, repeat=given.repeat)) | {"measured": measured}
            if given.json:
                known = json.loads(kept.read_text()) if kept.exists() else {}
                kept.write_text(json.dumps(known | {name: found}, indent=1) + "\n")
    finally:
        if not given.keep:
            shutil.rmtree(home, ignore_errors=True)
    print(f"\nMISSED: {'; '.join(missed)}" if missed else "\nEvery bar was reached.")
    return 1 if missed else 0
