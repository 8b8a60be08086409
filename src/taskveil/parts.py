"""The parts of a veil as JSON and arrays, and back: every part is a frozen dataclass of numbers and arrays.

`pack` writes a part as {"kind", fields…} with arrays moved to the weights file; `unpack` builds it again. A field is
only accepted as the type its class declares, and building the part runs its own checks, so a manifest can hold nothing
but numbers that a mechanism has agreed to.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from taskveil.encoders import HiddenEncoder, LinearEncoder
from taskveil.errors import ReleaseError
from taskveil.files import Array
from taskveil.lattice import Lattice
from taskveil.mechanisms import Codebook, Laplace, LatticeCodebook, Response, Stage
from taskveil.regions import BoxRegion, DiamondRegion, SignRegion

Kinds = Mapping[str, type[Any]]

DEVICE_KINDS: Kinds = {
    "linear_encoder": LinearEncoder,
    "hidden_encoder": HiddenEncoder,
    "laplace": Laplace,
    "codebook": Codebook,
    "stage": Stage,
    "response": Response,
    "lattice_codebook": LatticeCodebook,
    "lattice": Lattice,
    "box_region": BoxRegion,
    "sign_region": SignRegion,
    "diamond_region": DiamondRegion,
}
"""What may appear in `client/`."""

# How the parts' modules write the types of their fields (annotations are text there).
_DTYPES = {"Integers": np.int64, "Floats": np.float64, "NDArray[np.int8]": np.int8}


def pack(value: Any, name: str, arrays: dict[str, Array], kinds: Kinds) -> Any:
    """A part as JSON, its arrays added to `arrays` under names that start with `name`."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"tensor": name}
    if isinstance(value, tuple):
        return [pack(item, f"{name}.{place}", arrays, kinds) for place, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        names = {part: kind for kind, part in kinds.items()}
        return {"kind": names[type(value)]} | {
            field.name: pack(getattr(value, field.name), f"{name}.{field.name}", arrays, kinds)
            for field in fields(value)
        }
    if isinstance(value, int) and abs(value) >= 2**53:
        return {"integer": str(value)}  # JSON readers outside Python hold numbers in doubles
    return value


def unpack(packed: Any, arrays: Mapping[str, Array], kinds: Kinds, *expected: type[Any]) -> Any:
    """The part `pack` wrote; a ReleaseError if it is none of the expected ones."""
    part = _unpack(packed, arrays, kinds)
    if not isinstance(part, expected):
        raise ReleaseError(f"expected {' or '.join(kind.__name__ for kind in expected)}, found {type(part).__name__}.")
    return part


def _unpack(packed: Any, arrays: Mapping[str, Array], kinds: Kinds) -> Any:
    if isinstance(packed, list):
        return tuple(_unpack(item, arrays, kinds) for item in packed)
    if not isinstance(packed, dict):
        return packed
    if set(packed) == {"tensor"}:
        return arrays[packed["tensor"]]
    if set(packed) == {"integer"}:
        if not (isinstance(packed["integer"], str) and packed["integer"].removeprefix("-").isdecimal()):
            raise ReleaseError("whole numbers are written in decimal digits.")
        return int(packed["integer"])
    part = kinds[packed["kind"]]
    values = {key: _unpack(value, arrays, kinds) for key, value in packed.items() if key != "kind"}
    for field in fields(part):
        if field.name in values and not _fits(values[field.name], str(field.type)):
            raise ReleaseError(f"{field.name} of a {packed['kind']} must be {field.type}.")
    return part(**values)


def _fits(value: Any, declared: str) -> bool:
    if declared in ("int", "bool", "str"):
        return type(value).__name__ == declared
    if declared == "float":
        return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53)
    if declared in _DTYPES:
        return isinstance(value, np.ndarray) and value.dtype == _DTYPES[declared]
    # Another part, or a tuple of them: those were checked when they were built.
    return is_dataclass(value) or (isinstance(value, tuple) and all(is_dataclass(item) for item in value))
