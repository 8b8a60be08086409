"""The plan of a job: which rows become which part.

A job over a folder of Parquet files is cut into parts of half a million rows, along the files' row groups. The plan is
written into the target (`_plan.json`) before any part, and never changes: an interrupted job continues with it, and a
job that differs in anything is refused. When all parts are there, `_manifest.json` lists the rows, the size and the
SHA-256 of each. Most readers of Parquet folders ignore both files, because their names begin with an underscore; in
polars, name the files to read (`*.parquet`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from taskveil.errors import DataError
from taskveil.jobs.storage import Folder, Place
from taskveil.jobs.tables import BATCH_ROWS, TableFile

PLAN, MANIFEST = "_plan.json", "_manifest.json"
FORMAT = "0.3"
"""The first version of taskveil whose parts state the bytes that they were made of."""
PART_NAME = re.compile(r"part-\d{5,}\.parquet")
PART_ROWS = 8 * BATCH_ROWS
"""Rows of a part, unless a single row group has more: seconds of work, which is what a lost worker costs."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A Parquet file by its `name` in the source folder. Its `size`, `rows` and `footer` (SHA-256) are the same for a
    job that continues. Its `version` is the same as long as a job runs (`TableFile.version`)."""

    name: str
    size: int
    rows: int
    footer: str
    version: str = field(default="", compare=False)

    @classmethod
    def of(cls, name: str, table: TableFile) -> Source:
        """The source that is now in an open file."""
        rows = sum(table.groups)
        return cls(name=name, size=table.size, rows=rows, footer=table.footer, version=table.version)

    def open(self, folder: Folder) -> TableFile:
        """The table, or a DataError if the file has changed since it was planned for."""
        try:
            table = _opened(folder, self.name)
        except DataError:  # it is no table any more
            table = None
        if table is None or Source.of(self.name, table) != self or table.version != self.version:
            raise DataError(
                f"{folder.at(self.name)} has changed since this job began. Nothing was made of it; put the old file "
                "back, or start a new job for the new file in another folder."
            )
        return table


@dataclass(frozen=True, kw_only=True)
class JobPart:
    """The row groups `first` to before `last` of a source: `rows` rows, after the first `row` rows of the file."""

    number: int
    source: int
    first: int
    last: int
    row: int
    rows: int

    @property
    def name(self) -> str:
        """The name of its file in the target."""
        return f"part-{self.number:05d}.parquet"


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """All parts of a `job`, which has a random name; `what` states what becomes of the rows, and the release."""

    job: str
    format: str = FORMAT
    what: Mapping[str, Any]
    sources: tuple[Source, ...]
    parts: tuple[JobPart, ...]

    @classmethod
    def of(cls, tables: Mapping[str, TableFile], what: Mapping[str, Any]) -> JobPlan:
        """A new plan for all `tables`, by name."""
        parts: list[JobPart] = []
        for number, table in enumerate(tables.values()):
            for first, last, row, rows in _cut(table.groups):
                parts.append(JobPart(number=len(parts), source=number, first=first, last=last, row=row, rows=rows))
        sources = tuple(Source.of(name, table) for name, table in tables.items())
        return cls(job=secrets.token_hex(16), what=dict(what), sources=sources, parts=tuple(parts))

    @property
    def rows(self) -> int:
        """The rows of all parts."""
        return sum(part.rows for part in self.parts)

    def same(self, other: JobPlan) -> bool:
        """Whether both plans turn the same rows into the same results."""
        return (self.what, self.sources, self.parts) == (other.what, other.sources, other.parts)

    def content(self) -> bytes:
        """The content of the plan's file."""
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def read(cls, content: bytes, place: str) -> JobPlan:
        """The plan in a file, or a DataError that names the `place`. Its numbers are not checked: compare it with a
        plan of your own."""
        try:
            found = json.loads(content)
            return cls(
                job=_job_in(found),
                format=str(found.get("format", "")),
                what=dict(found["what"]),
                sources=tuple(Source(**source) for source in found["sources"]),
                parts=tuple(JobPart(**part) for part in found["parts"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{place} is no plan of taskveil ({type(error).__name__}).") from error


def _job_in(found: Any) -> str:
    """The name of the job in a plan or a manifest, or a ValueError if it is no text (half of a surrogate pair)."""
    return str(found["job"]).encode().decode()


def check_job(job: str, target: Folder) -> None:
    """Raises a DataError unless the target's plan is that of the `job`. It is not if another job has begun there, or if
    this machine has a folder of its own under the same path."""
    with target.open(PLAN) as file:
        begins = file.read(len(job) + 32)  # `job` comes first; the whole plan may be large
    if f'"job": "{job}"'.encode() not in begins:
        raise DataError(
            f"{target.path} is another job's since this one began, or is not the same folder on all machines. This job "
            "has stopped."
        )


def check_unchanged(folder: Folder, sources: Sequence[Source]) -> None:
    """Raises a DataError if a source has changed since it was planned for."""
    _together(lambda source: source.open(folder), sources)


def opened(
    source: Place, *, apart_from: Folder | None = None, verify: bool = True
) -> tuple[Folder, dict[str, TableFile]]:
    """The folder of a source and its tables by name; there is one table if the source is a file.

    If a job has written the folder, the tables are those that its manifest lists. A DataError is raised if the job has
    not ended, if other tables lie there, or if the target `apart_from` lies inside the source. With `verify`, one is
    also raised if a table is not the one in the manifest, by its SHA-256.
    """
    folder = Folder.of(source)
    kind, stated = folder.kind(), dict[str, str]()
    if kind == "nothing":
        raise DataError(f"cannot read {str(source)!r}: there is no such file or folder.")
    if apart_from is not None and f"{apart_from.path}/".startswith(f"{folder.path}/"):
        raise DataError(f"{apart_from.path} lies inside the source: its own parts would be read as records.")
    if kind == "file":
        home, _, name = folder.path.rpartition("/")
        folder, names = replace(folder, path=home), [name]
    else:
        names, below = sorted(folder.tables(), key=_place), set(folder.names(below=True))
        for home in sorted({name.removesuffix(PurePosixPath(name).name) for name in below}):
            place = replace(folder, path=folder.at(home.rstrip("/")))
            planned = f"{home}{PLAN}" in below  # a job writes or wrote here
            if planned or (f"{home}{MANIFEST}" in below and _is_ours(place)):
                listed = check_complete(place, planned=planned)
                stated |= {f"{home}{part}": sha256 for part, sha256 in listed.items()}
    if not names:
        raise DataError(f"{folder.path} holds no Parquet files.")
    if folder.is_local:
        _check_once(folder, names)

    def checked(name: str) -> TableFile:
        table = _opened(folder, name)  # first: a file that changes after it was checked has another version
        if verify and name in stated and folder.sha256(name) != stated[name]:
            raise DataError(
                f"{folder.at(name)} is not the file that its job wrote: its SHA-256 is not the one in {MANIFEST}. "
                "Another program has changed it, or the disk has damaged it. Make the folder again, or read it as it "
                "is (--no-verify)."
            )
        return table

    return folder, dict(zip(names, _together(checked, names), strict=True))


def _together(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of a function that mostly waits for disks and networks."""
    with ThreadPoolExecutor(16) as readers:
        return list(readers.map(function, items))


def _opened(folder: Folder, name: str) -> TableFile:
    return TableFile.open(PurePosixPath(folder.at(name)), folder.filesystem)


def _place(name: str) -> str:
    """The key by which tables are ordered: parts by number, also from 100,000 up, which have a digit more."""
    home, _, last = name.rpartition("/")
    return f"{home}/part-{last[5:-8]:0>20}.parquet" if PART_NAME.fullmatch(last) else name


def _is_ours(folder: Folder) -> bool:
    """Whether the manifest of a folder without a plan lists parts of a job: other programs use this name, too."""
    return b'"sha256"' in (content := folder.read(MANIFEST)) and b'"part-' in content


def check_complete(folder: Folder, *, planned: bool = True) -> dict[str, str]:
    """The SHA-256 of each part in the manifest of a folder, or a DataError unless the job has ended, and the folder
    holds exactly its parts. The plan must be that of the same job, if there was one (`planned`)."""
    if folder.kind(MANIFEST) == "nothing":
        raise DataError(f"{folder.path} is not complete: run its job again to continue.")
    try:
        manifest = json.loads(folder.read(MANIFEST))
        job, listed = _job_in(manifest), {str(part["file"]): str(part["sha256"]) for part in manifest["parts"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{folder.at(MANIFEST)} is no manifest of taskveil ({type(error).__name__}).") from error
    if planned:
        check_job(job, folder)
    if sorted(listed) != folder.tables():
        raise DataError(f"{folder.path} does not hold the parts that its {MANIFEST} lists, and no others.")
    return listed


def _check_once(folder: Folder, names: list[str]) -> None:
    """Raises a DataError if a link makes a file appear twice: its people would get two reports, or count twice."""
    seen: dict[tuple[int, int], str] = {}
    for name in names:
        found = os.stat(folder.at(name))
        first = seen.setdefault((found.st_dev, found.st_ino), name)
        if first != name:
            raise DataError(
                f"{folder.at(first)} and {folder.at(name)} are the same file: its people would be taken twice. Remove "
                "the link."
            )


def _cut(groups: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """(first, last, row, rows) of runs of row groups of at most `PART_ROWS` rows, or of one larger row group."""
    first = row = rows = 0
    for place, count in enumerate(groups):
        if rows and rows + count > PART_ROWS:
            yield first, place, row, rows
            first, row, rows = place, row + rows, 0
        rows += count
    if rows:
        yield first, len(groups), row, rows
