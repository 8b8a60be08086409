"""A release is a mapping of names to bytes. Folders and databases carry it as it is, and nothing else."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import releases
import taskveil as tv
from taskveil.client.reading import MOST_WEIGHTS, client_files, folder_files, read_device
from taskveil.errors import ReleaseError, SignatureError
from taskveil.veil.release import release_files

NAMES = [f"{half}/{file}" for half in ("client", "server") for file in ("manifest.json", "weights.safetensors")]


@pytest.fixture(params=["laplace_box", "codebook", "lattice", "levels", "mixed"])
def made(request: pytest.FixtureRequest) -> tv.Veil:
    device = releases.devices()[request.param]
    return releases.veil(device.encoder, device.mechanism)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    device = releases.devices()["laplace_box"]
    releases.veil(device.encoder, device.mechanism).save(tmp_path / "release")
    return tmp_path / "release"


def test_a_veil_is_read_from_its_files_without_any_folder(made: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_folder(*_: object, **__: object) -> str:
        raise AssertionError("a temporary folder was made")

    monkeypatch.setattr(tempfile, "mkdtemp", no_folder)
    files = made.files()
    assert sorted(files) == NAMES
    again = tv.Veil.from_files(files)
    assert again.release_id == made.release_id
    assert again.files() == files
    assert made.size.client_bytes == sum(len(content) for name, content in files.items() if name.startswith("client/"))


def test_a_folder_holds_the_files_byte_for_byte(veil: tv.Veil, tmp_path: Path) -> None:
    for keep in (True, False):
        veil.save(tmp_path / str(keep), volunteers=keep)
        assert release_files(tmp_path / str(keep)) == veil.files(volunteers=keep)
        assert tv.Veil.load(tmp_path / str(keep)).files() == veil.files(volunteers=keep)
    assert veil.files(volunteers=False) == replace(veil, volunteers=None).files()


def test_only_the_owner_opens_the_sums_over_volunteers(veil: tv.Veil, tmp_path: Path) -> None:
    for keep in (True, False):
        veil.save(tmp_path / str(keep), volunteers=keep)
        assert (tmp_path / str(keep) / "server").stat().st_mode & 0o077 == (0 if keep else 0o055)


def test_nothing_else_in_the_folder_is_read(release: Path) -> None:
    (release / "client" / "notes.txt").write_text("private")
    (release / "server" / "people.csv").symlink_to(__file__)
    assert sorted(release_files(release)) == NAMES


def test_a_client_folder_may_have_any_name(release: Path, tmp_path: Path) -> None:
    (release / "client").rename(tmp_path / "phone")
    device, _ = read_device(client_files(tmp_path / "phone"))
    assert device.mechanism.report_width == 3


def test_other_names_are_ignored(release: Path) -> None:
    files = release_files(release)
    more = {**files, "client/../../out": b"x", "frontier.json": b"x", "client/a/b": b"x"}
    assert tv.Veil.from_files(more).files() == files


@pytest.mark.parametrize("name", NAMES)
def test_what_was_altered_or_lost_on_the_way_is_refused_with_its_name(name: str, release: Path) -> None:
    files = release_files(release)
    with pytest.raises(ReleaseError, match=rf"from the database.*{name}"):
        tv.Veil.from_files({**files, name: files[name][:-1] + b"\x01"}, where="from the database")
    del files[name]
    with pytest.raises(ReleaseError, match=rf"from the database lacks.*{name}"):
        tv.Veil.from_files(files, where="from the database")


def test_who_asks_for_a_signature_gets_no_unsigned_files(release: Path) -> None:
    with pytest.raises(SignatureError, match="not signed"):
        tv.Veil.from_files(release_files(release), verify_key=bytes(32))


def test_a_folder_that_is_no_release_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="Is this a taskveil release"):
        release_files(tmp_path)
    with pytest.raises(ReleaseError, match="cannot read"):
        folder_files(tmp_path, "client")


def test_halves_of_two_releases_are_refused(made: tv.Veil) -> None:
    """Also where the other release has parts of the same shapes."""
    other = releases.veil(made.encoder, made.mechanism)
    if made.release_id == other.release_id:  # the same device: another one has other bounds
        low, high = np.asarray(made.encoder.low), np.asarray(made.encoder.high)
        other = replace(other, encoder=replace(made.encoder, low=low - 1.0, high=high + 1.0))
    assert made.release_id != other.release_id
    mixed = {name: (made if name.startswith("client/") else other).files()[name] for name in NAMES}
    with pytest.raises(ReleaseError, match="different releases"):
        tv.Veil.from_files(mixed)


@pytest.mark.parametrize("wrong", [None, [], "client/manifest.json", b"", 3, [("client/manifest.json", b"{}")]])
def test_what_is_no_mapping_is_refused(wrong: object) -> None:
    for read in (read_device, tv.Veil.from_files):
        with pytest.raises(ReleaseError, match="mapping of names to bytes"):
            read(wrong)


@pytest.mark.parametrize("kind", [str, memoryview, bytearray])
def test_contents_that_are_not_bytes_are_refused(made: tv.Veil, kind: type) -> None:
    for name in NAMES:
        files = made.files()
        content: object = files[name].decode("latin-1") if kind is str else kind(files[name])
        with pytest.raises(ReleaseError):
            tv.Veil.from_files(files | {name: content})


@pytest.mark.parametrize("signature", ["text", 5, ["x"], bytearray(64)])
def test_a_signature_that_is_not_bytes_is_refused(made: tv.Veil, signature: object) -> None:
    for read in (read_device, tv.Veil.from_files):
        with pytest.raises(SignatureError):
            read(made.files() | {"client/manifest.sig": signature}, verify_key=bytes(32))


def test_too_large_weights_are_refused_without_reading_them(release: Path) -> None:
    """A sparse file of 32 GiB is none that a device could use."""
    with open(release / "client" / "weights.safetensors", "r+b") as weights:
        weights.truncate(2**35)
    with pytest.raises(ReleaseError, match="large"):
        tv.Veil.load(release)
    device = releases.devices()["codebook"]
    files = releases.veil(device.encoder, device.mechanism).files()
    with pytest.raises(ReleaseError, match="large"):
        read_device(files | {"client/weights.safetensors": bytes(MOST_WEIGHTS + 1)})


def test_names_are_taken_as_they_are(made: tv.Veil) -> None:
    files = made.files()
    again = tv.Veil.from_files(files | {name.upper(): b"{}" for name in NAMES} | {"../client/manifest.json": b"{}"})
    assert again.release_id == made.release_id
    with pytest.raises(ReleaseError):
        tv.Veil.from_files({name.upper(): content for name, content in files.items()})
