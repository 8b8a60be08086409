"""All stored reports of a release as a Parquet file, written while it is sent, with constant memory.

The file is like that of `taskveil privatize`, with a column `round`, in the order of the random ids. `taskveil
estimate` and `taskveil decode` read it. It has no ids. A file that was cut off has no footer and is not valid.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Store
from taskveil.jobs.reports import report_schema
from taskveil.veil import Veil

TYPE = "application/vnd.apache.parquet"
MAX_NUMBERS_PER_GROUP = 2**21
"""16 MiB of integers."""

MAX_EXPORTS_AT_ONCE = 4
"""For one worker."""

_at_once = threading.BoundedSemaphore(MAX_EXPORTS_AT_ONCE)
_ROUND = pa.dictionary(pa.int32(), pa.string())


def exported(veil: Veil, store: Store, round: str | None = None) -> Iterator[bytes]:
    """The bytes of the file, in parts. ProblemError if too many files are being written.

    Args:
        veil: of the release.
        store: with the reports. It blocks: iterate in a thread. Reports that come meanwhile may be missing.
        round: the name of one round; None for all.
    """
    if not _at_once.acquire(blocking=False):
        raise ProblemError(ProblemType.BUSY, f"{MAX_EXPORTS_AT_ONCE} files are being written already.", retry_after=10)
    try:
        yield from _exported(veil, store, round)
    finally:
        _at_once.release()


def _exported(veil: Veil, store: Store, round: str | None) -> Iterator[bytes]:
    width = veil.mechanism.report_width
    schema = report_schema(width, veil.release_id, [pa.field("round", _ROUND, nullable=False)])
    buffer = _Buffer()
    # Statistics of random numbers are useless, and they double the footer, which is in memory until the end.
    with pq.ParquetWriter(buffer, schema, write_statistics=False) as writer:
        yield buffer.taken()
        most = max(1, MAX_NUMBERS_PER_GROUP // width)
        for names, payloads in store.payloads(veil.release_id, round):
            for start in range(0, len(names), most):
                here = slice(start, start + most)
                numbers, _ = veil.mechanism.layout.unpack_all(payloads[here])
                columns = [*(pa.array(column) for column in numbers.T), pa.array(names[here]).dictionary_encode()]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                yield buffer.taken()
    yield buffer.taken()


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
