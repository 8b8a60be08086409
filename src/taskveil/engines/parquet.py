"""Tables in, tables out, in constant memory: CSV or Parquet of records → Parquet of reports → Parquet of estimates.

Columns are found by name, never by position (unless the release has no names), and their units are compared with the
release's. Every row is one person and gets one report; no other column of the input is copied. The output appears
complete or not at all, and carries the release's id, so that reports are never decoded with another release.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.device import Device
from taskveil.errors import DataError, EntropyError
from taskveil.veil import Veil

try:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as error:
    raise DataError("tables need the 'pyarrow' package: pip install 'taskveil[design]'.") from error

Progress = Callable[[int], None]
"""Called with the number of rows done since the last call."""

ROWS = 1 << 16
_BLOCK = 1 << 22  # bytes of a CSV file at a time
_RELEASE = b"taskveil.release"
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
        with _naming(path):
            if path.suffix.lower() == ".csv":
                with pa.csv.open_csv(path, read_options=pa.csv.ReadOptions(block_size=_BLOCK)) as reader:
                    schema, rows = reader.schema, None
            else:
                with pq.ParquetFile(path) as file:
                    schema, rows = file.schema_arrow, file.metadata.num_rows
        if len(set(schema.names)) < len(schema.names):
            raise DataError(f"{path} has two columns of the same name.")
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
        """The named columns of the file, some rows at a time."""
        with _naming(self.path):
            if self.path.suffix.lower() == ".csv":
                with pa.csv.open_csv(
                    self.path,
                    read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                    convert_options=pa.csv.ConvertOptions(
                        include_columns=names, column_types=dict.fromkeys(names, pa.float64())
                    ),
                ) as reader:
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
    missing_as_nan: bool = False,
    progress: Progress = lambda _: None,
) -> int:
    """One report for every row of `source` (CSV or Parquet), written to `target` (Parquet); returns their number.

    `columns` maps the release's names to the file's where they differ. `units` states units the file does not state
    itself. Missing values are refused unless `missing_as_nan`, which brings them inside like NaN.
    """
    table = TableFile.open(source)
    names = _match(device, table, dict(columns or {}))
    _check_units(device, table, names, dict(units or {}))
    fields = [pa.field(f"report_{i}", pa.int64(), nullable=False) for i in range(device.mechanism.report_width)]
    schema = pa.schema(fields, metadata={_RELEASE: release.encode()})
    with _writer(target, schema) as writer:
        total = 0
        for batch in table.batches(names):
            reports = device.privatize(_matrix(batch, names, table.path, missing_as_nan))
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


def _matrix(batch: pa.RecordBatch, names: list[str], path: Path, missing_as_nan: bool) -> Floats:
    matrix = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column = batch.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise DataError(f"{path}: column {name!r} holds {column.type}, not numbers. Encode or drop it first.")
        if column.null_count and not missing_as_nan:
            raise DataError(
                f"{path}: column {name!r} has missing values. Fill them, or pass --missing-as-nan to report those rows "
                "with the middle of the attribute's range."
            )
        matrix[:, place] = column.to_numpy(zero_copy_only=False)
    return matrix


@contextlib.contextmanager
def _writer(target: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Writes beside `target` and moves it there when everything is written."""
    handle, draft = -1, ""
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        with pq.ParquetWriter(draft, schema) as writer:
            yield writer
        os.replace(draft, target)
        target.chmod(0o644)
    except EntropyError:
        raise
    except OSError as error:
        raise DataError(f"cannot write {target}: {error}. Nothing was written.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turns Arrow's errors about a file into one that names it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        # Arrow's own words quote cells and whole rows; only the place and the counts go on.
        known = re.findall(r"column #\d+|Row #\d+|Expected \d+ columns, got \d+|No such file[^:]*", str(error))
        reason = ", ".join(dict.fromkeys(known)) or type(error).__name__
        raise DataError(f"cannot read {path} as a table of numbers: {reason}.") from None
