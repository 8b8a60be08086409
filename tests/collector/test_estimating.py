"""What the stored reports say is what `tv.estimate` says of the reports themselves, computed no oftener than needed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import releases
import surveys_drawn
import taskveil as tv
from collections_drawn import codebook_veil, records, with_volunteers
from conftest import needs
from running_collector import Asked, running, small_veil
from taskveil.collector import estimating
from taskveil.collector.estimating import EstimateRequest, stored_tally
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.estimates import tally
from taskveil.veil.volunteers import Volunteers, truths


@pytest.fixture(autouse=True)
def _machines_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "KEPT_TIMES_AS_LONG", 0.0)


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
        for anytime in (True, False):
            found = estimated(asked, veil, *more, *([] if anytime else ["anytime=false"]))
            expected = tv.estimate(veil, reports, anytime=anytime)
            assert {key: found[key] for key in expected.content()} == json.loads(json.dumps(expected.content()))
            assert [(*row.values(),)[2:] for row in found["rows"]] == [row.cells for row in expected.rows()]
            named = [found[row["group"]][row["place"]]["name"] for row in found["rows"]]
            assert named == [row["name"] for row in found["rows"]]
            assert found["round"] == (more[0].removeprefix("round=") if more else None)


@pytest.mark.parametrize("anytime", [True, False])
def test_a_change_holds_at_the_stated_level(told: tuple[Asked, tv.Veil], anytime: bool) -> None:
    """The same people may have reported in both rounds: limits are subtracted, and each round may be wrong half as
    often."""
    asked, veil = told
    reports = {"one": veil.privatize(records(900, RNG)), "two": veil.privatize(records(700, RNG))}
    for round, some in reports.items():
        asked.store.open_round(veil.release_id, round)
        asked.runner.run(asked.collector.refresh())
        asked.send(veil, some)
    found = estimated(asked, veil, "round=two", "since=one", f"anytime={anytime}")
    then, now = (tv.estimate(veil, some, anytime=anytime, confidence=0.975) for some in reports.values())
    expected = now.minus(then)
    assert expected["frequencies"]
    assert found["changes"] == {kind: [one._asdict() for one in many] for kind, many in expected.items()}
    assert (found["since"], found["confidence"]) == ("one", 0.95)


def test_a_round_says_what_its_crowd_adds(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    asked.send(veil, veil.privatize(records(1234, RNG)), round="one")
    (one,) = estimated(asked, veil, "round=one")["crowd"]
    own = veil.central(reports=1200, delta=1e-6)
    assert (one["epsilon"], one["delta"], one["reports"]) == (own.epsilon, own.delta, 1200)
    assert (one["release"], one["statement"]) == (veil.release_id, own.statement)
    # The same people may have reported in each round, so all rounds together are no crowd.
    assert "crowd" not in estimated(asked, veil)


DRAWN = """
const made = () => ({ style: {}, children: [], setAttribute() {}, append(...some) { this.children.push(...some); } });
globalThis.document = { createElement: made, createElementNS: made };
const text = (one) => (typeof one === "string" ? one : one.children.map(text).join(""));
const { estimates } = await import(process.argv[1]);
console.log(estimates(JSON.parse(process.argv[2]), {}).flat(Infinity).filter(Boolean).map(text).join("\\n"));
"""


@needs(shutil.which("node") is not None, "Node")
def test_the_page_rounds_the_crowds_epsilon_up() -> None:
    """0.01034567 in three digits would be 0.0103, which is not proved."""
    crowd = [{"epsilon": 0.01034567, "delta": 1.00000049e-6, "reports": 1200}]
    answer = {"rows": [], "notes": [], "reports": 1234, "confidence": 0.95, "drift": {"words": ""}, "crowd": crowd}
    page = Path(estimating.__file__).with_name("pages") / "estimates.js"
    done = subprocess.run(
        ["node", "--input-type=module", "-e", DRAWN, page.as_uri(), json.dumps(answer)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1,200 honest reports of this round" in done.stdout
    assert "central ε\u00a0=\u00a00.0103457, δ\u00a0=\u00a00.00000100001. " in done.stdout


def test_a_round_of_gaussian_reports_has_no_central_guarantee(tmp_path: Path) -> None:
    people = records(1234, RNG)
    veil = tv.design(people, tv.LinearTask(np.eye(people.shape[1])), epsilon=2.0, delta=1e-6, method="gaussian")
    with running(tmp_path, veil) as asked:
        asked.send(veil, veil.privatize(people), round="one")
        found = estimated(asked, veil, "round=one")
    assert found["crowd"] == []
    assert [row["name"] for row in found["rows"]] == [f"latent {n + 1}" for n in range(veil.mechanism.latent_dim)]


def test_assumed_rows_are_given_by_name(tmp_path: Path) -> None:
    X = records(400, np.random.default_rng(0))
    veil = replace(codebook_veil(3.0), task=tv.LinearTask(np.array([[1.0, 1.0], [1.0, -1.0]])))
    veil = with_volunteers(veil, X, (X[:, 0] > 0).astype(np.int64))
    reports = veil.privatize(records(900, RNG))
    with running(tmp_path, veil) as asked:
        asked.send(veil, reports)
        assert asked.ask("GET", "/v1/releases", "read").json()["releases"][0]["assumptions"] == ["cells", "labels"]
        for assume in ("cells", "labels"):
            found = estimated(asked, veil, "anytime=false", f"assume={assume}")
            expected = tv.estimate(veil, reports, assume=assume)  # type: ignore[arg-type]
            assert {key: found[key] for key in expected.content()} == json.loads(json.dumps(expected.content()))
            groups = {row["group"]: found[row["group"]][row["place"]]["assumes"] for row in found["rows"]}
            kinds = ("attributes", "shares") if assume == "cells" else ("shares",)
            assert groups == {"frequencies": None, **dict.fromkeys(kinds, expected.assumes)}


def test_an_assumption_is_refused_where_it_cannot_be_made(tmp_path: Path) -> None:
    veils = small_veil(), releases.veil(releases.linear(), releases.laplace(releases.box(3), 4.0))
    with running(tmp_path, *veils) as asked:
        for place, veil in enumerate(veils):
            asked.send(veil, veil.privatize(RNG.normal(size=(50, veil.encoder.width))), seed=place)
        assert [one["assumptions"] for one in asked.ask("GET", "/v1/releases", "read").json()["releases"]] == [
            *(["cells"], [])
        ]
        for veil, query, words in (
            (veils[0], "assume=cells", "need anytime=false"),
            (veils[0], "anytime=false&assume=labels", "needs the classes of one label"),
            (veils[0], "anytime=false&assume=all", ""),
            (veils[1], "anytime=false&assume=cells", "works for releases with a list of codes"),
        ):
            answer = asked.ask("GET", f"/v1/estimates?release={veil.release_id}&{query}", "read")
            assert (answer.status_code, answer.json()["type"]) == (422, "urn:taskveil:problem:invalid")
            assert words in answer.json()["detail"]


def summed(kind: str) -> tuple[tv.Veil, np.ndarray]:
    """A release whose reports are added up, and records of people."""
    mechanism: Any = {
        "laplace": lambda: releases.laplace(releases.box(3), 4.0),
        "lattice": lambda: releases.lattice_codebook(6.0),
        "sum": lambda: releases.sum_codebook(8, 5, epsilon=6.0),
    }[kind]()
    task = tv.LinearTask(np.eye(5))
    veil = replace(releases.veil(releases.linear(), mechanism), task=task)
    low, high = veil.encoder.low, veil.encoder.high
    X = low + RNG.uniform(size=(6000, 5)) * (high - low)
    values, outputs = truths(task, X[:300], None)
    known = Volunteers.of(mechanism, veil.decoder, veil.encoder(X[:300]), X[:300], task, (values, outputs))
    return replace(veil, volunteers=known, outputs=outputs), X


@pytest.mark.parametrize("kind", ["laplace", "lattice", "sum"])
def test_summed_reports_say_the_same(kind: str, tmp_path: Path, store_url: str) -> None:
    veil, X = summed(kind)
    reports = veil.privatize(X)
    with running(tmp_path, veil, db=store_url) as asked:
        assert not asked.collector.releases.get(veil.release_id).stored.counted
        asked.send(veil, reports[:2500])
        asked.send(veil, reports[2500:], seed=1)
        stored, expected = stored_tally(veil, asked.store, counted=False), tally(veil, reports)
        assert stored.count == expected.count == 6000
        assert (stored.codes is None) == (expected.codes is None) == (kind != "sum")
        np.testing.assert_array_equal(stored.codes, expected.codes)  # type: ignore[arg-type]
        np.testing.assert_allclose(stored.total, expected.total, rtol=1e-12)
        np.testing.assert_allclose(stored.square, expected.square, rtol=1e-12, atol=1e-12 * abs(expected.square).max())
        found, whole = estimated(asked, veil), tv.estimate(veil, reports, anytime=True).content()
    np.testing.assert_allclose(numbers([found[key] for key in whole]), numbers(list(whole.values())), rtol=1e-6)


def test_too_few_reports_are_refused_with_the_reason(told: tuple[Asked, tv.Veil]) -> None:
    asked, veil = told
    path = f"/v1/estimates?release={veil.release_id}"
    for sent in (0, 9):
        if sent:
            asked.send(veil, veil.privatize(records(sent, RNG)))
        answer = asked.ask("GET", path, "read")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:taskveil:problem:too-few")
        assert answer.json()["detail"].startswith(f"{sent} reports are too few")
    asked.send(veil, veil.privatize(records(1, RNG)))
    assert estimated(asked, veil)["reports"] == 10


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reports each estimate that was computed had."""
    found: list[int] = []

    def counting(veil: tv.Veil, tally: Any, **rule: Any) -> Any:
        found.append(tally.count)
        return tv.estimate(veil, tally, **rule)

    monkeypatch.setattr(estimating, "estimate", counting)
    return found


def test_a_busy_round_is_not_looked_at_again_at_once(
    told: tuple[Asked, tv.Veil], computed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    monkeypatch.setattr(estimating, "KEPT_TIMES_AS_LONG", 1e6)
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
    monkeypatch.setattr(estimating, "MAX_ESTIMATES", 1)
    asked.send(veil, veil.privatize(records(500, RNG)))
    release = asked.collector.releases.get(veil.release_id)

    async def many() -> list[Any]:
        ask = asked.collector.estimates.answer
        same = [ask(release, EstimateRequest()) for _ in range(20)]
        other = ask(release, EstimateRequest(anytime=False))
        return await asyncio.gather(*same, other, return_exceptions=True)

    *same, other = asked.runner.run(many())
    assert len(set(same)) == 1
    assert computed == [500]
    assert isinstance(other, ProblemError)
    assert (other.problem, other.retry_after) == (ProblemType.BUSY, 2)


def test_requests_that_wait_while_the_collector_stops_are_answered(
    told: tuple[Asked, tv.Veil], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    release, estimates = asked.collector.releases.get(veil.release_id), asked.collector.estimates
    asked.send(veil, veil.privatize(records(500, RNG)))
    begun, finish = threading.Event(), threading.Event()

    def slow(veil: tv.Veil, tally: Any, **rule: Any) -> Any:
        begun.set()
        finish.wait(10)
        return tv.estimate(veil, tally, **rule)

    monkeypatch.setattr(estimating, "estimate", slow)

    async def stopped() -> list[Any]:
        first = asyncio.create_task(estimates.answer(release, EstimateRequest()))
        second = asyncio.create_task(estimates.answer(release, EstimateRequest(round="one")))
        await asyncio.to_thread(begun.wait, 10)
        estimates.close()
        third = asyncio.create_task(estimates.answer(release, EstimateRequest(anytime=False)))
        await asyncio.wait([second, third], timeout=10)
        finish.set()
        return await asyncio.gather(first, second, third, return_exceptions=True)

    first, *others = asked.runner.run(stopped())
    assert json.loads(first)["reports"] == 500
    assert [error.problem for error in others] == [ProblemType.STOPPING] * 2


def test_an_estimate_that_takes_long_is_not_waited_for_for_ever(
    told: tuple[Asked, tv.Veil], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, veil = told
    monkeypatch.setattr(asked.collector.estimates, "_timeout", 0.001)
    asked.send(veil, veil.privatize(records(500, RNG)))
    answer = asked.ask("GET", f"/v1/estimates?release={veil.release_id}", "read")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_survey_shows_its_sections_and_cells(tmp_path: Path) -> None:
    veil, people = surveys_drawn.survey(), surveys_drawn.people(600, 3)
    reports = veil.privatize(people)
    with running(tmp_path, veil) as asked:
        asked.send(veil, reports)
        answer = estimated(asked, veil, "round=one")
    direct = tv.estimate(veil, reports, anytime=True)
    assert answer["means"][0]["mean"] == pytest.approx(direct.means["income"].mean)
    sections = dict.fromkeys(row["section"] for row in answer["rows"])
    assert list(sections) == [section.title for section in direct.sections()]
    cells = [row["cell"] for row in answer["rows"] if row["section"] == "plan × region"]
    assert ["Basic", "North"] in cells
    assert ["missing", "Island"] in cells
    for row in answer["rows"]:
        assert answer[row["group"]][row["place"]]["name"].split(" [")[0] in row["name"]


def test_reports_of_a_large_vocabulary_are_counted_one_by_one(tmp_path: Path) -> None:
    words = pd.DataFrame({"search": ["rain", "sun"] * 100})
    veil = tv.design(words, tv.SurveyTask(), epsilon=3.0, schema=tv.Schema({"search": tv.Words(263)}))
    reports = veil.privatize(words)
    with running(tmp_path, veil) as asked:
        asked.send(veil, reports)
        (stored,) = asked.store.releases()
        assert stored.counted
        found = stored_tally(veil, asked.store, counted=True)
    counted = tally(veil, reports)
    assert np.array_equal(found.came, counted.came)
    assert np.array_equal(found.codes, counted.codes)
