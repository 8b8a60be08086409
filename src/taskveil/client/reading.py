"""Reading a release on a device: its files, its parts, and the device that they make. Everything is checked first.

A release is a mapping of names to bytes: "client/manifest.json", "client/weights.safetensors" and, if it is signed,
"client/manifest.sig"; the same three under "server/". The manifest states the schema version, the SHA-256 of the
weights and its own digest. It must be byte for byte the canonical form of its content, so that any changed bit of
either file is found. The files hold numbers and text only, never code.

A part of a veil is a frozen dataclass of numbers and arrays. It is written as {"kind", fields…}, with its arrays in the
weights file. A field is accepted only as the type that its class declares, and building the part runs the part's own
checks. Files are small and tensors lie back to back, each used once, so that reading never takes more memory than a few
times the files. Any fault is a ReleaseError, raised before any report is made.

A signature covers the manifest's bytes, which hold the digest of the weights (`client/signatures.py`).

This module ships to devices: numpy and the standard library only. `taskveil.veil.release` writes these files.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from taskveil.arrays import Array
from taskveil.client.device import Device, Fields
from taskveil.client.fields import Field
from taskveil.client.latent_encoders import (
    AttributeEncoder,
    HiddenEncoder,
    LinearEncoder,
    MeanEncoder,
    MonotoneTables,
    NamedEncoder,
    TabledEncoder,
)
from taskveil.client.mechanisms import (
    BallResponse,
    BlockGroup,
    CentredBallResponse,
    Codebook,
    Gaussian,
    Laplace,
    LatticeCodebook,
    LevelGroup,
    LevelResponse,
    PlaneGroup,
    Response,
    SeededCodewords,
    Stage,
    SumCodebook,
)
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.networks import ConvolutionLayer, DenseLayer, LayeredEncoder, PoolingLayer, Window
from taskveil.client.panels import Panel
from taskveil.client.regions import BallRegion, BoxRegion, DiamondRegion, SignRegion
from taskveil.client.signatures import verify
from taskveil.client.trees import TreeEncoder
from taskveil.errors import ReleaseError, VersionError

SCHEMA = 11
"""The newest schema that this module reads."""
SINCE = {
    "tabled_encoder": 2,
    "tree_encoder": 3,
    "layered_encoder": 3,
    "named_encoder": 3,
    "mean_encoder": 3,
    "sum_codebook": 3,
    "level_response": 5,
    "mean_task": 5,
    "block_group": 8,
    "plane_group": 8,
    "words": 8,
    "survey_task": 8,
    "attribute_encoder": 8,
    "ball_response": 8,
    "centred_ball_response": 9,
    "panel": 10,
    "gaussian": 11,
}
"""The first schema with this encoder, mechanism, group, field, panel or task; the others exist since schema 1."""
CLIENT, SERVER = "client", "server"
"""The halves of a release: devices get the first one only."""
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
SIGNATURE = "manifest.sig"

Files = Mapping[str, bytes]
"""A release: "client/manifest.json" … → the file's bytes. Other names in it are ignored."""

Kinds = Mapping[str, type[Any]]
"""The names of parts in a manifest, with their classes."""

ENCODERS: Kinds = {
    "linear_encoder": LinearEncoder,
    "attribute_encoder": AttributeEncoder,
    "hidden_encoder": HiddenEncoder,
    "tabled_encoder": TabledEncoder,
    "named_encoder": NamedEncoder,
    "mean_encoder": MeanEncoder,
    "tree_encoder": TreeEncoder,
    "layered_encoder": LayeredEncoder,
}
MECHANISMS: Kinds = {
    "laplace": Laplace,
    "gaussian": Gaussian,
    "codebook": Codebook,
    "lattice_codebook": LatticeCodebook,
    "sum_codebook": SumCodebook,
    "level_response": LevelResponse,
    "ball_response": BallResponse,
    "centred_ball_response": CentredBallResponse,
}
FIELDS: Kinds = {
    "fields": Fields,
    **{part.kind: part for part in get_args(Field)},
}
DEVICE_KINDS: Kinds = {
    **ENCODERS,
    **MECHANISMS,
    **FIELDS,
    "monotone_tables": MonotoneTables,
    "dense_layer": DenseLayer,
    "convolution_layer": ConvolutionLayer,
    "pooling_layer": PoolingLayer,
    "window": Window,
    "stage": Stage,
    "response": Response,
    "level_group": LevelGroup,
    "block_group": BlockGroup,
    "plane_group": PlaneGroup,
    "lattice": Lattice,
    "seeded_codewords": SeededCodewords,
    "box_region": BoxRegion,
    "sign_region": SignRegion,
    "diamond_region": DiamondRegion,
    "ball_region": BallRegion,
}
"""The parts that may appear in `client/`."""

MOST_MANIFEST = 1 << 20
"""Bytes of a manifest, and of the weights' header."""
MOST_WEIGHTS = 1 << 25
"""Bytes of the weights that a device reads; the largest encoders designed so far have 1 MB."""

_KEYS = {
    "schema",
    "digest",
    "weights_sha256",
    "encoder",
    "mechanism",
    "guarantee",
    "columns",
    "units",
    "fields",
    "panel",
}
_BUDGET = {"epsilon", "delta"}
_WHOLE = re.compile("-?[0-9]{1,600}", re.ASCII)
# The header of the weights as the safetensors library writes it. JSON readers differ about other texts, and multiplying
# a million lengths of a shape takes seconds.
_HEADER = re.compile(rb'\{(?:"[\w.]+":\{"dtype":"\w+","shape":\[[\d,]{0,99}\],"data_offsets":\[[\d,]{3,40}\]\},?)*\} *')
BROKEN = (Exception,)
"""What building a device from forged files may raise: everything that is wrong with them is a ReleaseError."""

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # without it, opening a pipe waits for its other end
_STORED: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "BOOL": np.dtype("?"),
}
# The types of fields as the parts' modules write them (their annotations are text).
_DECLARED: dict[str, Any] = {
    "Floats": np.float64,
    "Integers": np.int64,
    "Integers32": np.int32,
    "Integers16": np.int16,
    "Integers8": np.int8,
    "Bools": np.bool_,
    "Signs": np.int8,
    "Weights": (np.int8, np.int16, np.int32),
}


def read_device(
    files: Files, verify_key: bytes | None = None, *, where: object = "the release"
) -> tuple[Device, dict[str, Any]]:
    """The device and the manifest in the "client/" files of a release, after all checks.

    Args:
        files: names and bytes; `client_files` reads them from a folder.
        verify_key: PEM or 32 raw bytes, Ed25519; with it the release must carry that key's signature.
        where: what errors call the release, for example its folder.
    """
    manifest, arrays = read_files(files, CLIENT, verify_key, most=MOST_WEIGHTS, where=where)
    try:
        if not (set(manifest) <= _KEYS and set(manifest["guarantee"]) == {*_BUDGET, "statement"}):
            raise ReleaseError(f"{where}: the manifest holds something that no device uses.")
        if any(
            (np.abs(array.astype(np.float64)) >= 2**53).any() for array in arrays.values() if array.dtype == np.int64
        ):
            raise ReleaseError(f"{where}: the weights hold whole numbers of 2^53 or more, which doubles cannot hold.")
        device = Device(
            encoder=unpack(manifest["encoder"], arrays, DEVICE_KINDS, *ENCODERS.values()),
            mechanism=unpack(manifest["mechanism"], arrays, DEVICE_KINDS, *MECHANISMS.values()),
            **{name: _names(manifest[name]) for name in ("columns", "units")},
            fields=unpack(manifest["fields"], arrays, FIELDS, Fields) if "fields" in manifest else None,
            panel=unpack(manifest["panel"], arrays, {"panel": Panel}, Panel) if "panel" in manifest else None,
        )
        _ = device.mechanism.layout  # refuses reports longer than the wire can carry
        stated, kept = manifest["guarantee"], device.mechanism
        # The ledger charges the stated ε, which must be the one that the mechanism keeps.
        honest = all(type(stated[name]) is float and stated[name] == getattr(kept, name) for name in _BUDGET)
        if not (honest and 0 < kept.epsilon < math.inf and isinstance(stated["statement"], str)):
            raise ReleaseError(f"{where}: the stated epsilon is not the one the mechanism keeps.")
    except ReleaseError:
        raise
    except BROKEN as error:
        raise ReleaseError(f"{where} holds no valid veil: {error!r}") from error
    return device, manifest


def client_files(folder: Path, *, most: int = MOST_WEIGHTS) -> dict[str, bytes]:
    """The "client/" files of the release in a folder, or in the folder of its client half.

    Args:
        folder: where they lie.
        most: bytes that the weights may have.
    """
    home = folder / CLIENT
    return folder_files(home if os.path.isdir(home) else folder, CLIENT, most=most)


def folder_files(folder: Path, half: str, *, most: int | None = None) -> dict[str, bytes]:
    """The files of one half of a release, read from its folder and named as in the release.

    Nothing else is read: the client half may be public, other files in the folder may not.

    Args:
        folder: where the manifest lies.
        half: "client" or "server".
        most: bytes that the weights may have.
    """
    found = {
        f"{half}/{MANIFEST}": read_regular(folder / MANIFEST, MOST_MANIFEST),
        f"{half}/{WEIGHTS}": read_regular(folder / WEIGHTS, most),
    }
    signature = folder / SIGNATURE
    if os.path.isfile(signature) and os.path.getsize(signature) == 64:  # every signature of Ed25519 has 64 bytes
        found[f"{half}/{SIGNATURE}"] = read_regular(signature, 64)
    return found


def read_files(
    files: Files,
    half: str,
    verify_key: bytes | None = None,
    *,
    most: int | None = None,
    where: object = "the release",
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The manifest and the arrays of one half of a release, or a ReleaseError that says what is wrong.

    Args:
        files: names and bytes.
        half: "client" or "server".
        verify_key: PEM or 32 raw bytes, Ed25519; with it this half must carry that key's signature.
        most: bytes that the weights may have.
        where: what errors call the release.
    """
    if not isinstance(files, Mapping):
        raise ReleaseError(f"{where} must be a mapping of names to bytes, and is a {type(files).__name__}.")
    named, raw, weights = f"{where}: {half}/{MANIFEST}", files.get(f"{half}/{MANIFEST}"), files.get(f"{half}/{WEIGHTS}")
    if not isinstance(raw, bytes) or not isinstance(weights, bytes):
        raise ReleaseError(f"{where} lacks {half}/{MANIFEST} or {half}/{WEIGHTS}. Is this a taskveil release?")
    if len(raw) > MOST_MANIFEST or (most is not None and len(weights) > most):
        raise ReleaseError(f"{where}: the files in {half}/ are too large for a release.")
    if verify_key is not None:
        verify(raw, files.get(f"{half}/{SIGNATURE}"), verify_key, f"{where} ({half}/)")
    try:
        manifest = json.loads(raw)
        schema = manifest["schema"]
        claimed = manifest["digest"]
        written = canonical(manifest)
        found = digest({key: value for key, value in manifest.items() if key != "digest"})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ReleaseError(f"{named} is not a taskveil manifest ({error!r}).") from error
    if type(schema) is not int or schema < 1:
        raise ReleaseError(f"{named} is not a taskveil manifest (schema {schema!r}).")
    if schema > SCHEMA:
        raise VersionError(
            f"{named} has schema {schema}; this taskveil reads up to {SCHEMA}. Install a newer taskveil."
        )
    if schema != schema_of(manifest):
        raise ReleaseError(f"{named} has schema {schema}, but its content belongs to another one.")
    if written != raw or claimed != found:
        raise ReleaseError(f"{named} was altered: its digest does not match. Fetch the release again.")
    if manifest.get("weights_sha256") != hashlib.sha256(weights).hexdigest():
        raise ReleaseError(f"{where}: {half}/{WEIGHTS} was altered or cut short. Fetch the release again.")
    arrays = _parse_safetensors(weights, f"{where}: {half}/{WEIGHTS}")
    if sorted(_tensors(manifest)) != sorted(arrays):
        raise ReleaseError(f"{where}: every tensor in {half}/ must be used by one part, and by one only.")
    return manifest, arrays


def schema_of(content: dict[str, Any]) -> int:
    """The schema of this content: the first one that has all of it, so that older readers can read what they know."""
    parts = [content.get(name) for name in ("encoder", "mechanism", "panel", "task")]
    for whole, name in (("mechanism", "groups"), ("fields", "fields")):
        several = content[whole].get(name) if isinstance(content.get(whole), dict) else None
        parts += several if isinstance(several, list) else []
    needed = [SINCE.get(str(part.get("kind")), 1) for part in parts if isinstance(part, dict)]
    since = {"answering": 3, "fields": 4, "table": 4, "volunteers": 7, "outputs": 7, "considered_panels": 10}
    needed += [schema for name, schema in since.items() if name in content]
    return max(*needed, 6 if content.get("considered") else 1, 1)


def canonical(manifest: dict[str, Any]) -> bytes:
    """The bytes of a manifest: there is one way to write it."""
    return (json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()


def digest(body: dict[str, Any]) -> str:
    """The id of a manifest's content: the SHA-256 of its canonical form."""
    return hashlib.sha256(canonical(body)).hexdigest()


def unpack(packed: Any, arrays: Mapping[str, Array], kinds: Kinds, *expected: type[Any]) -> Any:
    """The part that `taskveil.veil.release.pack` wrote; a ReleaseError if it is none of the expected ones."""
    part = _unpack(packed, arrays, kinds)
    if not isinstance(part, expected):
        raise ReleaseError(f"expected {' or '.join(kind.__name__ for kind in expected)}, found {type(part).__name__}.")
    return part


def _tensors(manifest: Any) -> Iterator[str]:
    """The names of tensors that a manifest refers to, one for each reference."""
    waiting = [manifest]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict) and set(item) == {"tensor"} and isinstance(item["tensor"], str):
            yield item["tensor"]
        elif isinstance(item, (dict, list)):
            waiting.extend(item.values() if isinstance(item, dict) else item)


def _unpack(packed: Any, arrays: Mapping[str, Array], kinds: Kinds) -> Any:
    if isinstance(packed, list):
        return tuple(_unpack(item, arrays, kinds) for item in packed)
    if not isinstance(packed, dict):
        return packed
    if set(packed) == {"tensor"}:
        return arrays[packed["tensor"]]
    part, values = kinds[packed["kind"]], {}
    declared = {field.name: str(field.type) for field in fields(part) if field.init}
    if declared.keys() | {"kind"} != packed.keys():  # no field has a default, because two readers could differ about it
        raise ReleaseError(f"a {packed['kind']} has the fields {', '.join(declared)}, and all of them.")
    for name, kind in declared.items():
        values[name] = _whole(packed[name]) if kind == "int" else _unpack(packed[name], arrays, kinds)
        if not _fits(values[name], kind):
            raise ReleaseError(f"{name} of a {packed['kind']} must be {kind}.")
    return part(**values)


def _whole(packed: Any) -> Any:
    """A whole number: as such below 2^53 in magnitude, in text from there on, because JSON readers use doubles."""
    if not isinstance(packed, dict):
        if type(packed) is int and abs(packed) >= 2**53:
            raise ReleaseError("whole numbers of 2^53 or more are written in text.")
        return packed
    text = packed["integer"]
    if set(packed) != {"integer"} or not (isinstance(text, str) and _WHOLE.fullmatch(text)) or abs(int(text)) < 2**53:
        raise ReleaseError("whole numbers of 2^53 or more are written in decimal digits, 600 at most.")
    return int(text)


def _fits(value: Any, declared: str) -> bool:
    if declared in ("int", "bool", "str"):
        return type(value).__name__ == declared
    if declared == "float":
        return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53)
    if declared in _DECLARED:
        kinds = _DECLARED[declared]
        return isinstance(value, np.ndarray) and value.dtype in (kinds if isinstance(kinds, tuple) else (kinds,))
    if declared == "tuple[str, ...]":
        return isinstance(value, tuple) and all(type(item) is str for item in value)
    if declared == "tuple[Floats, ...]":
        return isinstance(value, tuple) and all(_fits(item, "Floats") for item in value)
    # Another part, or a tuple of parts, which were checked when they were built.
    return is_dataclass(value) or (isinstance(value, tuple) and all(is_dataclass(item) for item in value))


def _parse_safetensors(raw: bytes, named: str) -> dict[str, Array]:
    """The safetensors format: header length (u64), JSON header, then the arrays back to back, nothing between."""
    try:
        (length,) = struct.unpack_from("<Q", raw)
        if length > MOST_MANIFEST or not _HEADER.fullmatch(raw, 8, 8 + length):
            raise ValueError("header")
        header = json.loads(raw[8 : 8 + length])
        entries = sorted((entry["data_offsets"], name, entry) for name, entry in header.items())
        data, end, arrays = memoryview(raw)[8 + length :], 0, {}
        for (start, stop), name, entry in entries:
            shape, kind = entry["shape"], _STORED[entry["dtype"]]
            # With a 0 in the shape, the other numbers could be anything.
            if start != end or 0 in shape or math.prod(shape) * kind.itemsize != stop - start:
                raise ValueError(f"places or shape of {name}")
            if kind.kind == "b" and max(data[start:stop], default=0) > 1:  # truth values have no other bytes
                raise ValueError(f"truth values of {name}")
            arrays[name], end = np.frombuffer(data[start:stop], dtype=kind).reshape(shape).copy(), stop
        if 8 + length + end != len(raw):
            raise ValueError("bytes that belong to no tensor")
        return arrays
    except BROKEN as error:
        raise ReleaseError(f"{named} is not a safetensors file that taskveil can read ({error!r}).") from error


def read_regular(path: Path, most: int | None) -> bytes:
    """The bytes of a regular file of at most `most` bytes. A pipe or a device is refused: reading it may never end."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ReleaseError(f"{path} is no regular file. Is this a taskveil release?")
            raw = file.read() if most is None else file.read(min(most, found.st_size) + 1)
        if most is not None and max(len(raw), found.st_size) > most:
            raise ReleaseError(f"{path} is too large for a release: {most:,} bytes are allowed.")
        return raw
    except ReleaseError:
        raise
    except (OSError, ValueError) as error:  # no such file, or not a valid path
        reason = getattr(error, "strerror", None) or error
        raise ReleaseError(f"cannot read {str(path)!r}: {reason}. Is this a taskveil release?") from error


def _names(listed: Any) -> tuple[str, ...] | None:
    if listed is not None and not isinstance(listed, list):
        raise ReleaseError("column names and units must be lists.")
    return None if listed is None else tuple(listed)
