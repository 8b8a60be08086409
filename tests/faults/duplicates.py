"""Every report five times, by many writers at once over several workers: it is there exactly once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from faults.harness import Collector, Row, add_token, collector_for
from faults.sending import Diary, Maker, Writer
from faults.stored import Database, compare
from taskveil.client.wire import Report


def duplicates(
    folder: Path,
    database: Database,
    *,
    reports: int,
    times: int = 5,
    writers: int = 16,
    workers: int = 2,
    collector: Collector | None = None,
) -> Row:
    """Send all reports so many times in batches of changing size and order, then contradict a hundredth of them."""
    if collector is None:
        collector = collector_for(folder, database, workers=workers)
    token = add_token(database, "upload")
    with collector.running():
        return asyncio.run(_duplicates(collector, token, reports, times, writers))


async def _duplicates(collector: Collector, token: str, count: int, times: int, writers: int) -> Row:
    maker, diary = Maker(collector.releases[0].veil), Diary()
    reports = maker.reports(count)
    # Each writer's share of every round starts elsewhere, so that copies of one report meet at the same moment.
    bodies: list[list[Report]] = []
    for _ in range(times):
        shuffled = random.sample(reports, len(reports))
        while shuffled:
            size = random.choice((1, 5, 20, 50))
            bodies.append(shuffled[:size])
            shuffled = shuffled[size:]
    random.shuffle(bodies)

    async def write() -> None:
        writer = Writer(collector.address, token, diary)
        while bodies:
            await writer.send(bodies.pop(), json=random.random() < 0.2)
        writer.close()

    await asyncio.gather(*(write() for _ in range(writers)))
    rows = await asyncio.to_thread(collector.database.rows)
    complaints = compare(rows, diary) + collector.database.inconsistencies() + diary.complaints
    expected = {"accepted": count, "duplicate": count * (times - 1), "rejected": 0, "rows": count}
    found = {
        "accepted": diary.accepted, "duplicate": diary.duplicate, "rejected": diary.rejected, "rows": len(rows)
    }  # fmt: skip
    complaints += [
        f"{name}: {found[name]} where {expected[name]} are right" for name in found if found[name] != expected[name]
    ]
    # Other bytes under a known id: refused by name, and what is stored stays.
    contrary = [Report(release=r.release, id=r.id, payload=maker.other[r.payload]) for r in reports[: count // 100]]
    against = Diary()
    writer = Writer(collector.address, token, against)
    await writer.try_once(contrary)
    writer.close()
    if (against.accepted, against.duplicate, against.rejected) != (0, 0, len(contrary)):
        complaints.append(f"of {len(contrary)} reports that contradict stored ones {against.rejected} were refused")
    complaints += compare(await asyncio.to_thread(collector.database.rows), diary)
    return Row(
        name=f"duplicates, {collector.database.kind}",
        done=f"{count:,} reports × {times} over {writers} writers, then {len(contrary)} contradicted",
        counts=found | {"contradictions refused": against.rejected},
        complaints=complaints,
    )
