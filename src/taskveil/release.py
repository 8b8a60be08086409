"""A veil as files: `client/` holds what devices run and may be public, `server/` holds decoder and task.

The parts of a veil are frozen dataclasses of numbers and arrays, so one pair of functions serves them all: `_pack`
writes a part as {"kind", fields…} with arrays moved to the weights file, `_unpack` builds it again, which runs the
part's own checks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from taskveil.decoders import AffineDecoder
from taskveil.encoders import LinearEncoder
from taskveil.errors import ReleaseError, TaskveilError
from taskveil.files import MANIFEST, Array, read_files, write_files
from taskveil.mechanisms import Laplace
from taskveil.regions import BoxRegion, DiamondRegion, SignRegion
from taskveil.task import LinearTask
from taskveil.veil import LossBounds, Veil

CLIENT, SERVER = "client", "server"

_KINDS: dict[str, type[Any]] = {
    "linear_encoder": LinearEncoder,
    "laplace": Laplace,
    "box_region": BoxRegion,
    "sign_region": SignRegion,
    "diamond_region": DiamondRegion,
    "affine_decoder": AffineDecoder,
    "linear_task": LinearTask,
    "loss_bounds": LossBounds,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}

Part = TypeVar("Part")


def save(veil: Veil, folder: Path, *, overwrite: bool = False) -> None:
    """Write the release next to its place and move it there in one step, so that nobody ever sees half of it."""
    if folder.exists() and not overwrite:
        raise ReleaseError(f"{folder} exists already. Choose another folder, or pass overwrite=True.")
    if folder.exists() and not (folder / CLIENT / MANIFEST).exists():
        raise ReleaseError(f"{folder} is not a taskveil release and will not be overwritten.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(veil, draft)
        draft.chmod(0o755)
        if folder.exists():
            previous = draft.with_name(draft.name + ".previous")
            os.replace(folder, previous)
            os.replace(draft, folder)
            shutil.rmtree(previous)
        else:
            os.replace(draft, folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(draft)


def _write(veil: Veil, folder: Path) -> None:
    for name in (CLIENT, SERVER):
        (folder / name).mkdir()
    arrays: dict[str, Array] = {}
    promise = veil.guarantee
    client = {
        "encoder": _pack(veil.encoder, "encoder", arrays),
        "mechanism": _pack(veil.mechanism, "mechanism", arrays),
        "guarantee": {"epsilon": promise.epsilon, "delta": promise.delta, "statement": promise.statement},
        "columns": None if veil.columns is None else list(veil.columns),
    }
    release = write_files(folder / CLIENT, client, arrays)
    arrays = {}
    server = {
        "release": release,
        "method": veil.method,
        "decoder": _pack(veil.decoder, "decoder", arrays),
        "task": _pack(veil.task, "task", arrays),
        "bounds": None if veil.bounds is None else _pack(veil.bounds, "bounds", arrays),
    }
    write_files(folder / SERVER, server, arrays)


def load(folder: Path) -> Veil:
    """Read and check a release; everything wrong with it is a ReleaseError raised here."""
    client, client_arrays = read_files(folder / CLIENT)
    server, server_arrays = read_files(folder / SERVER)
    try:
        if server["release"] != client["digest"]:
            raise ReleaseError(f"{folder}: client and server files are of different releases.")
        veil = Veil(
            encoder=_unpack(client["encoder"], client_arrays, LinearEncoder),
            mechanism=_unpack(client["mechanism"], client_arrays, Laplace),
            decoder=_unpack(server["decoder"], server_arrays, AffineDecoder),
            task=_unpack(server["task"], server_arrays, LinearTask),
            method=server["method"],
            columns=None if client["columns"] is None else tuple(client["columns"]),
            bounds=None if server["bounds"] is None else _unpack(server["bounds"], server_arrays, LossBounds),
        )
    except ReleaseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, TaskveilError) as error:
        raise ReleaseError(f"{folder} holds no valid veil: {error}") from error
    if client["guarantee"]["epsilon"] != veil.guarantee.epsilon:
        raise ReleaseError(f"{folder}: the stated epsilon is not the one the mechanism keeps.")
    return veil


def _pack(part: Any, name: str, arrays: dict[str, Array]) -> dict[str, Any]:
    packed: dict[str, Any] = {"kind": _NAMES[type(part)]}
    for field in fields(part):
        value = getattr(part, field.name)
        path = f"{name}.{field.name}"
        if isinstance(value, np.ndarray):
            arrays[path] = value
            packed[field.name] = {"tensor": path}
        else:
            packed[field.name] = _pack(value, path, arrays) if is_dataclass(value) else value
    return packed


def _unpack(packed: dict[str, Any], arrays: dict[str, Array], expected: type[Part]) -> Part:
    part = _unpack_any(packed, arrays)
    if not isinstance(part, expected):
        raise ReleaseError(f"expected a {expected.__name__}, found {packed['kind']!r}.")
    return part


def _unpack_any(packed: Any, arrays: dict[str, Array]) -> Any:
    if not isinstance(packed, dict):
        return packed
    if set(packed) == {"tensor"}:
        return arrays[packed["tensor"]]
    kind = _KINDS[packed["kind"]]
    return kind(**{key: _unpack_any(value, arrays) for key, value in packed.items() if key != "kind"})
