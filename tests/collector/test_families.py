"""A collector that serves a family: one entry, one page, counts and estimates of each member and of all."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

import taskveil as tv
from families import answers, chosen, drawn, means, people
from running_collector import Asked, running
from taskveil.client import Client
from taskveil.client.families import FAMILY
from taskveil.collector.releases import Releases, register
from taskveil.errors import ReleaseError
from taskveil.veil.family import sign
from veil.test_signing import pem


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with running(tmp_path, drawn(), rate=math.inf) as asked:  # type: ignore[arg-type]
        yield asked


def sent(asked: Asked, family: tv.Family, count: int, round: str | None = None) -> dict[str, np.ndarray]:
    reports = family.privatize(people(count, seed=5))
    for name, own in reports.items():
        asked.send(family.members[name], own, round=round)
    return reports


def test_a_family_is_one_entry_with_its_members(asked: Asked) -> None:
    reports = sent(asked, drawn(), 2_000)
    (entry,) = asked.ask("GET", "/v1/releases", "read").json()["releases"]
    assert entry["id"] == drawn().release_id
    assert entry["kind"] == "drawn"
    assert entry["guarantee"]["epsilon"] == drawn().epsilon
    assert entry["reports"] == 2_000
    assert entry["so_far"]["epsilon"] == drawn().epsilon
    assert [(one["name"], one["id"], one["weight"], one["reports"]) for one in entry["members"]] == [
        ("answers", answers().release_id, 9, len(reports["answers"])),
        ("survey", means(1.0).release_id, 1, len(reports["survey"])),
    ]
    assert [(one["name"], one["reports"]) for one in entry["rounds"]] == [("one", 2_000)]


def test_estimates_of_each_member_and_of_all(asked: Asked) -> None:
    reports = sent(asked, drawn(), 6_000)
    got = asked.ask("GET", f"/v1/estimates?release={drawn().release_id}&anytime=false", "read").json()
    expected = json.loads(json.dumps(tv.estimate(drawn(), reports).content()))
    assert {name: got[name] for name in expected} == expected
    assert set(got["members"]) == {"answers", "survey"}
    alone = asked.ask("GET", f"/v1/estimates?release={means(1.0).release_id}&anytime=false", "read").json()
    assert alone["attributes"] == got["members"]["survey"]["attributes"]
    assert got["rows"]


def test_devices_fetch_the_family_where_a_folder_has_it(asked: Asked, tmp_path: Path) -> None:
    base, copy = f"/v1/releases/{drawn().release_id}", tmp_path / "copy"
    for name in (FAMILY, *(f"{member}/client/{file}" for member in drawn().members for file in CLIENT_FILES)):
        answer = asked.ask("GET", f"{base}/{name}")
        assert answer.status_code == 200
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(answer.content)
    with Client.load(copy, ledger=tmp_path / "ledger") as client:
        assert client.release.hex() == drawn().release_id
    for name in ("family.sig", "answers/server/manifest.json", "nobody/client/manifest.json", "client/manifest.json"):
        assert asked.ask("GET", f"{base}/{name}").status_code in (400, 404, 422), name
    assert asked.ask("GET", f"/v1/releases/{answers().release_id}/{FAMILY}").status_code == 404


CLIENT_FILES = ("manifest.json", "weights.safetensors")


def test_rounds_are_opened_and_closed_for_all_members(asked: Asked) -> None:
    base = f"/v1/releases/{drawn().release_id}"
    assert asked.ask("PUT", f"{base}/rounds/two", "admin").json()["current"] == "two"
    sent(asked, drawn(), 1_000)
    sent(asked, drawn(), 500, round="one")
    (entry,) = asked.ask("GET", "/v1/releases", "read").json()["releases"]
    assert {one["name"]: one["reports"] for one in entry["rounds"]} == {"one": 500, "two": 1_000}
    assert asked.ask("POST", f"{base}/rounds/two/close", "admin").status_code == 200
    body = json.dumps({"version": 1})
    assert asked.ask("POST", "/v1/reports?round=two", "upload", content=body).status_code == 400
    for veil in drawn().members.values():
        assert not asked.collector.releases.get(veil.release_id).stored.takes("two")
    gone = asked.ask("DELETE", f"{base}/rounds/two?confirm=two", "admin")
    assert gone.json() == {"forgotten": 1_000}
    told = asked.ask("GET", "/v1/releases", "read").json()
    (entry,) = told["releases"]
    assert (len(entry["rounds"]), entry["so_far"]["rounds"]) == (1, 2)
    assert entry["so_far"]["epsilon"] == told["together"]["epsilon"] == 2 * drawn().epsilon


def test_a_token_of_the_family_is_for_its_members(asked: Asked) -> None:
    asked.token("upload", "own", release=drawn().release_id)
    asked.token("upload", "other", release="0" * 64)
    asked.token("read", "reader", release=drawn().release_id)
    asked.tokens["upload"] = asked.tokens["own"]
    sent(asked, drawn(), 400)
    asked.tokens["upload"] = asked.tokens["other"]
    with pytest.raises(AssertionError, match="token"):
        sent(asked, drawn(), 300)
    assert len(asked.ask("GET", "/v1/releases", "reader").json()["releases"]) == 1
    for release in (drawn().release_id, answers().release_id):
        assert asked.ask("GET", f"/v1/estimates?release={release}", "reader").status_code == 200


def test_what_a_family_does_not_have_is_said(asked: Asked) -> None:
    sent(asked, drawn(), 400)
    for path in ("export?", "estimates?assume=cells&anytime=false&"):
        answer = asked.ask("GET", f"/v1/{path}release={drawn().release_id}", "read")
        assert answer.status_code == 422
        assert "member" in answer.json()["detail"]


def test_a_release_is_in_one_family_only(asked: Asked, tmp_path: Path) -> None:
    chosen().save(tmp_path / "other")  # has the survey too
    with pytest.raises(ReleaseError, match="another family"):
        register(asked.store, tmp_path / "other")
    assert len(asked.store.releases()) == 2
    register(asked.store, tmp_path / "release-0" / "survey", round="one")  # alone: it stays in its family
    assert len(Releases(asked.store).families()) == 1


def test_a_family_counts_every_round_that_a_member_collected_by_itself(tmp_path: Path) -> None:
    """A device that had the member alone reports again for the family: two reports in a round that is counted once."""
    with running(tmp_path) as asked:
        drawn().save(tmp_path / "family")
        register(asked.store, tmp_path / "family" / "survey", round="one")
        with pytest.raises(ReleaseError, match="has collected round 'one' by itself"):
            register(asked.store, tmp_path / "family", round="one")
        assert len(asked.store.releases()) == 1
        register(asked.store, tmp_path / "family", round="two")
        register(asked.store, tmp_path / "family", round="two")
        (family,) = Releases(asked.store).families()
        assert family.stored.had == 2


def test_a_family_that_was_registered_in_part_takes_reports_and_can_be_completed(tmp_path: Path) -> None:
    with running(tmp_path) as asked:
        drawn().save(tmp_path / "family")
        real, calls = asked.store.add_release, []

        def interrupted(*args: object, **more: object) -> None:
            calls.append(args)
            if len(calls) == 2:
                raise KeyboardInterrupt
            real(*args, **more)  # type: ignore[arg-type]

        asked.store.add_release = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            register(asked.store, tmp_path / "family")
        assert Releases(asked.store).families() == ()
        asked.store.add_release = real  # type: ignore[method-assign]
        assert register(asked.store, tmp_path / "family") == drawn().release_id
        assert len(Releases(asked.store).families()) == 1


def test_a_signature_that_comes_later_is_served(asked: Asked, tmp_path: Path) -> None:
    key, path = ed25519.Ed25519PrivateKey.generate(), f"/v1/releases/{drawn().release_id}/family.sig"
    assert asked.ask("GET", path).status_code == 404
    sign(tmp_path / "release-0", pem(key))
    register(asked.store, tmp_path / "release-0", round="one")
    asked.runner.run(asked.collector.refresh())
    assert asked.ask("GET", path).content == (tmp_path / "release-0" / "family.sig").read_bytes()


def test_groups_that_chose_are_weighted_by_people(tmp_path: Path) -> None:
    with running(tmp_path, chosen()) as asked:  # type: ignore[arg-type]
        for name, count in (("0.5", 3_000), ("2", 1_000)):
            asked.send(chosen().members[name], chosen().members[name].privatize(people(count, seed=1)))
        got = asked.ask("GET", f"/v1/estimates?release={chosen().release_id}", "read").json()
    assert got["shares_of_people"] == {"0.5": 0.75, "2": 0.25}
