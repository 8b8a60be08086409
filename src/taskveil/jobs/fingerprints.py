"""Fingerprints of the bytes that a part is made of, computed while Arrow reads them.

A fingerprint is over column chunks: the bytes of some columns in some row groups, as they are compressed in the file.
Each chunk gets a tag by AES-GMAC, and the fingerprint is the SHA-256 of all tags. SHA-256 of all bytes would take a
tenth of the time of a job; `benchmarks/fingerprints.py` measures what GMAC takes.

**How sure it is.** GMAC's key is made of the job's name, which is random. Two different chunks of n bytes that do not
depend on this name have the same tag with probability at most (n / 16 + 2) / 2^128. So no accident goes unnoticed.
People who can read the plan and write the source could make two files with one fingerprint on purpose. These people
have the records already.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence

from taskveil.errors import needs

with needs("a folder of records"):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


class _Chunk:
    """A column chunk of `length` bytes from `start`. Those before `place` have gone into its tag."""

    def __init__(self, start: int, length: int, key: bytes) -> None:
        self.start, self.place, self.end = start, start, start + length
        self._tag = Cipher(algorithms.AES(key), modes.GCM(bytes(12))).encryptor()

    def update(self, place: int, content: pa.Buffer) -> None:
        """Take bytes that lie at a `place` of the file, if they continue those that were taken before."""
        last = min(place + content.size, self.end)
        if place <= self.place < last:
            view = memoryview(content).cast("B")
            self._tag.authenticate_additional_data(view[self.place - place : last - place])
            self.place = last

    def tag(self) -> bytes:
        """The tag of all bytes."""
        self._tag.finalize()
        return self._tag.tag


class Fingerprint:
    """The fingerprint of column chunks of a Parquet file. Arrow reads the file through it (`follow`)."""

    whole = True
    """Whether all columns of the row groups are in it."""

    def __init__(self, job: str) -> None:
        """Of no bytes yet.

        Args:
            job: the name of the job.
        """
        self._key = hashlib.sha256(job.encode()).digest()
        self._chunks: list[_Chunk] = []

    def follow(
        self, file: pa.NativeFile, metadata: pq.FileMetaData, names: Sequence[str], groups: Sequence[int]
    ) -> pa.PythonFile:
        """The same file for Arrow to read from.

        Args:
            file: the open file.
            metadata: its footer.
            names: the columns that count.
            groups: the row groups that count.
        """
        paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
        inside = tuple(f"{name}." for name in names)  # the columns of lists and structures
        read = [place for place, path in enumerate(paths) if path in names or path.startswith(inside)]
        self.whole = len(read) == len(paths)
        for group in groups:
            for place in read:
                chunk = metadata.row_group(group).column(place)
                first = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
                start = min(first or chunk.data_page_offset, chunk.data_page_offset)
                self._chunks.append(_Chunk(start, chunk.total_compressed_size, self._key))
        self._chunks.sort(key=lambda chunk: chunk.start)
        self._starts = [chunk.start for chunk in self._chunks]
        self._file, self._place = file, 0
        return pa.PythonFile(self, mode="r")

    def finish(self, buffer: int) -> None:
        """Read the bytes that were not read yet, at most `buffer` at a time, while the file is open."""
        for chunk in self._chunks:
            while chunk.place < chunk.end:
                self._file.seek(chunk.place)
                content = self._file.read_buffer(min(chunk.end - chunk.place, buffer))
                if not content.size:
                    raise OSError("the file ends early")
                chunk.update(chunk.place, content)

    def hexdigest(self) -> str:
        """The fingerprint, after `finish`."""
        return hashlib.sha256(b"".join(chunk.tag() for chunk in self._chunks)).hexdigest()

    # What Arrow asks of a file:
    closed = False

    def close(self) -> None:
        """Nothing: the file is closed where it was opened."""

    def tell(self) -> int:
        """The place in the file."""
        return self._place

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place in the file, counted from its beginning, or from its end if `whence` is 2."""
        self._place = place + (self._file.size() if whence == 2 else 0)
        return self._place

    def read(self, count: int) -> pa.Buffer:
        """The next bytes."""
        self._file.seek(self._place)
        content = self._file.read_buffer(count)
        chunk = bisect_right(self._starts, self._place) - 1
        if chunk >= 0:
            self._chunks[chunk].update(self._place, content)
        self._place += content.size
        return content
