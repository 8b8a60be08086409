"""Tables of natural values (pandas, polars, Arrow): their columns as schemas read them, and tables like them again.

None of the three packages is imported before somebody hands us one of its tables, or asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from taskveil.arrays import RAISED, Array, Integers
from taskveil.client.fields import Coded
from taskveil.errors import DataError, needs
from taskveil.records import column_names

Library = Literal["pandas", "polars", "arrow"]

Kind = Literal["number", "whole", "flag", "text", "category", "date", "other"]
"""What a column holds, whatever the package calls it."""

DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")
"""How text may say a date."""


@dataclass(frozen=True, kw_only=True)
class ColumnType:
    """What a column of a table is: what it `holds`, the package's own `name` for its type, and, where dates are written
    as text, their `form`. `other` is what a model is told for anything else than a category's values."""

    holds: str
    name: str
    form: str = ""
    other: str = ""

    def __post_init__(self) -> None:
        if self.holds not in get_args(Kind) or not isinstance(self.name, str):
            raise DataError(f"a column holds {', '.join(get_args(Kind))}.")
        if not isinstance(self.other, str) or self.form not in ("", *DATE_FORMATS):
            raise DataError(f"dates are written as {', '.join(DATE_FORMATS)}.")


def library_of(X: Any) -> Library | None:
    """Which package made a table; None for what is none."""
    if column_names(X) is None:
        return None
    if hasattr(X, "column_names"):
        return "arrow"
    return "pandas" if hasattr(X, "iloc") else "polars"


def library_named(name: Any) -> Library:
    """The package of this name, or a DataError."""
    if name not in get_args(Library):
        raise DataError(f"tables are made by {', '.join(get_args(Library))}, not by {name!r}.")
    return name  # type: ignore[no-any-return]


def take_rows(X: Any, rows: Integers) -> Any:
    """Some of the rows of a table or an array, in this order."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if library_of(X) == "arrow" else X[rows]


def select(X: Any, names: Sequence[str]) -> list[Any]:
    """The columns of a table with these names, in this order, or a DataError that says which is not there, or twice."""
    found = column_names(X) or ()
    for name in names:
        if found.count(name) != 1:
            many = "two columns" if name in found else "no column"
            raise DataError(f"the table has {many} named {name!r}; this design takes {', '.join(names)}.")
    if hasattr(X, "column_names"):
        return [X.column(found.index(name)) for name in names]
    if hasattr(X, "iloc"):  # pandas, whose names may be other things than text
        return [X.iloc[:, found.index(name)] for name in names]
    return [X[name] for name in names]


def read_column(column: Any) -> tuple[ColumnType, Array | Coded | list[Any]]:
    """What a column of a table is, and its natural values (N,), missing ones as NaN, NaT or −1."""
    if hasattr(column, "iloc"):
        return _read_pandas(column)
    name = str(column.dtype) if hasattr(column, "dtype") else str(column.type)
    if name in ("Object", "Int128"):  # polars', of which Arrow has none
        return ColumnType(holds="other", name=name), column.to_list()
    found, values = _read_arrow(column.to_arrow() if hasattr(column, "to_arrow") else column)
    return ColumnType(holds=found, name=name), values


def _read_pandas(column: Any) -> tuple[ColumnType, Array | Coded | list[Any]]:
    kind, name = column.dtype.kind if hasattr(column.dtype, "kind") else "O", str(column.dtype)
    if name == "category":
        inner = getattr(column.cat.categories.dtype, "name", "object")
        codes = column.cat.codes.to_numpy().astype(np.int64)
        return ColumnType(holds="category", name=f"category[{inner}]"), Coded(codes, column.cat.categories.tolist())
    if kind == "M":
        zoned = "," in name or "tz=" in name  # of numpy's dates, and of Arrow's in pandas
        local = column.dt.tz_localize(None) if zoned else column
        local = local.astype("timestamp[s][pyarrow]") if name.startswith("date32") else local
        return ColumnType(holds="date", name=name), local.to_numpy(dtype="datetime64[s]")
    if kind in "biuf":
        whole: dict[str, str] = {"b": "flag", "i": "whole", "u": "whole", "f": "number"}
        values = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.to_numpy(float, na_value=np.nan)
        return ColumnType(holds=whole[kind], name=name), values
    try:
        codes, values = column.factorize()
        holds = _kind_of_objects(values.tolist())
        # What only says that it equals a text must not be taken for its neighbour's.
        honest = name != "object" or {type(value) for value in column.tolist()} <= _texts_and_holes()
    except RAISED:  # lists and the like cannot be compared, nor can some classes of a caller's own
        return ColumnType(holds="other", name=name), column.tolist()
    if holds == "text" and honest:
        return ColumnType(holds=holds, name=name), Coded(codes.astype(np.int64), values.tolist())
    return ColumnType(holds=holds, name=name), column.tolist()


def _texts_and_holes() -> set[type]:
    """What a pandas column of text may hold."""
    import pandas as pd

    return {str, np.str_, float, type(None), type(pd.NA), type(pd.NaT)}


def _kind_of_objects(values: Sequence[Any]) -> str:
    """What Python's own objects are, those that are not missing."""
    if all(type(value) in (str, np.str_) for value in values):
        return "text"
    if all(isinstance(value, bool | np.bool_) for value in values):
        return "flag"
    if all(isinstance(value, Real | Decimal) for value in values):
        return "number"
    return "date" if all(isinstance(value, date) for value in values) else "other"


def _read_arrow(column: Any) -> tuple[str, Array | Coded | list[Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind, types = column.type, pa.types
    if types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        listed = types.is_dictionary(kind)
        coded = column if listed else pc.dictionary_encode(column)
        codes = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return "category" if listed else "text", Coded(codes, _listed(coded.dictionary))
    if types.is_date(kind) or types.is_timestamp(kind):
        local = pc.local_timestamp(column) if getattr(kind, "tz", None) else column
        return "date", local.cast(pa.timestamp("s"), safe=False).to_numpy(zero_copy_only=False)
    if types.is_boolean(kind):
        return "flag", column.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        whole = types.is_integer(kind)
        return "whole" if whole else "number", column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return "other", _listed(column)


def _listed(array: Any) -> list[Any]:
    """The values of an Arrow array; None for one that Python cannot have, such as text whose bytes are none."""
    try:
        return list(array.to_pylist())
    except RAISED:
        return [_python(value) for value in array]


def _python(value: Any) -> Any:
    try:
        return value.as_py()
    except RAISED:
        return None


def build(library: Library, columns: Mapping[str, tuple[ColumnType, Array]]) -> Any:
    """A table of this package with natural values (N,) by name, each in the type that its column had.

    Where a type cannot hold a missing value, the next that can is taken. On a machine without pandas or polars the
    table is Arrow's.
    """
    if library == "pandas":
        try:
            import pandas as pd
        except ImportError:
            return build("arrow", columns)
        return pd.DataFrame({name: _pandas_series(pd, *column) for name, column in columns.items()})
    if library == "polars":
        try:
            import polars as pl
        except ImportError:
            return build("arrow", columns)
        return pl.DataFrame([_polars_series(pl, name, *column) for name, column in columns.items()])
    with needs("a table of estimates"):
        import pyarrow as pa
    return pa.table({name: _arrow_array(pa, *column) for name, column in columns.items()})


def _pandas_series(pd: Any, of: ColumnType, values: Array) -> Any:
    if of.holds == "category":
        inner = of.name.removeprefix("category[").removesuffix("]")
        series = pd.Series(values, dtype="str" if inner in ("object", "str", "string") else object)
        return series.astype(inner if not series.isna().any() else series.dtype).astype("category")
    if of.form:
        return pd.Series(written(values, of.form), dtype=of.name)
    series = pd.Series(values)
    if of.holds == "date" and "," in of.name:  # with a time zone, whose clock was read
        return series.dt.tz_localize(of.name.partition(", ")[2].removesuffix("]"), ambiguous=True, nonexistent="NaT")
    if of.holds in ("flag", "whole") and series.isna().any():
        nullable = of.name if of.name[:1] in "BIU" else "float64" if of.holds == "whole" else "boolean"
        return series.astype("float64").astype("boolean" if of.name == "boolean" else nullable)
    if of.holds == "flag":
        series = series.astype("float64")
    return series.astype(of.name)


def _polars_series(pl: Any, name: str, of: ColumnType, values: Array) -> Any:
    if of.form:
        return pl.Series(name, written(values, of.form), dtype=pl.String)
    if of.holds in ("text", "category", "other"):
        return pl.Series(name, values.tolist(), dtype=pl.String if of.holds == "text" else pl.Categorical)
    if of.holds == "date":
        series = pl.Series(name, values.astype("datetime64[ms]"))
        return series.cast(pl.Date if of.name == "Date" else pl.Datetime("us"))
    series = pl.Series(name, values, dtype=pl.Float64).fill_nan(None)
    return series.cast(pl.Boolean if of.holds == "flag" else getattr(pl, of.name, pl.Float64))


def _arrow_array(pa: Any, of: ColumnType, values: Array) -> Any:
    if of.form:
        return pa.array(written(values, of.form), type=pa.string())
    if of.holds in ("text", "category", "other"):
        found = pa.array(values.tolist(), type=pa.string())
        return found.dictionary_encode() if of.holds == "category" else found
    found = pa.array(values, from_pandas=True)
    if of.holds == "date":
        return found.cast(pa.date32()) if of.name.startswith("date") else found.cast(pa.timestamp("us"))
    if of.holds == "flag":
        return found.cast(pa.int8()).cast(pa.bool_())
    try:
        return found.cast(pa.type_for_alias(of.name), safe=False)
    except (ValueError, pa.ArrowException):
        return found


def written(values: Array, form: str) -> list[str | None]:
    """Dates (N,) as text of this form, None where there is none."""
    return [None if value is None else value.strftime(form) for value in values.astype("datetime64[s]").tolist()]
