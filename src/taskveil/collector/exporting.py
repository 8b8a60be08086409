"""All stored reports of a release as one Parquet file, written while it is sent: in constant memory.

The file is as `taskveil privatize` writes it, with a column `round` beside, in the order of random ids: `taskveil
estimate` and `taskveil decode` take it. It holds no ids. One that was cut short has no footer and is no Parquet file.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from taskveil.arrays import Bytes
from taskveil.collector.problems import Problem, ProblemError
from taskveil.collector.store import Store
from taskveil.jobs.reports import report_schema
from taskveil.veil import Veil

TYPE = "application/vnd.apache.parquet"
MOST_ROWS = 2**16
"""In a row group."""
MOST_NUMBERS = 2**21
"""Of a row group: 16 MiB of whole numbers before they are packed."""

AT_ONCE = 4
"""Files that a worker writes at the same time."""

_at_once = threading.BoundedSemaphore(AT_ONCE)
_ROUND = pa.dictionary(pa.int32(), pa.string())


def exported(veil: Veil, store: Store, round: str | None = None) -> Iterator[bytes]:
    """The bytes of the file, piece by piece; a ProblemError where many are being written already.

    Args:
        veil: of the release.
        store: where its reports lie. It blocks: iterate in a thread. Reports that come meanwhile may be missing.
        round: the name of one round; None for all.
    """
    if not _at_once.acquire(blocking=False):
        raise ProblemError(Problem.BUSY, f"{AT_ONCE} files are being written already.", retry_after=10)
    try:
        yield from _exported(veil, store, round)
    finally:
        _at_once.release()


def _exported(veil: Veil, store: Store, round: str | None) -> Iterator[bytes]:
    width = veil.mechanism.report_width
    schema = report_schema(width, veil.release_id, [pa.field("round", _ROUND, nullable=False)])
    drain = _Drain()
    # Statistics of random numbers help no reader, and they make the footer, which is kept until the end, twice as long.
    with pq.ParquetWriter(drain, schema, write_statistics=False) as writer:
        yield drain.drained()
        for names, payloads in _groups(store.payloads(veil.release_id, round), max(1, MOST_NUMBERS // width)):
            numbers, _ = veil.mechanism.layout.unpack_all(payloads)
            columns = [*(pa.array(column) for column in numbers.T), names]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            yield drain.drained()
    yield drain.drained()


def _groups(parts: Iterator[tuple[str, Bytes]], most: int) -> Iterator[tuple[pa.DictionaryArray, Bytes]]:
    """The same rows in row groups: the name of every row's round, and payloads (N, size)."""
    waiting: list[tuple[str, Bytes]] = []
    rows, enough = 0, min(most, MOST_ROWS)

    def group() -> tuple[pa.DictionaryArray, Bytes]:
        names = sorted({name for name, _ in waiting})
        places = np.repeat([names.index(name) for name, _ in waiting], [len(part) for _, part in waiting])
        column = pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(names, pa.string()))
        return column, np.concatenate([part for _, part in waiting])

    for name, payloads in parts:
        for start in range(0, len(payloads), enough):
            part = payloads[start : start + enough]
            if rows + len(part) > enough:
                yield group()
                waiting, rows = [], 0
            waiting.append((name, part))
            rows += len(part)
    if waiting:
        yield group()


class _Drain(io.RawIOBase):
    """A file that gives away what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: object) -> int:
        """Keep a copy: the writer uses its buffer again."""
        self._parts.append(bytes(data))  # type: ignore[call-overload]
        return len(self._parts[-1])

    def drained(self) -> bytes:
        """What was written since the last call."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found
