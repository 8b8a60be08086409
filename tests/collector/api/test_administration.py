"""Opening, closing and forgetting: by administrators alone, at once, and noted without an address."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from collections_drawn import records
from running_collector import Asked, batch, running, small_veil
from taskveil.client.wire import BINARY
from taskveil.collector.journal import journal

RNG = np.random.default_rng(10)
ADDRESS = "192.0.2.7"


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[tuple[Asked, tv.Veil, str]]:
    veil = small_veil()
    with running(tmp_path, veil, client=ADDRESS) as asked:
        yield asked, veil, f"/v1/releases/{veil.release_id}"


def post(asked: Asked, veil: tv.Veil, round: str | None = None) -> tuple[int, str]:
    body = batch(veil, veil.privatize(records(3, RNG)), RNG)
    more = "" if round is None else f"?round={round}"
    answer = asked.ask("POST", f"/v1/reports{more}", "upload", content=body, headers={"Content-Type": BINARY})
    return answer.status_code, answer.json().get("type", "").rpartition(":")[2]


def test_a_release_is_closed_and_opened(collected: tuple[Asked, tv.Veil, str]) -> None:
    asked, veil, path = collected
    assert asked.ask("POST", f"{path}/close", "admin").json()["open"] is False
    assert post(asked, veil) == (409, "release-closed")
    assert asked.ask("POST", f"{path}/open", "admin").json()["open"] is True
    assert post(asked, veil) == (200, "")


def test_rounds_follow_each_other(collected: tuple[Asked, tv.Veil, str]) -> None:
    asked, veil, path = collected
    opened = asked.ask("PUT", f"{path}/rounds/2026-W47", "admin").json()
    assert opened["current"] == "2026-W47"
    assert [one["name"] for one in opened["rounds"]] == ["one", "2026-W47"]
    assert post(asked, veil) == post(asked, veil, "one") == (200, "")
    closed = asked.ask("POST", f"{path}/rounds/one/close", "admin").json()
    assert closed["rounds"][0] == {"name": "one", "open": False, "reports": 3}
    assert post(asked, veil, "one") == (409, "round-closed")
    assert post(asked, veil, "2026-W47") == (200, "")
    assert asked.ask("PUT", f"{path}/rounds/one", "admin").json()["current"] == "one"
    assert post(asked, veil, "one") == (200, "")


def test_a_round_is_forgotten_by_who_says_its_name_twice(collected: tuple[Asked, tv.Veil, str]) -> None:
    asked, veil, path = collected
    post(asked, veil)
    for confirm in ("", "?confirm=", "?confirm=two", "?confirm=ONE"):
        assert asked.ask("DELETE", f"{path}/rounds/one{confirm}", "admin").status_code == 422
    open_yet = asked.ask("DELETE", f"{path}/rounds/one?confirm=one", "admin")
    assert (open_yet.status_code, open_yet.json()["type"]) == (409, "urn:taskveil:problem:round-open")
    assert asked.ask("POST", f"{path}/rounds/one/close", "admin").status_code == 200
    assert asked.ask("DELETE", f"{path}/rounds/one?confirm=one", "admin").json() == {"forgotten": 3}
    assert asked.ask("GET", "/v1/releases", "read").json()["releases"][0]["reports"] == 0
    again = asked.ask("DELETE", f"{path}/rounds/one?confirm=one", "admin")
    assert again.json()["type"] == "urn:taskveil:problem:round-unknown"


WAYS = [
    ("POST", "/open"),
    ("POST", "/close"),
    ("PUT", "/rounds/two"),
    ("POST", "/rounds/one/close"),
    ("DELETE", "/rounds/one?confirm=one"),
]


@pytest.mark.parametrize(("method", "way"), WAYS)
def test_nobody_else_may(collected: tuple[Asked, tv.Veil, str], method: str, way: str) -> None:
    asked, _, path = collected
    asked.token("admin", "other", release="0" * 64)
    before = asked.store.releases(), asked.store.version()
    assert asked.ask(method, path + way).status_code == 401
    for name in ("read", "upload", "other"):
        assert asked.ask(method, path + way, name).status_code == 403
    assert (asked.store.releases(), asked.store.version()) == before
    unknown = asked.ask(method, f"/v1/releases/{'1' * 64}{way}", "admin")
    assert unknown.json()["type"] == "urn:taskveil:problem:release-unknown"


@pytest.mark.parametrize("name", ["%0A", "a%2Fb", "x" * 1001, "%00", "%2E", "%2E%2E", "=1", "+1", "-1", "@a"])
def test_names_that_a_round_cannot_bear_are_refused(collected: tuple[Asked, tv.Veil, str], name: str) -> None:
    asked, _, path = collected
    assert asked.ask("PUT", f"{path}/rounds/{name}", "admin").status_code in (404, 422)
    assert len(asked.store.releases()[0].rounds) == 1


def test_the_journal_says_who_did_it_by_the_tokens_name(
    collected: tuple[Asked, tv.Veil, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil, path = collected
    monkeypatch.setattr(journal, "propagate", True)
    asked.token("admin", "laptop of Ada")
    with caplog.at_level(logging.INFO, logger=journal.name):
        for method, way in WAYS:
            assert asked.ask(method, path + way, "laptop of Ada").status_code == 200
    said = [record.getMessage() for record in caplog.records if record.name == journal.name]
    assert said == [
        f"Token laptop of Ada {what} release {veil.release_id[:12]}…."
        for what in ("opened", "closed", "opened round two of", "closed round one of", "deleted round one of")
    ]
    assert not {part for part in (ADDRESS, *asked.tokens.values()) if part in caplog.text}
