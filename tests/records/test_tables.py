"""A column that became numbers and a column again is what it was: type, order of categories, holes, zones, units."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taskveil as tv
from taskveil.errors import DataError
from taskveil.records.tables import ColumnType, library_of, read_column

WHOLE = st.integers(0, 100)
SIGNED = st.integers(-100, 100)
QUARTERS = st.integers(-400, 400).map(lambda number: number / 4)
TEXTS = st.sampled_from(["a", "b", "c d", "4"])
FLAGS = st.booleans()
STAMPS = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)).map(lambda stamp: stamp.replace(microsecond=0))
DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
ZONED = STAMPS.map(lambda stamp: stamp.replace(tzinfo=dt.UTC))
ORDERED = pd.CategoricalDtype(["c d", "unused", "b", "4", "a"], ordered=True)
SUMMER_TIME = pd.DatetimeTZDtype("us", "Europe/Berlin")

PANDAS: dict[str, tuple[Any, st.SearchStrategy[Any], tuple[Any, ...]]] = {
    **{name: (name, SIGNED, ()) for name in ("int8", "int16", "int32", "int64")},
    **{name: (name, WHOLE, ()) for name in ("uint8", "uint16", "uint32", "uint64", "bool[pyarrow]")},
    **{name: (name, SIGNED, (None,)) for name in ("Int8", "Int64", "int32[pyarrow]", "double[pyarrow]")},
    **{name: (name, QUARTERS, (np.nan,)) for name in ("float32", "float64", "Float32", "Float64")},
    "bool": ("bool", FLAGS, ()),
    "boolean": ("boolean", FLAGS, (None,)),
    "flags as objects": (object, FLAGS, (None, np.nan)),
    **{name: (name, TEXTS, (None,)) for name in ("str", "string", "string[pyarrow]", "category")},
    "text as objects": (object, TEXTS, (None, np.nan, pd.NA)),
    "ordered categories": (ORDERED, TEXTS, (None,)),
    "whole categories": (pd.CategoricalDtype([30, 2, 11]), st.sampled_from([2, 11, 30]), (None,)),
    "flag categories": (pd.CategoricalDtype([True, False]), FLAGS, (None,)),
    **{f"datetime64[{unit}]": (f"datetime64[{unit}]", STAMPS, (None,)) for unit in ("s", "ms", "us", "ns")},
    "zoned": ("datetime64[ns, UTC]", ZONED, (None,)),
    "summer time": (SUMMER_TIME, st.dates(dt.date(2000, 1, 1), dt.date(2020, 1, 1)), (None,)),
    "arrow stamps": ("timestamp[us][pyarrow]", STAMPS, (None,)),
    "arrow days": ("date32[day][pyarrow]", DAYS, (None,)),
    "days as objects": (object, DAYS, (None,)),
    "dates as text": ("str", DAYS.map(str), (None,)),
    "times as text": (object, STAMPS.map(lambda stamp: stamp.strftime("%Y-%m-%dT%H:%M:%SZ")), (None, np.nan)),
    "decimals": (object, QUARTERS.map(Decimal), (None,)),
    "arrow decimals": (pd.ArrowDtype(pa.decimal128(9, 2)), QUARTERS.map(Decimal), (None,)),
}  # fmt: skip
POLARS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    **{str(kind): (kind, SIGNED) for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128)},
    **{str(kind): (kind, WHOLE) for kind in (pl.UInt8, pl.UInt32, pl.UInt64)},
    **{str(kind): (kind, QUARTERS) for kind in (pl.Float32, pl.Float64)},
    "flags": (pl.Boolean, FLAGS),
    "text": (pl.String, TEXTS),
    "categories": (pl.Categorical, TEXTS),
    "listed": (pl.Enum(["b", "unused", "a", "c d", "4"]), TEXTS),
    "days": (pl.Date, DAYS),
    **{f"Datetime {unit}": (pl.Datetime(unit), STAMPS) for unit in ("ms", "us", "ns")},  # type: ignore[arg-type]
    "zoned": (pl.Datetime("us", "UTC"), ZONED),
    "decimals": (pl.Decimal(9, 2), QUARTERS.map(Decimal)),
    "dates as text": (pl.String, DAYS.map(str)),
}
ARROW: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    **{str(kind): (kind, SIGNED) for kind in (pa.int8(), pa.int64(), pa.float32(), pa.float64())},
    **{str(kind): (kind, TEXTS) for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))},
    "whole categories": (pa.dictionary(pa.int8(), pa.int64()), st.sampled_from([2, 11, 30])),
    "flags": (pa.bool_(), FLAGS),
    "days": (pa.date32(), DAYS),
    "days in milliseconds": (pa.date64(), DAYS),
    **{str(kind): (kind, STAMPS) for kind in (pa.timestamp("s"), pa.timestamp("ns"))},
    "zoned": (pa.timestamp("us", tz="Europe/Berlin"), ZONED.filter(lambda stamp: stamp.month in (1, 7))),
    "decimals": (pa.decimal128(9, 2), QUARTERS.map(Decimal)),
    "dates as text": (pa.large_string(), DAYS.map(str)),
}


def repeated(data: st.DataObject, values: st.SearchStrategy[Any], holes: tuple[Any, ...]) -> list[Any]:
    """A column of volunteers: every value five times, so that a schema may list it, and perhaps a hole."""
    column = 5 * data.draw(st.lists(values, min_size=2, max_size=6, unique=True))
    return [*column, data.draw(st.sampled_from(holes))] if holes and data.draw(st.booleans()) else column


def same(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None or mine is pd.NA or mine is pd.NaT:
        return mine is theirs
    if isinstance(theirs, float) and math.isnan(theirs):
        return isinstance(mine, float) and math.isnan(mine)
    return bool(mine == theirs)


@pytest.mark.parametrize("kind", PANDAS)
@given(data=st.data())
@settings(max_examples=6)
def test_pandas_columns_come_back(kind: str, data: st.DataObject) -> None:
    dtype, values, holes = PANDAS[kind]
    table = pd.DataFrame({"x": pd.Series(repeated(data, values, holes), dtype=dtype)})
    for schema in (tv.Schema.of(table), tv.Schema.of(table).like(table)):
        found = schema.collapse(schema.expand(table))["x"]
        pd.testing.assert_index_equal(found.index, table.index)
        assert found.dtype == table["x"].dtype
        assert all(map(same, found.tolist(), table["x"].tolist()))


@pytest.mark.parametrize("kind", POLARS)
@given(data=st.data())
@settings(max_examples=6)
def test_polars_columns_come_back(kind: str, data: st.DataObject) -> None:
    dtype, values = POLARS[kind]
    table = pl.DataFrame({"x": pl.Series(repeated(data, values, (None,)), dtype=dtype)})
    schema = tv.Schema.of(table)
    assert schema.collapse(schema.expand(table)).equals(table)
    assert schema.collapse(schema.expand(table)).schema == table.schema


@pytest.mark.parametrize("kind", ARROW)
@given(data=st.data())
@settings(max_examples=6)
def test_arrow_columns_come_back(kind: str, data: st.DataObject) -> None:
    dtype, values = ARROW[kind]
    table = pa.table({"x": pa.array(repeated(data, values, (None,)), type=dtype)})
    schema = tv.Schema.of(table)
    assert schema.collapse(schema.expand(table)).equals(table)


@pytest.mark.parametrize(("dtype", "larger"), [("int8", "float64"), ("uint8", "float64"), ("Int8", "float64")])
def test_bounds_that_a_type_cannot_hold_widen_it(dtype: str, larger: str) -> None:
    table = pd.DataFrame({"x": pd.Series(range(50), dtype=dtype)})
    schema = tv.Schema.of(table).replace(x=tv.Number(-500, 500))
    assert schema.collapse(np.array([[400.0], [-400.0]]))["x"].tolist() == [400, -400]
    assert schema.collapse(np.array([[400.0]]))["x"].dtype == larger
    assert schema.collapse(np.array([[3.6]]))["x"].tolist() == [4]  # whole numbers stay whole


@pytest.mark.parametrize(
    "make",
    [lambda d: pl.DataFrame(d, schema={"x": pl.Int8}), lambda d: pa.table({"x": pa.array(d["x"], pa.int8())})],
)
def test_so_do_those_of_other_packages(make: Callable[[dict[str, list[int]]], Any]) -> None:
    schema = tv.Schema.of(make({"x": list(range(50))})).replace(x=tv.Number(-500, 500))
    found = schema.collapse(np.array([[400.0], [-3.6]]))["x"]
    assert (found.to_list() if hasattr(found, "to_list") else found.to_pylist()) == [400.0, -4.0]


def test_means_of_flags_are_the_likelier_one() -> None:
    table = pd.DataFrame({"x": [True, False] * 5})
    schema = tv.Schema.of(table).replace(x=tv.Number(0, 1))
    assert schema.collapse(np.array([[0.3], [0.7]]))["x"].tolist() == [False, True]


def test_what_a_type_may_say() -> None:
    with pytest.raises(DataError, match="a column holds"):
        ColumnType(holds="money", name="x")
    with pytest.raises(DataError, match="dates are written"):
        ColumnType(holds="text", name="str", form="%d")
    with pytest.raises(DataError, match="missing values"):
        ColumnType(holds="text", name="object", hole="?")
    with pytest.raises(DataError, match="categories"):
        ColumnType(holds="category", name="category", categories=(3,))  # type: ignore[arg-type]


def test_only_tables_have_a_package() -> None:
    assert [library_of(x) for x in (pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]}))] == [
        *("pandas", "polars", "arrow")
    ]
    assert library_of(np.ones((2, 2))) == "array"
    assert read_column(pd.Series([[1], [2]]))[0].holds == "other"
