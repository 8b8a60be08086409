"""A running collector: its parts, and the task that follows changes in the database."""

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
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import OpenFamily, OpenRelease, Releases
from taskveil.collector.settings import RETRY_SECONDS, Settings
from taskveil.collector.store import Store, StoredRound, StoredToken, StoreUnavailableError
from taskveil.collector.tokens import Buckets, Scope, Tokens
from taskveil.collector.watching import Arrivals

Found = TypeVar("Found")

MAY_BE_OUTDATED = {
    *(ProblemType.TOKEN_UNKNOWN, ProblemType.RELEASE_UNKNOWN, ProblemType.ROUND_UNKNOWN),
    *(ProblemType.RELEASE_CLOSED, ProblemType.ROUND_CLOSED),
}
"""Problems that a change in the database may have solved."""

MAX_LARGE_BODIES_AT_ONCE = 2
"""Each large body needs several times its size in memory while it is checked and stored."""


@dataclass(kw_only=True, eq=False)
class Collector:
    """All parts of one worker process."""

    settings: Settings
    store: Store
    releases: Releases
    tokens: Tokens
    intake: Intake
    estimates: Estimates
    buckets: Buckets
    metrics: Metrics
    arrivals: Arrivals
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_LARGE_BODIES_AT_ONCE))
    """Held by a request with a large body."""
    _version: int | None = None
    """The `Store.version` of what was read last."""
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
            estimates=Estimates(store, metrics, timeout=settings.commit_seconds),
            buckets=Buckets(rate=settings.rate, share=1.0 / settings.workers),
            metrics=metrics,
            arrivals=Arrivals(one.stored for one in releases.all()),
        )

    async def refresh(self) -> None:
        """Read the changes in the store now."""
        async with self._looking:
            await asyncio.to_thread(self._refresh)

    async def look_again(self) -> None:
        """Read the changes in the store, for a request that did not find something. All such requests that wait share
        one read. ProblemError if the store does not answer."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._look_soon())
        try:
            async with asyncio.timeout(self.settings.commit_seconds):
                await asyncio.shield(self._coming)
        except TimeoutError:
            raise ProblemError(ProblemType.UNAVAILABLE, "Send it again later.", retry_after=2) from None

    async def granted(self, header: str | None, scope: Scope) -> StoredToken:
        """The token of a request, if it allows this; otherwise a ProblemError."""
        return await self._found(lambda: self.tokens.granted(header, scope))

    async def known(self, release: str, *rounds: str | None) -> OpenRelease:
        """The release, if it has these rounds (None: any); otherwise a ProblemError."""
        found = await self.either(release, *rounds)
        if not isinstance(found, OpenRelease):
            members = ", ".join(one.stored.id for one in found.members.values())
            raise ProblemError(ProblemType.INVALID, f"release: this is a family. Name one of its members: {members}.")
        return found

    async def either(self, release: str, *rounds: str | None) -> OpenRelease | OpenFamily:
        """The release or family, if it has these rounds (None: any); otherwise a ProblemError."""

        def find() -> OpenRelease | OpenFamily:
            found = self.releases.either(release)
            for name in rounds:
                if name is not None:
                    found.round(name)
            return found

        return await self._found(find)

    async def taking(self, release: str, round: str | None) -> tuple[OpenRelease, StoredRound]:
        """The release and its round (None: the current one), if they take reports now; otherwise a ProblemError."""

        def find() -> tuple[OpenRelease, StoredRound]:
            found = self.releases.get(release)
            return found, found.taking(round)

        return await self._found(find)

    async def follow(self) -> None:
        """Read the changes in the store each second, without end."""
        answering = True
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                await self.refresh()
                if self.arrivals.due:
                    self.arrivals.look(await asyncio.to_thread(self.store.releases))
                if not answering:
                    journal.warning("The database answers again.")
                answering = True
            except StoreUnavailableError:
                if answering:
                    journal.warning("The database does not answer.")
                answering = False
            except Exception as error:
                failed("The changes in the database could not be read.", error)

    async def writable(self) -> bool:
        """Whether the store can be written to. The store is asked at most once a second.

        This writes only a few bytes. A full disk may still have space for them, so a recent failed commit counts too.
        """
        if self.intake.failing(self.settings.commit_seconds):
            return False
        async with self._pinging:
            if time.monotonic() - self._pinged[0] >= RETRY_SECONDS:
                self._pinged = time.monotonic(), await self._ping()
            return self._pinged[1]

    async def _ping(self) -> bool:
        try:
            async with asyncio.timeout(self.settings.commit_seconds):
                await asyncio.to_thread(self.store.ping)
        except (StoreUnavailableError, TimeoutError):
            return False
        return True

    async def stop(self, *, close: bool) -> None:
        """Refuse new reports, finish the submitted ones, and `close` the store."""
        self.estimates.close()
        await self.intake.stop(0.2 * self.settings.stop_seconds)
        if close:
            await asyncio.to_thread(self.store.close)

    async def _found(self, find: Callable[[], Found]) -> Found:
        """The result of `find`. If it fails, it is tried again after a read of what others changed (another worker,
        `taskveil collection`): a device whose round is unknown would not send again."""
        try:
            return find()
        except ProblemError as error:
            if error.problem not in MAY_BE_OUTDATED:
                raise
            await self.look_again()
            return find()

    async def _look_soon(self) -> None:
        async with self._looking:
            self._coming = None  # later requests may need changes that this read does not see
            await asyncio.to_thread(self._refresh)

    def _refresh(self) -> None:
        version = self.store.version()
        if version != self._version:
            self.tokens.refresh()
            self.releases.refresh()
            self._version = version  # last: if the store fails, the next call tries again


def collector_of(request: Request) -> Collector:
    """The collector of a request."""
    found: Collector | None = request.app.state.collector
    if found is None:
        raise ProblemError(ProblemType.UNAVAILABLE, "The database is being opened.", retry_after=2)
    return found
