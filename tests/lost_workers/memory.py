"""What lies in the memory that Ray shares between processes, its object store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lost_workers.watching import Process

_CHUNK, _LONGEST = 1 << 24, 1 << 10


def found_in(processes: Sequence[Process], wanted: Sequence[bytes]) -> tuple[int, set[bytes]]:
    """The bytes that the object stores of these processes hold, and which of the `wanted` are among them."""
    size, found = 0, set()
    for store in {path.stat().st_ino: path for path in _stores(processes)}.values():
        with contextlib.suppress(OSError), store.open("rb") as file:
            for content in _written(file.fileno()):
                size += len(content)
                found |= {some for some in wanted if some in content}
    return size, found


def _stores(processes: Sequence[Process]) -> Iterator[Path]:
    """Files of shared memory that nobody can name: only their owner's descriptors show them."""
    for process in processes:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(descriptor).startswith("/dev/shm/plasma"):
                        descriptor.stat()
                        yield descriptor


def _written(descriptor: int) -> Iterator[bytes]:
    """The parts of a file that were ever written to, some bytes at a time, with a little of what came before."""
    end, place = os.fstat(descriptor).st_size, 0
    with contextlib.suppress(OSError):  # ENXIO: there is nothing more
        while place < end:
            start = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, start, os.SEEK_HOLE)
            for begin in range(start, place, _CHUNK):
                yield os.pread(descriptor, min(_CHUNK, place - begin) + _LONGEST, begin)
