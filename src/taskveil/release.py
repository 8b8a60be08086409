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
from typing import Any

import numpy as np

from taskveil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder, Layer, NetworkDecoder
from taskveil.encoders import HiddenEncoder, LinearEncoder
from taskveil.errors import ReleaseError, TaskveilError
from taskveil.files import MANIFEST, Array, read_files, write_files
from taskveil.lattice import Lattice
from taskveil.mechanisms import Codebook, Laplace, LatticeCodebook, Response, Stage
from taskveil.regions import BoxRegion, DiamondRegion, SignRegion
from taskveil.task import LinearTask, Task
from taskveil.veil import Considered, LossBounds, Veil

CLIENT, SERVER = "client", "server"

_KINDS: dict[str, type[Any]] = {
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
    "affine_decoder": AffineDecoder,
    "network_decoder": NetworkDecoder,
    "layer": Layer,
    "codeword_decoder": CodewordDecoder,
    "lattice_decoder": LatticeDecoder,
    "linear_task": LinearTask,
    "loss_bounds": LossBounds,
    "considered": Considered,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


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
        "task": _pack(veil.task, "task", arrays) if isinstance(veil.task, LinearTask) else None,
        "bounds": None if veil.bounds is None else _pack(veil.bounds, "bounds", arrays),
        "considered": _pack(veil.considered, "considered", arrays),
    }
    write_files(folder / SERVER, server, arrays)


def load(folder: Path, task: Task | None = None) -> Veil:
    """Read and check a release; everything wrong with it is a ReleaseError raised here."""
    client, client_arrays = read_files(folder / CLIENT)
    server, server_arrays = read_files(folder / SERVER)
    try:
        if server["release"] != client["digest"]:
            raise ReleaseError(f"{folder}: client and server files are of different releases.")
        veil = Veil(
            encoder=_unpack(client["encoder"], client_arrays, LinearEncoder, HiddenEncoder),
            mechanism=_unpack(client["mechanism"], client_arrays, Laplace, Codebook, LatticeCodebook),
            decoder=_unpack(
                server["decoder"], server_arrays, AffineDecoder, NetworkDecoder, CodewordDecoder, LatticeDecoder
            ),
            task=task if server["task"] is None else _unpack(server["task"], server_arrays, LinearTask),
            method=server["method"],
            columns=None if client["columns"] is None else tuple(client["columns"]),
            bounds=None if server["bounds"] is None else _unpack(server["bounds"], server_arrays, LossBounds),
            considered=_unpack(server["considered"], server_arrays, tuple),
        )
    except ReleaseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, TaskveilError) as error:
        raise ReleaseError(f"{folder} holds no valid veil: {error}") from error
    if client["guarantee"]["epsilon"] != veil.guarantee.epsilon:
        raise ReleaseError(f"{folder}: the stated epsilon is not the one the mechanism keeps.")
    return veil


def _pack(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"tensor": name}
    if isinstance(value, tuple):
        return [_pack(item, f"{name}.{place}", arrays) for place, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        packed = {
            field.name: _pack(getattr(value, field.name), f"{name}.{field.name}", arrays) for field in fields(value)
        }
        return {"kind": _NAMES[type(value)], **packed}
    if isinstance(value, int) and abs(value) >= 2**53:
        return {"integer": str(value)}  # JSON readers outside Python hold numbers in doubles
    return value


def _unpack(packed: Any, arrays: dict[str, Array], *expected: type[Any]) -> Any:
    part = _unpack_any(packed, arrays)
    if not isinstance(part, expected):
        raise ReleaseError(f"expected {' or '.join(kind.__name__ for kind in expected)}, found {type(part).__name__}.")
    return part


def _unpack_any(packed: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(packed, list):
        return tuple(_unpack_any(item, arrays) for item in packed)
    if not isinstance(packed, dict):
        return packed
    if set(packed) == {"tensor"}:
        return arrays[packed["tensor"]]
    if set(packed) == {"integer"}:
        return int(packed["integer"])
    kind = _KINDS[packed["kind"]]
    return kind(**{key: _unpack_any(value, arrays) for key, value in packed.items() if key != "kind"})
