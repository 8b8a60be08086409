"""Columns of tables hold what their values say one by one, whatever package made them and whoever stands beside."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import taskveil as tv

Field = tv.Number | tv.Count | tv.Category | tv.Flag | tv.Date


def assert_read_singly(table: Any, values: list[Any], field: Field) -> None:
    """The table's one column becomes what its values become as records of their own."""
    schema = tv.Schema({"x": field})
    assert np.array_equal(schema.expand(table), np.vstack([schema.fields.expand_one([value]) for value in values]))


HALF, WRITTEN = "\ud800", "'\\ud800'"


@pytest.mark.parametrize("texts", [[HALF, WRITTEN], [WRITTEN, HALF], ["a", "a\0b"], ["a\0b", "a"], ["\0", ""]])
def test_texts_that_pandas_takes_for_one_are_two(texts: list[str]) -> None:
    """pandas numbers half a character like the text that writes it: whoever came first would decide for both."""
    field = tv.Category([HALF, WRITTEN, "a"], missing=True)
    assert_read_singly(pd.DataFrame({"x": pd.Series(texts, dtype=object)}), texts, field)


@pytest.mark.parametrize("holes", [[], [None]], ids=["complete", "holes"])
@pytest.mark.parametrize(
    "made",
    [
        lambda values: pa.table({"x": pa.array(values, pa.bool_())}),
        lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.Boolean)}),
        lambda values: pd.DataFrame({"x": pd.array(values, dtype="boolean")}),
        lambda values: pd.DataFrame({"x": pd.array(values, dtype="bool[pyarrow]")}),
        lambda values: pd.DataFrame({"x": values}),
    ],
    ids=["arrow", "polars", "pandas", "pandas-arrow", "numpy"],
)
def test_truth_values_are_words_of_a_category(made: Any, holes: list[None]) -> None:
    values = [True, False, True, *holes]
    for field in (tv.Category(["false", "true"], missing=True), tv.Category(["0", "1"]), tv.Flag(missing=True)):
        assert_read_singly(made(values), values, field)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_second_before_1970_is_the_one_that_the_clock_shows(unit: str) -> None:
    """Arrow rounds towards 1970, a clock back to the second that has begun."""
    times = [datetime(1969, 12, 31, 23, 59, 59), datetime(1965, 3, 4, 5, 6, 7), datetime(2021, 3, 4, 5, 6, 7), None]
    stamps = [time and (time if unit == "s" else time.replace(microsecond=999_000)) for time in times]
    field = tv.Date("1960-01-01", "2030-01-01", missing=True, cycles=("day", "year"))
    table = pa.table({"x": pa.array(stamps, pa.timestamp(unit))})
    for columns in (table, pl.from_arrow(table)):
        assert_read_singly(columns, times, field)


def test_days_are_days() -> None:
    days = [date(1969, 12, 31), date(2024, 2, 29), None]
    for kind in (pa.date32(), pa.date64()):
        table = pa.table({"x": pa.array(days, kind)})
        assert_read_singly(table, days, tv.Date("1960-01-01", "2030-01-01", missing=True, cycles=("day",)))


@pytest.mark.parametrize("beside", [pd.Timestamp("2021-03-04"), "a", 4])
def test_a_hole_stays_one_whatever_type_its_neighbours_make_the_column(beside: Any) -> None:
    table = pd.DataFrame({"x": [pd.NaT, beside]})
    assert_read_singly(table, [None, beside], tv.Category(["a", "4"], missing=True))


def test_a_type_that_arrow_has_not_is_no_error() -> None:
    values = [None, {"a": 2**100}]
    table = pl.DataFrame({"x": pl.Series(values, dtype=pl.Struct({"a": pl.Int128}))})
    assert_read_singly(table, values, tv.Count(0, 7, missing=True))


def test_a_hole_that_makes_an_array_of_objects_changes_no_neighbour() -> None:
    """Fields that make one number each: an array of doubles and one of objects are read alike, as a device reads."""
    schema = tv.Schema({"doors": tv.Count(0, 9), "power": tv.Number(0, 5, fill=1.0), "leased": tv.Flag(fill=True)})
    rows = [[2.5, 99.0, 2.0], [np.nan, 1.0, 0.0]]
    alone = np.vstack([schema.fields.expand_one(row) for row in rows])
    assert np.array_equal(schema.expand(np.array(rows)), alone)
    assert np.array_equal(schema.expand(np.ma.masked_invalid(rows)), alone)
    assert np.array_equal(schema.expand(np.array([rows[0], [None, 1.0, 0.0]])), alone)
    assert np.array_equal(schema.expand(alone), alone)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_a_date_beyond_a_zones_clock_costs_nobody_theirs(zone: str) -> None:
    """pandas would raise for the whole column, and quote the date."""
    times = pd.Series(np.array([0, 10**15, 2**63 - 1, -(2**63) + 1], dtype="datetime64[us]"))
    table = pd.DataFrame({"x": times.dt.tz_localize("UTC").dt.tz_convert(zone)})
    schema = tv.Schema({"x": tv.Date("1960-01-01", "2030-01-01", missing=True)})
    found = schema.expand(table)
    assert np.array_equal(found[:2], schema.expand(table[:2]))
    assert np.array_equal(found[2:, -1], [1.0, 1.0])


def test_decimals_become_the_nearest_doubles() -> None:
    """As the same decimals do one by one; Arrow's own way is at times the next one."""
    values = [Decimal(digits).scaleb(-10) for digits in range(10**25 + 7, 10**26, 10**24 + 12_345_678_901)]
    table = pa.table({"x": pa.array([*values, None], pa.decimal128(38, 10))})
    for columns in (table, pl.from_arrow(table)):
        assert_read_singly(columns, [*values, None], tv.Number(-1e30, 1e30, missing=True))
