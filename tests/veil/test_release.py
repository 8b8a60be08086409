from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.reading import MANIFEST, WEIGHTS, canonical, digest, folder_files, read_files
from taskveil.errors import ReleaseError, VersionError
from taskveil.veil.losses import Considered

METHODS = ["task_aware", "task_agnostic", "privacy_agnostic", "matrix_factorization"]
TRIED = Considered(
    method="codebook", encoder="linear", held_out_loss=1.5, standard_error=0.0, bytes=5000, operations=60
)


@pytest.fixture
def folder(veil: tv.Veil, tmp_path: Path) -> Path:
    veil.save(tmp_path / "release")
    return tmp_path / "release"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("domain", [None, tv.Box(-90, 100), tv.Ball(500)])
def test_what_is_loaded_is_what_was_saved(
    method: str, domain: object, volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path
) -> None:
    veil = tv.design(volunteers, task, epsilon=1.7, method=method, domain=domain)  # type: ignore[arg-type]
    veil.save(tmp_path / "r")
    again = tv.Veil.load(tmp_path / "r")
    assert again.guarantee == veil.guarantee
    assert again.bounds == veil.bounds
    assert again.method == veil.method
    assert np.array_equal(again.encode(volunteers), veil.encode(volunteers))
    assert again.loss(volunteers) == veil.loss(volunteers)


def test_devices_get_no_task_and_no_decoder(folder: Path) -> None:
    manifest, arrays = read_files(folder_files(folder / "client", "client"), "client")
    assert "decoder" not in manifest
    assert not any(name.startswith(("decoder", "task")) for name in arrays)


@pytest.mark.parametrize("part", ["client", "server"])
@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_any_flipped_bit_or_cut_is_refused(folder: Path, part: str, name: str) -> None:
    path = folder / part / name
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    places = rng.choice(len(good) * 8, size=min(400, len(good) * 8), replace=False)
    for place in places:
        bad = bytearray(good)
        bad[place // 8] ^= 1 << (place % 8)
        path.write_bytes(bytes(bad))
        with pytest.raises(ReleaseError):
            tv.Veil.load(folder)
    for length in (0, 1, 7, 8, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ReleaseError):
            tv.Veil.load(folder)
    path.write_bytes(good)
    tv.Veil.load(folder)


def rewrite(folder: Path, change: object) -> None:
    """A forger who also repairs the digests: only the parts' own checks can object."""
    path = folder / "client" / MANIFEST
    manifest = json.loads(path.read_bytes())
    change(manifest)  # type: ignore[operator]
    del manifest["digest"]
    path.write_bytes(canonical({**manifest, "digest": digest(manifest)}))


def test_a_newer_schema_is_named_as_such(folder: Path) -> None:
    rewrite(folder, lambda m: m.update(schema=99))
    with pytest.raises(VersionError, match="newer taskveil"):
        tv.Veil.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["mechanism"].update(
            scale=m["mechanism"]["scale"] / 2
        ),  # the release no longer matches the server's
        lambda m: m["mechanism"].update(kind="affine_decoder"),
        lambda m: m["mechanism"].update(unknown=1),
        lambda m: m.pop("encoder"),
        lambda m: m["encoder"].update(weights={"tensor": "nowhere"}),
    ],
)
def test_forged_manifests_are_refused(folder: Path, change: object) -> None:
    rewrite(folder, change)
    with pytest.raises(ReleaseError):
        tv.Veil.load(folder)


def test_missing_files(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot read"):
        tv.Veil.load(tmp_path / "nowhere")
    (folder / "server" / WEIGHTS).unlink()
    with pytest.raises(ReleaseError, match="cannot read"):
        tv.Veil.load(folder)


def test_nothing_is_written_half(veil: tv.Veil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full_disk(path: Path, content: bytes) -> int:
        if "server" in path.parts:
            raise OSError("no space left")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="no space"):
        veil.save(tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


def test_existing_folders_are_not_overwritten_by_accident(veil: tv.Veil, folder: Path) -> None:
    with pytest.raises(ReleaseError, match="overwrite=True"):
        veil.save(folder)
    veil.save(folder, overwrite=True)
    tv.Veil.load(folder)
    precious = folder.parent / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(ReleaseError, match="not a taskveil release"):
        veil.save(precious, overwrite=True)
    assert (precious / "thesis.txt").exists()


def test_what_was_considered_is_kept(veil: tv.Veil, tmp_path: Path) -> None:
    considered = (TRIED, replace(TRIED, encoder="light and trees", standard_error=0.01, bytes=2**40, operations=0))
    replace(veil, considered=considered).save(tmp_path / "r")
    assert tv.Veil.load(tmp_path / "r").considered == considered


def _schema_of(folder: Path) -> int:
    return int(json.loads((folder / "server" / "manifest.json").read_text())["schema"])


def test_what_older_versions_cannot_read_has_another_schema(veil: tv.Veil, tmp_path: Path) -> None:
    """Then they ask for a newer taskveil, instead of calling the release malformed."""
    replace(veil, considered=(TRIED,)).save(tmp_path / "r", volunteers=False)
    veil.save(tmp_path / "s")
    assert [_schema_of(tmp_path / name) for name in "rs"] == [7, 7]
    replace(veil, considered=(), volunteers=None, outputs=None).save(tmp_path / "t")
    assert _schema_of(tmp_path / "t") == 1
    assert tv.Veil.load(tmp_path / "r").considered[0].method == "codebook"
    manifest, _ = read_files(folder_files(tmp_path / "r" / "client", "client"), "client")
    assert manifest["schema"] == 1  # devices are not concerned
