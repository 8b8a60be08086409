"""A collector follows what others change in its database: at once for whoever does not find something, and cheaply."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from running_collector import Asked, batch, running, small_veil
from taskveil.arrays import Integers
from taskveil.client.wire import BINARY
from taskveil.collector.problems import ProblemType
from taskveil.collector.store import Store, StoreUnavailableError, open_store
from taskveil.collector.tokens import Scope, new_token

VEIL = small_veil()
STRANGER = f"tv_{'0' * 16}_{'0' * 64}"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with running(tmp_path, VEIL) as asked:
        yield asked


@pytest.fixture
def other(asked: Asked, tmp_path: Path) -> Iterator[Store]:
    """Another process at the same database: a worker, or `taskveil collection`."""
    store = open_store(f"sqlite:///{tmp_path / 'collector.db'}")
    yield store
    store.close()


def sent(asked: Asked, seed: int, *, token: str = "upload", round: str = "one") -> httpx.Response:
    body = batch(VEIL, VEIL.privatize(np.zeros((1, 2))), np.random.default_rng(seed))
    return asked.ask("POST", f"/v1/reports?round={round}", token, content=body, headers={"Content-Type": BINARY})


def test_what_another_process_opened_is_open_at_once(asked: Asked, other: Store) -> None:
    for place in range(5):  # whenever the last look was
        other.open_round(VEIL.release_id, f"round {place}")
        assert sent(asked, place, round=f"round {place}").status_code == 200
    other.set_open(VEIL.release_id, open=False)
    assert asked.runner.run(asked.collector.refresh()) is None
    assert sent(asked, 5).status_code == 409
    other.set_open(VEIL.release_id, open=True)
    assert sent(asked, 6).status_code == 200


@pytest.mark.parametrize("scope", ["upload", "read"])
def test_a_token_that_was_just_made_opens_at_once(asked: Asked, other: Store, scope: Scope) -> None:
    for place in range(3):
        asked.tokens["new"], kept = new_token(scope, f"new {place}")
        other.add_token(kept)
        answer = sent(asked, place, token="new") if scope == "upload" else asked.ask("GET", "/v1/releases", "new")
        assert answer.status_code == 200


def test_many_who_find_nothing_share_a_look(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    version = asked.store.version
    monkeypatch.setattr(asked.store, "version", lambda: looks.append(1) or version())
    asked.tokens["stranger"] = STRANGER
    headers = {"Authorization": f"Bearer {STRANGER}"}

    async def all_of_them() -> set[int]:
        answers = await asyncio.gather(*(asked.client.get("/v1/releases", headers=headers) for _ in range(200)))
        return {answer.status_code for answer in answers}

    assert asked.runner.run(all_of_them()) == {401}
    assert 1 <= len(looks) <= 100


def test_nobody_is_told_that_a_token_is_unknown_while_the_database_does_not_answer(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> int:
        raise StoreUnavailableError("it does not answer.")

    asked.tokens["stranger"] = STRANGER
    monkeypatch.setattr(asked.store, "version", broken)
    answer = asked.ask("GET", "/v1/releases", "stranger")
    assert (answer.status_code, answer.json()["type"]) == (503, ProblemType.UNAVAILABLE.document().type)
    assert asked.ask("GET", "/v1/releases", "read").status_code == 200  # a known one is let in all the same


def test_nobody_is_sent_to_a_collector_whose_commits_fail_although_its_pings_do_not(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL on a full disk: an update of one row still finds room, and reports do not."""

    def full(_submissions: object) -> list[Integers]:
        raise StoreUnavailableError("the disk is full.")

    monkeypatch.setattr(asked.store, "ingest", full)
    assert asked.ask("GET", "/readyz").status_code == 200
    assert sent(asked, 0).status_code == 503
    assert asked.ask("GET", "/readyz").status_code == 503
    monkeypatch.setattr(asked.collector.intake, "_failed", -math.inf)  # nobody sent anything for so long
    assert asked.ask("GET", "/readyz").status_code == 200
    monkeypatch.undo()
    assert sent(asked, 0).status_code == 200
    assert asked.ask("GET", "/readyz").status_code == 200


def test_nobody_waits_for_ever_for_a_database_that_hangs(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    asked.collector.settings = asked.collector.settings.model_copy(update={"commit_seconds": 0.1})
    monkeypatch.setattr(asked.store, "version", lambda: (over.wait(20), 0)[1])
    asked.tokens["stranger"] = STRANGER
    try:
        answers = [asked.ask("GET", "/v1/releases", "stranger") for _ in range(3)]
    finally:
        over.set()
    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in answers} == {(503, "2")}
