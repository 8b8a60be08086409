"""How much anybody may send: bytes of a body, and reports a second."""

from __future__ import annotations

import math
import time
from collections import OrderedDict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskveil.collector.problems import Problem, ProblemError

SMALL = 2**16
"""Bytes of a body that nobody counts: all connections together may send it at once."""
TOGETHER = 8
"""Of the largest bodies, that one process holds at once."""

BURST_SECONDS = 5.0
"""Of its rate, that somebody who was quiet may send at once."""

MOST_BUCKETS = 10_000
"""That are remembered."""


class BodyLimit:
    """Refuses bodies that are too large: by the length that is declared before any of it is read, else while it is.
    And large ones that are too many at once: what this process holds of them is bounded."""

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        self._app, self._most = app, most_bytes
        self._held = 0
        """Bytes of large bodies that have arrived and are not answered yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if declared is not None:
            if not declared.isdigit() or len(declared) > 18 or int(declared) > self._most:
                raise self._too_large
            if int(declared) <= SMALL:
                return await self._app(scope, receive, send)
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            taken += size
            self._held += size
            if taken > self._most:
                raise self._too_large
            if self._held > TOGETHER * self._most:
                raise ProblemError(Problem.BUSY, "There are many large bodies just now. Come again.", retry_after=1)
            return message

        try:
            return await self._app(scope, counted, send)
        finally:
            self._held -= taken

    @property
    def _too_large(self) -> ProblemError:
        return ProblemError(Problem.TOO_LARGE, f"A body has {self._most:,} bytes at most: send several.")


class Buckets:
    """Who may send how many reports a second. A bucket fills at its rate and holds some seconds of it; whoever finds it
    not empty may take any number, and waits until that is made good."""

    def __init__(self, *, rate: float | None, share: float = 1.0) -> None:
        """`rate` of those who have none of their own; of every rate this process grants the `share`."""
        self._rate, self._share = rate, share
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """What is in every bucket, and when that was; least recently used first."""

    def take(self, key: str, count: int, rate: float | None) -> None:
        """Count so many reports (or requests) of whoever has this `key`; a ProblemError that says when to come again if
        there were too many before. `rate` is their own."""
        rate = self._rate if rate is None else rate
        if rate is None:
            return
        rate, now = rate * self._share, time.monotonic()
        level, then = self._levels.get(key, (rate * BURST_SECONDS, now))
        level = min(level + rate * (now - then), rate * BURST_SECONDS)
        needed = min(1.0, rate * BURST_SECONDS)
        if level < needed:
            wait = math.ceil((needed - level) / rate)
            raise ProblemError(Problem.TOO_MANY, "There is a limit a second; send it again later.", retry_after=wait)
        self._levels[key] = (level - count, now)
        self._levels.move_to_end(key)
        if len(self._levels) > MOST_BUCKETS:
            self._levels.popitem(last=False)
