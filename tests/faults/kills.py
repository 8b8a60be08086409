"""kill −9 at random points during ingest: nothing acknowledged may be lost, nothing counted twice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from faults.harness import Collector, Row, add_token, collector_for
from faults.sending import Diary, Maker, Writer, all_settled
from faults.stored import Database, compare

MOST_RESTART_SECONDS = 10.0
SETTLED_SECONDS = 30.0
"""After the last start, for what was under way to come through."""


def kills(
    folder: Path,
    database: Database,
    *,
    times: int,
    writers: int = 6,
    workers: int = 1,
    longest: float = 1.2,
    database_every: int = 0,
    collector: Collector | None = None,
) -> Row:
    """Kill the collector so many times while writers go on sending, and hold the database against their diary.

    Args:
        folder: for release, settings and log.
        database: empty.
        times: kills.
        writers: that send at once, each until it is acknowledged.
        workers: processes of the collector; all are killed at once.
        longest: seconds that it may be left alone, at most. Some kills strike while it is still starting.
        database_every: every so many kills the database server is killed too (PostgreSQL only; 0 for never).
        collector: another one than ours, for the test of this test.
    """
    if collector is None:
        collector = collector_for(folder, database, workers=workers)
    token = add_token(database, "upload")
    return asyncio.run(_kills(collector, token, times, writers, workers, longest, database_every))


async def _kills(
    collector: Collector, token: str, times: int, writers: int, workers: int, longest: float, database_every: int
) -> Row:
    diary, restarts, database_kills = Diary(), [], 0
    database = collector.database
    complaints: list[str] = []
    maker = Maker(collector.releases[0].veil)
    senders = [Writer(collector.address, token, diary, patience=15.0) for _ in range(writers)]
    sending = [asyncio.create_task(sender.keep_sending(maker, pause=0.02)) for sender in senders]
    try:
        for turn in range(times):
            restarts.append(await asyncio.to_thread(collector.start))
            # Writers go on meanwhile: what was acknowledged before the look must be there.
            known = set(diary.acknowledged)
            complaints += compare(await asyncio.to_thread(database.rows), diary, known)
            await asyncio.sleep(random.uniform(0.0, longest))
            if database_every and turn % database_every == database_every - 1:
                await asyncio.to_thread(database.kill)
                database_kills += 1
                await asyncio.sleep(random.uniform(0.0, longest))
                await asyncio.to_thread(collector.kill)
                await asyncio.to_thread(database.start)
            elif turn % 10 == 9:  # while it is starting
                await asyncio.to_thread(collector.kill)
                await asyncio.to_thread(collector.start, wait=False)
                await asyncio.sleep(random.uniform(0.0, 3.0))
            await asyncio.to_thread(collector.kill)
            if complaints:
                break
        restarts.append(await asyncio.to_thread(collector.start))
        if await all_settled(senders, SETTLED_SECONDS) is None:
            complaints.append(f"not every writer was acknowledged within {SETTLED_SECONDS:.0f} s of the last start")
    finally:
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        await asyncio.to_thread(collector.kill)
    rows = await asyncio.to_thread(database.rows)
    complaints += compare(rows, diary) + database.inconsistencies()
    slowest = max(restarts)
    complaints += diary.complaints
    if slowest > MOST_RESTART_SECONDS:
        complaints.append(f"a restart took {slowest:.1f} s, more than {MOST_RESTART_SECONDS:.0f}")
    return Row(
        name=f"kill −9, {database.kind}",
        done=f"{len(restarts) - 1} kills at random points, {workers} worker{'s' * (workers > 1)}, {writers} writers"
        + (f", {database_kills} of the database server too" if database_kills else ""),
        counts={
            "acknowledged": len(diary.acknowledged),
            "lost": len(diary.acknowledged - {row.id for row in rows}),
            "doubled": len(rows) - len({row.id for row in rows}),
            "stored": len(rows),
            "sent again": diary.duplicate,
            "longest restart": f"{slowest:.1f} s",
        },
        complaints=complaints,
    )
