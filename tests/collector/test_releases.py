"""Releases as the store has them: opened, followed, refused when they are not what they say."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import collectors
from memory_store import MemoryStore
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.releases import Releases, register
from taskveil.errors import DataError, ReleaseError
from taskveil.estimates import tally
from taskveil.veil.decoders import AffineDecoder

import releases as made  # isort: skip


def problem(call: object, *args: object) -> ProblemType:
    with pytest.raises(ProblemError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.problem


def test_what_is_registered_is_open(tmp_path: Path) -> None:
    store = MemoryStore()
    veil = collectors.counted()
    veil.save(tmp_path / "kitchen")
    (tmp_path / "kitchen" / "frontier.json").write_text("{}")
    id = register(store, tmp_path / "kitchen", round="W1")
    assert id == veil.release_id
    found = Releases(store).get(id)
    assert found.veil.release_id == id
    assert found.stored.name == "kitchen"
    assert found.stored.counted
    assert found.files["frontier.json"] == b"{}"
    assert set(found.files) >= {"client/manifest.json", "client/weights.safetensors", "server/manifest.json"}
    assert found.taking().name == found.taking("W1").name == "W1"
    assert problem(found.round, "W2") is ProblemType.ROUND_UNKNOWN
    assert problem(Releases(store).get, "00" * 32) is ProblemType.RELEASE_UNKNOWN


def test_only_files_of_the_release_are_kept(tmp_path: Path) -> None:
    store, folder = MemoryStore(), tmp_path / "kitchen"
    collectors.counted().save(folder)
    (tmp_path / "secret").write_text("of somebody else")
    (folder / "client" / "key.pem").write_text("left there by mistake")
    (folder / "client" / "notes").symlink_to(tmp_path / "secret")
    (folder / "client" / "manifest.sig").symlink_to(tmp_path / "secret")
    (folder / "server" / "manifest.sig").write_bytes(bytes(64))
    id = register(store, folder)
    kept = {"client/manifest.json", "client/weights.safetensors", "server/manifest.json", "server/weights.safetensors"}
    assert set(store.files(id)) == {*kept, "server/manifest.sig"}


def test_a_name_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    store = MemoryStore()
    collectors.registered(store, tmp_path, name="café \x1b[2J\n\udcff")
    assert store.releases()[0].name == "café \ufffd[2J\ufffd\ufffd"


def test_what_the_store_counts_and_what_it_adds_up(tmp_path: Path) -> None:
    store = MemoryStore()
    # Of a lattice, only the codewords add up, and this decoder does not have them.
    alone = replace(
        made.veil(made.linear(), made.lattice_codebook(6.0)),
        decoder=AffineDecoder(weights=np.ones((5, 1)), offset=np.zeros(5)),
    )
    sums = made.veil(made.linear(), made.sum_codebook(8, 5, epsilon=6.0))
    veils = {"counted": collectors.counted(), "summed": collectors.summed(), "both": sums, "neither": alone}
    ids = {name: collectors.registered(store, tmp_path, veil) for name, veil in veils.items()}
    found = {name: Releases(store).get(id) for name, id in ids.items()}
    assert {name: one.stored.counted for name, one in found.items()} == {
        "counted": True,
        "summed": False,
        "both": False,
        "neither": False,
    }
    fresh = np.arange(50) % 3 > 0
    for name in ("summed", "both"):
        numbers = veils[name].privatize(np.random.default_rng(0).normal(size=(50, 5)))
        whole = tally(veils[name], numbers[fresh])
        codes = np.zeros(0) if whole.codes is None else whole.codes
        assert (codes.size > 0) == (name == "both")
        parts = np.concatenate([whole.total, whole.square.ravel(), codes])
        assert found[name].moments(numbers, fresh) == pytest.approx(parts)
    # Of reports that say nothing together there is nothing to add up.
    assert found["neither"].moments(veils["neither"].privatize(np.zeros((3, 5))), np.ones(3, bool)).size == 0
    assert found["neither"].scores is None


def test_changes_are_followed_and_veils_are_not_opened_twice(tmp_path: Path) -> None:
    store = MemoryStore()
    id = collectors.registered(store, tmp_path)
    releases = Releases(store)
    before = releases.get(id)
    store.open_round(id, "next")
    assert releases.get(id).stored.current == "0"
    releases.refresh()
    after = releases.get(id)
    assert after.taking().name == "next"
    assert after.veil is before.veil
    store.close_round(id, "next")
    releases.refresh()
    assert problem(releases.get(id).taking) is ProblemType.ROUND_CLOSED
    store.set_open(id, open=False)
    releases.refresh()
    assert problem(releases.get(id).taking, "0") is ProblemType.RELEASE_CLOSED
    second = collectors.registered(store, tmp_path, collectors.summed())
    releases.refresh()
    assert [one.stored.id for one in releases.all()] == [id, second]


@pytest.mark.parametrize("harm", ["altered", "missing", "other", "outside"])
def test_a_release_that_cannot_be_opened_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    store = MemoryStore()
    bad, good = collectors.registered(store, tmp_path), collectors.registered(store, tmp_path, collectors.summed())
    files = store.files(bad)
    if harm == "altered":
        weights = bytearray(files["client/weights.safetensors"])
        weights[-1] ^= 1
        files["client/weights.safetensors"] = bytes(weights)
    elif harm == "missing":
        del files["server/manifest.json"]
    elif harm == "other":
        files = store.files(good)
    else:
        files["client/../../escaped"] = b"x"
        del files["client/manifest.json"]
    store.add_release(bad, name="bad", counted=True, files=files, round="0")
    with caplog.at_level(logging.ERROR, logger="taskveil.collector"):
        releases = Releases(store)
    assert problem(releases.get, bad) is ProblemType.RELEASE_UNKNOWN
    assert releases.get(good).stored.id == good
    assert bad[:12] in caplog.text


def test_an_altered_folder_and_a_bad_round_are_refused(tmp_path: Path) -> None:
    store, veil = MemoryStore(), collectors.counted()
    veil.save(tmp_path / "release")
    for name in ("", "a/b", "line\nbreak", "x" * 1001):
        with pytest.raises(DataError, match="round"):
            register(store, tmp_path / "release", round=name)
    manifest = tmp_path / "release" / "client" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"kW"', b'"MW"', 1))
    with pytest.raises(ReleaseError):
        register(store, tmp_path / "release")
    assert store.releases() == ()


def test_a_release_with_other_server_files_is_opened_again(tmp_path: Path) -> None:
    store, veil = MemoryStore(), collectors.counted()
    id = collectors.registered(store, tmp_path, veil)
    releases = Releases(store)
    before = releases.get(id).veil
    replace(veil, method="another way").save(tmp_path / "again")
    assert register(store, tmp_path / "again", round="1") == id
    releases.refresh()
    assert releases.get(id).veil is not before
    assert releases.get(id).veil.method == "another way"
