"""The arrays everything here is made of, and arrays that own their memory.

A frozen dataclass still shares its arrays with whoever built it: a bound written to after the noise was calibrated
would leave the guarantee as it was stated, and void. Parts therefore keep copies that nobody can write to.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import DataError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Signs = NDArray[np.int8]
Bools = NDArray[np.bool_]
Array = NDArray[Any]
"""Of any kind of numbers."""


def own_arrays(part: Any) -> None:
    """Replace every array of a frozen dataclass by a copy of its own that cannot be written to."""
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            object.__setattr__(part, field.name, owned(value))


def owned(array: Array) -> Array:
    """A copy that cannot be written to."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy


def check_arrays(**arrays: tuple[Floats, tuple[int, ...]]) -> None:
    """Every named array has the expected shape and holds finite numbers, or a DataError names the one that does not."""
    for name, (array, shape) in arrays.items():
        if array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"{name} must be finite numbers of shape {shape}, got shape {array.shape}.")
