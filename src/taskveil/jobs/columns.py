"""The columns of a file as a release takes them: found by name, units compared, cells turned into natural values.

If the release has no fields, records are numbers, and a cell that is no number is refused with its place. If it has
fields, no cell is an error: a cell that is no number where a number belongs is a missing value, as on every device.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import PurePath
from typing import Any

import numpy as np

from taskveil.arrays import Floats, as_floats
from taskveil.client.device import Device
from taskveil.client.fields import BaseField, Coded
from taskveil.client.values import Values
from taskveil.errors import DataError, needs
from taskveil.jobs.tables import TableFile
from taskveil.records.tables import number_in, read_column

with needs("a file of records"):
    import pyarrow as pa
    import pyarrow.compute as pc

_NUMERIC = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,  # a column in which every value is missing
)
_DATED = (pa.types.is_date, pa.types.is_timestamp)
_TEXT = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary),
)


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


def encoder_input(device: Device, batch: Any, names: list[str], table: TableFile, before: int) -> Floats:
    """The named columns of a batch (N, n) for the device's encoder; `before` rows of the file came earlier."""
    if device.fields is None:
        return _matrix(batch, names, table, before)
    columns = [batch.column(name) for name in names]
    if not table.is_text:
        return device.fields.expand([_from_values(column) for column in columns])
    fields = zip(device.fields.fields, columns, strict=True)
    return device.fields.expand([_from_text(field, column) for field, column in fields])


def _from_values(column: Any) -> Values | Coded:
    """Natural values of an Arrow array. A value of a type that no field reads is equal to no value of a field."""
    kind = column.type
    if any(test(kind) for test in (*_NUMERIC, *_DATED)):
        return read_column(column)[1]
    if any(test(kind) for test in _TEXT):
        return _coded(column)
    if pa.types.is_dictionary(kind) and any(test(kind.value_type) for test in _TEXT):
        codes = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return Coded(codes, _texts(column.dictionary))
    if pa.types.is_dictionary(kind) and any(test(kind.value_type) for test in (*_NUMERIC, *_DATED)):
        return read_column(column.dictionary_decode())[1]
    lost = pc.is_null(column).to_numpy(zero_copy_only=False)
    return Coded(np.where(lost, -1, 0), [()])


def _from_text(field: BaseField, column: Any) -> Values | Coded:
    """Natural values of the cells of a CSV file, every different one read once."""
    if field.reads_as[0] == "number":
        with contextlib.suppress(pa.ArrowException):  # Arrow's parser is fast and takes most ways to write a number
            return as_floats(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    codes, texts = _coded(column)
    return Coded(codes, [_natural(field, text) for text in texts])


def _natural(field: BaseField, text: str | None) -> str | float | None:
    """A cell as a device would be given it: a value of its category, a number, nothing, or the text it is."""
    number = number_in(text)
    if text is None or number is None or text in field.words:
        return text
    return None if math.isnan(number) else number


def _coded(column: Any) -> Coded:
    """A column of text as codes, −1 where a value is missing, and the distinct values."""
    as_bytes = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    encoded = pc.dictionary_encode(column if pa.types.is_large_binary(column.type) else column.cast(as_bytes))
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return Coded(codes, _texts(encoded.dictionary))


def _texts(column: Any) -> list[str | None]:
    """The values of a column as text. Bytes that are no UTF-8 become text too: no value is an error."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    listed = column.cast(pa.large_binary() if large else pa.binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in listed]


def _matrix(batch: Any, names: list[str], table: TableFile, before: int) -> Floats:
    """The named columns (N, n) as doubles."""
    matrix = np.empty((batch.num_rows, len(names)))
    for place, name in enumerate(names):
        column, kind = batch.column(name), batch.column(name).type
        if pa.types.is_string(kind) and table.is_text:
            matrix[:, place] = _numbers(column, name, table.path, before)
        elif any(test(kind) for test in _NUMERIC):
            matrix[:, place] = as_floats(column.to_numpy(zero_copy_only=False))
        else:
            raise DataError(f"{table.path}: column {name!r} holds {kind}, not numbers. Encode or drop it first.")
    return matrix


def _numbers(column: Any, name: str, path: PurePath, before: int) -> Floats:
    """Text of a CSV file as doubles; missing values as NaN."""
    with contextlib.suppress(pa.ArrowException):
        return as_floats(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    try:
        found = [number_in(cell) for cell in column.to_pylist()]
    except UnicodeDecodeError:
        raise DataError(f"{path}: column {name!r} is not text in UTF-8. Save the file as CSV in UTF-8.") from None
    if None in found:
        line = before + found.index(None) + 2
        raise DataError(f"{path}: column {name!r} of record {line - 1} holds something that is not a number.")
    return np.array(found, dtype=np.float64)
