"""How a Parquet file of reports looks, whoever writes it: `taskveil privatize` or a collector's export.

A column `report_0`, `report_1`, … for every number of a report, and the id of the release in the file's metadata, so
that reports are never decoded with another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskveil.errors import needs

with needs("a file of records"):
    import pyarrow as pa

RELEASE = b"taskveil.release"
"""Under which a file's metadata has the id of its release."""


def report_names(width: int) -> list[str]:
    """The columns of reports of so many numbers."""
    return [f"report_{i}" for i in range(width)]


def report_schema(width: int, release: str, more: Sequence[pa.Field] = ()) -> pa.Schema:
    """Of a file with reports of so many numbers, made with this release; `more` are columns after them."""
    fields = [pa.field(name, pa.int64(), nullable=False) for name in report_names(width)]
    return pa.schema([*fields, *more], metadata={RELEASE: release.encode()})
