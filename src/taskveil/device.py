"""The part of a veil that runs at the user's end: encoder, mechanism, and what the attributes are called.

This is what `client/` of a release holds; the offline side (`taskveil.release`) and the client that runs on devices
read it through the one function below. Everything wrong with the files is a ReleaseError, raised before any report.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.encoders import Encoder, HiddenEncoder, LinearEncoder
from taskveil.errors import DataError, ReleaseError, TaskveilError
from taskveil.files import Array, read_files
from taskveil.mechanisms import Codebook, Laplace, LatticeCodebook, Mechanism
from taskveil.parts import DEVICE_KINDS, pack, unpack

Floats = NDArray[np.float64]

CLIENT = "client"
"""The folder of a release that devices get."""

_CELLS = 1 << 15  # numbers encoded at a time: the work arrays stay in the processor's cache
_ROWS = 1 << 13  # reports randomised at a time: enough to pay for asking the operating system


@dataclass(frozen=True, kw_only=True, eq=False)
class Device:
    """Record in, randomised report out. `columns` and `units` name the attributes in order."""

    encoder: Encoder
    mechanism: Mechanism
    columns: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.mechanism.latent_dim != self.encoder.latent_dim:
            raise DataError("encoder and mechanism of a veil must agree on the latents.")
        for what, names in (("column names", self.columns), ("units", self.units)):
            if names is not None and len(names) != self.encoder.width:
                raise DataError(f"{len(names)} {what} for {self.encoder.width} attributes.")
            if names is not None and not all(isinstance(name, str) for name in names):
                raise DataError(f"{what} must be text.")
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise DataError("column names must differ from each other.")

    def privatize(self, X: Floats) -> NDArray[Any]:
        """Records of any quality (N, n) → reports (N, width), each with fresh entropy."""
        if len(X) <= _ROWS:
            return self.mechanism(self._encode(X))
        return np.concatenate([self.privatize(X[start : start + _ROWS]) for start in range(0, len(X), _ROWS)])

    def _encode(self, X: Floats) -> Floats:
        rows = max(1, _CELLS // max(self.encoder.width, self.encoder.latent_dim))
        if len(X) <= rows:
            return self.encoder(X)
        return np.concatenate([self.encoder(X[start : start + rows]) for start in range(0, len(X), rows)])


def pack_device(
    device: Device, epsilon: float, delta: float, statement: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Manifest content and arrays of `client/`."""
    arrays: dict[str, Array] = {}
    content = {
        "encoder": pack(device.encoder, "encoder", arrays, DEVICE_KINDS),
        "mechanism": pack(device.mechanism, "mechanism", arrays, DEVICE_KINDS),
        "guarantee": {"epsilon": epsilon, "delta": delta, "statement": statement},
        "columns": None if device.columns is None else list(device.columns),
        "units": None if device.units is None else list(device.units),
    }
    return content, arrays


def read_device(folder: Path, verify_key: bytes | None = None) -> tuple[Device, dict[str, Any]]:
    """Device and manifest of a `client/` folder, after every check there is."""
    manifest, arrays = read_files(folder, verify_key)
    try:
        device = Device(
            encoder=unpack(manifest["encoder"], arrays, DEVICE_KINDS, LinearEncoder, HiddenEncoder),
            mechanism=unpack(manifest["mechanism"], arrays, DEVICE_KINDS, Laplace, Codebook, LatticeCodebook),
            columns=_names(manifest["columns"]),
            units=_names(manifest.get("units")),
        )
        stated, kept = manifest["guarantee"], device.mechanism.epsilon
        text = isinstance(stated["statement"], str)
        honest = type(stated["epsilon"]) is float and stated["epsilon"] == kept and 0 <= kept < math.inf
        pure = type(stated["delta"]) is float and stated["delta"] == 0
    except ReleaseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, TaskveilError) as error:
        raise ReleaseError(f"{folder} holds no valid veil: {error!r}") from error
    if not (honest and pure and text):
        raise ReleaseError(f"{folder}: the stated epsilon is not the one the mechanism keeps.")
    return device, manifest


def _names(listed: Any) -> tuple[str, ...] | None:
    if listed is not None and not isinstance(listed, list):
        raise ReleaseError("column names and units must be lists.")
    return None if listed is None else tuple(listed)
