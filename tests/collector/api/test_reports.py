"""POST /v1/reports: every report of a body gets its fate, and what is no body of reports gets a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import collectors
import releases as made
from collectors import CODES, report, reports
from memory_store import MemoryStore
from taskveil.client.mechanisms import LatticeCodebook
from taskveil.client.wire import BINARY, JSON, pack_batch, to_json
from taskveil.collector.api import devices as api
from taskveil.collector.releases import register
from taskveil.collector.running import MAX_LARGE_BODIES_AT_ONCE
from taskveil.collector.store import StoreUnavailableError, open_store
from taskveil.collector.tokens import new_token
from taskveil.estimates import tally

Client = httpx.AsyncClient


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def release(store: MemoryStore, tmp_path: Path) -> str:
    return collectors.registered(store, tmp_path)


def asked(store: MemoryStore, call: Callable[[Client], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with collectors.application(store, **settings) as client:
            await call(client)

    asyncio.run(run())


async def post(client: Client, body: bytes | AsyncIterator[bytes], path: str = "/v1/reports", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await client.post(path, content=body, headers=named)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
        return answer.status_code, answer.json()["type"].rpartition(":")[2]
    return answer.json()


def test_reports_are_stored_in_binary_and_json_one_or_many(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        none: dict[str, Any] = {"duplicate": 0, "rejected": []}
        assert await post(client, report(release).to_bytes(), content_type=BINARY) == {"accepted": 1, **none}
        assert await post(client, pack_batch(reports(release, 9)), content_type=BINARY) == {"accepted": 9, **none}
        typed = f"{JSON}; charset=utf-8"
        assert await post(client, to_json(reports(release, 3)), content_type=typed) == {"accepted": 3, **none}
        assert await post(client, to_json(reports(release, 1))) == {"accepted": 1, **none}
        assert await post(client, pack_batch(reports(release, 2))) == {"accepted": 2, **none}

    asked(store, call)
    assert len(store.reports) == 16


def test_numbers_that_are_in_range_one_by_one_and_that_no_device_makes_are_refused(
    store: MemoryStore, tmp_path: Path
) -> None:
    """Of a lattice so large that its codewords are numbered by two digits: the last number, and the one after it."""
    device = made.devices()["lattice_digits"]
    assert isinstance(device.mechanism, LatticeCodebook)
    release = collectors.registered(store, tmp_path, made.veil(device.encoder, device.mechanism))
    size = device.mechanism.lattice.size
    last, beyond = (device.mechanism.layout.pack([n >> 62, n & 2**62 - 1]) for n in (size - 1, size))

    async def call(client: Client) -> None:
        found = await post(client, pack_batch([report(release, last), report(release, beyond)]))
        assert (found["accepted"], [one["place"] for one in found["rejected"]]) == (1, [1])

    asked(store, call)
    assert len(store.reports) == 1


def test_every_report_has_its_own_fate(store: MemoryStore, release: str) -> None:
    a, b, bad = report(release, 1), report(release, 2), report(release, CODES)
    other_a = report(release, 3, a.id)

    async def call(client: Client) -> None:
        assert await post(client, a.to_bytes()) == {"accepted": 1, "duplicate": 0, "rejected": []}
        body = [b, a, bad, other_a, b, report(release, 5, b.id), bad, report(release, 9)]
        found = await post(client, pack_batch(body))
        assert found["accepted"] == 2
        assert found["duplicate"] == 2  # a was there, b comes twice
        assert [(one["place"], bytes.fromhex(one["id"])) for one in found["rejected"]] == [
            (2, bad.id),
            (3, a.id),
            (5, b.id),
            (6, bad.id),
        ]
        assert "no device" in found["rejected"][0]["reason"]
        # The same body again: nothing is new, and the rest as before.
        again = await post(client, pack_batch(body))
        assert (again["accepted"], again["duplicate"], len(again["rejected"])) == (0, 4, 4)
        # Other bytes under a stored id, twice in one body, beside one that is fine.
        found = await post(client, pack_batch([other_a, report(release), other_a]))
        assert (found["accepted"], found["duplicate"]) == (1, 0)
        assert [one["place"] for one in found["rejected"]] == [0, 2]
        assert {one["reason"] for one in found["rejected"]} == {"other bytes are stored under this id."}
        # Of another length none can be of this release.
        found = await post(client, report(release, b"\0\0").to_bytes())
        assert (found["accepted"], found["duplicate"], len(found["rejected"])) == (0, 0, 1)

    asked(store, call)
    assert len(store.reports) == 4
    assert store.reports[release, a.id][1] == a.payload


def test_reports_that_name_no_round_follow_one_that_ends(store: MemoryStore, release: str) -> None:
    """Somebody else opens the next round and ends this one, in the second in which this worker has not looked yet: an
    answer of 409 would make devices give up."""

    async def call(client: Client) -> None:
        store.open_round(release, "next")
        store.close_round(release, "0")
        assert await post(client, pack_batch(reports(release, 2))) == {"accepted": 2, "duplicate": 0, "rejected": []}
        store.close_round(release, "next")
        assert await post(client, pack_batch(reports(release, 2))) == (409, "round-closed")

    asked(store, call)


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"", BINARY, (400, "no-reports")),
        (b"", None, (400, "no-reports")),
        (b"TV", None, (400, "no-reports")),
        (b"{}", JSON, (400, "no-reports")),
        (b"[" * 100_000, JSON, (400, "no-reports")),
        (b'{"version": 1, "release": "00", "reports": []}', JSON, (400, "no-reports")),
        (b"{}", BINARY, (400, "no-reports")),
        (b"TV\1\1" + bytes(49), JSON, (400, "no-reports")),
        (b"TV\1\1" + bytes(49), "text/plain", (415, "wrong-type")),
        (b"TV\1\1" + bytes(49), "multipart/form-data", (415, "wrong-type")),
        (b"TV\1\1" + bytes(49), BINARY, (404, "release-unknown")),
        (b"TV\2\1" + bytes(49), BINARY, (400, "no-reports")),
    ],
)
def test_what_holds_no_reports(
    store: MemoryStore, release: str, body: bytes, kind: str | None, expected: tuple[int, str]
) -> None:
    async def call(client: Client) -> None:
        assert await post(client, body, **({} if kind is None else {"content_type": kind})) == expected

    asked(store, call)
    assert store.reports == {}


def test_rounds_and_releases_that_take_none(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        one = report(release).to_bytes()
        assert await post(client, one, "/v1/reports?round=none") == (404, "round-unknown")
        store.open_round(release, "Week 2")
        client.app.state.collector._looked = 0.0  # type: ignore[attr-defined]  # a second later
        assert (await post(client, one, "/v1/reports?round=Week%202"))["accepted"] == 1
        assert (await post(client, report(release).to_bytes(), "/v1/reports?round=0"))["accepted"] == 1
        # Closed by somebody else just now: the store knows, whatever we remember.
        store.close_round(release, "Week 2")
        assert await post(client, report(release).to_bytes()) == (409, "round-closed")
        await client.app.state.collector.refresh()  # type: ignore[attr-defined]
        assert await post(client, report(release).to_bytes()) == (409, "round-closed")
        store.set_open(release, open=False)
        await client.app.state.collector.refresh()  # type: ignore[attr-defined]
        assert await post(client, report(release).to_bytes(), "/v1/reports?round=0") == (409, "release-closed")

    asked(store, call)
    assert [round for round, _ in store.reports.values()] == [2, 1]


def test_nobody_makes_us_ask_the_database_all_the_time(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        before = store.asked
        unknown = report("ab" * 32).to_bytes()
        answers = await asyncio.gather(*[post(client, unknown) for _ in range(200)])
        assert set(answers) == {(404, "release-unknown")}
        assert store.asked - before <= 2

    asked(store, call)


def test_tokens(store: MemoryStore, release: str, tmp_path: Path) -> None:
    other = collectors.registered(store, tmp_path, collectors.summed())
    texts = {}
    for name, options in {
        "upload": {},
        "read": {},
        "admin": {},
        "one": {"release": release},
        "other": {"release": other},
        "old": {"days": 1e-9},
        "slow": {"rate": 2.0},
    }.items():
        scope: Any = name if name in ("read", "admin") else "upload"
        texts[name], kept = new_token(scope, name, **options)  # type: ignore[arg-type]
        store.add_token(kept)

    async def call(client: Client) -> None:
        async def by(name: str) -> Any:
            return await post(client, report(release).to_bytes(), authorization=f"Bearer {texts[name]}")

        for name in ("upload", "admin", "one"):
            assert (await by(name))["accepted"] == 1
        stored = len(store.reports)
        assert await by("read") == (403, "token-wrong-scope")
        assert await by("other") == (403, "token-other-release")
        assert await by("old") == (401, "token-expired")
        assert await post(client, report(release).to_bytes()) == (401, "token-missing")
        texts["wrong"] = texts["upload"][:-1] + ("0" if texts["upload"][-1] != "0" else "1")
        assert await by("wrong") == (401, "token-unknown")
        answer = await client.post("/v1/reports", content=b"")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert len(store.reports) == stored
        assert [(await by("slow"))["accepted"] for _ in range(10)] == [1] * 10
        answer = await client.post(
            "/v1/reports", content=report(release).to_bytes(), headers={"authorization": f"Bearer {texts['slow']}"}
        )
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        # Made while the collector runs.
        texts["new"], kept = new_token("upload", "new")
        store.add_token(kept)
        client.app.state.collector._looked = 0.0  # type: ignore[attr-defined]
        assert (await by("new"))["accepted"] == 1
        store.revoke_token("new")
        await client.app.state.collector.refresh()  # type: ignore[attr-defined]
        assert await by("new") == (401, "token-unknown")

    asked(store, call, uploads="token")


def test_a_body_that_is_too_large(store: MemoryStore, release: str) -> None:
    body = pack_batch(reports(release, 100))

    async def chunked() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    async def call(client: Client) -> None:
        assert await post(client, body) == (413, "too-large")
        assert await post(client, chunked()) == (413, "too-large")

    asked(store, call, most_bytes=1024)
    assert store.reports == {}

    async def fits(client: Client) -> None:
        assert (await post(client, chunked()))["accepted"] == 100

    asked(store, fits)


def test_a_body_of_too_many(store: MemoryStore, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_POSTED", 50)

    async def call(client: Client) -> None:
        for many in (50, 51):
            for body in (pack_batch(reports(release, many)), to_json(reports(release, many))):
                found = await post(client, body)
                assert found == {"accepted": 50, "duplicate": 0, "rejected": []} if many == 50 else (413, "too-large")

    asked(store, call)
    assert len(store.reports) == 100


@pytest.mark.parametrize("thing", [b"{}", b"[]", b'{"":0}', b"7", "{}".encode("utf-16-le")])
def test_json_of_many_things_is_refused_before_they_are_made(
    store: MemoryStore, release: str, thing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(client: Client) -> None:
        monkeypatch.setattr(api, "arrived", lambda _: pytest.fail("it was read"))
        body = b'{"version":1,"release":"%s","reports":[' % release.encode() + b",".join([thing] * 40_010) + b"]}"
        assert await post(client, body) == (413, "too-large")

    asked(store, call)


def test_a_database_that_is_away(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        store.failure = StoreUnavailableError("password=secret")
        answer = await client.post("/v1/reports", content=report(release).to_bytes())
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert "secret" not in answer.text
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
        store.failure = None
        assert (await post(client, report(release).to_bytes()))["accepted"] == 1

    asked(store, call)
    assert len(store.reports) == 1


def test_sums_are_those_of_the_reports(tmp_path: Path) -> None:
    """On a real store: reports of a release that is not counted, one of them twice."""
    store = open_store(f"sqlite:///{tmp_path / 'c.db'}")
    veil = collectors.summed()
    veil.save(tmp_path / "release")
    release = register(store, tmp_path / "release")
    numbers = veil.privatize(np.random.default_rng(1).normal(size=(40, 5)))
    sent = [report(release, veil.mechanism.layout.pack(row)) for row in numbers.tolist()]

    async def run() -> None:
        async with collectors.application(store) as client:
            first = await post(client, pack_batch(sent[:25]))
            second = await post(client, to_json(sent[20:]))
            assert (first["accepted"], second["accepted"], second["duplicate"]) == (25, 15, 5)

    asyncio.run(run())
    count, sums = store.moments(release)
    whole = tally(veil, numbers)
    assert count == 40
    assert sums == pytest.approx(np.append(whole.total, whole.square))
    store.close()


def test_large_bodies_wait_for_each_other_and_not_for_ever(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        large = client.app.state.collector.large  # type: ignore[attr-defined]
        for _ in range(MAX_LARGE_BODIES_AT_ONCE):
            await large.acquire()
        assert await post(client, to_json(reports(release, 3000))) == (503, "busy")
        assert (await post(client, to_json(reports(release, 30))))["accepted"] == 30
        waiting = asyncio.create_task(post(client, to_json(reports(release, 3000))))
        await asyncio.sleep(0.05)
        large.release()
        assert (await waiting)["accepted"] == 3000
        assert (await post(client, b"[" * 200_000)) == (400, "no-reports")
        assert not large.locked()

    asked(store, call, commit_seconds=0.5)


def test_large_bodies_of_json_are_read_beside_others(store: MemoryStore, release: str) -> None:
    async def call(client: Client) -> None:
        found = await post(client, to_json(reports(release, 3000)))
        assert found["accepted"] == 3000
        assert json.loads(json.dumps(found)) == {"accepted": 3000, "duplicate": 0, "rejected": []}

    asked(store, call)
