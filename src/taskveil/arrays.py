"""The arrays everything here is made of, and arrays that own their memory.

A frozen dataclass still shares its arrays with the code that built it. If that code changed a bound after the noise was
calibrated, the stated guarantee would be false. Parts therefore keep copies that nobody can write to.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from decimal import ROUND_05UP, Context, Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import DataError

EXACT = 2**53
"""A double holds all integers up to this one exactly."""
NUMBERS_AT_A_TIME = 2**16
"""Numbers of a work array on a device: few enough that the array stays in the processor's cache."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Integers32 = NDArray[np.int32]
Integers16 = NDArray[np.int16]
Integers8 = NDArray[np.int8]
Signs = NDArray[np.int8]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Array = NDArray[Any]
"""Of any kind of numbers."""


class _Tolerant:
    """Suppresses everything that a value of a record or a class of the caller's own raises, also errors that are no
    `Exception` (a panic of a Rust library, a cancelled task): whether a report is made must not depend on the record.
    Only a person's own interruption (KeyboardInterrupt) passes.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and not issubclass(kind, KeyboardInterrupt)


tolerant = _Tolerant()
"""`with tolerant: return risky()`, followed by the result for everything that raises."""


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


def blocks(count: int, width: int) -> Iterator[slice]:
    """Rows of a work array (count, width), as many at a time as stay in the processor's cache."""
    rows = max(1, NUMBERS_AT_A_TIME // width)
    return (slice(start, start + rows) for start in range(0, count, rows))


def check_arrays(**arrays: tuple[Floats, tuple[int, ...]]) -> None:
    """Every named array has the expected shape and holds finite numbers, or a DataError names the one that does not."""
    for name, (array, shape) in arrays.items():
        if array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"{name} must be finite numbers of shape {shape}, got shape {array.shape}.")


def as_floats(values: Any) -> Floats:
    """Numbers of any kind as doubles, in the shape they have: a missing number becomes NaN, and a number that is too
    large becomes infinite.

    Whether a value is there, and how large it is, never decides about an error: an error would reveal something about
    the value. Text, dates, times, complex numbers and rows of different lengths are refused with a DataError that
    quotes nothing.
    """
    values = _unmasked(values)
    # From None and without numpy's own words, which quote the record.
    refusal = DataError("records must be numbers, all rows of one length. Encode or drop other columns first.")
    found: Array = np.empty(0, dtype="V1")
    with tolerant:  # numpy's own errors, and whatever a caller's class raises
        found = np.asarray(values)
    if found.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return found.astype(np.float64, copy=False)
    if found.dtype.kind != "O":
        raise refusal from None
    return np.array([one_float(value) for value in found.ravel().tolist()], dtype=np.float64).reshape(found.shape)


def _unmasked(values: Any) -> Any:
    """What is masked as NaN, also in rows of lists; numpy would take the numbers under the mask for values."""
    if values is np.ma.masked:
        return math.nan
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), np.nan, as_floats(values.data))
    if isinstance(values, (list, tuple)) and any(isinstance(row, (list, tuple, np.ma.MaskedArray)) for row in values):
        try:
            return [_unmasked(row) for row in values]
        except RecursionError:
            return values  # which has no shape
    return values


def one_float(value: Any) -> float:
    """The double of one number of any type. Only the type may be refused, and whatever a value raises is no number.

    Numbers of Python and numpy, true, false and None take nearly the same time: a device reads thousands of them, and
    the time must not tell how many are whole or missing.
    """
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is bool:
        return float(value) if value.bit_length() < 1024 else _from_large(value)
    if value is None:
        return math.nan
    if id(kind) in _NUMPY:
        return float(value)
    if kind is Decimal:
        return float(_SHORT.plus(value))
    named, real = "value of another type", False
    with tolerant:  # some classes cannot even be asked what they are
        named = f"{kind.__name__}"
        if value is np.ma.masked or named in ("NAType", "NaTType"):  # pandas' words for a missing value
            return math.nan
        real = isinstance(value, (Real, Decimal, np.bool_)) and not isinstance(value, np.timedelta64)
    if not real:
        raise DataError(f"a record holds numbers only, got a {named}.")
    with tolerant:  # a class of the caller's own
        if kind is Fraction:
            return _quotient(value.numerator, value.denominator)
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return math.nan


# By identity: a class of the caller's own may be impossible to compare.
_NUMPY = frozenset(id(np.dtype(code).type) for code in "?" + np.typecodes["AllInteger"] + np.typecodes["Float"])
# No double, and no middle of two, has more digits; the last tells of those after it.
_SHORT = Context(prec=800, rounding=ROUND_05UP, traps=[])


def _from_large(value: int) -> float:
    """The double nearest to a whole number of 1,024 binary digits or more. It raises nothing, which would take time."""
    if value.bit_length() == 1024 and abs(value) >> 970 < 2**54 - 1:  # nearer to the largest double than to 2^1024
        return float(value)
    return math.inf if value > 0 else -math.inf


def _quotient(above: int, below: int) -> float:
    """The double of a fraction by its first 2,000 binary digits: dividing a million digits takes milliseconds."""
    rest = min(above.bit_length(), below.bit_length()) - 2000
    try:
        return (above >> rest) / (below >> rest) if rest > 0 else above / below
    except OverflowError:
        return math.inf if above > 0 else -math.inf
