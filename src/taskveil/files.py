"""Release files: a canonical JSON manifest and a safetensors file, each checked before anything is believed.

A folder holds `manifest.json`, `weights.safetensors` and, if signed, `manifest.sig`. The manifest names the schema
version, the SHA-256 of the weights and its own digest, and must be byte for byte the canonical form of its content:
flipping any bit of either file is noticed. Nothing is pickled and no code is read.

The reader ships to devices, so it needs numpy and the standard library only; writing uses the safetensors library.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import ReleaseError, SignatureError, VersionError

SCHEMA = 1
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
SIGNATURE = "manifest.sig"

Array = NDArray[Any]
_DTYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "I64": np.dtype("<i8"), "I8": np.dtype("i1")}


def write_files(folder: Path, content: dict[str, Any], arrays: dict[str, Array]) -> str:
    """Write manifest and weights into an existing empty folder; returns the digest that identifies the content."""
    from safetensors.numpy import save

    weights: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    body = {**content, "schema": SCHEMA, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    digest = _digest(body)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / MANIFEST).write_bytes(_canonical({**body, "digest": digest}))
    return digest


def sign_files(folder: Path, key: bytes) -> None:
    """Sign a folder's manifest, and with it the weights, with a PEM private key."""
    from taskveil.signing import sign

    manifest, _ = read_files(folder)  # nothing altered or broken gets a signature
    draft = folder / f".{SIGNATURE}"
    draft.write_bytes(sign(_canonical(manifest), key))  # the bytes that were checked, whatever the file holds by now
    draft.replace(folder / SIGNATURE)


def read_files(folder: Path, verify_key: bytes | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Manifest and arrays of a folder, or a ReleaseError that says what is wrong with it.

    With a `verify_key` (PEM or 32 raw bytes, Ed25519) the folder must carry that key's signature.
    """
    raw, weights = _read(folder / MANIFEST), _read(folder / WEIGHTS)
    if verify_key is not None:
        from taskveil.signing import verify

        if not (folder / SIGNATURE).exists():
            raise SignatureError(f"{folder} is not signed. Sign it with `taskveil sign`, or fetch a signed release.")
        verify(raw, _read(folder / SIGNATURE), verify_key, folder)
    try:
        manifest = json.loads(raw)
        schema = manifest["schema"]
        claimed = manifest["digest"]
        canonical = _canonical(manifest)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ReleaseError(f"{folder / MANIFEST} is not a taskveil manifest ({error!r}).") from error
    if type(schema) is not int or schema < 1:
        raise ReleaseError(f"{folder / MANIFEST} is not a taskveil manifest (schema {schema!r}).")
    if schema > SCHEMA:
        raise VersionError(
            f"{folder / MANIFEST} has schema {schema}; this taskveil reads up to {SCHEMA}. Install a newer taskveil."
        )
    body = {key: value for key, value in manifest.items() if key != "digest"}
    if canonical != raw or claimed != _digest(body):
        raise ReleaseError(f"{folder / MANIFEST} was altered: its digest does not match. Fetch the release again.")
    if manifest.get("weights_sha256") != hashlib.sha256(weights).hexdigest():
        raise ReleaseError(f"{folder / WEIGHTS} was altered or cut short. Fetch the release again.")
    return manifest, _parse_safetensors(weights, folder / WEIGHTS)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"cannot read {path}: {error.strerror}. Is this a taskveil release?") from error


def _canonical(manifest: dict[str, Any]) -> bytes:
    return (json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(body)).hexdigest()


def _parse_safetensors(raw: bytes, path: Path) -> dict[str, Array]:
    """The safetensors format: header length (u64), JSON header, then the arrays back to back."""
    try:
        (length,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + length])
        data = memoryview(raw)[8 + length :]
        arrays = {}
        for name, entry in header.items():
            if name != "__metadata__":
                start, stop = entry["data_offsets"]
                if any(type(n) is not int or n < 0 for n in (start, stop, *entry["shape"])):
                    raise ValueError(f"places or shape of {name}")
                flat = np.frombuffer(data[start:stop], dtype=_DTYPES[entry["dtype"]])
                arrays[name] = flat.reshape(entry["shape"]).copy()
        return arrays
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error) as error:
        raise ReleaseError(f"{path} is not a safetensors file taskveil can read ({error!r}).") from error
