"""Which rows become which part: made once, kept beside the parts, and the same whoever reads it.

A job over a folder of Parquet files is cut into parts of half a million rows, along the files' row groups. The plan is
written into the target (`_plan.json`) before any part is made, and never changed: a job that was interrupted goes on
with it, and one that differs in anything is refused. When all parts are there, `_manifest.json` says so, with the rows,
the size and the SHA-256 of each. Most readers of Parquet folders pass over both, since their names begin with an
underscore; polars wants to be told which files it should read (`*.parquet`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from taskveil.errors import DataError, needs
from taskveil.jobs.files import TableFile
from taskveil.jobs.storage import Folder, Place

with needs("a folder of records"):
    import pyarrow as pa
    import pyarrow.parquet as pq

PLAN, MANIFEST = "_plan.json", "_manifest.json"
PART_NAME = re.compile(r"part-\d{5,}\.parquet")
PART_ROWS = 1 << 19
"""Rows of a part, unless a single row group has more: seconds of work, which is what a lost worker costs."""
_OPENING = 32  # bytes of a plan before the name of its job, and after it, at most
_READERS = 16  # footers read at a time: on other machines' disks most of it is waiting


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Parquet file by its `name` in the source folder. Its `footer` (SHA-256), which lists where everything in the
    file lies, and its `size` tell whether it is still the same."""

    name: str
    size: int
    rows: int
    footer: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """The row groups `first` to before `last` of a source: so many `rows`, after the first `row` ones of the file."""

    number: int
    source: int
    first: int
    last: int
    row: int
    rows: int

    @property
    def name(self) -> str:
        """Of its file in the target."""
        return f"part-{self.number:05d}.parquet"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All parts of a `job`, a name drawn once; `what` says what becomes of the rows, and of which release."""

    job: str
    what: Mapping[str, Any]
    sources: tuple[Source, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, tables: Mapping[str, TableFile], folder: Folder, what: Mapping[str, Any]) -> Plan:
        """A new plan for all `tables` of a folder, by name."""
        names = list(tables)
        with ThreadPoolExecutor(_READERS) as readers:
            looked = list(readers.map(lambda name: _look(folder, name), names))
        parts: list[Part] = []
        for number, (_, groups) in enumerate(looked):
            for first, last, row, rows in _cut(groups):
                part = Part(number=len(parts), source=number, first=first, last=last, row=row, rows=rows)
                parts.append(part)
        sources = tuple(source for source, _ in looked)
        return cls(job=secrets.token_hex(16), what=dict(what), sources=sources, parts=tuple(parts))

    @property
    def rows(self) -> int:
        """Of all parts."""
        return sum(part.rows for part in self.parts)

    def same(self, other: Plan) -> bool:
        """Whether both are of the same rows, and make the same of them."""
        return (self.what, self.sources, self.parts) == (other.what, other.sources, other.parts)

    def content(self) -> bytes:
        """As it is kept."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def read(cls, content: bytes, place: str) -> Plan:
        """What `content` is of, or a DataError that names the `place`. Nobody has checked its numbers: it is there to
        be compared with one's own."""
        try:
            found = json.loads(content)
            return cls(
                job=str(found["job"]),
                what=dict(found["what"]),
                sources=tuple(Source(**source) for source in found["sources"]),
                parts=tuple(Part(**part) for part in found["parts"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{place} is no plan of taskveil's ({type(error).__name__}).") from error


def check_job(job: str, target: Folder) -> None:
    """A DataError unless the plan in the target is that of the `job`: it is not where somebody has begun another there
    meanwhile, nor on a machine that does not see this folder but one of its own under the same path."""
    with target.open(PLAN) as file:
        begins = file.read(_OPENING + len(job))  # `job` comes first; all of a plan may be large
    if f'"job": "{job}"'.encode() not in begins:
        raise DataError(
            f"{target.path} is another job's since this one began, or is not the same folder on all machines. Nothing "
            "more was made of this one."
        )


def check_same(source: Source, folder: Folder) -> None:
    """A DataError if a file is no longer the one of the plan."""
    try:
        found, _ = _look(folder, source.name)
    except (pa.ArrowException, OSError, ValueError):  # it is no table any more
        found = None
    if found != source:
        raise DataError(
            f"{folder.at(source.name)} has changed since this job began. Nothing was made of it; put the old file "
            "back, or start a job of its own for the new one in another folder."
        )


def opened(source: Place, *, apart_from: Folder | None = None) -> tuple[Folder, dict[str, TableFile]]:
    """The folder of a source and its tables by name, of which there is one where the source is a file.

    Of a folder that a job of ours has written, all that its manifest lists; a DataError if the job has not ended, or
    other tables lie there. A target `apart_from` it may not lie inside.
    """
    folder = Folder.of(source)
    kind = folder.kind()
    if kind == "nothing":
        raise DataError(f"cannot read {str(source)!r}: there is no such file or folder.")
    if apart_from is not None and f"{apart_from.path}/".startswith(f"{folder.path}/"):
        raise DataError(f"{apart_from.path} lies inside the source: its own parts would be read as records.")
    if kind == "file":
        home, _, name = folder.path.rpartition("/")
        folder, names = replace(folder, path=home), [name]
    else:
        names = sorted(folder.tables(), key=_place)
        for job in _jobs(folder):
            check_complete(job)
    if not names:
        raise DataError(f"{folder.path} holds no Parquet files.")
    if folder.is_local:
        _check_once(folder, names)
    with ThreadPoolExecutor(_READERS) as readers:
        found = readers.map(lambda name: TableFile.open(PurePosixPath(folder.at(name)), folder.filesystem), names)
        tables = dict(zip(names, found, strict=True))
    return folder, tables


def _place(name: str) -> str:
    """By which tables are ordered: parts by their numbers, of which the hundred-thousandth has a digit more."""
    home, _, last = name.rpartition("/")
    return f"{home}/part-{last[5:-8]:0>20}.parquet" if PART_NAME.fullmatch(last) else name


def _jobs(folder: Folder) -> list[Folder]:
    """The folder and those below it into which a job of ours writes or wrote."""
    homes = [
        name.removesuffix(PLAN).rstrip("/") for name in folder.names(below=True) if PurePosixPath(name).name == PLAN
    ]
    return [replace(folder, path=folder.at(home)) for home in homes]


def check_complete(folder: Folder) -> None:
    """A DataError unless the job that writes into a folder has ended, and what it made is all that lies there."""
    if folder.kind(MANIFEST) == "nothing":
        raise DataError(f"{folder.path} is not complete: run the job that makes it again, and it goes on.")
    try:
        manifest = json.loads(folder.read(MANIFEST))
        job, listed = str(manifest["job"]), [str(part["file"]) for part in manifest["parts"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{folder.at(MANIFEST)} is no manifest of taskveil's ({type(error).__name__}).") from error
    check_job(job, folder)
    if sorted(listed) != folder.tables():
        raise DataError(f"{folder.path} does not hold the parts that its {MANIFEST} lists, and no others.")


def _check_once(folder: Folder, names: list[str]) -> None:
    """A DataError if a link makes a file appear twice: each of its people would get two reports, or count twice."""
    seen: dict[tuple[int, int], str] = {}
    for name in names:
        found = os.stat(folder.at(name))
        first = seen.setdefault((found.st_dev, found.st_ino), name)
        if first != name:
            raise DataError(
                f"{folder.at(first)} and {folder.at(name)} are the same file: its people would be taken twice. Remove "
                "the link."
            )


def _look(folder: Folder, name: str) -> tuple[Source, list[int]]:
    """A file as a source, and the rows of its row groups."""
    with folder.open(name) as file, pq.ParquetFile(file) as table:
        size, metadata = file.size(), table.metadata
        groups = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        file.seek(size - 8 - length)
        footer = hashlib.sha256(file.read(length)).hexdigest()
    return Source(name=name, size=size, rows=sum(groups), footer=footer), groups


def _cut(groups: list[int]) -> Iterator[tuple[int, int, int, int]]:
    """(first, last, row, rows) of runs of row groups of at most `PART_ROWS` rows, or of one that is larger."""
    first = row = rows = 0
    for place, count in enumerate(groups):
        if rows and rows + count > PART_ROWS:
            yield first, place, row, rows
            first, row, rows = place, row + rows, 0
        rows += count
    if rows:
        yield first, len(groups), row, rows
