"""All stored reports of a release as a Parquet or CSV file, written while it is sent, with constant memory.

The file is like that of `taskveil privatize`, with a column `round`, in the order of the random ids. It has no ids.
`taskveil estimate` and `taskveil decode` read Parquet, which names the release. A Parquet file that was cut off has no
footer and is not valid. CSV does not show that it was cut off.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Store
from taskveil.jobs.reports import report_schema
from taskveil.veil import Veil

Format = Literal["parquet", "csv"]
TYPES: dict[Format, str] = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv; charset=utf-8"}
MAX_NUMBERS_PER_GROUP = 2**21
"""16 MiB of integers."""

MAX_EXPORTS_AT_ONCE = 4
"""For one worker."""

_at_once = threading.BoundedSemaphore(MAX_EXPORTS_AT_ONCE)
_ROUND = {"parquet": pa.dictionary(pa.int32(), pa.string()), "csv": pa.string()}


def exported(veil: Veil, store: Store, round: str | None = None, format: Format = "parquet") -> Iterator[bytes]:
    """The bytes of the file, in parts. ProblemError if too many files are being written.

    Args:
        veil: of the release.
        store: with the reports. It blocks: iterate in a thread. Reports that come meanwhile may be missing.
        round: the name of one round; None for all.
        format: of the file.
    """
    if not _at_once.acquire(blocking=False):
        raise ProblemError(ProblemType.BUSY, f"{MAX_EXPORTS_AT_ONCE} files are being written already.", retry_after=10)
    try:
        yield from _exported(veil, store, round, format)
    finally:
        _at_once.release()


def _exported(veil: Veil, store: Store, round: str | None, format: Format) -> Iterator[bytes]:
    width = veil.mechanism.report_width
    schema = report_schema(width, veil.release_id, [pa.field("round", _ROUND[format], nullable=False)])
    buffer = _Buffer()
    with _writer(buffer, schema, format) as writer:
        yield buffer.taken()
        most = max(1, MAX_NUMBERS_PER_GROUP // width)
        for names, payloads in store.payloads(veil.release_id, round):
            for start in range(0, len(names), most):
                here = slice(start, start + most)
                numbers, _ = veil.mechanism.layout.unpack_all(payloads[here])
                columns = [*(pa.array(column) for column in numbers.T), pa.array(names[here], type=_ROUND[format])]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                yield buffer.taken()
    yield buffer.taken()


def _writer(buffer: _Buffer, schema: pa.Schema, format: Format) -> pq.ParquetWriter | pc.CSVWriter:
    if format == "csv":
        return pc.CSVWriter(buffer, schema, write_options=pc.WriteOptions(quoting_style="needed"))
    # Statistics of random numbers are useless, and they double the footer, which is in memory until the end.
    return pq.ParquetWriter(buffer, schema, write_statistics=False)


class _Buffer(io.RawIOBase):
    """A file in memory whose content is taken out while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: object) -> int:
        """Keep a copy: the writer reuses its memory."""
        self._parts.append(bytes(data))  # type: ignore[call-overload]
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """The bytes that were written since the last call."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found
