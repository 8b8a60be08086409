"""Files of volunteers' records: CSV as spreadsheets write it, or Parquet. No error quotes a record.

Cells of a CSV file become numbers, flags or text. Dates stay text, as pandas and polars read them; a schema finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.cli.console import note
from taskveil.client.fields import BaseField
from taskveil.errors import DataError
from taskveil.records.conversion import number_in

if TYPE_CHECKING:
    import pyarrow as pa


def read_volunteers(
    path: Path, fields: Mapping[str, BaseField] | None = None, unused: Callable[[str], bool] = lambda _: False
) -> pa.Table:
    """The table in a CSV or Parquet file. `fields` say what its columns are, or else it is inferred. Columns that are
    `unused` may hold anything."""
    from taskveil.jobs.tables import TableFile

    file = TableFile.open(path)
    table = file.read()
    if not file.is_text:
        return table
    if table.num_rows == 0:
        raise DataError(f"{path} needs a header and at least one record.")
    return _as_numbers(path, table, fields or {}, unused)


def left_out(columns: str | None, drop: str | None, target: str | None) -> Callable[[str], bool]:
    """Whether a column is left out: --drop lists it, or --columns is given and does not list it."""
    listed, dropped = (None if option is None else split_names(option) for option in (columns, drop))
    return lambda name: name != target and (name in (dropped or ()) or (listed is not None and name not in listed))


def split_names(listed: str) -> list[str]:
    """The names of columns in an option, which are separated by commas."""
    return [name.strip() for name in listed.split(",")]


def named_columns(option: str, listed: str | None, names: Sequence[str]) -> list[str]:
    """The columns in an option, which are separated by commas; each must be one of `names`."""
    found = split_names(listed) if listed else []
    for name in found:
        if name not in names:
            raise DataError(f"{option}: there is no column {name!r}, only {', '.join(names)}.")
    return found


def with_labels(path: Path, table: pa.Table, target: str) -> tuple[pa.Table, Any]:
    """The rows of the table that have a label in column `target`, and these labels (N,)."""
    import pyarrow.compute as pc

    lost = pc.is_null(table.column(target), nan_is_null=True)
    count = pc.sum(lost).as_py() or 0
    if count == table.num_rows:
        raise DataError(f"{path}: column {target!r}, the target, is empty.")
    if count:
        note(f"column {target!r}, the target, is missing in {count:,} of {table.num_rows:,} rows: left out.")
        table = table.filter(pc.invert(lost))
    return table, np.asarray(table.column(target).to_pylist())


def _as_numbers(
    path: Path, table: pa.Table, fields: Mapping[str, BaseField], unused: Callable[[str], bool]
) -> pa.Table:
    """The table with numbers instead of text in columns of numbers that Arrow does not recognise."""
    import pyarrow as pa

    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        text = name in fields and "text" in fields[name].holds
        if not pa.types.is_string(column.type) or text or unused(name):
            continue
        coded = column.combine_chunks().dictionary_encode()
        found = [number_in(cell) for cell in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = np.array([*(number is None for number in found), False])[codes]
        numbers = np.array([*(np.nan if number is None else number for number in found), np.nan])[codes]
        if texts.any() and name in fields:
            note(f"column {name!r}: {int(texts.sum())} cells are no numbers and count as missing values.")
        elif texts.any() and texts.sum() > np.isfinite(numbers).sum():
            continue
        elif texts.any():
            line = int(np.flatnonzero(texts)[0]) + 2
            raise DataError(
                f"{path}, line {line}: column {name!r} holds numbers, but here something else. Correct it, leave the "
                f"column out (--drop {name}), or state in a --schema what it is: a category, or a number (then such "
                "cells count as missing values)."
            )
        table = table.set_column(place, name, pa.array(numbers, from_pandas=True))
    return table
