"""A device believes nothing that a release says before it is checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import releases
from taskveil.client.reading import MANIFEST, WEIGHTS, _parse_safetensors, canonical, digest, read_device, read_files
from taskveil.errors import ReleaseError, SignatureError, VersionError
from taskveil.release.manifest import write_files
from taskveil.release.parts import pack_device

DEVICES = releases.devices()
Change = Callable[[dict[str, Any]], object]


def write(folder: Path, name: str) -> Path:
    """The client's half of a release of one of the devices."""
    device = DEVICES[name]
    folder.mkdir(exist_ok=True)
    write_files(folder, *pack_device(device, releases.veil(device.encoder, device.mechanism).guarantee))
    return folder


def forge(folder: Path, change: Change) -> Path:
    """A forger who also repairs the digest: only the parts' own checks can object."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    change(manifest)
    del manifest["digest"]
    (folder / MANIFEST).write_bytes(canonical({**manifest, "digest": digest(manifest)}))
    return folder


@pytest.mark.parametrize("name", list(DEVICES))
def test_what_was_written_is_read(name: str, tmp_path: Path) -> None:
    device, manifest = read_device(write(tmp_path / name, name))
    X = np.random.default_rng(0).normal(size=(20, device.encoder.width))
    assert np.array_equal(device.encoder(X), DEVICES[name].encoder(X), equal_nan=True)
    assert device.mechanism.layout == DEVICES[name].mechanism.layout
    assert manifest["guarantee"]["epsilon"] == device.mechanism.epsilon == DEVICES[name].mechanism.epsilon
    assert (device.columns, device.units) == (DEVICES[name].columns, DEVICES[name].units)


@pytest.mark.parametrize("name", list(DEVICES))
def test_the_reader_agrees_with_the_safetensors_library(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, name)
    theirs = load_file(tmp_path / name / WEIGHTS)
    _, ours = read_files(tmp_path / name)
    assert theirs.keys() == ours.keys()
    assert all(np.array_equal(theirs[key], ours[key]) for key in ours)


@pytest.mark.parametrize("file", [MANIFEST, WEIGHTS])
def test_any_flipped_bit_or_cut_is_refused(file: str, tmp_path: Path) -> None:
    path = write(tmp_path / "r", "codebook") / file
    good = path.read_bytes()
    for place in np.random.default_rng(0).choice(len(good) * 8, size=300, replace=False):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << (place % 8)
        path.write_bytes(bytes(bad))
        with pytest.raises(ReleaseError):
            read_device(tmp_path / "r")
    for length in (0, 1, 8, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ReleaseError):
            read_device(tmp_path / "r")


def response(m: dict[str, Any]) -> dict[str, Any]:
    return m["mechanism"]["stages"][0]["response"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["guarantee"].update(epsilon=1.0),
        lambda m: m["guarantee"].update(epsilon=True),
        lambda m: m["guarantee"].update(epsilon=str(m["guarantee"]["epsilon"])),
        lambda m: m["guarantee"].update(epsilon=m["guarantee"]["epsilon"] / 2),
        lambda m: m["guarantee"].update(delta=-3.0),
        lambda m: m["guarantee"].update(statement={"you": "are safe"}),
        lambda m: m["guarantee"].pop("statement"),
        lambda m: m.update(guarantee=None),
        lambda m: response(m).update(favoured=4.0),
        lambda m: response(m).update(size=17),
        lambda m: response(m).update(a={"integer": "x"}),
        lambda m: m["mechanism"]["region"].update(step=0.3),
        lambda m: m["mechanism"]["region"].update(step={"integer": 4.9}),
        lambda m: m["mechanism"]["region"].update(low={"tensor": "encoder.low"}),
        lambda m: m["mechanism"]["region"].update(low=[1, 2, 3]),
        lambda m: m["encoder"].update(kind="affine_decoder"),
        lambda m: m.update(columns=["a"]),
        lambda m: m.update(columns=["a"] * 30),
        lambda m: m.update(columns=list(range(30))),
        lambda m: m.update(units="kW"),
        lambda m: m.update(schema=True),
        lambda m: m.update(schema=-7),
        lambda m: m.update(schema="1"),
    ],
)
def test_forged_codebooks_are_refused(change: Change, tmp_path: Path) -> None:
    write(tmp_path / "r", "codebook")
    read_device(tmp_path / "r")
    with pytest.raises(ReleaseError):
        read_device(forge(tmp_path / "r", change))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["mechanism"].update(scale=m["mechanism"]["scale"] / 2),
        lambda m: m["mechanism"].update(scale=2**1100),
        lambda m: m["mechanism"].update(scale=True),
        lambda m: m["mechanism"].update(kind="linear_encoder"),
        lambda m: m["mechanism"].update(unknown=1),
        lambda m: m.pop("encoder"),
        lambda m: m["encoder"].update(weights={"tensor": "nowhere"}),
    ],
)
def test_forged_noise_is_refused(change: Change, tmp_path: Path) -> None:
    write(tmp_path / "r", "laplace_box")
    with pytest.raises(ReleaseError):
        read_device(forge(tmp_path / "r", change))


def test_a_newer_schema_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(VersionError, match="newer taskveil"):
        read_device(forge(write(tmp_path / "r", "codebook"), lambda m: m.update(schema=2)))


@pytest.mark.parametrize(
    "header", ["[]", "7", "[" * 9000, '{"a": {"dtype": "I8", "shape": [-1], "data_offsets": [0, 4]}}']
)
def test_weights_that_are_none_are_refused(header: str, tmp_path: Path) -> None:
    raw = len(header).to_bytes(8, "little") + header.encode() + bytes(4)
    with pytest.raises(ReleaseError):
        _parse_safetensors(raw, tmp_path / WEIGHTS)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot read"):
        read_device(tmp_path / "nowhere")
    (write(tmp_path / "r", "codebook") / WEIGHTS).unlink()
    with pytest.raises(ReleaseError, match="cannot read"):
        read_device(tmp_path / "r")


def test_who_asks_for_a_signature_gets_no_unsigned_release(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="not signed"):
        read_device(write(tmp_path / "r", "codebook"), bytes(32))
