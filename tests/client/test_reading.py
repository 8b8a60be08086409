"""A device believes nothing that a release says before it is checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import releases
from forged import tools
from forged.forgeries import Forgery, forgeries
from forged.levels import other_groups, together
from releases import write_files
from taskveil.client.device import Device
from taskveil.client.mechanisms import Lattice, LatticeCodebook, Response
from taskveil.client.reading import (
    MANIFEST,
    SCHEMA,
    WEIGHTS,
    _parse_safetensors,
    canonical,
    client_files,
    digest,
    read_device,
    read_files,
)
from taskveil.errors import ReleaseError, SignatureError, VersionError
from taskveil.veil.release import pack_device

DEVICES = releases.devices()
Change = Callable[[dict[str, Any]], object]


def write(folder: Path, name: str) -> Path:
    """The client's half of a release of one of the devices."""
    device = DEVICES[name]
    folder.mkdir(exist_ok=True)
    write_files(folder, *pack_device(device))
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
    device, manifest = read_device(client_files(write(tmp_path / name, name)))
    X = np.random.default_rng(0).normal(size=(20, device.encoder.width))
    assert np.array_equal(device.encoder(X), DEVICES[name].encoder(X), equal_nan=True)
    assert device.mechanism.layout == DEVICES[name].mechanism.layout
    assert manifest["guarantee"]["epsilon"] == device.mechanism.epsilon == DEVICES[name].mechanism.epsilon
    assert (device.columns, device.units) == (DEVICES[name].columns, DEVICES[name].units)


@pytest.mark.parametrize("name", list(DEVICES))
def test_the_reader_agrees_with_the_safetensors_library(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, name)
    theirs = load_file(tmp_path / name / WEIGHTS)
    _, ours = read_files(client_files(tmp_path / name), "client")
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
            read_device(client_files(tmp_path / "r"))
    for length in (0, 1, 8, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ReleaseError):
            read_device(client_files(tmp_path / "r"))


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
    read_device(client_files(tmp_path / "r"))
    with pytest.raises(ReleaseError):
        read_device(client_files(forge(tmp_path / "r", change)))


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
        read_device(client_files(forge(tmp_path / "r", change)))


def test_a_newer_schema_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(VersionError, match="newer taskveil"):
        read_device(client_files(forge(write(tmp_path / "r", "codebook"), lambda m: m.update(schema=SCHEMA + 1))))


@pytest.mark.parametrize(
    "header",
    [
        *("[]", "7", "[" * 9000, '{"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,4]}}'),
        '{"a":{"dtype":"I8","shape":[' + "9," * 519_999 + '9],"data_offsets":[0,0]}}',
    ],
    ids=["a list", "a number", "brackets", "a length below 0", "a shape of 520,000 lengths"],
)
def test_weights_that_are_none_are_refused(header: str) -> None:
    raw = len(header).to_bytes(8, "little") + header.encode() + bytes(4)
    start = time.process_time()
    with pytest.raises(ReleaseError):
        _parse_safetensors(raw, "weights")
    assert time.process_time() - start < 1


def test_a_header_ends_before_the_file_does() -> None:
    assert _parse_safetensors(tools.headed(b"{}", b""), "weights") == {}
    with pytest.raises(ReleaseError):
        _parse_safetensors((9).to_bytes(8, "little") + b"{}", "weights")


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="cannot read"):
        read_device(client_files(tmp_path / "nowhere"))
    (write(tmp_path / "r", "codebook") / WEIGHTS).unlink()
    with pytest.raises(ReleaseError, match="cannot read"):
        read_device(client_files(tmp_path / "r"))


def test_who_asks_for_a_signature_gets_no_unsigned_release(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="not signed"):
        read_device(client_files(write(tmp_path / "r", "codebook")), bytes(32))


FORGERIES = forgeries()


def on_disk(forgery: Forgery, folder: Path) -> Path:
    (folder / MANIFEST).write_bytes(forgery.manifest)
    (folder / WEIGHTS).write_bytes(forgery.weights)
    return folder


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.why)
def test_forgeries_are_refused(forgery: Forgery, tmp_path: Path) -> None:
    """The browser client is held against the same list."""
    with pytest.raises(ReleaseError):
        read_device(client_files(on_disk(forgery, tmp_path)))


MEASURE = """
import re, sys, time
from pathlib import Path
from taskveil.client.reading import SCHEMA, client_files, read_device
from taskveil.errors import ReleaseError
def peak():  # not getrusage: a child's ru_maxrss starts at its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
before, start = peak(), time.process_time()
try:
    read_device(client_files(Path(sys.argv[1])))
except ReleaseError:
    print(peak() - before, time.process_time() - start)
"""
BOMBS = [
    "overlapping tensors, 4,000 of 1 MB",
    "parts in lists 900 deep",
    "reports longer than the wire carries",
    "a hidden layer of 2^28 units and no attributes",
    "a hidden layer of 2^40 units and no attributes",
    "two stages",
    "sign vectors of eleven latents",
    "a lattice of 1,000 directions and a budget of 8,000",
    "a lattice of 30,000 levels and a budget of 30,000",
    "a lattice of 2^1004 codewords that states another number",
    "a lattice of more than 2^1500 codewords",
    "a manifest in brackets",
    "a header beyond the file",
    "a shape of 500,000 lengths",
]


@pytest.mark.parametrize("why", BOMBS)
def test_bombs_are_refused_in_little_memory_and_time(why: str, tmp_path: Path) -> None:
    """In 0.1 these took gigabytes, minutes, or a raw error at the first report."""
    (bomb,) = (forgery for forgery in FORGERIES if forgery.why == why)
    command = [sys.executable, "-c", MEASURE, str(on_disk(bomb, tmp_path))]
    megabytes, seconds = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert megabytes < 100
    assert seconds < 1


@pytest.mark.parametrize(
    "change",
    [other_groups(2048), together(64), other_groups(1, outputs=2**19), other_groups(16, outputs=2**15)],
    ids=["groups", "latents", "entries", "entries together"],
)
def test_groups_of_levels_at_their_limits_are_read(change: tools.Change, tmp_path: Path) -> None:
    """Among the forgeries is one beyond each limit, and it is the limit that refuses it."""
    manifest, weights = tools.changed("levels", change)
    start = time.process_time()
    device, _ = read_device(client_files(on_disk(Forgery(why="", manifest=manifest, weights=weights), tmp_path)))
    assert time.process_time() - start < 2
    assert device.mechanism.possible(device.privatize(np.zeros((9, 6)))).all()


@pytest.mark.parametrize("file", [MANIFEST, WEIGHTS])
def test_files_too_large_for_a_release_are_not_read(file: str, tmp_path: Path) -> None:
    with (write(tmp_path / "r", "codebook") / file).open("r+b") as opened:
        opened.truncate(1 << 36)  # a hole, which takes no room on the disk
    with pytest.raises(ReleaseError, match="too large"):
        read_device(client_files(tmp_path / "r"))


def test_odd_places_are_release_errors(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for place in (Path("\ud800"), Path("a\0b"), tmp_path / "loop", tmp_path / ("x" * 5000)):
        with pytest.raises(ReleaseError):
            read_device(client_files(place))


def test_the_largest_lattices_that_designs_make_are_read(tmp_path: Path) -> None:
    """100 directions of 255 levels with a budget of 300."""
    lengths = np.abs(np.arange(255) - 127) * 2
    points = Lattice(
        levels=np.tile(np.arange(255) - 127, 100), lengths=np.tile(lengths, 100), counts=np.full(100, 255), budget=300
    )
    device = Device(
        encoder=releases.linear(5, 100),
        mechanism=LatticeCodebook(
            region=releases.box(100),
            lattice=points,
            response=Response.calibrated(size=points.size, favoured=1, epsilon=200.0),
        ),
    )
    write_files(tmp_path, *pack_device(device))
    assert len(read_device(client_files(tmp_path))[0].privatize(np.zeros((2, 5)))) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("file", [MANIFEST, WEIGHTS])
def test_pipes_and_devices_are_no_release(file: str, tmp_path: Path) -> None:
    """Opening a pipe waits for its other end, and reading a device may never end."""
    folder = write(tmp_path / "r", "codebook")
    code = (
        "import sys; from pathlib import Path; from taskveil.client.reading import client_files, read_device\n"
        "from taskveil.errors import ReleaseError\n"
        "try: read_device(client_files(Path(sys.argv[1])))\n"
        "except ReleaseError as error: print('no regular file' in str(error))"
    )
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/null")):
        (folder / file).unlink()
        make(folder / file)
        command = [sys.executable, "-c", code, str(folder)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
        assert said == "True\n"


def test_the_price_of_many_large_stages_is_bounded() -> None:
    """50 stages of a = 2^1500 − 1 took seven seconds: each ε was searched for anew whenever it was asked."""
    responses = [Response(size=4, favoured=1, a=2**1500 - 1 - place, b=1) for place in range(50)]
    start = time.process_time()
    first = [response.epsilon for response in responses]
    spent = time.process_time() - start
    start = time.process_time()
    assert [response.epsilon for response in responses] == first
    assert time.process_time() - start < spent / 10
