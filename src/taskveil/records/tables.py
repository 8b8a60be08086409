"""Tables (pandas, polars, Arrow) and arrays: their columns as schemas read them, as numbers, and the way back.

None of the three packages is imported before a caller passes one of its tables, or asks for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from taskveil.arrays import Array, Floats, Integers, as_floats, tolerant
from taskveil.client.base_field import Coded
from taskveil.client.values import NO_VALUE, numbers_of, text_of
from taskveil.errors import DataError, needs

Library = Literal["array", "pandas", "polars", "arrow"]
"""The package that made a table; "array" for whatever has no named columns."""

Kind = Literal["number", "whole", "flag", "text", "category", "date", "other"]
"""What a column holds, whatever the package calls it."""

DATE_FORMATS = tuple(
    f"%Y{between}%m{between}%d{time}"
    for time in ("", " %H:%M:%S", "T%H:%M:%S", " %H:%M", "T%H:%M", "T%H:%M:%SZ")
    for between in "-/."
)
"""Formats of dates in text."""

PLAIN_DATES = "object of dates"
"""Our name for a pandas column of Python's dates; pandas calls it "object"."""

ColumnValues = Array | Coded | list[Any]
"""Natural values (N,) of a column: an array, codes of values that repeat, or Python objects."""


_MISSING = ("", "na", "n/a", "#n/a", "#na", "null", "none", "nan", "-nan")
"""Texts for a missing value in files, in lower case."""


@dataclass(frozen=True, kw_only=True)
class ColumnType:
    """The type of a table's column: what it `holds`, and the package's own `name` of the type.

    Models distinguish all of the following. `form` is the format of dates that are written as text. `other` is the
    value that a model gets instead of values that a category does not list, and of listed ones that no volunteer had
    (`unseen`). `categories` are those of the type, as text in their order, which may be `ordered`. `hole` says how a
    column of objects writes a missing value: "None", "NaN" or "NA".
    """

    holds: str  # a `Kind`; files are checked against the types declared here, and know text
    name: str
    form: str = ""
    other: str = field(default="", compare=False)
    unseen: tuple[str, ...] = field(default=(), compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)
    ordered: bool = False
    hole: str = "None"

    def __post_init__(self) -> None:
        if self.holds not in get_args(Kind) or not isinstance(self.name, str):
            raise DataError(f"a column holds {', '.join(get_args(Kind))}.")
        if (
            not isinstance(self.other, str)
            or self.form not in ("", *DATE_FORMATS)
            or self.hole not in ("None", "NaN", "NA")
        ):
            raise DataError(f"dates are written as {', '.join(DATE_FORMATS)}, and missing values as NaN, NA or None.")
        if (
            not all(isinstance(value, str) for value in (*self.categories, *self.unseen))
            or type(self.ordered) is not bool
        ):
            raise DataError("the categories of a column are text, in an order that counts or not.")

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers or flags."""
        return self.holds in ("number", "whole", "flag")

    def of_values(self, known: Sequence[str]) -> ColumnType:
        """The same with no other categories than those `known` and the one that stands for all others."""
        return replace(self, categories=tuple(value for value in self.categories if value in (*known, self.other)))


def library_of(X: Any) -> Library:
    """The package that made a table."""
    if column_names(X) is None:
        return "array"
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


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, None for a bare array."""
    if hasattr(X, "column_names"):
        return tuple(map(str, X.column_names))
    names = getattr(X, "columns", None)
    return None if names is None else tuple(map(str, names))


def name_of(y: Any) -> str | None:
    """The name of a single column of labels, as pandas and polars have it; None for a bare array."""
    name = getattr(y, "name", None)
    return str(name) if isinstance(name, str | int) and str(name) else None


def column_places(X: Any, names: Sequence[str]) -> list[int]:
    """The places of the columns with these names in a table; DataError if one is absent or there are two."""
    found = column_names(X) or ()
    wrong = [name for name in names if found.count(name) != 1]
    if wrong:
        twice = [name for name in wrong if name in found]
        many = "two columns" if twice else "no column"
        raise DataError(f"the table has {many} named {(twice or wrong)[0]!r}; this design takes {', '.join(names)}.")
    return [found.index(name) for name in names]


def select(X: Any, names: Sequence[str]) -> list[Any]:
    """The columns of a table with these names, in this order, or a DataError that says which is not there, or twice."""
    return _columns(X, column_places(X, names))


def _columns(X: Any, places: Sequence[int]) -> list[Any]:
    """The columns of a table at these places."""
    if hasattr(X, "column_names"):
        return [X.column(place) for place in places]
    return [X.iloc[:, place] if hasattr(X, "iloc") else X.to_series(place) for place in places]


def read_column(column: Any) -> tuple[ColumnType, ColumnValues]:
    """The type of a table's column, and its natural values (N,), missing ones as NaN, NaT or −1."""
    if hasattr(column, "iloc") and not hasattr(column.dtype, "pyarrow_dtype"):
        return _read_pandas(column)
    name = str(column.dtype) if hasattr(column, "dtype") else str(column.type)
    if name == "Object":  # polars', of which Arrow has none
        return ColumnType(holds="other", name=name), column.to_list()
    if name in ("Int128", "UInt128"):  # which Arrow has not
        return ColumnType(holds="whole", name=name), column.cast(float).fill_null(np.nan).to_numpy()
    column = column.array.__arrow_array__() if hasattr(column, "iloc") else column
    ordered = bool(getattr(getattr(column, "type", None), "ordered", False))
    array = None
    with tolerant:  # lists and the like of what Arrow has not
        array = column.to_arrow() if hasattr(column, "to_arrow") else column
    if array is None:
        return ColumnType(holds="other", name=name), column.to_list()
    holds, values = _read_arrow(array)
    listed = _texts(values.values) if holds == "category" and isinstance(values, Coded) else ()
    name = name.partition("(")[0] if holds == "category" else name  # an Enum's name has its categories in it
    return ColumnType(holds=holds, name=name, categories=listed, ordered=ordered), values


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    """Categories as text. A schema cannot list those that are no text, whole number or truth value."""
    return tuple(text for value in values if (text := text_of(value)) is not None and text != NO_VALUE)


def _read_pandas(column: Any) -> tuple[ColumnType, ColumnValues]:
    kind, name = column.dtype.kind if hasattr(column.dtype, "kind") else "O", str(column.dtype)
    if name == "category":
        codes, listed = column.cat.codes.to_numpy().astype(np.int64), column.cat.categories
        of = ColumnType(
            holds="category",
            name=f"category[{getattr(listed.dtype, 'name', 'object')}]",
            categories=_texts(listed.tolist()),
            ordered=bool(column.cat.ordered),
        )
        return of, Coded(codes, listed.tolist())
    if kind == "M":
        with tolerant:  # a date may be farther away than pandas knows the clock of its zone
            local = column.dt.tz_localize(None) if "," in name else column
            return ColumnType(holds="date", name=name), local.to_numpy(dtype="datetime64[s]")
        return ColumnType(holds="date", name=name), [_safe(column.iloc.__getitem__, i) for i in range(len(column))]
    if kind in "biuf":
        kinds: dict[str, Kind] = {"b": "flag", "i": "whole", "u": "whole", "f": "number"}
        if isinstance(column.dtype, np.dtype):
            return ColumnType(holds=kinds[kind], name=name), column.to_numpy()
        if kind == "b":  # truth values stay what they are: a category may list them
            return ColumnType(holds="flag", name=name), column.tolist() if column.hasnans else column.to_numpy(bool)
        return ColumnType(holds=kinds[kind], name=name), column.to_numpy(float, na_value=np.nan)
    if getattr(column.dtype, "storage", "") == "pyarrow":  # text, all of it sound, which Arrow tells apart much faster
        codes, texts = column.factorize()
        return ColumnType(holds="text", name=name), Coded(codes.astype(np.int64), texts.tolist())
    listed = column.tolist()
    repeats: bool | None = None
    with tolerant:  # some classes of a caller's own cannot even be asked what they are
        lost = column.isna().tolist()
        there = [value for value, gone in zip(listed, lost, strict=True) if not gone]
        holds = _kind_of_objects(there)
        absent = _missing_as(column) if name == "object" else "None"
        repeats = holds == "text" and {type(value).__name__ for value in listed} <= _TEXTS_OR_MISSING
    if repeats is None:
        return ColumnType(holds="other", name=name), listed
    if repeats:
        # By Python's own idea of equal texts: pandas takes half a character for the text that would write it.
        places: dict[str, int] = {}
        codes = [-1 if gone else places.setdefault(text, len(places)) for text, gone in zip(listed, lost, strict=True)]
        return ColumnType(holds=holds, name=name, hole=absent), Coded(np.array(codes, dtype=np.int64), list(places))
    if holds == "date" and name == "object" and not any(isinstance(value, datetime) for value in there):
        name = PLAIN_DATES
    return ColumnType(holds=holds, name=name, hole=absent), listed


_TEXTS_OR_MISSING = {"str", "str_", "float", "NoneType", "NAType", "NaTType"}


def _missing_as(column: Any) -> str:
    """How the first missing value of a column of objects is written."""
    first = next(iter(column[column.isna()]), None)
    return "None" if first is None else "NaN" if isinstance(first, float) else "NA"


def _kind_of_objects(values: Sequence[Any]) -> Kind:
    """The kind of Python objects, none of which is missing."""
    if all(type(value) in (str, np.str_) for value in values):
        return "text"
    if all(isinstance(value, bool | np.bool_) for value in values):
        return "flag"
    if all(isinstance(value, Real | Decimal) for value in values):
        return "number"
    return "date" if all(isinstance(value, date) for value in values) else "other"


def _read_arrow(column: Any) -> tuple[Kind, ColumnValues]:
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
        return "date", local.to_numpy(zero_copy_only=False)  # Arrow itself would round up what lies before 1970
    if types.is_boolean(kind):
        return "flag", column.to_pylist() if column.null_count else column.to_numpy(zero_copy_only=False)
    if types.is_decimal(kind):
        return "number", numbers_of(column.to_pylist())  # Arrow's own doubles are not always the nearest
    if types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind):
        whole = types.is_integer(kind)
        return "whole" if whole else "number", column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return "other", _listed(column)


def _listed(array: Any) -> list[Any]:
    """The values of an Arrow array; None for one that Python cannot hold. Text that is not UTF-8 is some other text."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return [None if text is None else text.decode("utf-8", "replace") for text in array.cast("binary").to_pylist()]
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of a Rust library is no Exception
        return [_safe(value.as_py) for value in array]


def _safe(ask: Callable[..., Any], *of: Any) -> Any:
    with tolerant:
        return ask(*of)
    return None


def as_records(X: Any, *, width: int | None = None, columns: tuple[str, ...] | None = None) -> Floats:
    """Records of any quality as a float64 matrix (N, n). Missing values become NaN, which devices clip later.

    With a `width`, a single record (n,) becomes (1, n). Text, ragged rows and a wrong width are refused. The `columns`
    of a table are selected by name, in that order; an array has no names and is used as it is.
    """
    matrix = as_floats(X) if column_names(X) is None else _numbers(X, columns)
    if matrix.ndim == 1 and width is not None:
        matrix = matrix[None, :]
    if matrix.ndim != 2:
        raise DataError(f"records must form a matrix (records, attributes), got shape {matrix.shape}.")
    if width is not None and matrix.shape[1] != width:
        raise DataError(f"records have {matrix.shape[1]} attributes, but this design was made for {width}.")
    return matrix


def _numbers(X: Any, chosen: tuple[str, ...] | None) -> Floats:
    """The chosen columns (N, n) of a table as doubles; all columns, whatever their names, if None."""
    names = column_names(X) or () if chosen is None else chosen
    columns = _columns(X, range(len(names))) if chosen is None else select(X, chosen)
    matrix = np.empty((len(X), len(names)))
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        of, values = read_column(column)
        if isinstance(values, Coded) and (values.codes < 0).all():
            values = np.full(len(X), np.nan)  # no value is there, so that none is text
        elif not of.numeric:
            raise DataError(f"column {name!r} holds {of.name}, not numbers. Encode or drop it first.")
        matrix[:, place] = as_floats(values)
    return matrix


def as_reports(reports: Any, *, width: int) -> Integers:
    """Reports as a matrix (N, width) of whole numbers; DataError for 1.9 and NaN."""
    matrix = np.asarray(reports)
    if matrix.ndim != 2 or matrix.shape[1] != width or matrix.dtype.kind not in "iuf":
        raise DataError(f"reports of this veil form a matrix of numbers (reports, {width}), got shape {matrix.shape}.")
    if matrix.dtype.kind == "f":  # a table may hold whole numbers in doubles, which are exact up to 2^53
        with np.errstate(invalid="ignore"):
            whole = (np.abs(matrix) <= 2.0**53) & (matrix == np.floor(matrix))
        if not whole.all():
            raise DataError(
                f"report {int(np.argwhere(~whole)[0][0])} does not consist of whole numbers: no device made it."
            )
    elif matrix.dtype == np.uint64 and (matrix > np.uint64(2**63 - 1)).any():
        raise DataError("a report holds a number beyond 2^63: no device made it.")
    return matrix.astype(np.int64)


def as_volunteers(X: Any, *, fewest: int = 2, names: Sequence[str] | None = None) -> Floats:
    """The volunteers' sample as a finite float64 matrix (N, n) with at least `fewest` records; errors use the `names`
    of its columns."""
    matrix = as_records(X)
    if matrix.shape[0] < fewest or matrix.shape[1] == 0:
        raise DataError(
            f"a design needs at least {fewest} volunteers and one attribute, got shape {matrix.shape}. "
            "Collect more records; a few hundred is a sensible start."
        )
    if not np.isfinite(matrix).all():
        row, column = map(int, np.argwhere(~np.isfinite(matrix))[0])
        names = names or column_names(X)
        raise DataError(
            f"volunteers' records must be finite; row {row}, column {column if names is None else repr(names[column])} "
            f"is {matrix[row, column]}. "
            "Pass a table with named columns, in which values may be missing, or impute them first."
        )
    return matrix


def build(library: Library, columns: Mapping[str, tuple[ColumnType, Array]]) -> Any:
    """A table of this package with natural values (N,) by name, each in the type that its column had.

    If a type cannot hold a missing value, the next one that can is used. On a machine without pandas or polars the
    table is Arrow's. An "array" is one of doubles, or of objects if there are other values than numbers.
    """
    if library == "array":
        values = [values for _, values in columns.values()]
        numbers = all(of.numeric for of, _ in columns.values())
        return np.column_stack(values if numbers else [column.astype(object) for column in values])
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
        inner = _pandas_type(pd, of.name.removeprefix("category[").removesuffix("]"))
        listed = pd.Index(_values_of(of), dtype=inner)
        return pd.Series(pd.Categorical.from_codes(_codes(of, values), categories=listed, ordered=of.ordered))
    if of.form:
        values = np.array(written(values, of.form), dtype=object)
    if of.name in ("object", PLAIN_DATES):
        return pd.Series(_objects(pd, of, values), dtype=object)
    _pandas_type(pd, of.name)
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


def _pandas_type(pd: Any, name: str) -> str:
    """The name of a type, or a DataError if no column has it: numpy's texts and records of a fixed length, of which one
    value may take gigabytes."""
    kind = pd.api.types.pandas_dtype(name)
    inner = getattr(kind, "subtype", kind)
    if isinstance(inner, np.dtype) and inner.kind in "SUV" and inner.itemsize:  # "str" states no length
        raise DataError(f"no column of a table is of type {name[:40]!r}.")
    return name


def _objects(pd: Any, of: ColumnType, values: Array) -> list[Any]:
    """Python objects of the kind that the column had."""
    absent = {"NaN": np.nan, "NA": pd.NA, "None": None}[of.hole]
    gone = pd.isna(values)
    if of.holds == "flag":
        values = np.asarray(values, dtype=np.float64) >= 0.5
    elif of.holds == "date" and not of.form:
        values = values.astype("datetime64[s]")
        values = values.astype("datetime64[D]").astype(object) if of.name == PLAIN_DATES else pd.Series(values)
    return [absent if lost else value for value, lost in zip(values.tolist(), gone, strict=True)]


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


def number_in(cell: str | None) -> float | None:
    """The number in a cell of text; NaN if the cell is empty or says NA, None if it holds something else."""
    text = "" if cell is None else cell.strip()
    if text.lower() in _MISSING:
        return float("nan")
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
