from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from releases import write_files
from taskveil.client.reading import MANIFEST, WEIGHTS, canonical, client_files, digest, read_files
from taskveil.veil.release import manifest_of

CONTENT = {
    "b": [1, 0.1, None, "ε"],
    "a": {"z": 1, "y": {"integer": str(2**60)}},
    "tensors": [{"tensor": name} for name in "wsf"],
}
ARRAYS = {"w": np.arange(6, dtype=np.int64).reshape(2, 3).T, "s": np.array([1, -1], dtype=np.int8), "f": np.eye(2)}


def test_the_same_content_has_the_same_bytes_and_name(tmp_path: Path) -> None:
    manifest, weights = manifest_of(CONTENT, ARRAYS)
    other = manifest_of(dict(reversed(CONTENT.items())), dict(reversed(ARRAYS.items())))
    assert (canonical(manifest), weights) == (canonical(other[0]), other[1])
    assert write_files(tmp_path, CONTENT, ARRAYS) == manifest["digest"]
    assert (tmp_path / MANIFEST).read_bytes() == canonical(manifest)
    assert (tmp_path / WEIGHTS).read_bytes() == weights


def test_digests_are_those_of_the_bytes() -> None:
    manifest, weights = manifest_of(CONTENT, ARRAYS)
    body = {key: value for key, value in manifest.items() if key != "digest"}
    assert manifest["digest"] == digest(body) == hashlib.sha256(canonical(body)).hexdigest()
    assert manifest["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    changed = manifest_of(CONTENT, ARRAYS | {"f": np.eye(2) * np.nextafter(1, 2)})[0]
    assert changed["digest"] != manifest["digest"]


def test_other_readers_read_the_same() -> None:
    manifest, weights = manifest_of(CONTENT, ARRAYS)
    theirs = load(weights)
    assert all(np.array_equal(theirs[name], ARRAYS[name]) for name in ARRAYS)
    assert json.loads(canonical(manifest)) == manifest
    assert canonical(manifest).isascii()


def test_what_is_not_a_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        manifest_of({"a": float("nan")}, {})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_files(tmp_path, CONTENT, ARRAYS)
    manifest, arrays = read_files(client_files(tmp_path), "client")
    assert manifest["b"] == CONTENT["b"]
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
