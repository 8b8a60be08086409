"""Files of volunteers' records: CSV as spreadsheets write it, or Parquet. What is wrong is said without quoting one."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.records import as_records, number_in

PARQUET = (".parquet", ".pq")


def read_volunteers(path: Path) -> tuple[tuple[str, ...], Floats]:
    """Column names and numbers (N, n) of a CSV or Parquet file."""
    names, values = _read_parquet(path) if path.suffix.lower() in PARQUET else _read_csv(path)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}: rename one.")
    return names, values


def as_table(names: Sequence[str], values: Floats) -> Any:
    """Numbers (N, n) with their columns' names, so that whatever is said about a column names it."""
    import pyarrow as pa

    return pa.table(dict(zip(names, np.ascontiguousarray(values.T), strict=True)))


def _read_csv(path: Path) -> tuple[tuple[str, ...], Floats]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:  # Excel begins with a byte order mark
            rows = list(csv.reader(stream))
    except UnicodeDecodeError:
        raise DataError(f"{path} is not written in UTF-8: save it again as 'CSV UTF-8'.") from None
    except (OSError, csv.Error) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'no CSV'}.") from None
    if len(rows) < 2:
        raise DataError(f"{path} needs a header and at least one record.")
    names = tuple(rows[0])
    if all(number_in(name) is not None for name in names):
        raise DataError(f"{path} has no header: its first line holds numbers. Put the columns' names above them.")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"{path}, line {number}: {len(row)} values for {len(names)} columns.")
    values = [[number_in(cell) for cell in row] for row in rows[1:]]
    for number, numbers in enumerate(values, start=2):
        if None in numbers:
            name = names[numbers.index(None)]
            raise DataError(
                f"{path}, line {number}: column {name!r} holds something that is not a number. Encode or drop it first."
            )
    return names, np.array(values, dtype=np.float64)


def _read_parquet(path: Path) -> tuple[tuple[str, ...], Floats]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"cannot read {path} as Parquet ({type(error).__name__}).") from None
    return tuple(table.column_names), as_records(table)
