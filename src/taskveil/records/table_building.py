"""Tables like the volunteers', of natural values: every column in the type that its `ColumnType` names.

None of the packages (pandas, polars, Arrow) is imported before somebody asks for one of its tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.arrays import Array, Integers
from taskveil.errors import needs
from taskveil.records.tables import PLAIN_DATES, ColumnType, Library


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
    if of.name.endswith("[pyarrow]"):
        import pyarrow as pa

        own = _arrow_array(pa, replace(of, name=of.name.removesuffix("[pyarrow]")), values)
        return pd.Series(own, dtype=pd.ArrowDtype(own.type))
    if of.holds == "category":
        listed = pd.Index(_values_of(of), dtype=of.name.removeprefix("category[").removesuffix("]"))
        return pd.Series(pd.Categorical.from_codes(_codes(of, values), categories=listed, ordered=of.ordered))
    if of.form:
        values = np.array(written(values, of.form), dtype=object)
    if of.name in ("object", PLAIN_DATES):
        return pd.Series(_objects(pd, of, values), dtype=object)
    series = pd.Series(values)
    if of.holds == "date" and of.name.startswith("datetime64") and "," in of.name:
        zone = of.name.partition(", ")[2].removesuffix("]")  # whose clock was read
        found = series.dt.tz_localize(zone, ambiguous=np.ones(len(series), bool), nonexistent="shift_forward")
        return found.astype(of.name)
    if of.holds in ("flag", "whole") and series.isna().any() and isinstance(pd.Series(dtype=of.name).dtype, np.dtype):
        return series.astype("boolean" if of.holds == "flag" else "float64")
    if of.holds == "whole":
        series = np.rint(series)
        kind = pd.Series(dtype=of.name).dtype
        limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
        if ((series < limits.min) | (series > limits.max)).any():  # bounds wider than the column's type
            return series
    if of.holds == "flag" and series.dtype != bool:
        series = (series >= 0.5).astype("boolean").mask(series.isna())
    return series.astype(of.name)


def _objects(pd: Any, of: ColumnType, values: Array) -> list[Any]:
    """Python's own objects, as a column of them had them."""
    hole = {"NaN": np.nan, "NA": pd.NA, "None": None}[of.hole]
    gone = pd.isna(values)
    if of.holds == "flag":
        values = np.asarray(values, dtype=np.float64) >= 0.5
    elif of.holds == "date" and not of.form:
        values = values.astype("datetime64[s]")
        values = values.astype("datetime64[D]").astype(object) if of.name == PLAIN_DATES else pd.Series(values)
    return [hole if lost else value for value, lost in zip(values.tolist(), gone, strict=True)]


def _polars_series(pl: Any, name: str, of: ColumnType, values: Array) -> Any:
    if of.form:
        return pl.Series(name, written(values, of.form), dtype=pl.String)
    if of.holds in ("text", "other"):
        return pl.Series(name, values.tolist(), dtype=pl.String)
    if of.holds == "category":
        kind = pl.Enum(list(of.categories)) if of.name == "Enum" else pl.Categorical
        return pl.Series(name, values.tolist(), dtype=kind)
    if of.holds == "date":
        series = pl.Series(name, values.astype("datetime64[ms]"))
        stated = re.fullmatch(r"Datetime\(time_unit='(\w+)', time_zone=(?:None|'(.+)')\)", of.name)
        unit, zone = stated.groups() if stated else ("us", None)
        found = series.cast(pl.Date if of.name == "Date" else pl.Datetime(unit))
        return found if zone is None else found.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    series = pl.Series(name, values, dtype=pl.Float64).fill_nan(None)
    if of.holds == "flag":
        return series >= 0.5
    series = series.round() if of.holds == "whole" else series
    stated = re.fullmatch(r"Decimal\(precision=(\d+), scale=(\d+)\)", of.name)
    kind = pl.Decimal(*map(int, stated.groups())) if stated else getattr(pl, of.name, pl.Float64)
    found = series.cast(kind, strict=False)
    return found if found.null_count() == series.null_count() else series  # bounds wider than the column's type


def _arrow_array(pa: Any, of: ColumnType, values: Array) -> Any:
    import pyarrow.compute as pc

    if of.form:
        return pa.array(written(values, of.form), type=_arrow_type(pa, of.name) or pa.string())
    if of.holds == "category":
        kinds = re.search(r"values=(\w+), indices=(\w+)", of.name)
        inner, index = kinds.groups() if kinds else ("string", "int32")
        codes = pa.array(_codes(of, values), type=pa.type_for_alias(index), mask=_codes(of, values) < 0)
        listed = pa.array(_values_of(of), type=pa.type_for_alias(inner))
        return pa.DictionaryArray.from_arrays(codes, listed, ordered=of.ordered)
    if of.holds in ("text", "other"):
        return pa.array(values.tolist(), type=_arrow_type(pa, of.name) or pa.string())
    found = pa.array(values, from_pandas=True)
    if of.holds == "date":
        zone = re.fullmatch(r"timestamp\[(\w+), tz=(.+)\]", of.name)
        if zone:
            naive = found.cast(pa.timestamp(zone[1]))
            return pc.assume_timezone(naive, zone[2], ambiguous="earliest", nonexistent="latest")
        return found.cast(_arrow_type(pa, of.name) or pa.timestamp("us"))
    if of.holds == "flag":
        return pc.greater_equal(found, 0.5)
    found = pc.round(found) if of.holds == "whole" else found
    decimal = re.fullmatch(r"decimal128\((\d+), (\d+)\)", of.name)
    kind = pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _arrow_type(pa, of.name)
    try:
        return found if kind is None else found.cast(kind, safe=of.holds == "whole")
    except pa.ArrowException:  # bounds wider than the column's type
        return found


def _arrow_type(pa: Any, name: str) -> Any:
    try:
        return pa.type_for_alias(name)
    except ValueError:
        return None


def _codes(of: ColumnType, values: Array) -> Integers:
    """The numbers (N,) of categories, −1 for what is none."""
    places: dict[Any, int] = {text: place for place, text in enumerate(of.categories)}
    return np.array([places.get(value, -1) for value in values.tolist()], dtype=np.int64)


def _values_of(of: ColumnType) -> list[Any]:
    """The categories themselves: what their texts write in a column that has other things than text."""
    inner = of.name.lower()
    if "bool" in inner:
        return [text == "true" for text in of.categories]
    if "int" in re.sub(r"indices=\w+", "", inner) or "float" in inner or "double" in inner:
        return [float(text) if "float" in inner or "double" in inner else int(text) for text in of.categories]
    return list(of.categories)


def written(values: Array, form: str) -> list[str | None]:
    """Dates (N,) as text of this form, None where there is none."""
    return [None if value is None else value.strftime(form) for value in values.astype("datetime64[s]").tolist()]
