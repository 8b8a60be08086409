"""The collector's speed and memory, over real HTTP on the loopback, with senders in another process.

    python benchmarks/collector.py                           # everything: about half an hour
    python benchmarks/collector.py --only batches singles    # parts: batches singles overload estimates page
    python benchmarks/collector.py --minutes 1 --reports 1000000 --database sqlite

Every acknowledged report is durable: SQLite with synchronous=FULL, PostgreSQL with fsync and synchronous_commit on. A
rate is the median of whole seconds. On a machine that others use look at the reports per second of processor time
instead (collector and database server together; senders need about as much again). Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import databases
from faults.harness import Collector, add_token, collector_for
from faults.sending import Maker
from faults.stored import Database, PostgresDatabase, SqliteDatabase
from processes import processor_seconds
from taskveil.client import wire
from taskveil.collector.releases import Releases
from taskveil.collector.store import Submission, open_store

ROOT = Path(__file__).parent.parent
BATCH_BAR, SINGLE_BAR, LATENCY_BAR, GROWTH_BAR, ESTIMATE_BAR, PAGE_BAR = 30_000, 1_500, 0.050, 0.10, 5.0, 1.0

missed: list[str] = []


def say(what: str, found: str, ok: bool | None = None, bar: str = "") -> None:
    """One line, and the bar that it is held against."""
    verdict = "" if ok is None else f"  {'ok' if ok else 'MISSED'} (bar: {bar})"
    print(f"{what:58s} {found}{verdict}", flush=True)
    if ok is False:
        missed.append(what)


def measured(collector: Collector, token: str, **what: Any) -> dict[str, Any]:
    """What senders in a process of their own found."""
    batch = wire.pack_batch(Maker(collector.releases[0].veil).reports(5000)).hex()
    told = {"port": collector.port, "token": token, "batch": batch} | what
    used = processor(collector)
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "collector_load.py")],
        input=json.dumps(told),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"processor": processor(collector) - used}


def processor(collector: Collector) -> float:
    """Seconds of processor time that collector and database server have used."""
    assert collector.process is not None
    server = getattr(collector.database, "server", None)
    return sum(map(processor_seconds, [collector.process.pid, *([server.process.pid] if server else [])]))


def per_second(found: dict[str, Any]) -> str:
    """Reports for each second of processor time: what the machine's mood does not change much."""
    return f"{sum(found['accepted']) / found['processor']:,.0f} per second of processor"


def rate(found: dict[str, Any]) -> tuple[float, float, float]:
    """Reports a second: the median of whole seconds after the first two, the least and the most."""
    seconds = np.array(found["accepted"][2:-1])
    return float(np.median(seconds)), float(seconds.min()), float(seconds.max())


def say_rate(what: str, found: dict[str, Any], bar: int) -> None:
    """A rate, the seconds between which it moved, and its bar."""
    middle, least, most = rate(found)
    moved = f"{middle:,.0f} (seconds: {least:,.0f} to {most:,.0f}; {per_second(found)})"
    say(what, moved, middle >= bar, f"{bar:,}")


@contextmanager
def collecting(folder: Path, database: Database, method: str = "codebook", **settings: Any) -> Iterator[Any]:
    """A running collector with a release, and a token for uploads."""
    collector = collector_for(folder, database, method=method, **settings)
    token = add_token(database, "upload")
    with collector.running():
        yield collector, token


def batches(folder: Path, database: Database, seconds: float) -> None:
    """Batches of 500 from a few connections."""
    with collecting(folder, database) as (collector, token):
        found = measured(collector, token, kind="closed", reports=500, connections=8, seconds=seconds)
        say_rate(f"batches of 500 into {database.kind}, reports/s", found, BATCH_BAR)


def singles(folder: Path, database: Database, seconds: float) -> None:
    """One report a request: as many as go, then half the bar at even times."""
    with collecting(folder, database) as (collector, token):
        found = measured(collector, token, kind="closed", reports=1, connections=64, seconds=seconds)
        say_rate(f"single reports into {database.kind}, requests/s", found, SINGLE_BAR)
        half = {"kind": "opened", "reports": 1, "connections": 64, "seconds": seconds, "rate": SINGLE_BAR / 2}
        found = measured(collector, token, **half)
        say(
            f"  at {SINGLE_BAR // 2} requests/s, p50 and p99",
            f"{found['p50'] * 1e3:.1f} ms and {found['p99'] * 1e3:.1f} ms ({found['requests']:,} requests)",
            found["p99"] < LATENCY_BAR and set(found["statuses"]) == {"200"},
            f"{LATENCY_BAR * 1e3:.0f} ms",
        )


def overload(folder: Path, database: Database, minutes: float) -> None:
    """Far more than it can take, for minutes: memory stays, and everything beyond is refused with Retry-After."""
    with collecting(folder, database) as (collector, token):
        samples: list[int] = []
        over = threading.Event()

        def watch() -> None:
            while not over.wait(1.0):
                samples.append(collector.memory())

        watching = threading.Thread(target=watch)
        watching.start()
        warm = min(30.0, 12 * minutes)
        try:
            heavy = {"kind": "closed", "reports": 500, "connections": 400, "seconds": 60 * minutes + warm}
            found = measured(collector, token, **heavy)
        finally:
            over.set()
            watching.join()
        start, end, most = (
            int(np.median(part)) / 2**20
            for part in (samples[int(warm) : int(warm) + 10], samples[-12:-2], [max(samples[int(warm) :])])
        )
        refused = sum(count for status, count in found["statuses"].items() if status in ("429", "503"))
        middle, _, _ = rate(found)
        say(
            f"memory over {minutes:g} min of overload, {database.kind}, MB",
            f"{start:.0f} at the start, {end:.0f} at the end, {most:.0f} at most",
            most <= start * (1 + GROWTH_BAR),
            f"+{GROWTH_BAR:.0%}",
        )
        say(
            "  answers",
            f"{found['statuses'].get('200', 0):,} × 200 ({middle:,.0f} reports/s), {refused:,} × 429 or 503, "
            f"{found['statuses'].get('0', 0)} broken off, {sum(found['wrong'].values())} others {found['wrong'] or ''}",
            not found["wrong"] and refused > 0 and "0" not in found["statuses"],
            "200, and 429 or 503 with Retry-After",
        )


def estimates(folder: Path, database: Database, reports: int) -> None:
    """Reports straight into the store, then asked for over HTTP: cold, and after more have come."""
    for method in ("codebook", "task_aware"):
        collector = collector_for(folder / method, database, method=method)
        token = add_token(database, "read")
        filled = fill(collector, database, reports)
        ask = f"/v1/estimates?release={collector.releases[0].id}"
        with collector.running():
            times = []
            for _ in range(3):
                began = time.monotonic()
                answer = collector.ask("GET", ask, token=token, seconds=600)
                times.append(time.monotonic() - began)
                if answer.status != 200 or answer.json()["reports"] < reports:
                    raise SystemExit(f"no estimate: {answer.status} {answer.body[:300]!r}")
                fill(collector, database, 1000, seed=len(times))  # so that nothing is remembered
        mechanism = collector.releases[0].veil.mechanism
        say(
            f"estimate over {reports:,} reports, {database.kind}, {type(mechanism).__name__}, s",
            f"{times[0]:.2f} at first, {times[1]:.2f} and {times[2]:.2f} after 1,000 more "
            f"(stored at {reports / filled:,.0f} a second)",
            max(times) <= ESTIMATE_BAR,
            f"{ESTIMATE_BAR:g} s",
        )


def fill(collector: Collector, database: Database, reports: int, *, seed: int = 0, at_once: int = 100_000) -> float:
    """Seconds that it took to store so many reports in big commits. Ids ascend, which databases like best."""
    store = open_store(database.url)
    began = time.monotonic()
    try:
        release = Releases(store).get(collector.releases[0].id)
        layout, rng = release.veil.mechanism.layout, np.random.default_rng(seed)
        numbers = release.veil.privatize(rng.normal(size=(20_000, release.veil.device.attributes)))
        pool = np.array([list(layout.pack(row)) for row in numbers.tolist()], dtype=np.uint8)
        starts = np.sort(rng.integers(2**63, size=reports, dtype=np.uint64)).astype(">u8")
        for at in range(0, reports, at_once):
            some = starts[at : at + at_once]
            ids = np.hstack(
                [some.view(np.uint8).reshape(-1, 8), rng.integers(256, size=(len(some), 8), dtype=np.uint8)]
            )
            drawn = rng.integers(len(pool), size=len(some))
            moments = None if release.stored.counted else lambda new, drawn=drawn: release.moments(numbers[drawn], new)
            payloads = pool[drawn]
            store.ingest([Submission(round=release.taking().number, ids=ids, payloads=payloads, moments=moments)])
    finally:
        store.close()
    return time.monotonic() - began


def page() -> None:
    """From the first byte asked for to a page that shows releases and rounds and answers the keyboard, in real Chromium
    (js/browser): before a collector that is made up, and before a real one."""
    done = subprocess.run(
        ["node", "browser/collector.mjs"],
        capture_output=True,
        text=True,
        cwd=ROOT / "js",
        check=False,
        env=os.environ | {"TASKVEIL_PYTHON": sys.executable},
    )
    found = [int(ms) for ms in re.findall(r"from navigation to releases and rounds (\d+) ms", done.stdout)]
    if done.returncode or not found:
        say("page interactive, ms", (done.stdout + done.stderr)[-300:], False, "it is measured")
    else:
        say("page interactive, ms", " and ".join(map(str, found)), max(found) <= 1e3 * PAGE_BAR, f"{PAGE_BAR:g} s")


def main() -> int:
    parser = argparse.ArgumentParser(description="The collector's speed and memory.")
    parser.add_argument("--only", nargs="+", choices=["batches", "singles", "overload", "estimates", "page"])
    parser.add_argument("--database", choices=["sqlite", "postgres"], help="one of the two")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each rate")
    parser.add_argument("--minutes", type=float, default=10.0, help="of overload")
    parser.add_argument("--reports", type=int, default=10_000_000, help="that estimates are over")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskveil-bench-") as name:
        os.chmod(name, 0o755)  # PostgreSQL runs as somebody else when we are root
        server = None if given.database == "sqlite" else databases.start(Path(name) / "postgres")
        try:
            for part, work in {
                "batches": lambda *where: batches(*where, given.seconds),
                "singles": lambda *where: singles(*where, given.seconds),
                "overload": lambda *where: overload(*where, given.minutes),
                "estimates": lambda *where: estimates(*where, given.reports),
            }.items():
                if given.only and part not in given.only:
                    continue
                if given.database != "postgres":
                    work(Path(name) / f"{part}-sqlite", SqliteDatabase(Path(name) / f"{part}-sqlite"))
                if server is not None:
                    work(Path(name) / f"{part}-postgres", PostgresDatabase(server))
            if not given.only or "page" in given.only:
                page()
        finally:
            if server is not None:
                server.stop()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
