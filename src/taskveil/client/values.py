"""Natural values as numbers, texts and dates. No value, of whatever type, is an error here.

A date is read by one fixed grammar (`2021-03-04`, `2021/03/04 13:45`, `2021-03-04T13:45:10Z`), which is the same in
every language. It is local time: an offset to universal time is ignored. A date becomes whole seconds. Its place in the
year, the week or the day becomes two numbers, close to cosine and sine: each is a quotient of whole numbers, which
every machine rounds alike.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Bools, Floats, Integers, one_float, tolerant

Values = Sequence[Any] | NDArray[Any]
"""Natural values (N,) of one field, of any quality."""

LONGEST_TEXT = 1000
"""Characters of a category's value and of a reason that a collector gives, and bytes of a round's name."""

NO_VALUE = "\0"
"""The text of a value that no category can have."""

TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
"""Words that stand for true and false."""

_DIGITS = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_LONGEST_NUMBER = 40  # characters; longer texts are not parsed, so that a text of a million characters takes no time


def text_of(value: Any) -> str | None:
    """The text by which a category knows a value, None for a missing value. Never an error.

    A value is text of at most `LONGEST_TEXT` characters, a whole number below 2^53, or true or false. The text of any
    other value is `NO_VALUE`, which no category has.
    """
    number = math.inf
    with tolerant:  # another type, or a class of the caller's own
        if isinstance(value, str):
            return _joined(str.__str__(value)) if str.__len__(value) <= LONGEST_TEXT else NO_VALUE  # no more is read
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, np.datetime64 | np.timedelta64):  # these include numpy's missing value, NaT
            return None if np.isnat(value) else NO_VALUE
        number = one_float(value)
    if math.isnan(number):
        return None
    return str(int(number)) if abs(number) < 2**53 and number % 1 == 0 else NO_VALUE


def _joined(text: str) -> str:
    """The text with neighbouring halves of a character (surrogates) joined and counted as browsers do, in UTF-16."""
    if text.isascii():
        return text
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw.decode("utf-16-le", "surrogatepass") if len(raw) <= 2 * LONGEST_TEXT else NO_VALUE


def is_prime(number: int) -> bool:
    """Whether a number from 2 up has no divisor but 1 and itself."""
    return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


def points_of(values: Values, salt: str, prime: int) -> Floats:
    """(N, 2): the point (n // prime, n % prime) of each value, where n is 0 if it is missing or empty, else 1 plus
    SHA-256 of the salt and its text modulo prime² − 1.

    The text follows its length and fills up to `LONGEST_TEXT` characters with zeros, so that every text takes as long;
    it is hashed in UTF-16, as browsers have it. A text without a hash of its own is `NO_VALUE`.
    """
    start, points = hashlib.sha256(salt.encode("utf-16-le", "surrogatepass")), []
    for value in values:
        text = text_of(value) or ""
        raw = text.encode("utf-16-le", "surrogatepass")
        sponge = start.copy()
        sponge.update((len(raw) // 2).to_bytes(2, "little") + raw.ljust(2 * LONGEST_TEXT, b"\0"))
        number = 1 + int.from_bytes(sponge.digest(), "big") % (prime**2 - 1)
        points.append(divmod(number if text else 0, prime))
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def numbers_of(values: Values, words: dict[str, float] | None = None) -> Floats:
    """Numbers (N,), NaN for a value that is no number. A number may be text in digits, as forms and files have it, or
    one of the `words`."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return values.astype(np.float64)
    return np.array([_number(value, words or {}) for value in values], dtype=np.float64)


def _number(value: Any, words: dict[str, float]) -> float:
    with tolerant:  # another type, or a class of the caller's own
        if not isinstance(value, str):
            return one_float(value)
        text = str.__str__(value) if str.__len__(value) <= _LONGEST_NUMBER else ""
        return float(text) if _DIGITS.fullmatch(text) else words.get(text, math.nan)
    return math.nan


def filled_in(values: Floats, lost: Bools, fill: float) -> Floats:
    """Values (N,) with the fill in place of those that are lost."""
    return np.where(lost, fill, values) + 0.0  # no −0, which processors disagree about when they compare


def with_flag(columns: list[Floats], lost: Bools, missing: bool) -> Floats:
    """(N, width): the columns side by side, at last 1 where the value is missing."""
    return np.column_stack([*columns, lost.astype(np.float64)] if missing else columns)


def present(columns: Floats, fill: float, missing: bool) -> tuple[Floats, Floats]:
    """The first column's mean over those who have a value (N,), and the chance that there is one (N,)."""
    if not missing:
        return columns[:, 0], np.ones(len(columns))
    gone = np.clip(columns[:, -1], 0.0, 1.0)
    return (columns[:, 0] - gone * fill) / np.maximum(1.0 - gone, 1e-9), 1.0 - gone


def surer(chance: Floats) -> Floats:
    """The chance (N,) of what is likelier: that something is so, or that it is not."""
    return np.maximum(chance, 1.0 - chance)


DAY = 86_400
"""Seconds."""

CYCLES = {"year": 366 * DAY, "week": 7 * DAY, "day": DAY}
"""Periods by name, in seconds."""

FIRST, LAST = np.datetime64("0001-01-01T00:00:00"), np.datetime64("9999-12-31T23:59:59")
"""The first and the last second that is a date."""

_WRITTEN = re.compile(
    r"(\d{4})([-/.])(\d{2})\2(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_MONDAY = 3 * DAY  # 1970 began on a Thursday
_EPOCH = date(1970, 1, 1).toordinal()


def seconds_of(values: Sequence[Any] | NDArray[Any]) -> tuple[Integers, Bools]:
    """Seconds since the beginning of 1970 (N,), and which values (N,) are no dates (their seconds are 0).

    Dates are text, dates and datetimes of any kind. Every other value is no date; nothing is an error.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return _of_stamps(values)
    found = [_seconds(value) for value in values]
    lost = np.array([one is None for one in found], dtype=bool)
    return np.array([one or 0 for one in found], dtype=np.int64), lost


def waves(seconds: Integers, cycle: str) -> Floats:
    """(N, 2): the place of the seconds (N,) in a cycle of `CYCLES`, each from −1 to 1, close to cosine and sine."""
    if cycle == "year":
        stamps = seconds.astype("datetime64[s]")
        phase = (stamps - stamps.astype("datetime64[Y]").astype("datetime64[s]")).astype(np.int64)
    else:
        phase = seconds + (_MONDAY if cycle == "week" else 0)
    period = CYCLES[cycle]
    return np.column_stack([_wave(phase + period // 4, period), _wave(phase, period)])


def _wave(phase: Integers, period: int) -> Floats:
    """Bhaskara's fraction 16 p (h − p) / (5 h² − 4 p (h − p)) for a half wave of length h, within 0.002 of the sine."""
    half = period // 2
    place = phase % period
    arch = (place % half) * (half - place % half)
    return np.asarray(np.where(place < half, 16 * arch, -16 * arch) / (5 * half * half - 4 * arch))


def _of_stamps(stamps: NDArray[Any]) -> tuple[Integers, Bools]:
    """`seconds_of` for numpy's datetimes, in any unit."""
    unit, multiple = np.datetime_data(stamps.dtype)
    counts = stamps.astype(np.int64)
    limits = np.iinfo(np.int64)
    first, last = limits.min, limits.max
    if unit not in ("ns", "ps", "fs", "as"):  # all dates of these units lie between the first and the last
        first, last = (int(end.astype(f"datetime64[{unit}]").astype(np.int64)) for end in (FIRST, LAST))
        last += {"ms": 999, "us": 999_999}.get(unit, 0)  # the last second has parts
    # Only counts of dates are multiplied and converted: others would go round at 2^63, or raise an error.
    lost = (counts < -(-first // multiple)) | (counts > last // multiple)
    dates = (np.where(lost, 0, counts) * multiple).astype(f"datetime64[{unit}]")
    if unit in ("ps", "fs", "as"):
        dates = dates.astype("datetime64[ns]")  # numpy cannot convert these units to seconds
    whole = dates.astype("datetime64[s]")
    lost |= ~((whole >= FIRST) & (whole <= LAST))  # NaT is neither
    return np.where(lost, 0, whole.astype(np.int64)), lost


def _seconds(value: Any) -> int | None:
    """The seconds of one date, None for a value that is no date."""
    with tolerant:  # a class of the caller's own, or numbers that no calendar has
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None)  # local time; the time zone's own code is not called
        if isinstance(value, date):
            value = value.isoformat()
        elif isinstance(value, np.datetime64):
            (second,), (lost,) = _of_stamps(np.asarray([value]))
            return None if lost else int(second)
        written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
        if written is not None:
            year, month, day, hour, minute, second = [int(part or 0) for part in written.group(1, 3, 4, 5, 6, 7)]
            days = datetime(year, month, day, hour, minute, second).toordinal() - _EPOCH
            return days * DAY + hour * 3600 + minute * 60 + second
    return None
