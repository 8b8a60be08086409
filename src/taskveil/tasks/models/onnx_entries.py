"""The inputs of an ONNX file that onnxruntime runs: one matrix, or one per column, in the types that the file wants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import TaskError

_KINDS = {1: "float32", 11: "float64", 7: "int64", 6: "int32", 9: "bool", 8: "text"}
"""What inputs take, by TensorProto's numbering."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One input: its name, the type of its values, and its shape with 0 where the file leaves a dimension free."""

    name: str
    kind: str
    """The name of a numpy type, or "text"."""
    shape: tuple[int, ...]
    """Of one record."""
    batch: int
    """For how many records at once; 0 for any number."""

    @property
    def width(self) -> int | None:
        """How many attributes a record has; None where the file leaves it free."""
        return math.prod(self.shape) or None

    def taken(self, values: Array) -> Array:
        """Values of records (N,) or (N, n) in this input's type and shape; ValueError where they are of another kind.

        Missing numbers are NaN, missing texts empty; whole numbers are rounded to, and cannot be missing.
        """
        found = _as_texts(self.name, values) if self.kind == "text" else as_numbers(self.name, values)
        shape = (len(found), *self.shape) if self.width is not None else (len(found), -1)
        return _cast(found, self).reshape(shape)


def find_entries(path: Path, graph: Any) -> tuple[Entry, ...]:
    """The inputs of the file `path`; TaskError unless they are one matrix of floating numbers, or columns."""
    stated = {t.name for t in graph.initializer}  # defaults, as old files list them
    entries = tuple(_entry(path, i, graph) for i in graph.input if i.name not in stated)
    if not entries:
        raise TaskError(f"{path} takes no input: a model answers records.")
    if len({entry.batch for entry in entries}) > 1:
        raise TaskError(f"{path} states different numbers of records for its inputs: leave that dimension free.")
    columns = len(entries) > 1 or entries[0].kind == "text"
    for entry in entries:
        if columns and entry.width != 1:
            raise TaskError(f"{path} has several inputs: each must be one column, but {entry.name} is {entry.shape}.")
        if not columns and entry.kind not in ("float32", "float64"):
            raise TaskError(f"{path} must take a matrix of floating numbers: FLOAT or DOUBLE.")
    return entries


def _entry(path: Path, proto: Any, graph: Any) -> Entry:
    tensor = proto.type.tensor_type
    batch, *shape = [d.dim_value for d in tensor.shape.dim] or [0]
    if len(shape) > 1 and 0 in shape:
        raise TaskError(f"{path} must state the shape of its input {proto.name}; it says {shape} for a record.")
    if tensor.elem_type not in _KINDS:
        raise TaskError(f"{path} has an input {proto.name} that is neither numbers nor text.")
    if shape == [0]:
        shape = [_first_width(proto.name, graph)]
    return Entry(name=proto.name, kind=_KINDS[tensor.elem_type], shape=tuple(shape), batch=batch)


def _first_width(name: str, graph: Any) -> int:
    """How many attributes the first node takes where the file does not say, 0 where that node does not say either.

    onnxruntime would answer fewer without an error.
    """
    for node in graph.node:
        options = {option.name: option for option in node.attribute}
        if node.input[:1] != [name]:
            continue
        if node.op_type == "Scaler" and "offset" in options:
            return len(options["offset"].floats)
        if node.op_type == "LinearClassifier" and "intercepts" in options:
            return len(options["coefficients"].floats) // max(1, len(options["intercepts"].floats))
        if node.op_type == "LinearRegressor":
            targets = options["targets"].i if "targets" in options else 1
            return len(options["coefficients"].floats) // max(1, targets)
    return 0


def as_numbers(name: str, values: Array) -> Floats:
    """Numbers and flags of the column `name` as doubles, missing ones NaN; ValueError where it holds anything else."""
    found = np.asarray(values)
    if found.dtype.kind in "biuf":
        return found.astype(np.float64)
    flat = found.ravel().tolist() if found.dtype.kind == "O" else [""]
    if not all(v is None or isinstance(v, bool | int | float | np.number | np.bool_) for v in flat):
        raise ValueError(f"its input {name} takes numbers")
    return np.array([np.nan if v is None else float(v) for v in flat]).reshape(found.shape)


def _as_texts(name: str, values: Array) -> Array:
    """Texts, flags and dates of the column `name` (N,) as text, missing ones empty; ValueError for numbers."""
    found = np.asarray(values)
    if found.dtype.kind == "M":
        return np.where(np.isnat(found), "", np.datetime_as_string(found)).astype(object)
    if found.dtype.kind not in "OSUTb":
        raise ValueError(f"its input {name} takes text")
    return np.array(["" if v is None or v != v else str(v) for v in found.ravel()], dtype=object)


def _cast(values: Array, entry: Entry) -> Array:
    """Values in the input's type; whole numbers to the nearest that it has."""
    if entry.kind == "text":
        return values
    if entry.kind in ("float32", "float64"):
        with np.errstate(over="ignore"):  # beyond single precision lies infinity
            return values.astype(entry.kind)
    if np.isnan(values).any():
        raise ValueError(f"its input {entry.name} takes whole numbers, which cannot be missing")
    if entry.kind == "bool":
        return values >= 0.5
    limits = np.iinfo(entry.kind)
    # The largest double below 2⁶³ is the largest that fits.
    return np.rint(values).clip(float(limits.min), np.nextafter(float(limits.max) + 1.0, 0.0)).astype(entry.kind)
