"""What the stored reports say is what `tv.estimate` says of the reports themselves, computed no oftener than needed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releases
import taskveil as tv
from collections_drawn import records, with_volunteers
from running_collector import Asked, running, small_veil
from taskveil.server.collector import estimating
from taskveil.server.collector.estimating import stored_tally
from taskveil.server.collector.problems import Problem, ProblemError
from taskveil.server.estimates import tally


@pytest.fixture(autouse=True)
def _machines_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "QUICK", 1e6)


RNG = np.random.default_rng(7)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Asked, tv.Veil]]:
    veil = small_veil()
    with running(tmp_path, veil) as asked:
        yield asked, veil


@pytest.fixture
def on_either(tmp_path: Path, store_url: str) -> Iterator[tuple[Asked, tv.Veil]]:
    veil = small_veil()
    with running(tmp_path, veil, db=store_url) as asked:
        yield asked, veil


def estimated(asked: Asked, veil: tv.Veil, *more: str) -> dict[str, Any]:
    answer = asked.ask("GET", "&".join([f"/v1/estimates?release={veil.release_id}", *more]), "read")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def numbers(content: Any) -> list[float]:
    """All numbers of a JSON document, in order."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [number for one in content for number in numbers(one)]
    return [float(content)] if isinstance(content, int | float) else []


def test_counted_reports_say_the_same_to_the_last_digit(on_either: tuple[Asked, tv.Veil]) -> None:
    asked, veil = on_either
    first, second = veil.privatize(records(900, RNG)), veil.privatize(records(700, RNG))
    asked.send(veil, first)
    asked.store.open_round(veil.release_id, "two")
    asked.runner.run(asked.collector.refresh())
    asked.send(veil, second)
    for more, reports in (([], np.concatenate([first, second])), (["round=one"], first), (["round=two"], second)):
        found, expected = estimated(asked, veil, *more), tv.estimate(veil, reports)
        assert {key: found[key] for key in expected.content()} == json.loads(json.dumps(expected.content()))
        assert [tuple(row.values()) for row in found["rows"]] == [row.cells for row in expected.rows()]
        assert found["round"] == (more[0].removeprefix("round=") if more else None)
    changes = estimated(asked, veil, "round=two", "since=one")["changes"]
    expected_changes = tv.estimate(veil, second).minus(tv.estimate(veil, first))
    assert changes == {kind: [one._asdict() for one in many] for kind, many in expected_changes.items()}


@pytest.mark.parametrize("kind", ["laplace", "lattice"])
def test_summed_reports_say_the_same(kind: str, tmp_path: Path, store_url: str) -> None:
    laplace = releases.laplace(releases.box(3), 4.0)
    mechanism = laplace if kind == "laplace" else releases.lattice_codebook(6.0)
    veil = releases.veil(releases.linear(), mechanism)
    low, high = veil.encoder.low, veil.encoder.high
    X = low + RNG.uniform(size=(6000, 5)) * (high - low)
    veil = with_volunteers(replace(veil, task=tv.LinearTask(np.eye(5))), X[:300])
    reports = veil.privatize(X)
    with running(tmp_path, veil, db=store_url) as asked:
        assert not asked.collector.releases.get(veil.release_id).stored.counted
        asked.send(veil, reports[:2500])
        asked.send(veil, reports[2500:], seed=1)
        stored, expected = stored_tally(veil, asked.store, counted=False), tally(veil, reports)
        assert stored.count == expected.count == 6000
        np.testing.assert_allclose(stored.total, expected.total, rtol=1e-12)
        np.testing.assert_allclose(stored.square, expected.square, rtol=1e-12, atol=1e-12 * abs(expected.square).max())
        found, whole = estimated(asked, veil), tv.estimate(veil, reports).content()
    np.testing.assert_allclose(numbers([found[key] for key in whole]), numbers(list(whole.values())), rtol=1e-6)


def test_too_few_reports_are_refused_with_the_reason(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    path = f"/v1/estimates?release={veil.release_id}"
    for sent in (0, 50):
        if sent:
            asked.send(veil, veil.privatize(records(sent, RNG)))
        answer = asked.ask("GET", path, "read")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:taskveil:problem:too-few")
        assert answer.json()["detail"].startswith(f"{sent} reports of this release are too few")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reports each estimate that was computed had."""
    found: list[int] = []

    def counting(veil: tv.Veil, tally: Any) -> Any:
        found.append(tally.count)
        return tv.estimate(veil, tally)

    monkeypatch.setattr(estimating, "estimate", counting)
    return found


def test_nothing_is_computed_twice_for_the_same_reports(told: tuple[Asked, tv.Veil], computed: list[int]) -> None:
    asked, veil = told
    asked.send(veil, veil.privatize(records(500, RNG)))
    first = estimated(asked, veil)
    assert estimated(asked, veil) == first
    assert computed == [500]
    asked.send(veil, veil.privatize(records(501, RNG)))
    assert estimated(asked, veil)["reports"] == 1001
    assert computed == [500, 1001]


def test_a_busy_round_is_not_looked_at_again_at_once(
    told: tuple[Asked, tv.Veil], computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    monkeypatch.setattr(estimating, "QUICK", 0.0)
    monkeypatch.setattr(estimating, "REST", 1e6)
    asked.send(veil, veil.privatize(records(500, RNG)))
    first = estimated(asked, veil)
    asked.send(veil, veil.privatize(records(501, RNG)))
    assert estimated(asked, veil) == first
    assert computed == [500]


def test_a_forgotten_round_is_not_remembered_under_its_name(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    asked.send(veil, veil.privatize(records(500, RNG)))
    assert estimated(asked, veil, "round=one")["reports"] == 500
    base = f"/v1/releases/{veil.release_id}/rounds/one"
    assert asked.ask("POST", f"{base}/close", "admin").status_code == 200
    assert asked.ask("DELETE", f"{base}?confirm=one", "admin").json() == {"forgotten": 500}
    path = f"/v1/estimates?release={veil.release_id}&round=one"
    assert asked.ask("GET", path, "read").json()["type"] == "urn:taskveil:problem:round-unknown"
    assert asked.ask("PUT", base, "admin").status_code == 200
    others = veil.privatize(records(500, RNG))  # as many as there were
    asked.send(veil, others, seed=1)
    assert estimated(asked, veil, "round=one")["drift"]["p_value"] == tv.estimate(veil, others).drift.p_value


def test_who_asks_for_the_same_waits_for_the_same_and_too_many_come_again(
    told: tuple[Asked, tv.Veil], computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    monkeypatch.setattr(estimating, "MOST_WAITING", 1)
    asked.send(veil, veil.privatize(records(500, RNG)))
    release = asked.collector.releases.get(veil.release_id)

    async def many() -> list[Any]:
        ask = asked.collector.estimates.told
        same = [ask(release.stored, veil) for _ in range(20)]
        return await asyncio.gather(*same, ask(release.stored, veil, round="one", since="one"), return_exceptions=True)

    *same, other = asked.runner.run(many())
    assert len(set(same)) == 1
    assert computed == [500]
    assert isinstance(other, ProblemError)
    assert (other.problem, other.retry_after) == (Problem.BUSY, 2)


def test_whoever_waits_while_the_collector_stops_is_told(
    told: tuple[Asked, tv.Veil], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    release, estimates = asked.collector.releases.get(veil.release_id), asked.collector.estimates
    asked.send(veil, veil.privatize(records(500, RNG)))
    begun, finish = threading.Event(), threading.Event()

    def slow(veil: tv.Veil, tally: Any) -> Any:
        begun.set()
        finish.wait(10)
        return tv.estimate(veil, tally)

    monkeypatch.setattr(estimating, "estimate", slow)

    async def stopped() -> list[Any]:
        first = asyncio.create_task(estimates.told(release.stored, veil))
        second = asyncio.create_task(estimates.told(release.stored, veil, round="one"))
        await asyncio.to_thread(begun.wait, 10)
        estimates.close()
        third = asyncio.create_task(estimates.told(release.stored, veil, round="one", since="one"))
        await asyncio.wait([second, third], timeout=10)
        finish.set()
        return await asyncio.gather(first, second, third, return_exceptions=True)

    first, *others = asked.runner.run(stopped())
    assert json.loads(first)["reports"] == 500
    assert [error.problem for error in others] == [Problem.STOPPING] * 2


def test_an_estimate_that_takes_long_is_not_waited_for_for_ever(
    told: tuple[Asked, tv.Veil], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    monkeypatch.setattr(estimating, "PATIENCE", 0.001)
    asked.send(veil, veil.privatize(records(500, RNG)))
    answer = asked.ask("GET", f"/v1/estimates?release={veil.release_id}", "read")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
