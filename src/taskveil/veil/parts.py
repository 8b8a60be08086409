"""The parts of a veil as JSON and arrays; `taskveil.client.reading` builds them again and says what it accepts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.client.device import Device
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.reading import DEVICE_KINDS, Kinds
from taskveil.records.tables import ColumnType
from taskveil.tasks import LinearTask, MeanTask
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder, Layer, NetworkDecoder
from taskveil.veil.guarantee import Guarantee
from taskveil.veil.losses import Considered, LossBounds
from taskveil.veil.volunteers import Classes, Groups, Outputs, Volunteers

DECODERS: Kinds = {
    "affine_decoder": AffineDecoder,
    "network_decoder": NetworkDecoder,
    "codeword_decoder": CodewordDecoder,
    "lattice_decoder": LatticeDecoder,
}
TASKS: Kinds = {"linear_task": LinearTask, "mean_task": MeanTask}
"""Tasks that are a matrix. Models are not stored."""

SERVER_KINDS: Kinds = {
    **DECODERS,
    "layer": Layer,
    "lattice": Lattice,
    **TASKS,
    "loss_bounds": LossBounds,
    "considered": Considered,
    "column_type": ColumnType,
    "classes": Classes,
    "groups": Groups,
    "volunteers": Volunteers,
    "outputs": Outputs,
}
"""What may appear in `server/`."""


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
            if field.init
        }
    if isinstance(value, int) and abs(value) >= 2**53:
        return {"integer": str(value)}  # JSON readers outside Python hold numbers in doubles
    return value


def pack_device(device: Device, promise: Guarantee) -> tuple[dict[str, Any], dict[str, Array]]:
    """Manifest content and arrays of `client/`."""
    arrays: dict[str, Array] = {}
    content = {
        "encoder": pack(device.encoder, "encoder", arrays, DEVICE_KINDS),
        "mechanism": pack(device.mechanism, "mechanism", arrays, DEVICE_KINDS),
        "guarantee": {"epsilon": promise.epsilon, "delta": promise.delta, "statement": promise.statement},
        "columns": None if device.columns is None else list(device.columns),
        "units": None if device.units is None else list(device.units),
    }
    if device.fields is not None:
        content["fields"] = pack(device.fields, "fields", arrays, DEVICE_KINDS)
    return content, arrays
