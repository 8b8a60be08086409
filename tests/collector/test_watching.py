"""What an operator sees of a running collector: nothing finer than an hour, and nothing that is stored."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from collections_drawn import records
from databases import options
from families import drawn, people
from running_collector import Asked, batch, running, small_veil
from taskveil.client.wire import BINARY
from taskveil.collector import watching
from taskveil.collector.store import StoredRelease, StoredRound, open_store
from taskveil.collector.watching import Arrivals

RNG = np.random.default_rng(4)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that a test moves on."""
    now = [10 * 3600.0 + 1800]
    monkeypatch.setattr(watching, "monotonic", lambda: now[0])
    return now


def release(reports: int, id: str = "a") -> StoredRelease:
    rounds = (StoredRound(number=1, name="one", open=True, reports=reports),)
    return StoredRelease(id=id, name=id, open=True, counted=True, current="one", rounds=rounds)


def test_hours_begin_at_fixed_times(clock: list[float]) -> None:
    """The answer changes when an hour begins, whenever in the hour before the report came."""
    for minute in (1, 30, 59):
        clock[0] = 10 * 3600.0 + minute * 60
        arrivals = Arrivals([release(5)])
        assert arrivals.since(["a"]) is None
        arrivals.look([release(6)])
        assert arrivals.since(["a"]) == 0
        clock[0] = 11 * 3600.0 - 1
        assert (arrivals.since(["a"]), arrivals.hours) == (0, 0)
        clock[0] = 11 * 3600.0
        assert (arrivals.since(["a"]), arrivals.hours) == (1, 1)
        arrivals.look([release(6)])
        assert arrivals.since(["a"]) == 1, "nothing came"


def test_a_look_an_hour_is_enough(clock: list[float]) -> None:
    arrivals = Arrivals([release(5)])
    assert not arrivals.due
    clock[0] += 3600
    assert arrivals.due
    arrivals.look([release(9)])
    assert not arrivals.due
    clock[0] += 5 * 3600
    assert arrivals.since(["a"]) == 5


def test_a_new_release_and_a_deleted_round(clock: list[float]) -> None:
    arrivals = Arrivals([release(500)])
    arrivals.look([release(0), release(3, "b")])
    assert (arrivals.since(["a"]), arrivals.since(["b"]), arrivals.since(["a", "b"])) == (None, 0, 0)
    arrivals.look([release(1), release(3, "b")])
    assert arrivals.since(["a"]) == 0, "one report after the deletion"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[tuple[Asked, tv.Veil, tv.Veil]]:
    first, second = small_veil(3.0), small_veil(2.0)
    with running(tmp_path, first, second) as asked:
        yield asked, first, second


def status(asked: Asked, token: str = "read") -> dict[str, Any]:
    answer = asked.ask("GET", "/v1/status", token)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_fates_and_the_hour_of_the_last_report(clock: list[float], asked: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    collector, first, second = asked
    body = batch(first, first.privatize(records(20, RNG)), np.random.default_rng(1))
    for _ in range(3):
        sent = collector.ask("POST", "/v1/reports", "upload", content=body, headers={"Content-Type": BINARY})
        assert sent.status_code == 200
    bad = batch(first, np.full((1, 1), 4), np.random.default_rng(2))[:-1] + b"\xff"
    sent = collector.ask("POST", "/v1/reports", "upload", content=bad, headers={"Content-Type": BINARY})
    assert len(sent.json()["rejected"]) == 1
    one, other = status(collector)["releases"]
    assert [one["id"], other["id"]] == [first.release_id, second.release_id]
    assert one["fates"] == {"accepted": 20, "duplicate": 40, "conflict": 0, "closed": 0, "refused": 1}
    assert set(other["fates"].values()) == {0}
    assert (one["hours_since_report"], other["hours_since_report"]) == (0, None)
    clock[0] += 7 * 3600
    found = status(collector)
    assert (found["hours"], found["releases"][0]["hours_since_report"]) == (7, 7)


def test_the_hour_is_in_no_file(asked: tuple[Asked, tv.Veil, tv.Veil], tmp_path: Path) -> None:
    """The database after a status with reports has what it had before it."""
    collector, first, _ = asked
    collector.send(first, first.privatize(records(20, RNG)))

    def stored() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "collector.db")) as database:
            return list(database.iterdump())

    before, files = stored(), sorted(tmp_path.rglob("*"))
    assert status(collector)["releases"][0]["hours_since_report"] == 0
    assert stored() == before
    assert {one.name for one in set(tmp_path.rglob("*")) - set(files)} <= {"collector.db-wal", "collector.db-shm"}


def test_a_token_of_one_release_sees_neither_others_nor_the_disk(asked: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    collector, first, _ = asked
    collector.token("read", "own", release=first.release_id)
    found = status(collector, "own")
    assert [one["id"] for one in found["releases"]] == [first.release_id]
    assert found["database"] is None
    assert status(collector)["database"]["bytes"] > 0
    assert collector.ask("GET", "/v1/status").status_code == 401
    assert collector.ask("GET", "/v1/status", "upload").status_code == 403


def test_requests_that_are_refused_as_a_whole_are_counted(asked: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    """Before, 2,000 reports for a round that does not exist left all numbers at 0."""
    collector, first, _ = asked
    assert status(collector)["refused_requests"] == 0
    body = batch(first, first.privatize(records(20, RNG)), RNG)
    for token, path in (("upload", "/v1/reports?round=nowhere"), ("read", "/v1/reports"), (None, "/v1/reports")):
        answer = collector.ask("POST", path, token, content=body, headers={"Content-Type": BINARY})
        assert 400 <= answer.status_code < 500
    collector.send(first, first.privatize(records(20, RNG)))
    assert status(collector)["refused_requests"] == 3
    assert status(collector)["releases"][0]["fates"] == {
        "accepted": 20, "duplicate": 0, "conflict": 0, "closed": 0, "refused": 0
    }  # fmt: skip
    collector.token("read", "own", release=first.release_id)
    assert status(collector, "own")["refused_requests"] is None


def test_when_tokens_expire(asked: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    collector, first, second = asked
    assert (status(collector)["token_expires"], status(collector)["uploads_expire"]) == (None, None)
    for days, of in ((30, None), (10, second.release_id), (1e-9, None)):
        collector.token("upload", f"phones {days}", days=days, release=of)
    collector.token("read", "anna", days=5, release=first.release_id)

    def days(text: str) -> float:
        return round((datetime.fromisoformat(text) - datetime.now(UTC)) / timedelta(days=1))

    assert days(status(collector)["uploads_expire"]) == 10, "the expired one is over"
    own = status(collector, "anna")
    assert (days(own["token_expires"]), days(own["uploads_expire"])) == (5, 30)


def test_a_family_is_one_line(tmp_path: Path) -> None:
    with running(tmp_path, drawn(), rate=math.inf) as asked:  # type: ignore[arg-type]
        reports = drawn().privatize(people(300, seed=5))
        for name, own in reports.items():
            asked.send(drawn().members[name], own)
        (found,) = status(asked)["releases"]
        assert (found["id"], found["hours_since_report"]) == (drawn().release_id, 0)
        assert found["fates"]["accepted"] == 300


def test_a_database_knows_its_size(store_url: str) -> None:
    with closing(open_store(store_url, **options(store_url))) as store:
        size, free = store.size()
    assert size > 0
    assert (free is None) == store_url.startswith("postgresql")
