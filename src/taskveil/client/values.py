"""Natural values as numbers and as texts, whatever they are: nothing here is ever an error.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import RAISED, Floats, one_float

Values = Sequence[Any] | NDArray[Any]
"""Natural values (N,) of one field, of any quality."""

NO_VALUE = "\0"
"""The text of whatever no category can have."""

TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
"""Words that are flags."""

_DIGITS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST = 40  # what is longer is not looked at: a text of a million characters takes no longer than another


def text_of(value: Any, longest: int | None = None) -> str | None:
    """The text that a value of a category goes by, None for a missing one. What is neither text of at most `longest`
    characters (whole ones or halves) nor a whole number below 2^53 nor a truth value has one that no category has.
    Never an error."""
    try:
        if isinstance(value, str):
            return _joined(str.__str__(value)) if longest is None or str.__len__(value) <= 2 * longest else NO_VALUE
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, np.datetime64 | np.timedelta64):  # numpy's own hole among them
            return None if np.isnat(value) else NO_VALUE
        number = one_float(value)
    except RAISED:  # another type, or a class of the caller's own
        return NO_VALUE
    if math.isnan(number):
        return None
    return str(int(number)) if abs(number) < 2**53 and number % 1 == 0 else NO_VALUE


def _joined(text: str) -> str:
    """The same with halves of a character that stand side by side joined, as JSON and browsers read them."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def numbers_of(values: Values, words: dict[str, float] | None = None) -> Floats:
    """Numbers (N,), NaN for whatever is none. Texts that write one in digits count too, as forms and files give them,
    and so do `words`."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return values.astype(np.float64)
    return np.array([_number(value, words or {}) for value in values], dtype=np.float64)


def _number(value: Any, words: dict[str, float]) -> float:
    try:
        if not isinstance(value, str):
            return one_float(value)
        text = str.__str__(value) if str.__len__(value) <= _LONGEST else ""
        return float(text) if _DIGITS.fullmatch(text) else words.get(text, math.nan)
    except RAISED:  # another type, or a class of the caller's own
        return math.nan
