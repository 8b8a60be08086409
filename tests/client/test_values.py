"""Dates by a grammar and a calendar of their own, held against the standard library's and numpy's."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskveil.arrays import one_float
from taskveil.client.values import CYCLES, DAY, FIRST, LAST, seconds_of, waves

EVERY_DAY = np.arange("0001-01-01", "10000-01-01", dtype="datetime64[D]")
ENDS = [int(end.astype(np.int64)) for end in (FIRST, LAST)]


def one(value: object) -> int | None:
    (seconds,), (lost,) = seconds_of([value])
    return None if lost else int(seconds)


def test_text_dates_and_numpys_own_say_the_same() -> None:
    days = np.random.default_rng(0).choice(EVERY_DAY, size=5000)
    seconds, lost = seconds_of(days)
    assert not lost.any()
    assert np.array_equal(seconds, days.astype(np.int64) * DAY)
    for same in ([str(day) for day in days], days.tolist(), list(days), days.astype("datetime64[us]")):
        found, lost = seconds_of(same)
        assert not lost.any()
        assert np.array_equal(found, seconds)


@given(st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=45))])))
def test_the_clock_on_the_wall_counts(moment: datetime) -> None:
    wall = (moment.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    for written in (moment, moment.isoformat(), moment.isoformat(" "), f"{moment:%Y/%m/%d %H:%M:%S}".rjust(19, "0")):
        assert one(written) == wall


@pytest.mark.parametrize(("text", "same"), [
    ("2021-03-04", "2021-03-04T00:00:00"),
    ("2021/03/04", "2021-03-04"),
    ("2021.03.04", "2021-03-04"),
    ("2021-03-04 13:45", "2021-03-04T13:45:00"),
    ("2021-03-04T13:45:10Z", "2021-03-04T13:45:10"),
    ("2021-03-04T13:45:10.999999999", "2021-03-04T13:45:10"),
    ("2021-03-04T13:45+05:30", "2021-03-04T13:45"),
    ("2021-03-04T13:45:10-2359", "2021-03-04T13:45:10"),
    ("2000-02-29", "2000-02-29"),
])  # fmt: skip
def test_what_is_a_date(text: str, same: str) -> None:
    assert one(text) == int(np.datetime64(same, "s").astype(np.int64))


@pytest.mark.parametrize("text", [
    "", "2021", "2021-03", "20210304", "2021-3-4", "21-03-04", "2021-03/04", "2021 03 04", " 2021-03-04", "2021-03-04 ",
    "2021-03-04\n", "2021-03-04T", "2021-03-04T13", "2021-03-04t13:45", "2021-03-04T13:45z", "2021-03-04Z",
    "2021-03-04T24:00", "2021-03-04T13:60", "2021-03-04T13:45:60", "2021-03-04T13:45:10.",
    "2021-03-04T13:45:10.0123456789", "2021-03-04T13:45+5", "2021-02-29", "1900-02-29", "2021-00-10", "2021-13-10",
    "2021-04-31", "2021-01-00", "2021-01-32", "0000-01-01", "10000-01-01", "-001-01-01", "２０２１-03-04", "٢٠٢١-٠٣-٠٤",
    "4 March 2021", "NaT", "2021-03-04" * 1000,
])  # fmt: skip
def test_what_is_none(text: str) -> None:
    assert one(text) is None


@pytest.mark.parametrize("value", [
    None, 0, 18_690, 1.6e9, float("nan"), True, b"2021-03-04", ["2021-03-04"], {}, object(), pd.NaT, pd.NA,
    np.datetime64("NaT"), np.timedelta64(5, "s"), timedelta(1), np.datetime64("0000-12-31"),
    np.datetime64("10000-01-01"),
])  # fmt: skip
def test_whatever_else_there_is_counts_as_none(value: object) -> None:
    assert one(value) is None


@pytest.mark.parametrize("unit", [*"YMWDhms", "ms", "us", "ns", "ps", "fs", "as", "25s", "7ms", "3D"])
@pytest.mark.parametrize("count", [0, 10**9, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**15])
def test_stamps_far_from_any_calendar_are_none_and_never_go_round(unit: str, count: int) -> None:
    stamps = np.array([count], dtype=np.int64).view(f"datetime64[{unit}]")
    (seconds,), (lost,) = seconds_of(stamps)
    assert (None if lost else int(seconds)) == one(stamps[0])
    length = {"Y": 365 * DAY, "M": 28 * DAY, "W": 7 * DAY, "D": DAY, "h": 3600, "m": 60, "25s": 25}.get(unit, 1)
    if length * abs(count) > 2 * LAST.astype(np.int64) and unit not in ("ms", "us", "ns", "ps", "fs", "as"):
        assert lost
    if count == 0:
        assert (seconds, lost) == (0, False)


@pytest.mark.parametrize(("unit", "times"), [("25s", 25), ("7ms", 7), ("3D", 3), ("9h", 9), ("2147483647s", 2**31 - 1)])
def test_multiples_of_a_unit_do_not_go_round(unit: str, times: int) -> None:
    """So many that their number of units is just above 2^64: a date of 1970, if nobody looks."""
    stamps = np.array([2**64 // times + 1], dtype=np.int64).view(f"datetime64[{unit}]")
    assert seconds_of(stamps)[1].tolist() == [True]
    assert one(stamps[0]) is None
    near = np.array([10], dtype=np.int64).view(f"datetime64[{unit}]")
    assert seconds_of(near)[0].tolist() == near.astype("datetime64[s]").astype(np.int64).tolist()


@pytest.mark.parametrize("cycle", CYCLES)
def test_waves_are_near_cosine_and_sine(cycle: str) -> None:
    seconds = np.random.default_rng(0).integers(*ENDS, endpoint=True, size=200_000)
    seconds = np.append(seconds, [*ENDS, 0, -1, 1])
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]")
    since = {
        "year": seconds - years.astype("datetime64[s]").astype(np.int64),
        "week": seconds + 3 * DAY,
        "day": seconds,
    }
    angle = 2 * np.pi * (since[cycle] % CYCLES[cycle]) / CYCLES[cycle]
    found = waves(seconds, cycle)
    assert np.abs(found).max() <= 1
    assert np.abs(found - np.column_stack([np.cos(angle), np.sin(angle)])).max() < 0.002
    assert not np.signbit(found[found == 0]).any()


def test_weeks_begin_on_monday_and_years_in_january() -> None:
    monday, _ = seconds_of(["2024-01-01"])
    assert date(2024, 1, 1).weekday() == 0
    for cycle in CYCLES:
        assert waves(monday, cycle).tolist() == [[1.0, 0.0]]


HALFWAY = Decimal(1) + Decimal(2) ** -53
"""Between 1 and the next double."""


@given(st.decimals(allow_nan=False) | st.fractions())
@example(Decimal(f"{HALFWAY}{'0' * 2000}1"))  # not the half any more
@example(Decimal(f"-{HALFWAY}{'0' * 2000}1"))
@example(Decimal(f"{HALFWAY}{'0' * 2000}"))
@example(Decimal("4.9e-324"))
@example(Decimal("-1e-999999999"))
@example(Decimal("1.7976931348623158e308"))
@example(Decimal("-1e999999999"))
@example(Fraction(10**3000 + 1, 3 * 10**2999))
@example(Fraction(-(10**3000) - 1, 3 * 10**2999))
@example(Fraction(1, 10**3000))
def test_numbers_of_any_length_are_the_doubles_next_to_them(number: Decimal | Fraction) -> None:
    assert one_float(number) == float(number)


def test_fractions_beyond_all_doubles_are_infinite() -> None:
    assert [one_float(Fraction(sign * 10**4000, 3)) for sign in (1, -1)] == [np.inf, -np.inf]
    assert [one_float(Fraction(sign * 10**4000, 10**3000 + 1)) for sign in (1, -1)] == [np.inf, -np.inf]


@example(((2**54 - 1) << 970) - 1)  # the last one that is nearer to the largest double
@example((2**54 - 1) << 970)
@example(1 - (1 << 1024))
@given(st.integers(-(2**1025), 2**1025))
def test_whole_numbers_of_any_size_are_the_doubles_next_to_them(number: int) -> None:
    """Found without the error that Python raises: raising takes time."""
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.copysign(math.inf, number > 0 or -1)
    assert one_float(number) == nearest


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_last_second_of_all_dates_has_parts(unit: str) -> None:
    """Browsers took it for a date, and so did Python where it was text."""
    end = np.datetime64("9999-12-31T23:59:59.999999").astype(f"datetime64[{unit}]")
    assert one(end) == one(str(end)) == ENDS[1]
    assert one(end + 1) is None
