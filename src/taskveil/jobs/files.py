"""Files of tables: CSV or Parquet, read some rows at a time, and Parquet that appears complete or not at all.

Errors name places in a file and never quote what is there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from taskveil.errors import DataError, TaskveilError, needs
from taskveil.jobs.storage import Folder
from taskveil.records.conversion import number_in

with needs("a file of records"):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

ROWS = 1 << 16
_CELLS = 1 << 23  # numbers of a batch, at most: 64 MB, of which there are some copies
_BLOCK = 1 << 22  # bytes of a CSV file at a time, and the most that a row may take
_NAMED_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]+)[\])]\s*")


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A CSV or Parquet file: its columns, the units it states, and its rows in batches."""

    path: PurePath
    schema: pa.Schema
    columns: dict[str, str]
    """Name without unit → name in the file."""
    units: dict[str, str]
    rows: int | None
    """None for CSV, which has to be read to be counted."""
    filesystem: Any = None
    """Arrow's, where it is another than this machine's."""

    @classmethod
    def open(cls, path: PurePath, filesystem: Any = None) -> TableFile:
        """Names, units and number of rows of a file; its rows are read later."""
        rows: int | None
        with _naming(path) as broken:
            if path.suffix.lower() == ".csv":
                names_only = pa.csv.ConvertOptions(check_utf8=False)
                with pa.csv.open_csv(path, convert_options=names_only, **_csv_options(broken)) as reader:
                    schema, rows = reader.schema, None
            else:
                with pq.ParquetFile(path, filesystem=filesystem) as file:
                    schema, rows = file.schema_arrow, file.metadata.num_rows
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{path} has two columns of the same name.")
        if path.suffix.lower() == ".csv" and all(number_in(name) is not None for name in schema.names):
            raise DataError(f"{path} has no header: its first line holds numbers. Put the columns' names above them.")
        columns, units = {}, {}
        for field in schema:
            named = _NAMED_UNIT.fullmatch(field.name)
            name = named["name"] if named else field.name
            if name in columns:
                raise DataError(f"{path} has two columns named {name}, one of them with a unit.")
            columns[name] = field.name
            stated = (field.metadata or {}).get(b"unit")
            if stated is not None:
                units[name] = stated.decode()
            elif named:
                units[name] = named["unit"]
        return cls(path=path, schema=schema, columns=columns, units=units, rows=rows, filesystem=filesystem)

    @property
    def is_text(self) -> bool:
        """Whether all cells are text, as in CSV."""
        return self.path.suffix.lower() == ".csv"

    def batches(
        self, names: list[str], *, words: Collection[str] = (), groups: Sequence[int] | None = None, made: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The named columns of the file, some rows at a time; those of a CSV file are text, missing where a cell is
        empty or holds a word for nothing (NA, null, …) that is none of `words`. Of a Parquet file perhaps only some of
        its row `groups`, and fewer at a time where many columns are read, or `made` of them."""
        with _naming(self.path) as broken:
            if self.is_text:
                texts = pa.csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,  # empty cells, and the words for nothing that Arrow knows
                    null_values=[word for word in pa.csv.ConvertOptions().null_values if word not in words],
                    check_utf8=False,
                )
                # A blank line is a person whose only value is missing, where a table has but one column.
                options = _csv_options(broken, blank_lines=len(self.schema.names) == 1)
                with pa.csv.open_csv(self.path, convert_options=texts, **options) as reader:
                    yield from reader
            else:
                # A small read buffer instead of whole row groups: a file may be one row group of any size. Every column
                # has one.
                buffer, rows = min(1 << 18, (1 << 24) // len(names) + 1), min(ROWS, _CELLS // max(len(names), made) + 1)
                opened = pq.ParquetFile(self.path, buffer_size=buffer, pre_buffer=False, filesystem=self.filesystem)
                with opened as file:
                    yield from file.iter_batches(batch_size=rows, row_groups=groups, columns=names, use_threads=False)


@contextlib.contextmanager
def parquet_writer(target: Path, schema: pa.Schema, *, overwrite: bool = False) -> Iterator[pq.ParquetWriter]:
    """Writes a draft that becomes `target` when everything is written; a FileExistsError if there is one by then,
    unless it is to be overwritten."""
    try:
        with Folder.of(target.parent).draft() as draft:
            with pq.ParquetWriter(draft.file, schema) as writer:
                yield writer
            if overwrite:
                draft.replace(target.name)
            else:
                draft.publish(target.name)
    except (TaskveilError, FileExistsError):
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is no path"
        raise DataError(f"cannot write {str(target)!r}: {reason}. Nothing was written.") from error


@contextlib.contextmanager
def _naming(path: PurePath) -> Iterator[list[pa.csv.InvalidRow]]:
    """Turns Arrow's errors about a file into one that names it; yields a list for rows that are none.

    Arrow's own words quote cells and whole rows, and a cell can look like such words: none of them go on.
    """
    broken: list[pa.csv.InvalidRow] = []
    try:
        yield broken
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, TaskveilError):
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        if isinstance(error, pa.ArrowInvalid) and path.suffix.lower() != ".csv":
            reason = "it is no Parquet file, or damaged"
        if broken:
            row = "a line" if broken[0].number is None else f"line {broken[0].number}"
            reason = f"{row} has {broken[0].actual_columns} cells instead of {broken[0].expected_columns}"
        raise DataError(f"cannot read {str(path)!r} as a table: {reason}.") from None


def _csv_options(broken: list[pa.csv.InvalidRow], *, blank_lines: bool = False) -> dict[str, Any]:
    """How CSV files are read: some rows at a time, and those that are none remembered."""

    def remember(row: pa.csv.InvalidRow) -> str:
        broken.append(row)
        return "error"

    return {
        "read_options": pa.csv.ReadOptions(block_size=_BLOCK),
        "parse_options": pa.csv.ParseOptions(
            invalid_row_handler=remember, ignore_empty_lines=not blank_lines, newlines_in_values=True
        ),
    }
