"""Dates as whole seconds, and where they lie in the year, the week and the day, the same in every language.

A date is read by a grammar of its own (`2021-03-04`, `2021/03/04 13:45`, `2021-03-04T13:45:10Z`), never by a language's
idea of one, and is what the clock on the wall shows: an offset to universal time is read over. A cycle becomes two
numbers, near enough to sine and cosine, by a quotient of whole numbers: every machine rounds it alike.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import RAISED, Bools, Floats, Integers

DAY = 86_400
"""Seconds."""

CYCLES = {"year": 366 * DAY, "week": 7 * DAY, "day": DAY}
"""Names and seconds of what comes again."""

FIRST, LAST = -62_135_596_800, 253_402_300_799
"""The seconds of 0001-01-01 and of the end of 9999-12-31, counted from the beginning of 1970."""

_WRITTEN = re.compile(
    r"(\d{4})([-/.])(\d{2})\2(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONDAY = 3 * DAY  # 1970 began on a Thursday


def seconds_of(values: Sequence[Any] | NDArray[Any]) -> tuple[Integers, Bools]:
    """Seconds since the beginning of 1970 (N,), and which values (N,) are no dates (their seconds are 0).

    Text, dates and datetimes of any kind; whatever else there is counts as none, and nothing is ever an error.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return _of_stamps(values)
    found = [_seconds(value) for value in values]
    lost = np.array([one is None for one in found], dtype=bool)
    return np.array([one or 0 for one in found], dtype=np.int64), lost


def waves(seconds: Integers, cycle: str) -> Floats:
    """(N, 2): where in a cycle of `CYCLES` the seconds (N,) lie, from −1 to 1 each: near enough to cosine and sine."""
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
    """The same of numpy's own datetimes, in any unit."""
    unit = np.datetime_data(stamps.dtype)[0]
    if unit in ("ps", "fs", "as"):
        stamps = stamps.astype("datetime64[ns]")  # numpy knows no way from there to seconds
    whole = stamps.astype("datetime64[s]")
    seconds = whole.astype(np.int64)
    lost = (seconds < FIRST) | (seconds > LAST)  # what numpy calls NaT is the least number of all
    if unit in ("Y", "M", "W", "D", "h", "m"):
        lost |= whole.astype(stamps.dtype) != stamps  # so far away that the product went round
    return np.where(lost, 0, seconds), lost


def _seconds(value: Any) -> int | None:
    """Those of one date, None for whatever is none."""
    try:
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None)  # the clock on the wall, without asking the zone anything
        if isinstance(value, date):
            value = value.isoformat()
        elif isinstance(value, np.datetime64):
            (second,), (lost,) = _of_stamps(np.asarray([value]))
            return None if lost else int(second)
        written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
        if written is None:
            return None
        year, month, day, hour, minute, second = (int(part or 0) for part in written.group(1, 3, 4, 5, 6, 7))
    except RAISED:  # a class of the caller's own
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    sound = 1 <= month <= 12 and 1 <= day <= _LENGTHS[month - 1] - (month == 2 and not leap)
    if not (year >= 1 and sound and hour < 24 and minute < 60 and second < 60):
        return None
    return _days(year, month, day) * DAY + hour * 3600 + minute * 60 + second


def _days(year: int, month: int, day: int) -> int:
    """Days since the beginning of 1970, in the calendar that begins its years in March: leap days come last."""
    year -= month < 3
    era, of_era = year // 400, year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
