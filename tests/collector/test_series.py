"""Releases that plan their rounds: which rounds take reports, what a person spends, and rows over the rounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import families
import taskveil as tv
from collections_drawn import records
from running_collector import Asked, batch, running, small_veil
from taskveil.client.panels import Panel, dated
from taskveil.client.wire import BINARY
from taskveil.collector.releases import first_round, in_all, register, so_far
from taskveil.collector.store import StoredRelease, StoredRound
from taskveil.errors import DataError

PANEL = Panel(reports=2, rounds=("one", "two", "three", "four", "five"), days=0)  # blocks: one, two; three, four, five
RNG = np.random.default_rng(7)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[Asked, tv.Veil]]:
    veil = replace(small_veil(), panel=PANEL)
    with running(tmp_path, veil) as asked:
        yield asked, veil


def opened(asked: Asked, veil: tv.Veil, name: str) -> Any:
    return asked.ask("PUT", f"/v1/releases/{veil.release_id}/rounds/{name}", "admin")


def collected(asked: Asked, veil: tv.Veil, rounds: tuple[str, ...] = ("one", "two", "three")) -> dict[str, np.ndarray]:
    reports = {name: veil.privatize(records(300 + 50 * place, RNG)) for place, name in enumerate(rounds)}
    for seed, (name, own) in enumerate(reports.items()):
        assert opened(asked, veil, name).status_code == 200
        asked.send(veil, own, round=name, seed=seed)
    return reports


def test_a_round_that_was_not_planned_is_refused_with_words(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    body = batch(veil, veil.privatize(records(3, RNG)), RNG)
    headers = {"Content-Type": BINARY}
    answer = asked.ask("POST", "/v1/reports?round=six", "upload", content=body, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:taskveil:problem:round-not-planned")
    assert answer.json()["detail"] == "Devices report in its 5 planned rounds, 'one' to 'five', only."
    answer = asked.ask("POST", "/v1/reports?round=two", "upload", content=body, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:taskveil:problem:round-unknown")
    assert answer.json()["detail"] == "It is planned, and the operator has not opened it yet."
    assert asked.store.releases()[0].reports == 0

    refused = opened(asked, veil, "six")
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:taskveil:problem:invalid")
    assert "devices report in its 5 planned rounds, 'one' to 'five'" in refused.json()["detail"]
    assert opened(asked, veil, "two").json()["current"] == "two"
    assert asked.ask("POST", "/v1/reports?round=two", "upload", content=body, headers=headers).status_code == 200


def test_a_release_opens_with_the_planned_round_of_today(tmp_path: Path) -> None:
    today = date.today()
    start = (today - timedelta(days=10)).isoformat()
    weekly = Panel(reports=1, rounds=tuple(dated(start, 7, 4)), days=7)
    assert first_round(weekly) in (weekly.rounds[1], weekly.rounds[2])  # the day may end meanwhile
    later = Panel(reports=1, rounds=tuple(dated((today + timedelta(days=30)).isoformat(), 7, 4)), days=7)
    assert first_round(later) == later.rounds[0]
    assert (first_round(PANEL), first_round(None)) == ("one", "0")
    veil = replace(small_veil(), panel=PANEL)
    with running(tmp_path) as asked:
        veil.save(tmp_path / "planned")
        with pytest.raises(DataError, match="'0' is not planned"):
            register(asked.store, tmp_path / "planned", round="0")
        assert asked.store.releases() == ()
        register(asked.store, tmp_path / "planned")
        assert asked.store.releases()[0].current == "one"


@pytest.mark.parametrize("name", ["2026/W47", "-2", "..", "two\nlines"])
def test_a_release_with_a_round_that_cannot_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    """Devices would make reports in it, and the collector could not take them."""
    replace(small_veil(), panel=replace(PANEL, rounds=("one", "two", name))).save(tmp_path / "planned")
    with running(tmp_path) as asked:
        with pytest.raises(DataError, match="a round's name is"):
            register(asked.store, tmp_path / "planned")
        assert asked.store.releases() == ()


def test_a_person_spends_one_report_in_each_block_so_far(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    epsilon = veil.guarantee.epsilon

    def spent() -> list[tuple[int, int, float]]:
        answer = asked.ask("GET", "/v1/releases", "read").json()
        (one,) = answer["releases"]
        assert answer["together"] == one["so_far"]
        return [(one[name]["rounds"], one[name]["reports"], one[name]["epsilon"]) for name in ("so_far", "planned")]

    assert spent() == [(1, 1, epsilon), (5, 2, 2 * epsilon)]
    opened(asked, veil, "two")
    assert spent()[0] == (2, 1, epsilon), "both rounds are of one block"
    opened(asked, veil, "three")
    assert spent()[0] == (3, 2, 2 * epsilon)
    shown = asked.ask("GET", "/v1/releases", "read").json()["releases"][0]["panel"]
    assert shown == {"reports": 2, "rounds": list(PANEL.rounds), "days": 0}


def test_a_deleted_round_may_have_been_of_any_block() -> None:
    def stored(*names: str, forgotten: int = 0, planned: int | None = None) -> StoredRelease:
        rounds = tuple(StoredRound(number=n, name=name, open=True, reports=1) for n, name in enumerate(names))
        return StoredRelease(
            id="0" * 64, name="a", open=True, counted=True, current="", rounds=rounds, forgotten=forgotten,
            planned=planned,
        )  # fmt: skip

    assert so_far(stored("one", "two"), PANEL) == (2, 1)
    assert so_far(stored("one", "two", forgotten=1), PANEL) == (3, 2)
    assert so_far(stored("one", "two", "five", forgotten=1), PANEL) == (4, 2)
    assert so_far(stored("one", "two", forgotten=1), None) == (3, 3)
    assert in_all(stored("one", planned=9), None) == (9, 9)
    assert in_all(stored("one"), None) is None
    assert in_all(stored("one"), PANEL) == (5, 2)


def test_the_series_is_that_of_the_reports_themselves(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    reports = collected(asked, veil)
    for anytime in (True, False):
        answer = asked.ask("GET", f"/v1/estimates/series?release={veil.release_id}&anytime={anytime}", "read")
        expected = tv.estimate(veil, reports, anytime=anytime)
        assert answer.json() == json.loads(json.dumps(expected.content()))
    assert answer.json()["planned"] == 5
    answer = asked.ask("GET", f"/v1/estimates/series?release={veil.release_id}&people=1000", "read")
    assert answer.json()["rounds"][0]["expected"] == 500.0
    for query, status in (("people=0", 422), ("people=200", 422), ("round=one", 422), ("assume=cells", 422)):
        answer = asked.ask("GET", f"/v1/estimates/series?release={veil.release_id}&{query}", "read")
        assert answer.status_code == status, query
    assumed = asked.ask("GET", f"/v1/estimates/series?release={veil.release_id}&anytime=false&assume=cells", "read")
    assert any(row["assumes"] for row in assumed.json()["rows"])


def test_the_series_needs_a_token_that_reads_this_release(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    collected(asked, veil)
    asked.token("read", "other", release="0" * 64)
    path = f"/v1/estimates/series?release={veil.release_id}"
    assert [asked.ask("GET", path, who).status_code for who in (None, "upload", "other", "read")] == [
        401,
        403,
        403,
        200,
    ]


def test_rounds_without_estimates_and_releases_without_reports(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    path = f"/v1/estimates/series?release={veil.release_id}"
    answer = asked.ask("GET", path, "read")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:taskveil:problem:too-few")
    collected(asked, veil)
    opened(asked, veil, "five")
    found = asked.ask("GET", path, "read").json()
    assert [one["reports"] for one in found["rounds"]] == [300, 350, 400, 0]
    assert all(row["low"][3] is None for row in found["rows"])


def test_without_a_panel_the_operator_or_the_rounds_so_far_say_how_many(tmp_path: Path) -> None:
    veil = small_veil()
    with running(tmp_path, veil) as asked:
        collected(asked, veil, ("one", "two"))
        path = f"/v1/estimates/series?release={veil.release_id}"
        assert asked.ask("GET", path, "read").json()["planned"] == 2
        asked.store.plan(veil.release_id, 52)
        asked.runner.run(asked.collector.refresh())
        assert asked.ask("GET", path, "read").json()["planned"] == 52


def test_one_series_is_computed_and_then_kept(told: tuple[Asked, tv.Veil], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, veil = told
    collected(asked, veil)
    computed, real = [], asked.collector.estimates._counted

    def counted(release: Any, round: str | None) -> Any:
        computed.append(round)
        return real(release, round)

    monkeypatch.setattr(asked.collector.estimates, "_counted", counted)
    monkeypatch.setattr("taskveil.collector.estimating.KEPT_TIMES_AS_LONG", 1e6)
    path = f"/v1/estimates/series?release={veil.release_id}"

    async def several() -> list[Any]:
        headers = {"Authorization": f"Bearer {asked.tokens['read']}"}
        return await asyncio.gather(*(asked.client.get(path, headers=headers) for _ in range(3)))

    assert {one.text for one in asked.runner.run(several())} == {asked.ask("GET", path, "read").text}
    asked.ask("GET", f"{path}&people=5000", "read")
    assert sorted(computed) == ["one", "three", "two"]


@pytest.mark.parametrize(("since", "apart"), [("one", False), ("four", True)])
def test_changes_within_a_block_are_of_different_people(told: tuple[Asked, tv.Veil], since: str, apart: bool) -> None:
    asked, veil = told
    reports = collected(asked, veil, ("one", "four", "five"))
    query = f"/v1/estimates?release={veil.release_id}&round=five&since={since}&anytime=false"
    found = asked.ask("GET", query, "read").json()
    each = 0.95 if apart else 0.975
    now, then = (tv.estimate(veil, reports[name], confidence=each) for name in ("five", since))
    expected = now.minus(then, different_people=apart)
    assert found["changes"] == {kind: [one._asdict() for one in many] for kind, many in expected.items()}


def test_families_plan_rounds_too(tmp_path: Path) -> None:
    drawn = families.drawn(0.5)
    planned = tv.Family({name: (replace(veil, panel=PANEL), 0.5) for name, veil in drawn.members.items()})
    people = families.people(400)
    with running(tmp_path) as asked:
        planned.save(tmp_path / "family")
        register(asked.store, tmp_path / "family")
        asked.runner.run(asked.collector.refresh())
        family = planned.release_id
        assert asked.ask("PUT", f"/v1/releases/{family}/rounds/six", "admin").status_code == 422
        sent: dict[str, dict[str, np.ndarray]] = {}
        for place, name in enumerate(("one", "two")):
            assert asked.ask("PUT", f"/v1/releases/{family}/rounds/{name}", "admin").status_code == 200
            sent[name] = {member: veil.privatize(people) for member, veil in planned.members.items()}
            for seed, (member, own) in enumerate(sent[name].items()):
                asked.send(planned.members[member], own, round=name, seed=10 * place + seed)
        (entry,) = asked.ask("GET", "/v1/releases", "read").json()["releases"]
        assert (entry["so_far"]["reports"], entry["planned"]["reports"]) == (1, 2)
        found = asked.ask("GET", f"/v1/estimates/series?release={family}", "read").json()
        assert found == json.loads(json.dumps(tv.estimate(planned, sent, anytime=True).content()))
