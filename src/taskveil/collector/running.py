"""A collector that runs: its parts, and the task that follows what others change in the database."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.requests import Request

from taskveil.collector.estimating import Estimates
from taskveil.collector.intake import Intake
from taskveil.collector.journal import failed, journal
from taskveil.collector.metrics import Metrics
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.releases import OpenRelease, Releases
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store, StoredRound, StoredToken, StoreUnavailableError
from taskveil.collector.tokens import Buckets, Scope, Tokens

Found = TypeVar("Found")

FOLLOW_SECONDS = 1.0
"""Between two looks at what others changed."""

LOOK_SECONDS = 0.02
"""Between two looks at least, however many do not find something."""

MENDED_BY_OTHERS = {
    *(Problem.TOKEN_UNKNOWN, Problem.RELEASE_UNKNOWN, Problem.ROUND_UNKNOWN),
    *(Problem.RELEASE_CLOSED, Problem.ROUND_CLOSED),
}
"""What may not be so any more."""

INTAKE_SHARE = 0.2
"""Of the time for a stop: what is left of it when requests have had theirs."""

PATIENCE = 5.0
"""Seconds after which a store that does not answer is taken not to."""

FAILING_SECONDS = 5.0
"""That a commit which failed counts as news of the store: without traffic nobody would learn that it is well again."""


LARGE_AT_ONCE = 2
"""Large bodies that are read, checked and stored at the same time: what is made of one takes several times its size."""


@dataclass(kw_only=True, eq=False)
class Collector:
    """Everything that requests need, in one worker process."""

    settings: Settings
    store: Store
    releases: Releases
    tokens: Tokens
    intake: Intake
    estimates: Estimates
    buckets: Buckets
    metrics: Metrics
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))
    """Held by requests with a large body."""
    _looked: float = field(default_factory=time.monotonic)
    _coming: asyncio.Task[None] | None = None
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _pinged: tuple[float, bool] = (-math.inf, False)
    _pinging: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def on(cls, store: Store, settings: Settings, metrics: Metrics) -> Collector:
        """A collector on an open store, ready to write."""
        releases, tokens = await asyncio.to_thread(lambda: (Releases(store), Tokens(store)))
        intake = Intake(store, metrics, most_waiting=settings.most_waiting, commit_seconds=settings.commit_seconds)
        intake.start()
        return cls(
            settings=settings,
            store=store,
            releases=releases,
            tokens=tokens,
            intake=intake,
            estimates=Estimates(store, metrics),
            buckets=Buckets(rate=settings.rate, share=1.0 / settings.workers),
            metrics=metrics,
        )

    async def refresh(self) -> None:
        """See what has changed in the store, now: for those who just changed it."""
        async with self._looking:
            await asyncio.to_thread(self._refresh)

    async def look_again(self) -> None:
        """See all that was changed until now: for those who do not find something. They may be many, so all who ask
        before a look begins share it, and looks keep a distance. A ProblemError if the store does not answer."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._look_soon())
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(self._coming)
        except TimeoutError:
            raise ProblemError(Problem.UNAVAILABLE, "Send it again later.", retry_after=2) from None

    async def granted(self, header: str | None, scope: Scope) -> StoredToken:
        """The token of a request, if it allows this; else a ProblemError."""
        return await self._found(lambda: self.tokens.granted(header, scope))

    async def known(self, release: str, *rounds: str | None) -> OpenRelease:
        """The release, which has these rounds (None: any); else a ProblemError."""

        def find() -> OpenRelease:
            found = self.releases.get(release)
            for name in rounds:
                if name is not None:
                    found.round(name)
            return found

        return await self._found(find)

    async def taking(self, release: str, round: str | None) -> tuple[OpenRelease, StoredRound]:
        """The release and its round (None: the current one), if they take reports now; else a ProblemError."""

        def find() -> tuple[OpenRelease, StoredRound]:
            found = self.releases.get(release)
            return found, found.taking(round)

        return await self._found(find)

    async def follow(self) -> None:
        """For ever: look once a second."""
        answering = True
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                await self.refresh()
                if not answering:
                    journal.warning("The database answers again.")
                answering = True
            except StoreUnavailableError:
                if answering:
                    journal.warning("The database does not answer.")
                answering = False
            except Exception as error:
                failed("The database could not be followed.", error)

    async def writable(self) -> bool:
        """Whether the store can be written to. However many ask, it is asked once a second, and waited for a while.

        What it is asked to write is small, and a disk that has no room for reports may have room for that: so the last
        commit is asked too.
        """
        if self.intake.failing(FAILING_SECONDS):
            return False
        async with self._pinging:
            if time.monotonic() - self._pinged[0] >= FOLLOW_SECONDS:
                self._pinged = time.monotonic(), await self._ping()
            return self._pinged[1]

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.to_thread(self.store.ping)
        except (StoreUnavailableError, TimeoutError):
            return False
        return True

    async def stop(self, *, close: bool) -> None:
        """Finish what was submitted, refuse what comes, and `close` the store."""
        self.estimates.close()
        await self.intake.stop(INTAKE_SHARE * self.settings.stop_seconds)
        if close:
            await asyncio.to_thread(self.store.close)

    async def _found(self, find: Callable[[], Found]) -> Found:
        """What `find` finds, if need be after a look at what others (another worker, `taskveil collection`) changed a
        moment ago: a device that is told that its round is unknown does not come again."""
        try:
            return find()
        except ProblemError as error:
            if error.problem not in MENDED_BY_OTHERS:
                raise
            await self.look_again()
            return find()

    async def _look_soon(self) -> None:
        await asyncio.sleep(max(0.0, self._looked + LOOK_SECONDS - time.monotonic()))
        async with self._looking:
            self._coming = None  # who asks from here on may have changed something that this look does not see
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        self._looked = time.monotonic()
        version = self.store.version()
        self.tokens.refresh(version)
        self.releases.refresh(version)


def collector_of(request: Request) -> Collector:
    """The collector that a request came to."""
    found: Collector | None = request.app.state.collector
    if found is None:
        raise ProblemError(Problem.UNAVAILABLE, "It is being opened.", retry_after=2)
    return found
