"""Tables in, tables out, in constant memory: CSV or Parquet of records → Parquet of reports → Parquet of estimates.

Columns are found by name, never by position (unless the release has no names), and their units are compared with the
release's. Every row is one person and gets one report, whatever its values are: a missing one is randomised like any
other. No other column of the input is copied. The output appears complete or not at all, never over reports that are
there already, and carries the release's id, so that reports are never decoded with another release. Errors name places
in a file and never quote what is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Floats, as_floats
from taskveil.client.device import Device
from taskveil.client.rounding import rounded_up
from taskveil.errors import DataError, TaskveilError
from taskveil.records import number_in
from taskveil.veil import Veil

try:
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as error:
    raise DataError("tables need the 'pyarrow' package: pip install 'taskveil[design]'.") from error

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""

ROWS = 1 << 16
_BLOCK = 1 << 22  # bytes of a CSV file at a time
_RELEASE = b"taskveil.release"
_NUMERIC = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,  # a column in which every value is missing
)
_NAMED_UNIT = re.compile(r"(?P<name>.*\S)\s*[\[(](?P<unit>[^\[\]()]+)[\])]\s*")


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A CSV or Parquet file: its columns, the units it states, and its rows in batches."""

    path: Path
    schema: pa.Schema
    columns: dict[str, str]
    """Name without unit → name in the file."""
    units: dict[str, str]
    rows: int | None
    """None for CSV, which has to be read to be counted."""

    @classmethod
    def open(cls, path: Path) -> TableFile:
        """Names, units and number of rows of a file; its rows are read later."""
        rows: int | None
        with _naming(path) as broken:
            if path.suffix.lower() == ".csv":
                with pa.csv.open_csv(path, **_csv_options(broken)) as reader:
                    schema, rows = reader.schema, None
            else:
                with pq.ParquetFile(path) as file:
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
        return cls(path=path, schema=schema, columns=columns, units=units, rows=rows)

    def batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The named columns of the file, some rows at a time; those of a CSV file are text."""
        with _naming(self.path) as broken:
            if self.path.suffix.lower() == ".csv":
                texts = pa.csv.ConvertOptions(
                    include_columns=names,
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,  # empty cells, and the words for nothing that Arrow knows
                    check_utf8=False,
                )
                # A blank line is a person whose only value is missing, where a table has but one column.
                options = _csv_options(broken, blank_lines=len(self.schema.names) == 1)
                with pa.csv.open_csv(self.path, convert_options=texts, **options) as reader:
                    yield from reader
            else:
                # A small read buffer instead of whole row groups: a file may be one row group of any size.
                with pq.ParquetFile(self.path, buffer_size=1 << 18, pre_buffer=False) as file:
                    yield from file.iter_batches(batch_size=ROWS, columns=names, use_threads=False)


def privatize_table(
    device: Device,
    release: str,
    source: Path,
    target: Path,
    *,
    columns: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> int:
    """One report for every row of `source` (CSV or Parquet), written to `target` (Parquet); returns their number.

    Args:
        device: what every row goes through.
        release: the id of its release, which the reports carry.
        source: one person a row. A missing value, or one out of range, is randomised like any other.
        target: must not exist yet: a second report of the same people spends their budget again.
        columns: from the release's names to the file's where they differ.
        units: of columns for which the file states none.
        overwrite: replace `target` all the same.
        progress: called with the number of rows done since the last call.
    """
    refuse_second_reports(target, device.mechanism.epsilon, overwrite=overwrite)
    table = TableFile.open(source)
    names = _match(device, table, dict(columns or {}))
    _check_units(device, table, names, dict(units or {}))
    fields = [pa.field(f"report_{i}", pa.int64(), nullable=False) for i in range(device.mechanism.report_width)]
    schema = pa.schema(fields, metadata={_RELEASE: release.encode()})
    with _writer(target, schema) as writer:
        total = 0
        for batch in table.batches(names):
            reports = device.privatize(_matrix(batch, names, table.path, total))
            writer.write_batch(pa.record_batch([pa.array(column) for column in reports.T], schema=schema))
            total += len(reports)
            progress(len(reports))
    return total


def decode_table(
    veil: Veil,
    source: Path,
    target: Path,
    *,
    columns: Mapping[str, str] | None = None,
    predict: bool = False,
    progress: Progress = lambda _: None,
) -> int:
    """Estimates x̂ (or, with `predict`, the task's outputs ŷ) for every report of `source`, written to `target`.

    `columns` maps the release's names to those wanted in the output where they differ.
    """
    table = TableFile.open(source)
    stated = (table.schema.metadata or {}).get(_RELEASE, b"").decode()
    if stated != veil.release_id:
        raise DataError(
            f"{source} holds reports of {f'release {stated[:12]}…' if stated else 'no known release'}, not of "
            f"{veil.release_id[:12]}…. Decode reports with the release they were made with."
        )
    names = [f"report_{i}" for i in range(veil.mechanism.report_width)]
    lost = [name for name in names if name not in table.columns]
    if lost:
        raise DataError(f"{source} lacks the columns {', '.join(lost)}: it was not written by taskveil privatize.")
    if not all(pa.types.is_integer(table.schema.field(name).type) for name in names):
        # 0.1 wrote Laplace reports in the latents' units, which would decode without a word, and wrongly.
        raise DataError(f"{source} holds fractions, no reports: decode it with the taskveil that wrote it.")
    if predict:
        outputs = veil.predict(veil.privatize(np.zeros((1, veil.encoder.width))))
        out_names, units = [f"y{i}" for i in range(outputs.shape[1])], None
    else:
        attributes = veil.columns or tuple(f"x{i}" for i in range(veil.encoder.width))
        out_names = [(columns or {}).get(name, name) for name in attributes]
        units = veil.units
    fields = [
        pa.field(name, pa.float64(), nullable=False, metadata={b"unit": units[i].encode()} if units else None)
        for i, name in enumerate(out_names)
    ]
    schema = pa.schema(fields, metadata={_RELEASE: veil.release_id.encode()})
    with _writer(target, schema) as writer:
        total = 0
        for batch in table.batches(names):
            if any(column.null_count for column in batch.columns):
                raise DataError(f"{source} has missing reports.")
            reports = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in names])
            estimates = veil.predict(reports) if predict else veil.decode(reports)
            writer.write_batch(pa.record_batch([pa.array(column) for column in estimates.T], schema=schema))
            total += len(reports)
            progress(len(reports))
    return total


def _match(device: Device, table: TableFile, columns: dict[str, str]) -> list[str]:
    """The file's column for every attribute of the release, in the release's order."""
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
        raise DataError(
            f"{table.path} lacks the columns {', '.join(lost)}; it has {', '.join(table.columns)}. "
            "Map names that differ: --column attribute=column."
        )
    return [table.columns.get(name, name) for name in wanted]


def _check_units(device: Device, table: TableFile, names: list[str], given: dict[str, str]) -> None:
    """What the file or the caller says about units must be what the release says."""
    attributes = device.columns or tuple(names)
    unknown = sorted(given.keys() - set(attributes))
    if unknown:
        raise DataError(f"units were given for {', '.join(unknown)}, which the release does not have.")
    by_file = {file: table.units[name] for name, file in table.columns.items() if name in table.units}
    for place, (attribute, name) in enumerate(zip(attributes, names, strict=True)):
        expected = device.units[place] if device.units else ""
        for stated in (given.get(attribute), by_file.get(name)):
            if stated is not None and expected and stated.strip() != expected:
                raise DataError(
                    f"column {name!r} is in {stated}, but the release expects {attribute!r} in {expected}. "
                    "Convert it first."
                )


def refuse_second_reports(target: Path, epsilon: float, *, overwrite: bool) -> None:
    """A DataError that says what drawing again would cost, if `target` is there and is not to be overwritten."""
    if os.path.lexists(target) and not overwrite:
        raise DataError(
            f"{target} exists already. Running again draws a second report for the same people, which costs each of "
            f"them ε = {rounded_up(epsilon)} once more if both were seen: together e^{rounded_up(2 * epsilon)} instead "
            f"of e^{rounded_up(epsilon)}. Send the reports that are there; or, if nobody has seen them, overwrite them."
        )


def _matrix(batch: pa.RecordBatch, names: list[str], path: Path, before: int) -> Floats:
    """The named columns (N, n) as doubles; `before` rows of the file came earlier."""
    matrix = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column, kind = batch.column(name), batch.column(name).type
        if pa.types.is_string(kind) and path.suffix.lower() == ".csv":
            matrix[:, place] = _numbers(column, name, path, before)
        elif any(test(kind) for test in _NUMERIC):
            matrix[:, place] = as_floats(column.to_numpy(zero_copy_only=False))
        else:
            raise DataError(f"{path}: column {name!r} holds {kind}, not numbers. Encode or drop it first.")
    return matrix


def _numbers(column: pa.Array, name: str, path: Path, before: int) -> Floats:
    """Text of a CSV file as doubles, empty cells and other words for nothing as NaN."""
    with contextlib.suppress(pa.ArrowException):  # Arrow's parser is fast and takes most ways to write a number
        return as_floats(pa.compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    try:
        found = [number_in(cell) for cell in column.to_pylist()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: column {name!r} is not text in UTF-8. Save the file as CSV in UTF-8.") from None
    if None in found:
        line = before + found.index(None) + 2
        raise DataError(f"{path}: column {name!r} of record {line - 1} holds something that is not a number.")
    return np.array(found, dtype=np.float64)


@contextlib.contextmanager
def _writer(target: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Writes beside `target` and moves it there when everything is written."""
    draft = ""
    try:
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        except ValueError as error:
            raise OSError(None, "this is no path") from error
        os.close(handle)
        with pq.ParquetWriter(draft, schema) as writer:
            yield writer
        os.replace(draft, target)
        target.chmod(0o644)
    except TaskveilError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"cannot write {str(target)!r}: {reason}. Nothing was written.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[list[pa.csv.InvalidRow]]:
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
        if broken:
            row = "a row" if broken[0].number is None else f"row {broken[0].number}"
            reason = f"{row} has {broken[0].actual_columns} cells instead of {broken[0].expected_columns}"
        raise DataError(f"cannot read {str(path)!r} as a table of numbers: {reason}.") from None


def _csv_options(broken: list[pa.csv.InvalidRow], *, blank_lines: bool = False) -> dict[str, Any]:
    """How CSV files are read: some rows at a time, and those that are none remembered."""

    def remember(row: pa.csv.InvalidRow) -> str:
        broken.append(row)
        return "error"

    return {
        "read_options": pa.csv.ReadOptions(block_size=_BLOCK),
        "parse_options": pa.csv.ParseOptions(invalid_row_handler=remember, ignore_empty_lines=not blank_lines),
    }
