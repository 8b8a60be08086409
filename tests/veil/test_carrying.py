"""A release as bytes is the same release, and carries nothing else that lies in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import releases
import taskveil as tv
from taskveil.client.reading import CLIENT, read_device
from taskveil.errors import ReleaseError
from taskveil.veil.carrying import carried, carried_half, unpacked


@pytest.fixture
def release(tmp_path: Path) -> Path:
    device = releases.devices()["laplace_box"]
    releases.veil(device.encoder, device.mechanism).save(tmp_path / "release")
    return tmp_path / "release"


def test_what_is_carried_is_the_release_and_nothing_else(release: Path) -> None:
    (release / "client" / "notes.txt").write_text("for nobody")
    (release / "server" / "people.csv").symlink_to(__file__)
    files = carried(release)
    assert sorted(files) == [
        f"{half}/{file}" for half in ("client", "server") for file in sorted(("manifest.json", "weights.safetensors"))
    ]
    with unpacked(files) as folder:
        assert tv.Veil.load(folder).release_id == tv.Veil.load(release).release_id
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_a_client_folder_may_have_any_name(release: Path, tmp_path: Path) -> None:
    (release / "client").rename(tmp_path / "phone")
    with unpacked(carried_half(tmp_path / "phone", CLIENT)) as folder:
        device, _ = read_device(folder / CLIENT)
    assert device.mechanism.report_width == 3


def test_names_that_lead_out_of_the_folder_are_not_written(release: Path) -> None:
    files = {**carried(release), "client/../../out": b"x", "elsewhere/file": b"x", "client/a/b": b"x"}
    with unpacked(files) as folder:
        assert sorted(path.name for path in folder.iterdir()) == ["client", "server"]
        assert len([path for path in folder.rglob("*") if path.is_file()]) == 4
        assert not (folder.parent / "out").exists()


def test_what_was_altered_on_the_way_is_refused(release: Path) -> None:
    files = carried(release)
    files["client/weights.safetensors"] = files["client/weights.safetensors"][:-1] + b"\x01"
    with unpacked(files) as folder, pytest.raises(ReleaseError, match="altered"):
        tv.Veil.load(folder)


def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="Is this a release"):
        carried(tmp_path)
