"""Reads tables: CSV or Parquet, whole or in batches, and the columns that a release takes.

Every table that the package reads from a file is read here. Errors name a place in the file and never quote a cell.

Columns are found by name, their units are compared, and cells become natural values. If the release has no fields,
records are numbers, and a cell that is no number is refused with its place. If it has fields, no cell is an error: a
cell that is no number where a number belongs is a missing value, as on every device.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, cast

import numpy as np

from taskveil.arrays import Floats, as_floats
from taskveil.client.base_field import BaseField, Coded
from taskveil.client.device import Device
from taskveil.client.values import Values
from taskveil.errors import DataError, TaskveilError, needs
from taskveil.jobs.csv_format import USUAL, CsvFormat
from taskveil.jobs.fingerprints import Fingerprint
from taskveil.jobs.storage import PARQUET
from taskveil.records.tables import number_in, read_column

with needs("a file of records"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq

BATCH_ROWS = 1 << 16
"""The most rows of a batch."""
BATCH_BYTES = 1 << 26
"""The most bytes that the numbers of a batch take; there are some copies. CSV is read in blocks of a sixteenth,
which no row may exceed. Larger row groups are read through buffers of a quarter, for all columns together."""
_NAMED_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]+)[\])]\s*")
_OTHER_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A CSV or Parquet file: its columns, the units that it states, and its rows."""

    path: PurePath
    schema: pa.Schema
    is_text: bool
    """Whether the file is CSV, in which all cells are text."""
    groups: tuple[int, ...] = ()
    """The number of rows in each row group of a Parquet file."""
    size: int = 0
    """The bytes of a Parquet file."""
    footer: str = ""
    """The SHA-256 of the footer of a Parquet file, which lists where everything in the file lies."""
    version: str = ""
    """A text that differs if a program has written to the file since: the ETag in an object store, otherwise the times
    of the last changes. Empty if a storage states neither: two such versions say nothing about each other."""
    filesystem: Any = None
    """Arrow's filesystem, unless the file lies on this machine."""
    fingerprint: Fingerprint | None = None
    """Takes the bytes that `batches` reads."""
    csv: CsvFormat = USUAL
    """How the file is written, if it is CSV."""

    @classmethod
    def open(cls, path: PurePath, filesystem: Any = None, *, csv: CsvFormat = USUAL) -> TableFile:
        """The names and the size of a file; `read` and `batches` read its rows. `csv` says how CSV is written."""
        if filesystem is None and os.path.isdir(path):
            raise DataError(
                f"{path} is a folder, and one CSV or Parquet file is needed here. Write the records into one file (in "
                f"pandas pd.read_parquet({str(path)!r}).to_parquet('all.parquet')): a sample is enough for a design."
            )
        with _reading(path):
            if _is_csv(path, filesystem):
                version = _version(path, None, filesystem)
                schema = pa.schema([(name, pa.string()) for name in _header(path, csv)])
                found = cls(path=path, schema=schema, is_text=True, version=version, csv=csv)
            else:
                if csv != USUAL:
                    raise DataError(f"{path} is Parquet: --sep, --decimal, --date-format and --missing are about CSV.")
                with _opened(path, filesystem) as file, pq.ParquetFile(file) as table:
                    version = _version(path, file, filesystem)  # before the footer is read again
                    size, metadata = file.size(), table.metadata
                    groups = tuple(metadata.row_group(place).num_rows for place in range(metadata.num_row_groups))
                    file.seek(size - 8)
                    length = int.from_bytes(file.read(4), "little")
                    file.seek(size - 8 - length)
                    found = cls(
                        path=path,
                        schema=table.schema_arrow,
                        is_text=False,
                        groups=groups,
                        size=size,
                        footer=hashlib.sha256(file.read(length)).hexdigest(),
                        version=version,
                        filesystem=filesystem,
                    )
        names = found.schema.names
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise DataError(f"{path} has two columns named {twice!r}: rename one.")
        return found

    @property
    def rows(self) -> int | None:
        """The number of rows; None for CSV, which has to be read to be counted."""
        return None if self.is_text else sum(self.groups)

    @cached_property
    def columns(self) -> dict[str, str]:
        """From each name without its unit to the name in the file."""
        found: dict[str, str] = {}
        for name in self.schema.names:
            named = _NAMED_UNIT.fullmatch(name)
            plain = named["name"] if named else name
            if plain in found:
                raise DataError(f"{self.path} has two columns named {plain}, one of them with a unit.")
            found[plain] = name
        return found

    @cached_property
    def units(self) -> dict[str, str]:
        """The units that the file states, by the name of the column in the file."""
        found: dict[str, str] = {}
        for field in self.schema:
            named, stated = _NAMED_UNIT.fullmatch(field.name), (field.metadata or {}).get(b"unit")
            if stated is not None:
                found[field.name] = stated.decode(errors="replace")
            elif named:
                found[field.name] = named["unit"]
        return found

    def read(self) -> pa.Table:
        """All rows. A column of a CSV file holds numbers, flags or text; empty cells and NA are missing values. Dates
        stay text, and so do whole numbers if dates may be written as such."""
        with _reading(self.path) as broken:
            if not self.is_text:
                return pq.read_table(self.path, filesystem=self.filesystem)
            # With threads, Arrow does not count lines.
            options = self._csv_options(broken, pa.csv.ReadOptions(use_threads=False))
            convert = self._convert_options()
            seen = pa.csv.read_csv(self.path, convert_options=convert, **options).schema
            if any(pa.types.is_binary(field.type) for field in seen):
                raise DataError(_not_utf8(self.path))
            # Arrow turns dates and times of day into types of its own. Here they stay text.
            plain = [pa.types.is_floating, pa.types.is_boolean, pa.types.is_null]
            if self.csv.dates is None or not self.csv.example.isdigit():
                plain.append(pa.types.is_integer)
            types = {
                field.name: field.type if any(test(field.type) for test in plain) else pa.string() for field in seen
            }
            return pa.csv.read_csv(self.path, convert_options=self._convert_options(column_types=types), **options)

    def batches(
        self, names: list[str], *, words: Collection[str] = (), groups: Sequence[int] | None = None, made: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The named columns, some rows at a time.

        Args:
            names: the columns, as the file names them.
            words: values that are no missing values, although Arrow takes them for such (NA, null, …). In CSV, all
                cells are text, and empty cells are missing.
            groups: the row groups to read of a Parquet file; by default all.
            made: the number of columns that the caller makes of a batch. Batches of wide tables have fewer rows.
        """
        with _reading(self.path) as broken:
            if self.is_text:
                texts = self._convert_options(
                    words, include_columns=names, column_types=dict.fromkeys(names, pa.string()), check_utf8=False
                )
                options, any_row = self._csv_options(broken, pa.csv.ReadOptions(block_size=BATCH_BYTES // 16)), False
                with pa.csv.open_csv(self.path, convert_options=texts, **options) as reader:
                    for batch in reader:
                        any_row = any_row or batch.num_rows > 0
                        yield batch
                if not any_row:
                    raise DataError(f"{self.path} needs a header and at least one record.")
                return
            rows = min(BATCH_ROWS, BATCH_BYTES // 8 // max(len(names), made) + 1)
            with _opened(self.path, self.filesystem) as file:
                read, metadata = file, pq.read_metadata(file)
                groups = range(metadata.num_row_groups) if groups is None else groups
                # A small buffer for each column instead of whole row groups: a file may be one large row group.
                buffer = BATCH_BYTES // 4 // max(len(names), 64)
                if self.fingerprint is not None:
                    read = self.fingerprint.follow(file, metadata, names, groups)
                    largest = max((metadata.row_group(group).total_byte_size for group in groups), default=0)
                    buffer = buffer if largest > BATCH_BYTES else 0  # which saves a copy of all bytes
                opened = pq.ParquetFile(read, metadata=metadata, buffer_size=buffer, pre_buffer=False)
                yield from opened.iter_batches(batch_size=rows, row_groups=groups, columns=names, use_threads=False)
                if self.fingerprint is not None:
                    self.fingerprint.finish(BATCH_BYTES // 64)

    def fingerprint_of(self, job: str, names: list[str], groups: Sequence[int]) -> str:
        """The fingerprint for a job of the named columns in row groups of a Parquet file."""
        found = Fingerprint(job)
        with _reading(self.path), _opened(self.path, self.filesystem) as file:
            found.follow(file, pq.read_metadata(file), names, groups)
            found.finish(BATCH_BYTES // 64)
        return found.hexdigest()

    def _convert_options(self, words: Collection[str] = (), **more: Any) -> pa.csv.ConvertOptions:
        """How cells of CSV are converted; `words` are no missing values, unless the format of the file says so."""
        usual = [word for word in pa.csv.ConvertOptions().null_values if word not in words]
        null = [*usual, *self.csv.missing]
        return pa.csv.ConvertOptions(strings_can_be_null=True, null_values=null, decimal_point=self.csv.decimal, **more)

    def _csv_options(self, broken: list[pa.csv.InvalidRow], reading: pa.csv.ReadOptions) -> dict[str, Any]:
        """How CSV is parsed. Rows with too many or too few cells go to `broken`."""

        def remember(row: pa.csv.InvalidRow) -> str:
            broken.append(row)
            return "error"

        parsing = pa.csv.ParseOptions(
            delimiter=self.csv.separator,
            invalid_row_handler=remember,
            # If there is one column, a blank line is a person whose value is missing.
            ignore_empty_lines=len(self.schema.names) > 1,
            newlines_in_values=True,
        )
        return {"read_options": reading, "parse_options": parsing}


def match_columns(device: Device, table: TableFile, columns: dict[str, str]) -> list[str]:
    """The file's column for every attribute, in the release's order; `columns` maps names that differ."""
    if device.columns is None:
        if columns or len(table.columns) != device.encoder.width:
            raise DataError(
                f"this release names no columns: {table.path} must have exactly its {device.encoder.width} attributes "
                f"in order, and has {len(table.columns)} columns."
            )
        return list(table.columns.values())
    unknown = sorted(columns.keys() - set(device.columns))
    if unknown:
        raise DataError(f"the release has no attribute {', '.join(unknown)}; it has {', '.join(device.columns)}.")
    wanted = [columns.get(name, name) for name in device.columns]
    lost = [name for name in wanted if name not in table.columns and name not in table.schema.names]
    if lost:
        if all(any(part.startswith(f"{name}=") for part in table.path.parts) for name in lost):
            raise DataError(
                f"{table.path} lacks the columns {', '.join(lost)}, which the names of its folders say. Columns are "
                "read from files alone: write these columns into the files, too."
            )
        raise DataError(
            f"{table.path} lacks the columns {', '.join(lost)}; it has {', '.join(table.columns)}. "
            "Map names that differ: --column attribute=column."
        )
    return [table.columns.get(name, name) for name in wanted]


def check_units(device: Device, table: TableFile, names: list[str], given: dict[str, str]) -> None:
    """Raises a DataError if the file or the caller states another unit than the release."""
    attributes = device.columns or tuple(names)
    unknown = sorted(given.keys() - set(attributes))
    if unknown:
        raise DataError(f"units were given for {', '.join(unknown)}, which the release does not have.")
    for place, (attribute, name) in enumerate(zip(attributes, names, strict=True)):
        expected = device.units[place] if device.units else ""
        for stated in (given.get(attribute), table.units.get(name)):
            if stated is not None and expected and stated.strip() != expected:
                raise DataError(
                    f"column {name!r} is in {stated}, but the release expects {attribute!r} in {expected}. "
                    "Convert it first."
                )


def words_of(device: Device) -> frozenset[str]:
    """The values of the release's categories, some of which look like missing values (NA for a region)."""
    fields = device.fields.fields if device.fields else ()
    return frozenset(word for field in fields for word in field.words)


def natural_values(device: Device, batch: Any, names: list[str], table: TableFile, before: int) -> list[Values | Coded]:
    """The named columns of a batch, each with its values (N,); `before` rows of the file came earlier."""
    columns = [batch.column(name) for name in names]
    if device.fields is None:
        return [_numbers(column, name, table, before) for column, name in zip(columns, names, strict=True)]
    if not table.is_text:
        return [_values(column) for column in columns]
    return [_from_text(field, column, table.csv) for field, column in zip(device.fields.fields, columns, strict=True)]


def encoder_input(device: Device, values: Sequence[Any]) -> Floats:
    """Columns of values (N,), as `natural_values` gives them, as numbers (N, n) for the device's encoder."""
    return device.fields.expand(values) if device.fields else np.column_stack(values)


def _values(column: Any) -> Values | Coded:
    """Natural values of an Arrow array. Bytes are read as text."""
    for is_bytes, text in ((pa.types.is_binary, pa.string()), (pa.types.is_large_binary, pa.large_string())):
        column = column.view(text) if is_bytes(column.type) else column
    return read_column(column)[1]


def _from_text(field: BaseField, column: Any, csv: CsvFormat) -> Values | Coded:
    """Natural values of the cells of a CSV file, every different one read once."""
    if field.reads_as[0] == "date" and csv.dates is not None:
        cells = cast("Coded", _values(column))
        return Coded(cells.codes, [None if text is None else csv.date(text) for text in cells.values])
    if field.reads_as[0] == "number":
        column = _with_points(column, csv)
        with contextlib.suppress(pa.ArrowException):  # Arrow's parser is fast and takes most ways to write a number
            return as_floats(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    coded = _values(column)
    return Coded(coded.codes, [_natural(field, text) for text in coded.values]) if isinstance(coded, Coded) else coded


def _with_points(column: Any, csv: CsvFormat) -> Any:
    """The cells (N,) with points in numbers. A cell that has a point where the sign is a comma is no number then."""
    if csv.decimal == ".":
        return column
    coded = cast("Coded", _values(column))
    texts = [None if text is None else csv.number(text) for text in coded.values]
    codes = np.where(coded.codes < 0, len(texts), coded.codes)
    return pa.array([*texts, None], pa.string()).take(pa.array(codes))


def _natural(field: BaseField, text: str | None) -> str | float | None:
    """A cell as a device would be given it: a value of its category, a number, nothing, or the text it is."""
    number = number_in(text)
    if text is None or number is None or text in field.words:
        return text
    return None if math.isnan(number) else number


def _numbers(column: Any, name: str, table: TableFile, before: int) -> Floats:
    """A column as doubles, missing values as NaN; a DataError if it holds other things than numbers."""
    if not table.is_text:
        of, values = read_column(column)
        if not of.numeric:
            raise DataError(f"{table.path}: column {name!r} holds {of.name}, not numbers. Encode or drop it first.")
        return as_floats(values)
    column = _with_points(column, table.csv)
    with contextlib.suppress(pa.ArrowException):
        return as_floats(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    try:
        found = [number_in(cell) for cell in column.to_pylist()]
    except UnicodeDecodeError:
        raise DataError(f"{table.path}: column {name!r} is not text in UTF-8. Save the file as CSV in UTF-8.") from None
    if None in found:
        record = before + found.index(None) + 1
        raise DataError(f"{table.path}: column {name!r} of record {record} holds something that is not a number.")
    return np.array(found, dtype=np.float64)


def _is_csv(path: PurePath, filesystem: Any) -> bool:
    """Whether a file is CSV: by its name, or else by its first bytes."""
    if path.suffix.lower() in (".csv", *PARQUET):
        return path.suffix.lower() == ".csv"
    with _opened(path, filesystem) as file:
        return bytes(file.read(4)) != b"PAR1"


def _opened(path: PurePath, filesystem: Any) -> Any:
    """A file that can be read from any place, as Arrow opens it."""
    return pa.OSFile(str(path)) if filesystem is None else filesystem.open_input_file(str(path))


def _version(path: PurePath, file: Any, filesystem: Any) -> str:
    """The version of an open file. Times of a disk cannot be set back together: that of the last change of any kind is
    the kernel's."""
    if filesystem is None or filesystem.type_name == "local":
        found = os.stat(path)
        return f"{found.st_mtime_ns}/{found.st_ctime_ns}"
    stated = {str(key, "utf-8").lower(): str(value, "utf-8") for key, value in file.metadata().items()}
    named = [f"{key}={stated[key]}" for key in ("etag", "versionid", "generation") if stated.get(key)]
    changed = None if named else filesystem.get_file_info(str(path)).mtime_ns
    return "/".join(named) or ("" if changed is None else str(changed))


def _header(path: PurePath, form: CsvFormat) -> list[str]:
    """The names in the first line of a CSV file, or a DataError that says why they are no names."""
    # Excel begins with a byte order mark. A cell below may hold any bytes, and is not looked at here.
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        try:
            names = next(filter(None, csv.reader(file, delimiter=form.separator)), [])
        except csv.Error:
            raise DataError(f"cannot read {str(path)!r} as a table: it is no CSV file.") from None
    if not names:
        raise DataError(f"{path} needs a header and at least one record.")
    if any("\udc80" <= sign <= "\udcff" for name in names for sign in name):  # bytes that are no UTF-8
        raise DataError(_not_utf8(path))
    if len(names) == 1:
        sign, between = next((pair for pair in _OTHER_SEPARATORS.items() if pair[0] in names[0]), ("", ""))
        if between:
            option = f"'{sign}'" if sign.isprintable() else "tab"
            raise DataError(
                f"{path} has {between} between its columns: pass --sep {option}, and --decimal , if its numbers have "
                "commas."
            )
    if all(number_in(name) is not None for name in names):
        raise DataError(f"{path} has no header: its first line holds numbers. Put the columns' names above them.")
    return names


def _not_utf8(path: PurePath) -> str:
    return f"{path} is not written in UTF-8: save it again as 'CSV UTF-8'."


@contextlib.contextmanager
def _reading(path: PurePath) -> Iterator[list[pa.csv.InvalidRow]]:
    """Turns Arrow's errors about a file into a DataError; yields a list for rows with a wrong number of cells.

    Arrow's messages quote cells and rows, so the DataError repeats nothing of them.
    """
    broken: list[pa.csv.InvalidRow] = []
    try:
        yield broken
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, TaskveilError):
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        if isinstance(error, pa.ArrowInvalid):
            is_csv = path.suffix.lower() not in PARQUET
            reason = "it is no CSV file, or has no rows" if is_csv else "it is no Parquet file, or damaged"
        if broken:
            row = "a line" if broken[0].number is None else f"line {broken[0].number}"
            reason = f"{row} has {broken[0].actual_columns} cells instead of {broken[0].expected_columns}"
        raise DataError(f"cannot read {str(path)!r} as a table: {reason}.") from None
