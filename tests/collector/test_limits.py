"""How much anybody may send."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from starlette.types import Message, Receive, Scope, Send

from running_collector import batch, running, small_veil
from taskveil.collector import tokens
from taskveil.collector.api.common import BodyLimit
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.settings import Settings
from taskveil.collector.tokens import BURST_SECONDS, Buckets


def test_large_bodies_that_arrive_together_are_bounded() -> None:
    """Twelve senders of as much as is allowed: those beyond the eighth are told to come again, and all is forgotten."""
    most, taken, busy = 2**17, 0, 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal taken
        for _ in range(4):
            await receive()
        taken += 1
        await enough.wait()

    async def run() -> None:
        nonlocal busy
        limit = BodyLimit(app, most_bytes=most)

        async def chunk() -> Message:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": bytes(most // 4), "more_body": True}

        async def one(place: int) -> None:
            nonlocal busy
            declared = [(b"content-length", str(most).encode())] if place % 2 else []
            try:
                await limit({"type": "http", "headers": declared}, chunk, chunk)  # type: ignore[arg-type]
            except ProblemError as error:
                busy += error.problem is ProblemType.BUSY

        async with asyncio.TaskGroup() as group:
            for place in range(12):
                group.create_task(one(place))
            while taken + busy < 12:
                await asyncio.sleep(0)
            enough.set()
        assert limit._held == 0

    enough = asyncio.Event()
    asyncio.run(run())
    assert (taken, busy) == (8, 4)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(tokens, "time", clock)
    return clock


def granted(buckets: Buckets, key: str, count: int = 1, rate: float | None = None) -> float:
    """0 if so many were granted, else the seconds to wait."""
    refusal: ProblemError | None = None
    try:
        buckets.take(key, count, rate)
    except ProblemError as error:
        refusal = error
    if refusal is None:
        return 0.0
    assert refusal.problem is ProblemType.TOO_MANY
    assert refusal.retry_after is not None
    assert refusal.retry_after >= 1
    return refusal.retry_after


@pytest.mark.parametrize(("count", "share"), [(1, 1.0), (50, 1.0), (500, 1.0), (10, 0.25)])
def test_over_time_nobody_gets_more_than_the_rate(clock: Clock, count: int, share: float) -> None:
    buckets, rate, taken = Buckets(rate=100.0, share=share), 100.0 * share, 0
    for _ in range(10_000):
        taken += count * (granted(buckets, "a", count) == 0)
        clock.now += 0.01
    assert 0.95 * 100 * rate < taken <= (100 + BURST_SECONDS) * rate + count


def test_whoever_waits_as_long_as_told_is_served(clock: Clock) -> None:
    buckets = Buckets(rate=7.0)
    for _ in range(100):
        wait = granted(buckets, "a", 23)
        clock.now += wait
        assert wait == 0.0 or granted(buckets, "a", 23) == 0.0


def test_a_burst_of_some_seconds_is_fine_and_others_are_not_affected(clock: Clock) -> None:
    buckets = Buckets(rate=10.0)
    assert [granted(buckets, "a") for _ in range(50)] == [0.0] * 50
    assert granted(buckets, "a") > 0
    assert granted(buckets, "b") == 0.0


def test_slow_rates_are_rates_too(clock: Clock) -> None:
    buckets = Buckets(rate=0.01)
    assert granted(buckets, "a") == 0.0
    wait = granted(buckets, "a")
    assert 90 <= wait <= 110
    clock.now += wait
    assert granted(buckets, "a") == 0.0
    slowest = Buckets(rate=5e-324)  # the time until the next report is beyond doubles
    assert granted(slowest, "a") == 0.0
    assert granted(slowest, "a") == 2**31


def test_a_token_without_a_rate_has_one(tmp_path: Path) -> None:
    """A flood with the token that every app holds is slowed down, and senders with another token are not."""
    veil, rate = small_veil(), Settings().rate
    many = veil.privatize(np.zeros((2 * int(BURST_SECONDS * rate), 2)))
    with running(tmp_path, veil) as asked:
        asked.token("upload", "another")
        asked.send(veil, many)
        body = batch(veil, many[:100], np.random.default_rng(1))
        flood, other = (asked.ask("POST", "/v1/reports", name, content=body) for name in ("upload", "another"))
    assert (flood.status_code, flood.json()["type"]) == (429, "urn:taskveil:problem:too-many")
    assert int(flood.headers["retry-after"]) >= 1
    assert other.json()["accepted"] == 100


def test_no_limit_must_be_asked_for(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "collector.toml").write_text("rate = inf\n")
    buckets = Buckets(rate=Settings.read(tmp_path / "collector.toml").rate)
    assert [granted(buckets, "a", 10**9) for _ in range(3)] == [0.0] * 3
    assert granted(buckets, "b", 10**6, rate=1.0) == 0.0
    assert granted(buckets, "b", rate=1.0) == pytest.approx(10**6 - 4, abs=2)
