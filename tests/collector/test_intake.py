"""Group commit: what waits goes together, nobody is told what is not so, and nothing stops the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import collectors
from memory_store import MemoryStore
from taskveil.arrays import Integers
from taskveil.collector import intake as intake_module
from taskveil.collector.intake import Intake
from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Fate, StoreUnavailableError, Submission


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    store = MemoryStore()
    collectors.registered(store, tmp_path)
    return store


def submission(count: int = 1, round: int = 1, ids: np.ndarray | None = None) -> Submission:
    ids = np.random.default_rng().integers(0, 256, size=(count, 16), dtype=np.uint8) if ids is None else ids
    return Submission(round=round, ids=ids, payloads=np.ones((len(ids), 1), dtype=np.uint8), moments=None)


def started(store: MemoryStore, *, most_waiting: int = 1000, commit_seconds: float = 5.0) -> Intake:
    intake = Intake(store, Metrics(), most_waiting=most_waiting, commit_seconds=commit_seconds)
    intake.start()
    return intake


async def problem_of(intake: Intake, one: Submission) -> ProblemError:
    with pytest.raises(ProblemError) as caught:
        await intake.submit(one)
    return caught.value


def test_what_waits_is_committed_together(store: MemoryStore) -> None:
    async def run() -> None:
        store.seconds = 0.05
        intake = started(store)
        fates = await asyncio.gather(*[intake.submit(submission(3)) for _ in range(100)])
        assert all((one == Fate.ACCEPTED).all() and len(one) == 3 for one in fates)
        assert intake.waiting == 0
        await intake.stop(5)

    asyncio.run(run())
    assert sum(store.groups) == 100
    assert len(store.groups) <= 3
    assert len(store.reports) == 300


def test_every_request_gets_its_own_fates(store: MemoryStore) -> None:
    async def run() -> None:
        intake = started(store)
        ids = np.arange(64, dtype=np.uint8).reshape(4, 16)
        first = await intake.submit(submission(ids=ids))
        again, other = await asyncio.gather(intake.submit(submission(ids=ids[1:3])), intake.submit(submission(2)))
        assert (first == Fate.ACCEPTED).all()
        assert (again == Fate.DUPLICATE).all()
        assert (other == Fate.ACCEPTED).all()
        await intake.stop(5)

    asyncio.run(run())


def test_beyond_the_limit_others_are_told_to_come_again(store: MemoryStore) -> None:
    async def run() -> None:
        store.seconds = 0.2
        intake = started(store, most_waiting=10)
        waiting = asyncio.create_task(intake.submit(submission(8)))
        await asyncio.sleep(0)
        found = await problem_of(intake, submission(3))
        assert found.problem is ProblemType.BUSY
        assert found.retry_after == 1
        assert (await intake.submit(submission(2)) == Fate.ACCEPTED).all()
        assert (await waiting == Fate.ACCEPTED).all()
        # One body that is larger than the limit is taken when nothing else waits.
        assert (await intake.submit(submission(11)) == Fate.ACCEPTED).all()
        await intake.stop(5)

    asyncio.run(run())
    assert len(store.reports) == 21


def test_a_database_that_hangs_gives_no_false_answer_and_later_goes_on(store: MemoryStore) -> None:
    async def run() -> None:
        store.seconds = 0.5
        intake = started(store, commit_seconds=0.1)
        found = await problem_of(intake, submission(4))
        assert found.problem is ProblemType.UNAVAILABLE
        assert found.retry_after is not None
        assert intake.waiting == 4  # they may still be stored, and fill the memory until then
        store.seconds = 0.0
        while intake.waiting:
            await asyncio.sleep(0.01)
        assert (await intake.submit(submission(1)) == Fate.ACCEPTED).all()
        await intake.stop(5)

    asyncio.run(run())
    assert len(store.reports) == 5


def test_a_database_that_is_away_is_tried_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "RETRY_SECONDS", 0.01)

    async def run() -> None:
        store.failure = StoreUnavailableError("away")
        intake = started(store)
        found = await asyncio.gather(*[problem_of(intake, submission()) for _ in range(20)])
        assert {one.problem for one in found} == {ProblemType.UNAVAILABLE}
        assert intake.failing(60.0)
        assert not intake.failing(0.0)  # that long ago it was not
        store.failure = None
        assert (await intake.submit(submission()) == Fate.ACCEPTED).all()
        assert not intake.failing(60.0)
        await intake.stop(5)

    asyncio.run(run())
    assert len(store.reports) == 1


def test_one_that_cannot_be_written_costs_its_neighbours_nothing(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        intake = started(store)
        good, bad, other = await asyncio.gather(
            intake.submit(submission(5)),
            intake.submit(submission(5, round=99)),  # the store in memory raises StopIteration
            intake.submit(submission(5)),
            return_exceptions=True,
        )
        assert isinstance(bad, ProblemError)
        assert bad.problem is ProblemType.FAULT
        for one in (good, other):
            assert isinstance(one, np.ndarray)
            assert (one == Fate.ACCEPTED).all() or (one == Fate.DUPLICATE).all()
        await intake.stop(5)

    asyncio.run(run())
    assert len(store.reports) == 10
    assert "could not be written" in caplog.text


def test_a_request_that_went_away_breaks_nothing(store: MemoryStore) -> None:
    async def run() -> None:
        store.seconds = 0.05
        intake = started(store)
        tasks = [asyncio.create_task(intake.submit(submission())) for _ in range(10)]
        await asyncio.sleep(0.01)
        for task in tasks[::2]:
            task.cancel()
        fates = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, asyncio.CancelledError) for one in fates) == 5
        assert all((one == Fate.ACCEPTED).all() for one in fates[1::2])  # type: ignore[union-attr]
        await intake.stop(5)
        assert intake.waiting == 0

    asyncio.run(run())
    assert len(store.reports) == 10  # nobody knows whether the others still care; they were taken


def test_a_stop_finishes_what_was_submitted(store: MemoryStore) -> None:
    async def run() -> None:
        store.seconds = 0.05
        intake = started(store)
        tasks = [asyncio.create_task(intake.submit(submission())) for _ in range(10)]
        await asyncio.sleep(0)
        stopping = asyncio.create_task(intake.stop(5))
        await asyncio.sleep(0)
        found = await problem_of(intake, submission())
        assert found.problem is ProblemType.STOPPING
        assert found.retry_after is not None
        assert all((one == Fate.ACCEPTED).all() for one in await asyncio.gather(*tasks))
        await stopping

    asyncio.run(run())
    assert len(store.reports) == 10


def test_groups_are_bounded(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_REPORTS_PER_COMMIT", 10)
    taken: list[int] = []
    ingest: Callable[[Sequence[Submission]], list[Integers]] = store.ingest

    def counting(submissions: Sequence[Submission]) -> list[Integers]:
        taken.append(sum(len(one.ids) for one in submissions))
        return ingest(submissions)

    monkeypatch.setattr(store, "ingest", counting)

    async def run() -> None:
        store.seconds = 0.02
        intake = started(store)
        await asyncio.gather(*[intake.submit(submission(4)) for _ in range(20)])
        await intake.stop(5)

    asyncio.run(run())
    assert sum(taken) == 80
    assert max(taken) <= 13
