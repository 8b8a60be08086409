"""What callers have becomes a matrix of doubles: by name, missing values as NaN, and without quoting anything."""

from __future__ import annotations

import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from taskveil.errors import DataError
from taskveil.records.tables import as_records, as_reports, as_volunteers, column_names, number_in

NAN = np.nan
MISSING = {
    "array": np.array([[1.0, NAN], [3.0, 4.0]]),
    "lists": [[1, None], [3, 4]],
    "lists of NA": [[1, pd.NA], [3, 4]],
    "objects": np.array([[1, None], [3, 4]], dtype=object),
    "masked": np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]]),
    "masked integers": np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]]),
    "pandas": pd.DataFrame({"a": [1, 3], "b": [None, 4]}),
    "pandas NA": pd.DataFrame({"a": [1, 3], "b": [pd.NA, 4]}),
    "pandas Int64": pd.DataFrame({"a": [1, 3], "b": pd.array([None, 4], dtype="Int64")}),
    "pandas Float64": pd.DataFrame({"a": [1, 3], "b": pd.array([None, 4], dtype="Float64")}),
    "pandas Arrow": pd.DataFrame({"a": [1, 3], "b": pd.array([None, 4], dtype="int64[pyarrow]")}),
    "polars": pl.DataFrame({"a": [1, 3], "b": [None, 4]}),
    "polars decimals": pl.DataFrame({"a": [1, 3], "b": [None, Decimal(4)]}),
    "Arrow table": pa.table({"a": [1, 3], "b": [None, 4]}),
    "Arrow decimals": pa.table({"a": [1, 3], "b": pa.array([None, Decimal(4)])}),
    "Arrow batch": pa.record_batch({"a": pa.array([1, 3]), "b": pa.array([None, 4])}),
}


@pytest.mark.parametrize("kind", list(MISSING))
def test_a_missing_value_is_one_of_the_values(kind: str) -> None:
    """In 0.1 it depended on the library: some refused the whole batch, some raised whatever they raised."""
    assert np.array_equal(as_records(MISSING[kind]), [[1, NAN], [3, 4]], equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}),
        pl.DataFrame({"a": [True, None]}),
        pa.table({"a": [True, None]}),
        pa.record_batch({"a": pa.array([True, None])}),
        [[True], [None]],
    ],
)
def test_truth_values_are_numbers(column: object) -> None:
    assert np.array_equal(as_records(column), [[1], [NAN]], equal_nan=True)


@pytest.mark.parametrize("column", [pa.table({"a": pa.nulls(2)}), pl.DataFrame({"a": [None, None]}), [[None], [None]]])
def test_nothing_at_all_is_no_error(column: object) -> None:
    assert np.isnan(as_records(column)).all()


def test_large_numbers_become_infinite() -> None:
    odd = [[10**400, -(10**400), Fraction(1, 4), Decimal("1e5000"), np.longdouble("1e4000"), True]]
    assert as_records(odd).tolist() == [[np.inf, -np.inf, 0.25, np.inf, np.inf, 1.0]]
    with np.errstate(all="raise"):
        assert as_records(np.array([[1e4000]], dtype=np.longdouble)).tolist() == [[np.inf]]


REFUSED = {
    "text": [["secret", "1.25"]],
    "numbers in text": [["1.25", "2"]],
    "text among numbers": [[1.25, "secret"]],
    "text among large numbers": [[10**400, "secret", 1.25]],
    "text among nothing": [[None, "secret", 1.25]],
    "ragged": [[1.25], [2, 3]],
    "nested": [[1.25, [2]], [3, 4]],
    "complex": np.array([[1.25j]]),
    "dates": np.array([["2020-01-25"]], dtype="M8[D]"),
    "bytes": np.array([[b"secret"]]),
    "records": np.array([(1.25, 2)], dtype=[("a", float), ("b", int)]),
    "pandas text": pd.DataFrame({"a": ["secret"]}),
    "pandas object": pd.DataFrame({"a": pd.Series([1.25, "secret"], dtype=object)}),
    "pandas categories": pd.DataFrame({"a": pd.Categorical([1.25])}),
    "pandas dates": pd.DataFrame({"a": pd.to_datetime(["2020-01-25"])}),
    "polars text": pl.DataFrame({"a": ["secret"]}),
    "polars categories": pl.DataFrame({"a": pl.Series(["secret"], dtype=pl.Categorical)}),
    "polars lists": pl.DataFrame({"a": [[1.25]]}),
    "Arrow text": pa.table({"a": ["secret"]}),
    "Arrow categories": pa.record_batch({"a": pa.array(["secret"]).dictionary_encode()}),
    "Arrow lists": pa.table({"a": [[1.25]]}),
}


@pytest.mark.parametrize("kind", list(REFUSED))
def test_other_things_are_refused_unquoted(kind: str) -> None:
    with pytest.raises(DataError) as refusal:
        as_records(REFUSED[kind])
    said = str(refusal.value)
    assert "secret" not in said
    assert "1.25" not in said
    whole = "".join(traceback.format_exception(refusal.value))
    assert "During handling" not in whole  # no other error's words are shown with it
    assert "direct cause" not in whole


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_found_by_name(make: object) -> None:
    table = make({"b": [2.0], "secret": ["x"], "a": [1.0]})  # type: ignore[operator]
    assert as_records(table, columns=("a", "b")).tolist() == [[1.0, 2.0]]
    assert column_names(table) == ("b", "secret", "a")
    with pytest.raises(DataError, match="no column named 'c'"):
        as_records(table, columns=("a", "c"))


def test_two_columns_of_one_name_are_no_name() -> None:
    table = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(DataError, match="two columns named 'a'"):
        as_records(table, columns=("a",))
    assert as_records(table).tolist() == [[1.0, 2.0]]


def test_shapes() -> None:
    assert as_records([1, 2], width=2).shape == (1, 2)
    with pytest.raises(DataError, match="matrix"):
        as_records([1, 2])
    with pytest.raises(DataError, match="3 attributes, but this design was made for 2"):
        as_records([[1, 2, 3]], width=2)


def test_reports_are_whole_numbers() -> None:
    assert as_reports([[1, 2]], width=2).dtype == np.int64
    assert as_reports(np.array([[2.0**53]]), width=1).tolist() == [[2**53]]
    for bad in ([[1.9]], [[NAN]], [[2.0**60]], [["1"]], [[1, 2]], [1], np.array([[2**64 - 1]], dtype=np.uint64)):
        with pytest.raises(DataError):
            as_reports(bad, width=1)


def test_volunteers_are_finite() -> None:
    assert as_volunteers([[1, 2], [3, 4]]).shape == (2, 2)
    with pytest.raises(DataError, match="at least 3 volunteers"):
        as_volunteers([[1, 2], [3, 4]], fewest=3)
    for bad in ([[1, None], [3, 4]], [[1, np.inf], [3, 4]], [[1, 2]], np.empty((3, 0))):
        with pytest.raises(DataError):
            as_volunteers(bad)


def test_a_column_that_is_not_finite_is_named() -> None:
    table = pd.DataFrame({"age": [1.0, 2.0], "rent": [3.0, NAN]})
    with pytest.raises(DataError, match="row 1, column 'rent' is nan"):
        as_volunteers(table)
    with pytest.raises(DataError, match="row 1, column 1 is nan"):
        as_volunteers(table.to_numpy())


def test_numbers_in_cells() -> None:
    assert [number_in(cell) for cell in (" 5 ", "+5", "-inf", "1e400")] == [5.0, 5.0, -np.inf, np.inf]
    assert [number_in(cell) for cell in ("x", "1_0", "0x10", "1,5")] == [None] * 4
    assert all(np.isnan(number_in(cell)) for cell in ("", None, "NaN", "null", "N/A"))  # type: ignore[call-overload]


def test_polars_numbers_of_128_bits_are_numbers() -> None:
    table = pl.DataFrame({"a": pl.Series([1, None, 2**100], dtype=pl.Int128)})
    assert np.array_equal(as_records(table), [[1.0], [np.nan], [2.0**100]], equal_nan=True)
