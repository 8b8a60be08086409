"""Arrays and tables of numbers (pandas, polars, Arrow) as matrices of doubles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, as_floats
from taskveil.errors import DataError

_MISSING = ("", "na", "n/a", "#n/a", "#na", "null", "none", "nan", "-nan")
"""Texts for a missing value in files, in lower case."""


def as_records(X: Any, *, width: int | None = None, columns: tuple[str, ...] | None = None) -> Floats:
    """Records of any quality as a float64 matrix (N, n). Missing values become NaN, which devices clip later.

    With a `width`, a single record (n,) becomes (1, n). Text, ragged rows and a wrong width are refused. The `columns`
    of a table are selected by name, in that order; an array has no names and is used as it is.
    """
    if columns is not None and column_names(X) is not None:
        X = _select(X, columns)
    matrix = as_floats(X) if column_names(X) is None else _from_table(X)
    if matrix.ndim == 1 and width is not None:
        matrix = matrix[None, :]
    if matrix.ndim != 2:
        raise DataError(f"records must form a matrix (records, attributes), got shape {matrix.shape}.")
    if width is not None and matrix.shape[1] != width:
        raise DataError(f"records have {matrix.shape[1]} attributes, but this design was made for {width}.")
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


def _select(X: Any, columns: tuple[str, ...]) -> Any:
    """The named columns of a table, in this order, as a table."""
    places = column_places(X, columns)
    if hasattr(X, "column_names"):
        return X.select(list(columns))
    if hasattr(X, "iloc"):  # pandas, whose names may be other things than text
        return X.iloc[:, places]
    return X[list(columns)]


def _from_table(X: Any) -> Floats:
    """The columns of a pandas, polars or Arrow table (N, n), each converted by itself."""
    if hasattr(X, "column_names"):
        columns = list(X.columns)
    elif hasattr(X, "iloc"):
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
    else:
        columns = list(X)
    names = column_names(X) or ()
    converted = [_column(name, column) for name, column in zip(names, columns, strict=True)]
    return np.column_stack(converted) if converted else np.empty((len(X), 0))


def _column(name: str, column: Any) -> Floats:
    kind = str(getattr(column, "type", None) or getattr(column, "dtype", ""))
    if any(word in kind.lower() for word in ("str", "utf8", "categor", "dictionary", "date", "time")):
        raise DataError(f"column {name!r} holds {kind}, not numbers. Encode or drop it first.")
    try:
        if hasattr(column, "null_count") and hasattr(column, "type"):  # Arrow
            return as_floats(column.to_numpy(zero_copy_only=False))
        if hasattr(column, "array") and not isinstance(column.dtype, np.dtype):  # pandas' own kinds of numbers
            wanted = np.float64 if column.dtype.kind in "biuf" else object
            return as_floats(column.to_numpy(dtype=wanted, na_value=np.nan))
        # numpy has no whole numbers of 128 bits, polars has
        return as_floats(column.to_list() if "int128" in kind.lower() else column.to_numpy())
    except Exception:  # each package has errors of its own, and they quote values
        raise DataError(f"column {name!r} does not hold numbers. Encode or drop it first.") from None


def number_in(cell: str | None) -> float | None:
    """The number in a cell of text; NaN if the cell is empty or says NA, None if it holds something else."""
    text = "" if cell is None else cell.strip()
    if text.lower() in _MISSING:
        return float("nan")
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
