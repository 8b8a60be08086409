"""Files of volunteers' records: CSV as spreadsheets write it, or Parquet. What is wrong is said without quoting one.

Cells of a CSV file become numbers, flags or text; dates stay text, as pandas and polars read them, and a schema finds
what they are.
"""

from __future__ import annotations

import csv
import io
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

PARQUET = (".parquet", ".pq")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_volunteers(
    path: Path, fields: Mapping[str, BaseField] | None = None, unused: Callable[[str], bool] = lambda _: False
) -> pa.Table:
    """The table in a CSV or Parquet file; what its columns are is seen, unless `fields` say it. In columns that are
    `unused` anything may stand."""
    if path.suffix.lower() in PARQUET:
        table = _read_parquet(path)
        _check_names(path, table.column_names)
        return table
    text, names = _read_text(path)
    return _as_numbers(path, _read_csv(path, text, names), fields or {}, unused)


def left_out(columns: str | None, drop: str | None, target: str | None) -> Callable[[str], bool]:
    """Whether a column is one that --drop lists, or is none that --columns lists where that is given."""
    listed, dropped = (None if option is None else split_names(option) for option in (columns, drop))
    return lambda name: name != target and (name in (dropped or ()) or (listed is not None and name not in listed))


def split_names(listed: str) -> list[str]:
    """The names of columns that an option lists with commas between."""
    return [name.strip() for name in listed.split(",")]


def named_columns(option: str, listed: str | None, names: Sequence[str]) -> list[str]:
    """The columns that an option lists with commas between, each of `names`."""
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


def _read_text(path: Path) -> tuple[str, list[str]]:
    """The text of a CSV file and the names in its first line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # Excel begins with a byte order mark
    except UnicodeDecodeError:
        raise DataError(f"{path} is not written in UTF-8: save it again as 'CSV UTF-8'.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'this is no path'}.") from None
    try:
        names = next(csv.reader(io.StringIO(text, newline="")), [])
    except csv.Error:
        raise DataError(f"cannot read {path}: no CSV.") from None
    if not names:
        raise DataError(f"{path} needs a header and at least one record.")
    if len(names) == 1:
        sign, between = next((pair for pair in _SEPARATORS.items() if pair[0] in names[0]), ("", ""))
        if between:
            raise DataError(
                f"{path} has {between} between its columns: save it with commas there, and with points in numbers (in "
                f"pandas pd.read_csv(..., sep={sign!r}, decimal=',').to_csv(..., index=False))."
            )
    if all(number_in(name) is not None for name in names):
        raise DataError(f"{path} has no header: its first line holds numbers. Put the columns' names above them.")
    _check_names(path, names)
    return text, names


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path} has two columns named {twice!r}: rename one.")


def _read_csv(path: Path, text: str, names: list[str]) -> pa.Table:
    """Numbers, flags and text by column, missing where a cell is empty or says NA."""
    import pyarrow as pa
    import pyarrow.csv as pc

    broken: list[pc.InvalidRow] = []

    def remember(row: pc.InvalidRow) -> str:
        broken.append(row)
        return "error"

    content = pa.py_buffer(text.encode())
    options = {
        "read_options": pc.ReadOptions(use_threads=False),  # or rows have no numbers
        "parse_options": pc.ParseOptions(
            newlines_in_values=True, invalid_row_handler=remember, ignore_empty_lines=len(names) > 1
        ),
    }
    try:
        seen = pc.read_csv(content, convert_options=pc.ConvertOptions(strings_can_be_null=True), **options)
        plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        types = {
            field.name: field.type if any(test(field.type) for test in plain) else pa.string() for field in seen.schema
        }
        # Arrow reads dates and times of day as its own; here they stay the text that they are.
        table = pc.read_csv(
            content, convert_options=pc.ConvertOptions(strings_can_be_null=True, column_types=types), **options
        )
    except (pa.ArrowException, ValueError):  # whose own words quote cells
        if broken:
            row = broken[0]
            raise DataError(
                f"{path}, line {row.number}: {row.actual_columns} values for {row.expected_columns} columns."
            ) from None
        raise DataError(f"{path} cannot be read as CSV.") from None
    if table.num_rows == 0:
        raise DataError(f"{path} needs a header and at least one record.")
    return table


def _as_numbers(
    path: Path, table: pa.Table, fields: Mapping[str, BaseField], unused: Callable[[str], bool]
) -> pa.Table:
    """The same with numbers in the columns of text that are numbers but for how some are written."""
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
            note(f"column {name!r}: {int(texts.sum())} cells are no numbers and count as missing.")
        elif texts.any() and texts.sum() > np.isfinite(numbers).sum():
            continue
        elif texts.any():
            line = int(np.flatnonzero(texts)[0]) + 2
            raise DataError(
                f"{path}, line {line}: column {name!r} holds numbers, but here something else. Mend it, leave the "
                f"column out (--drop {name}), or say in a --schema what it is: a category, or a number (then such "
                "cells count as missing)."
            )
        table = table.set_column(place, name, pa.array(numbers, from_pandas=True))
    return table


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"cannot read {path} as Parquet ({type(error).__name__}).") from None
