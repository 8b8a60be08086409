"""From requests to the database: what arrives while one commit is under way goes into the next, all of it together.

One thread writes. A request is answered after the commit that holds its reports, or told to come again; a repetition
is recognised by its ids, so coming again is always safe.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from taskveil.arrays import Integers
from taskveil.collector.journal import failed
from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.store import Store, StoreUnavailableError, Submission

MOST_TOGETHER = 20_000
"""Reports in one commit; a single body may hold more."""

PAUSE = 0.1
"""Seconds before the next attempt when the database does not answer."""


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    """A request's reports, and where their fates go."""

    submission: Submission
    answer: asyncio.Future[Integers]


Answer = Integers | ProblemError


class Intake:
    """Writes what requests submit. Made and used in one event loop; `start` before, `stop` after."""

    def __init__(self, store: Store, metrics: Metrics, *, most_waiting: int, commit_seconds: float) -> None:
        self._store, self._metrics = store, metrics
        self._most_waiting, self._commit_seconds = most_waiting, commit_seconds
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self.waiting = 0
        """Reports that were submitted and have no fate yet."""
        self._failed = -math.inf
        # A daemon: a database that hangs must not keep the process from ending. What it has not committed nobody was
        # told was stored.
        self._thread = threading.Thread(target=self._write, name="intake", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def require_room(self, count: int = 1) -> None:
        """A ProblemError if so many reports could not be submitted now: to be asked before work is put into them."""
        if self._stopping:
            raise ProblemError(Problem.STOPPING, "Send it again: another one will answer.", retry_after=5)
        if self.waiting and self.waiting + count > self._most_waiting:
            raise ProblemError(Problem.BUSY, "Nothing was stored. Send it again later.", retry_after=1)

    async def submit(self, submission: Submission) -> Integers:
        """The `Fate` (N,) of every report, when it is durable; else a ProblemError that says when to come again."""
        count = len(submission.ids)
        self.require_room(count)
        self.waiting += count
        answer: asyncio.Future[Integers] = self._loop.create_future()
        self._queue.put(_Waiting(submission, answer))
        try:
            async with asyncio.timeout(self._commit_seconds):
                return await answer
        except TimeoutError:
            raise ProblemError(
                Problem.UNAVAILABLE,
                "It takes too long to answer. Send it again: a repetition counts once.",
                retry_after=5,
            ) from None

    def failing(self, seconds: float) -> bool:
        """Whether the last commit failed, in the last so many seconds."""
        return time.monotonic() - self._failed < seconds

    async def stop(self, seconds: float) -> None:
        """Finish what was submitted, refuse what comes; after so many seconds, give up."""
        self._stopping = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, seconds)

    # In the writing thread

    def _write(self) -> None:
        ending = False
        while not ending:
            group, ending = self._taken()
            if not group:
                continue
            answers = self._answers(group)
            try:
                self._loop.call_soon_threadsafe(self._resolve, group, answers)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _taken(self) -> tuple[list[_Waiting], bool]:
        """Everything that waits, up to a limit, and whether it was the last."""
        first = self._queue.get()
        if first is None:
            return [], True
        group, count = [first], len(first.submission.ids)
        while count < MOST_TOGETHER:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following is None:
                return group, True
            group.append(following)
            count += len(following.submission.ids)
        return group, False

    def _answers(self, group: list[_Waiting]) -> list[Answer]:
        """What became of each request of a group. Never raises."""
        submissions, start = [one.submission for one in group], time.perf_counter()
        try:
            fates: list[Answer] = list(self._store.ingest(submissions))
            self._failed = -math.inf
            self._metrics.committed(time.perf_counter() - start, sum(len(one.ids) for one in submissions))
        except StoreUnavailableError:
            self._failed = time.monotonic()
            self._metrics.store_failed()
            time.sleep(PAUSE)
            problem = ProblemError(Problem.UNAVAILABLE, "Send it again later: a repetition counts once.", retry_after=2)
            return [problem] * len(group)
        except Exception as error:
            if len(group) > 1:  # one of them is the cause: it must not cost its neighbours
                return [answer for one in group for answer in self._answers([one])]
            self._metrics.store_failed()
            failed("Reports could not be written.", error)
            return [ProblemError(Problem.FAULT, "Nothing of it was stored.")]
        return fates

    # In the event loop

    def _resolve(self, group: list[_Waiting], answers: list[Answer]) -> None:
        for one, answer in zip(group, answers, strict=True):
            self.waiting -= len(one.submission.ids)
            if one.answer.done():  # its request has gone, or waited too long
                continue
            if isinstance(answer, ProblemError):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)
        self._metrics.waiting(self.waiting)
