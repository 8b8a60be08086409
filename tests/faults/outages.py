"""What a collector stands on fails for a while: 503 with Retry-After, no false acknowledgement, full recovery."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from faults.harness import Collector, Row, add_token
from faults.sending import Diary, Maker, Writer, all_settled
from faults.stored import Database, SqliteDatabase, compare
from processes import processor_seconds

FIRST_PAGES = 2**15
"""Bytes."""
RECOVERY_SECONDS = 15.0
"""Within which everything must be acknowledged again after the outage."""


def outage(
    collector: Collector,
    fault: contextlib.AbstractContextManager[object],
    what: str,
    *,
    seconds: float,
    writers: int = 6,
    most: int = 40,
    before: float = 2.0,
    must_refuse: bool = True,
    diary: Diary | None = None,
) -> Row:
    """Writers at work, the fault for so long, and after it until everything is acknowledged.

    Args:
        collector: registered; started for this and killed, unless it is running.
        fault: begins when it is entered and is over when it is left.
        what: was done, in words.
        seconds: that it lasts.
        writers: that send at once.
        most: reports of a batch.
        before: seconds of peace.
        must_refuse: whether refusals belong to this fault, or else connections that break off: without any, it did not
            strike.
        diary: of faults that this collector has seen before.
    """
    token = add_token(collector.database, "upload")
    diary = Diary() if diary is None else diary
    with contextlib.nullcontext() if collector.is_running else collector.running():
        return asyncio.run(_outage(collector, token, diary, fault, what, seconds, writers, most, before, must_refuse))


async def _outage(
    collector: Collector,
    token: str,
    diary: Diary,
    fault: contextlib.AbstractContextManager[object],
    what: str,
    seconds: float,
    writers: int,
    most: int,
    peace: float,
    must_refuse: bool,
) -> Row:
    maker, database = Maker(collector.releases[0].veil), collector.database
    earlier = diary.answers[200]
    senders = [Writer(collector.address, token, diary, patience=40.0) for _ in range(writers)]
    sending = [asyncio.create_task(sender.keep_sending(maker, most=most, pause=0.01)) for sender in senders]
    complaints: list[str] = []
    try:
        await asyncio.sleep(peace)
        before = diary.answers.copy()
        if before[200] == earlier:
            complaints.append("nothing was acknowledged before the fault: this test proves nothing")
        await asyncio.to_thread(fault.__enter__)
        began, readiness, half = time.monotonic(), list[int](), before
        while time.monotonic() - began < seconds:
            await asyncio.sleep(min(1.0, seconds / 6))
            if time.monotonic() - began < seconds / 2:
                half = diary.answers.copy()
                continue
            with contextlib.suppress(OSError, TimeoutError):
                readiness.append((await asyncio.to_thread(collector.ask, "GET", "/readyz", seconds=30)).status)
        nothing = diary.answers[200] == half[200]
        during = diary.answers - before
        await asyncio.to_thread(fault.__exit__, None, None, None)
        recovered = await all_settled(senders, RECOVERY_SECONDS)
        if recovered is None:
            complaints.append(f"not everybody was acknowledged within {RECOVERY_SECONDS:.0f} s after the fault")
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    # Cancelled requests may still be on their way into the database: they are sent, not acknowledged.
    await asyncio.sleep(0.5)
    if collector.process is None or collector.process.poll() is not None:
        complaints.append("the collector has ended")
    rows = await asyncio.to_thread(database.rows)
    complaints += compare(rows, diary) + database.inconsistencies() + diary.complaints
    if must_refuse and not diary.answers[503] - before[503]:
        complaints.append("no request was refused: the fault did not strike")
    if not must_refuse and not diary.answers[0] - before[0]:
        complaints.append("no connection broke off: the fault did not strike")
    # If nothing was stored: else some commits found room. A busy machine may notice the fault after the first answer.
    if nothing and readiness[-1:] != [503]:
        complaints.append(f"/readyz said {readiness} while nothing could be stored")
    return Row(
        name=f"{what}, {database.kind}",
        done=f"for {seconds:.0f} s beside {writers} writers",
        counts={
            "acknowledged": len(diary.acknowledged),
            "lost": len(diary.acknowledged - {row.id for row in rows}),
            "answers 200 during it": during[200],
            "503": during[503],
            "connections broken off": during[0],
            "/readyz": " and ".join(map(str, sorted(set(readiness)))),
            "recovered after": "never" if recovered is None else f"{recovered:.1f} s",
        },
        complaints=complaints,
    )


# Faults: each a context that the outage lasts as long as


@contextlib.contextmanager
def stopped(database: Database) -> Iterator[None]:
    """The database server is shut down, and started again at the end."""
    database.stop()
    try:
        yield
    finally:
        database.start()


@contextlib.contextmanager
def frozen(database: Database) -> Iterator[None]:
    """All processes of the database server stop where they are (SIGSTOP), and go on at the end."""
    database.freeze()
    try:
        yield
    finally:
        database.thaw()


@contextlib.contextmanager
def busy(database: SqliteDatabase) -> Iterator[None]:
    """Somebody else has locked the file, as a backup or a curious administrator does."""
    other = sqlite3.connect(database.file, isolation_level=None, check_same_thread=False, timeout=30)
    other.execute("begin exclusive")
    try:
        yield
    finally:
        other.execute("rollback")
        other.close()


@contextlib.contextmanager
def worker_killed(collector: Collector) -> Iterator[None]:
    """The busiest worker of several is killed: an idle one would not be missed. At the end another has its place."""
    before = collector.worker_ids()
    busiest = max(before, key=processor_seconds)
    os.kill(busiest, signal.SIGKILL)
    yield
    now = collector.worker_ids()
    if len(now) != len(before) or busiest in now:
        raise RuntimeError(f"{len(before)} workers before one was killed, {len(now)} afterwards")


@contextlib.contextmanager
def file_size_limit(collector: Collector) -> Iterator[None]:
    """No file may be written to beyond its first pages: a full disk for whoever is not root, undone at the end."""
    assert collector.process is not None
    pids = [collector.process.pid, *collector.worker_ids()]
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FIRST_PAGES, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system of its own of so many megabytes at the folder. Needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(folder))
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def disk_filled(folder: Path) -> Iterator[None]:
    """Somebody else's file takes all that is left on the disk, and goes away at the end."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
