"""From requests to the database: all reports that arrive during one commit go into the next commit.

One thread writes. A request is answered after the commit of its reports, or it is refused and may be sent again. The
store recognises a repeated report by its id, so sending again is always safe.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue

from taskveil.arrays import Integers
from taskveil.collector.journal import failed
from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.settings import RETRY_SECONDS
from taskveil.collector.store import Store, StoreUnavailableError, Submission

MAX_REPORTS_PER_COMMIT = 20_000
"""One body may have more."""


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    """A request's reports, and the future for their fates."""

    submission: Submission
    answer: asyncio.Future[Integers]


Answer = Integers | ProblemError


class Intake:
    """Writes the reports of requests. It belongs to one event loop; call `start` before and `stop` after."""

    def __init__(self, store: Store, metrics: Metrics, *, most_waiting: int, commit_seconds: float) -> None:
        self._store, self._metrics = store, metrics
        self._most_waiting, self._commit_seconds = most_waiting, commit_seconds
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self.waiting = 0
        """Submitted reports without a fate."""
        self._failed = -math.inf
        # A daemon thread: if the database hangs, the process must still end. Reports without a commit were not
        # acknowledged.
        self._thread = threading.Thread(target=self._write, name="intake", daemon=True)

    def start(self) -> None:
        """Start the writing thread."""
        self._thread.start()

    def require_room(self, count: int = 1) -> None:
        """ProblemError if this number of reports cannot be submitted now. Call it before work is spent on them."""
        if self._stopping:
            raise ProblemError(ProblemType.STOPPING, "Send it again: another worker will answer.", retry_after=5)
        if self.waiting and self.waiting + count > self._most_waiting:
            raise ProblemError(ProblemType.BUSY, "Nothing was stored. Send it again later.", retry_after=1)

    async def submit(self, submission: Submission) -> Integers:
        """The `Fate` (N,) of each report after the commit. ProblemError: the request may be sent again."""
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
                ProblemType.UNAVAILABLE,
                "It takes too long. Send it again: a repeated report counts once.",
                retry_after=5,
            ) from None

    def failing(self, seconds: float) -> bool:
        """Whether the last commit failed, at most so many seconds ago."""
        return time.monotonic() - self._failed < seconds

    async def stop(self, seconds: float) -> None:
        """Refuse new reports and finish the submitted ones, for at most so many seconds."""
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
            except RuntimeError:  # the loop is closed: no request waits
                return

    def _taken(self) -> tuple[list[_Waiting], bool]:
        """The waiting requests, up to a limit, and whether they were the last."""
        first = self._queue.get()
        if first is None:
            return [], True
        group, count = [first], len(first.submission.ids)
        while count < MAX_REPORTS_PER_COMMIT and not self._queue.empty():  # no other thread takes from it
            following = self._queue.get()
            if following is None:
                return group, True
            group.append(following)
            count += len(following.submission.ids)
        return group, False

    def _answers(self, group: list[_Waiting]) -> list[Answer]:
        """The answer to each request of a group. Never raises."""
        submissions, start = [one.submission for one in group], time.perf_counter()
        try:
            fates: list[Answer] = list(self._store.ingest(submissions))
            self._failed = -math.inf
            self._metrics.committed(time.perf_counter() - start, sum(len(one.ids) for one in submissions))
        except StoreUnavailableError:
            self._failed = time.monotonic()
            self._metrics.store_failed()
            time.sleep(RETRY_SECONDS)
            problem = ProblemError(
                ProblemType.UNAVAILABLE, "Send it again: a repeated report counts once.", retry_after=2
            )
            return [problem] * len(group)
        except Exception as error:
            if len(group) > 1:  # one request is the cause: the others must not fail with it
                return [answer for one in group for answer in self._answers([one])]
            self._metrics.store_failed()
            failed("Reports could not be written.", error)
            return [ProblemError(ProblemType.FAULT, "None of its reports was stored.")]
        return fates

    # In the event loop

    def _resolve(self, group: list[_Waiting], answers: list[Answer]) -> None:
        for one, answer in zip(group, answers, strict=True):
            self.waiting -= len(one.submission.ids)
            if one.answer.done():  # its client has left, or it waited too long
                continue
            if isinstance(answer, ProblemError):
                one.answer.set_exception(answer)
            else:
                one.answer.set_result(answer)
        self._metrics.waiting(self.waiting)
