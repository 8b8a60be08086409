"""Who may see what, and what they see."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from collections_drawn import records
from running_collector import Asked, running, small_veil
from taskveil.client.promise import round_up, times_as_likely
from taskveil.collector.releases import Together, register
from taskveil.veil.veil import Guarantee

RNG = np.random.default_rng(9)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, tv.Veil, tv.Veil]]:
    """A collector with two releases, the second of which nobody reported to; it is asked from another machine."""
    first, second = small_veil(3.0), small_veil(2.0)
    with running(tmp_path_factory.mktemp("collected"), first, second, client="192.0.2.7") as asked:
        asked.send(first, first.privatize(records(400, RNG)))
        asked.token("read", "read first", release=first.release_id)
        asked.token("admin", "admin first", release=first.release_id)
        yield asked, first, second


PATHS = (
    "/v1/releases/{id}/frontier",
    "/v1/estimates?release={id}",
    "/v1/export?release={id}",
)


def test_releases_are_told_in_full(collected: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    asked, first, second = collected
    found = asked.ask("GET", "/v1/releases", "read").json()["releases"]
    assert [one["id"] for one in found] == [first.release_id, second.release_id]
    told = found[0]
    assert told["rounds"] == [{"name": "one", "open": True, "reports": 400}]
    assert (told["reports"], told["open"], told["current"], told["method"]) == (400, True, "one", "by hand")
    assert told["guarantee"]["epsilon"] == first.guarantee.epsilon
    assert told["guarantee"]["statement"] == first.guarantee.statement
    assert (told["attributes"], told["outputs"]) == (["age", "income"], ["answer"])
    assert (told["report_bytes"], told["client_bytes"]) == (1, first.size.client_bytes)
    assert (told["estimates"], told["assumptions"], told["frontier"]) == (True, ["cells"], False)
    assert found[1]["reports"] == 0


def test_delta_adds_up_beside_epsilon() -> None:
    """In whole numbers and rounded up; a probability is at most 1."""
    one, other = Guarantee(epsilon=1.0, delta=1e-6, enforced_by=""), Guarantee(epsilon=2.0, enforced_by="")
    total = Together.of([(one, 52, 52), (other, 3, 3)])
    assert total.epsilon == 58.0
    assert Fraction(math.nextafter(total.delta, 0)) < 52 * Fraction(1e-6) <= Fraction(total.delta)
    assert Together.of([(one, 10**7, 10**7)]).delta == 1.0
    assert Together.of([(other, 3, 3)]).delta == 0.0


def test_beside_epsilon_stands_what_the_rounds_add_up_to(tmp_path: Path) -> None:
    first, second = small_veil(3.0), small_veil(2.0)
    with running(tmp_path, first, second) as asked:
        base = f"/v1/releases/{first.release_id}"
        assert asked.ask("PUT", f"{base}/rounds/two", "admin").status_code == 200
        epsilons = [one.guarantee.epsilon for one in (first, second)]

        def total(*rounds: int) -> dict[str, Any]:
            spent = round_up(sum(Fraction(each) * count for each, count in zip(epsilons, rounds, strict=False)))
            odds = times_as_likely(spent)
            return {"rounds": sum(rounds), "reports": sum(rounds), "epsilon": spent, "delta": 0.0, "odds": odds}

        told = asked.ask("GET", "/v1/releases", "read").json()
        assert [one["so_far"]["rounds"] for one in told["releases"]] == [2, 1]
        assert told["releases"][0]["so_far"] == total(2)
        assert told["releases"][0]["so_far"]["epsilon"] >= 2 * epsilons[0]
        assert [one["planned"] for one in told["releases"]] == [None, None]
        assert told["together"] == total(2, 1)
        asked.store.plan(first.release_id, 52)
        asked.ask("POST", f"{base}/rounds/two/close", "admin")
        asked.ask("DELETE", f"{base}/rounds/two?confirm=two", "admin")
        told = asked.ask("GET", "/v1/releases", "read").json()
        assert len(told["releases"][0]["rounds"]) == 1
        assert told["releases"][0]["so_far"] == total(2), "a deleted round cost people budget all the same"
        assert told["releases"][0]["planned"] == total(52)
        asked.token("read", "own", release=second.release_id)
        assert asked.ask("GET", "/v1/releases", "own").json()["together"] == total(0, 1)


@pytest.mark.parametrize("path", ["/v1/releases", "/metrics", *PATHS])
def test_nobody_reads_without_a_token_for_it(collected: tuple[Asked, tv.Veil, tv.Veil], path: str) -> None:
    asked, first, _ = collected
    path = path.replace("{id}", first.release_id)
    missing = asked.ask("GET", path)
    assert (missing.status_code, missing.headers["www-authenticate"]) == (401, "Bearer")
    assert asked.ask("GET", path, headers={"Authorization": "Bearer tv_no"}).status_code == 401
    wrong = asked.ask("GET", path, "upload")
    assert (wrong.status_code, wrong.json()["type"]) == (403, "urn:taskveil:problem:token-wrong-scope")
    assert asked.ask("GET", path, "read").status_code in (200, 404)
    assert asked.ask("GET", path, "admin").status_code in (200, 404)


@pytest.mark.parametrize("path", PATHS)
def test_a_token_of_one_release_reads_no_other(collected: tuple[Asked, tv.Veil, tv.Veil], path: str) -> None:
    asked, first, second = collected
    assert asked.ask("GET", path.replace("{id}", first.release_id), "read first").status_code in (200, 404)
    for other in (second.release_id, "0" * 64):  # also where there is none: the answer does not tell
        answer = asked.ask("GET", path.replace("{id}", other), "read first")
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:taskveil:problem:token-other-release")


def test_a_token_of_one_release_sees_that_one_alone(collected: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    asked, first, _ = collected
    listed = asked.ask("GET", "/v1/releases", "read first").json()["releases"]
    assert [one["id"] for one in listed] == [first.release_id]
    assert asked.ask("GET", "/metrics", "read first").status_code == 403


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("release=abc", "invalid"),
        ("", "invalid"),
        (f"release={'0' * 64}", "release-unknown"),
        ("release={id}&round=none", "round-unknown"),
        ("release={id}&round=one&since=none", "round-unknown"),
        ("release={id}&since=one", "invalid"),
        ("release={id}&round=one&since=one", "invalid"),
        ("release={id}&assume=cells", "invalid"),
    ],
)
def test_what_is_not_there_is_said(collected: tuple[Asked, tv.Veil, tv.Veil], query: str, problem: str) -> None:
    asked, first, _ = collected
    answer = asked.ask("GET", f"/v1/estimates?{query.replace('{id}', first.release_id)}", "read")
    assert answer.json()["type"] == f"urn:taskveil:problem:{problem}"
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_token_has_its_rate(collected: tuple[Asked, tv.Veil, tv.Veil]) -> None:
    asked, _, _ = collected
    asked.token("read", "slow", rate=0.5)
    answers = [asked.ask("GET", "/v1/releases", "slow") for _ in range(10)]
    assert answers[0].status_code == 200
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


def test_the_frontier_is_told_without_single_records(tmp_path: Path) -> None:
    veil = small_veil()
    row = {"method": "codebook", "epsilon": 1.0, "loss": 0.5, "low": None, "high": None}
    careless: dict[str, Any] = {
        "clear": 0.1,
        "constant": 1.0,
        "rows": [row],
        "points": [{"per_record": "secret"}],
        "per_record": {"clear": "secret"},
    }
    with running(tmp_path, veil) as asked:
        path = f"/v1/releases/{veil.release_id}/frontier"
        assert asked.ask("GET", path, "read").json()["type"] == "urn:taskveil:problem:not-found"
        for content in (json.dumps(careless), "nonsense", "[]", '{"rows": NaN}', "[" * 100_000):
            (tmp_path / "release-0" / "frontier.json").write_text(content)
            register(asked.store, tmp_path / "release-0", round="one")
            asked.runner.run(asked.collector.refresh())
            answer = asked.ask("GET", path, "read")
            if content.startswith('{"clear'):
                assert answer.json() == {"clear": 0.1, "constant": 1.0, "rows": [row]}
                assert asked.ask("GET", "/v1/releases", "read").json()["releases"][0]["frontier"] is True
            else:
                assert answer.status_code == 404


@pytest.mark.parametrize("path", ["estimates", "export"])
@pytest.mark.parametrize("more", ["&rond=one", "&Round=one", "&round=one&round=two", "&confidence=0.5"])
def test_a_parameter_that_is_unknown_or_repeated_is_refused(tmp_path: Path, path: str, more: str) -> None:
    """Else a mistyped round gives the answer for all rounds."""
    veil = small_veil()
    with running(tmp_path, veil) as asked:
        asked.send(veil, veil.privatize(records(50, np.random.default_rng(1))))
        found = f"/v1/{path}?release={veil.release_id}"
        assert asked.ask("GET", f"{found}&round=one", "read").status_code == 200
        answer = asked.ask("GET", f"{found}{more}", "read")
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:taskveil:problem:invalid")
    assert "round" in answer.json()["detail"]
    assert "rond" not in answer.text
