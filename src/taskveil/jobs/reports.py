"""Parquet files of reports, as `taskveil privatize` and a collector's export write them.

A file has a column `report_0`, `report_1`, … for every number of a report. Its metadata holds the id of the release, so
that reports are never decoded with another release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taskveil.arrays import Integers
from taskveil.errors import DataError, needs
from taskveil.jobs.tables import TableFile

with needs("a file of records"):
    import pyarrow as pa

if TYPE_CHECKING:
    from taskveil.veil import Veil

RELEASE = b"taskveil.release"
"""The key of the release's id in the metadata of a file."""


def report_names(width: int) -> list[str]:
    """The names of the columns, for reports of `width` numbers."""
    return [f"report_{i}" for i in range(width)]


def report_schema(width: int, release: str, more: Sequence[pa.Field] = ()) -> pa.Schema:
    """The schema of a file with reports of `width` numbers of a release, and `more` columns after them."""
    fields = [pa.field(name, pa.int64(), nullable=False) for name in report_names(width)]
    return pa.schema([*fields, *more], metadata={RELEASE: release.encode()})


def release_of(table: TableFile) -> str:
    """The release's id that the file states; an empty text if it states none."""
    return str((table.schema.metadata or {}).get(RELEASE, b"").decode("utf-8", "replace"))


def report_columns(veil: Veil, table: TableFile) -> list[str]:
    """The file's columns of reports, or a DataError if they were not made with this release."""
    stated = release_of(table)
    if stated != veil.release_id:
        raise DataError(
            f"{table.path} holds reports of {f'release {stated[:12]}…' if stated else 'no known release'}, not of "
            f"{veil.release_id[:12]}…. Decode reports with the release they were made with."
        )
    names = report_names(veil.mechanism.report_width)
    lost = [name for name in names if name not in table.columns]
    if lost:
        raise DataError(f"{table.path} lacks the columns {', '.join(lost)}: it was not written by taskveil privatize.")
    if not all(pa.types.is_integer(table.schema.field(name).type) for name in names):
        raise DataError(f"{table.path} holds fractions, no reports: reports consist of whole numbers.")
    return names


def report_batches(
    veil: Veil, table: TableFile, groups: Sequence[int] | None = None, *, made: int = 0
) -> Iterator[Integers]:
    """The reports (N, width) of a file, some at a time. Their numbers are not checked yet.

    Args:
        veil: the veil of the release that the reports were made with.
        table: the file.
        groups: the row groups to read; by default all.
        made: the number of columns that the caller makes of them.
    """
    names = report_columns(veil, table)
    for batch in table.batches(names, groups=groups, made=made):
        if any(column.null_count for column in batch.columns):
            raise DataError(f"{table.path} has missing reports.")
        # Column by column, as Arrow has them: twice as fast to check and to add up as row by row.
        yield np.array([batch.column(name).to_numpy(zero_copy_only=False) for name in names]).T
