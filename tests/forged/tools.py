"""How a release is forged: its manifest, an array or the header of its weights is changed, and the digests repaired."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

import releases
from taskveil.client.device import Device
from taskveil.client.reading import canonical, digest
from taskveil.veil.release import manifest_of, pack_device

DEVICES = releases.devices()
Arrays = dict[str, np.ndarray]
Change = Callable[[dict[str, Any], Arrays], object]


def written(manifest: dict[str, Any], weights: bytes) -> tuple[bytes, bytes]:
    """Both files, digests repaired: only the parts' own checks can object."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    body["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    return canonical({**body, "digest": digest(body)}), weights


def packed(device: Device) -> tuple[dict[str, Any], Arrays]:
    """Manifest content and arrays as the publisher would write them."""
    return pack_device(device)


def changed(name: str, change: Change) -> tuple[bytes, bytes]:
    """A device's release with something else in its manifest or arrays."""
    content, arrays = packed(DEVICES[name])
    arrays = {key: np.array(array) for key, array in arrays.items()}
    change(content, arrays)
    manifest, weights = manifest_of(content, arrays)
    return written(manifest, weights)


def stored(header: dict[str, Any], data: bytes) -> bytes:
    """A safetensors file with any header whatsoever."""
    return headed(json.dumps(header, separators=(",", ":")).encode(), data)


def headed(raw: bytes, data: bytes) -> bytes:
    """A safetensors file with these bytes as its header."""
    return struct.pack("<Q", len(raw)) + raw + data


def reheaded(change: Callable[[dict[str, Any]], object], more: bytes = b"") -> tuple[bytes, bytes]:
    """A codebook's release with something else in the header of its weights, or more bytes behind them."""
    manifest, weights = manifest_of(*packed(DEVICES["codebook"]))
    (length,) = struct.unpack_from("<Q", weights)
    header = json.loads(weights[8 : 8 + length])
    change(header)
    return written(manifest, stored(header, weights[8 + length :] + more))


def respelled(change: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    """A codebook's release with the header of its weights in other bytes."""
    manifest, weights = manifest_of(*packed(DEVICES["codebook"]))
    (length,) = struct.unpack_from("<Q", weights)
    return written(manifest, headed(change(weights[8 : 8 + length]), weights[8 + length :]))


def restated(epsilon: float, change: Change) -> Change:
    """A change that also states the ε it leads to, so that nothing but a limit can object."""

    def both(content: dict[str, Any], arrays: Arrays) -> None:
        change(content, arrays)
        content["guarantee"]["epsilon"] = epsilon

    return both


def part(content: dict[str, Any], path: str) -> dict[str, Any]:
    for key in path.split("."):
        content = content[int(key) if key.isdecimal() else key]  # type: ignore[index]
    return content


def put(path: str, **values: Any) -> Change:
    return lambda content, _: part(content, path).update(values)


def tensor(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    def apply(_: object, arrays: Arrays) -> None:
        arrays[name] = change(arrays[name])

    return apply


def first(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """An array whose first number is another."""

    def apply(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return apply


def whole(number: int) -> dict[str, str]:
    return {"integer": str(number)}
