"""Alive, ready, what happens before there is a database, and who may see the counters."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import collectors
from memory_store import MemoryStore
from running_collector import running
from taskveil.collector import api
from taskveil.collector.store import Store, StoreError, StoreUnavailableError


def test_ready_is_asked_of_the_database_once_a_second() -> None:
    store, asked = MemoryStore(), []
    ping = store.ping
    store.ping = lambda: (asked.append(1), ping())[1]  # type: ignore[method-assign, func-returns-value]

    async def run() -> None:
        async with collectors.application(store) as client:
            asked.clear()
            answers = await asyncio.gather(*[client.get("/readyz") for _ in range(50)])
            assert {one.status_code for one in answers} == {200}

    asyncio.run(run())
    assert 1 <= len(asked) <= 3  # the follower asks for the version


def test_a_database_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "RETRY_SECONDS", 0.02)
    there = threading.Event()
    store = MemoryStore()

    def opening(url: str) -> Store:
        if not there.is_set():
            raise StoreUnavailableError("not yet")
        return store

    monkeypatch.setattr(api, "open_store", opening)
    release = collectors.registered(store, tmp_path)

    async def run() -> None:
        async with collectors.application(None) as client:
            assert (await client.get("/healthz")).status_code == 200
            for path in ("/readyz", "/v1/releases"):
                answer = await client.get(path)
                assert answer.status_code == 503
                assert int(answer.headers["retry-after"]) >= 1
            body = collectors.report(release).to_bytes()
            assert (await client.post("/v1/reports", content=body)).status_code == 503
            there.set()
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)
            assert (await client.post("/v1/reports", content=body)).json()["accepted"] == 1

    asyncio.run(run())
    assert store.closed


def test_a_database_that_cannot_be_used_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(url: str) -> Store:
        raise StoreError("of a newer version")

    monkeypatch.setattr(api, "open_store", opening)

    async def run() -> None:
        async with collectors.application(None):
            pass

    with pytest.raises(StoreError, match="newer"):
        asyncio.run(run())


def test_a_store_that_was_given_is_left_open() -> None:
    store = MemoryStore()

    async def run() -> None:
        async with collectors.application(store):
            pass

    asyncio.run(run())
    assert not store.closed


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}, 401),  # a proxy asks for somebody else
        ("127.0.0.1", {"Forwarded": "for=192.0.2.7"}, 401),
        ("192.0.2.7", {}, 401),
        ("192.0.2.7", {"X-Forwarded-For": "127.0.0.1"}, 401),
        ("127.0.0.1", {"Host": "localhost:8000"}, 200),
        ("::1", {"Host": "[::1]:8000"}, 200),
        ("127.0.0.1", {"Host": "evil.example:8000"}, 401),  # a page that a browser was led here with
        ("127.0.0.1", {"Host": "[::1"}, 401),
        ("127.0.0.1", {"Host": ""}, 401),
    ],
)
def test_counters_are_for_programs_of_the_same_machine(
    client: str, headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    with running(tmp_path, client=client) as asked:
        answer = asked.ask("GET", "/metrics", headers={"Host": "127.0.0.1:8000", **headers})
    assert answer.status_code == status
    assert status != 200 or "taskveil_waiting_reports 0" in answer.text
