"""The work on the rows of a table: each row becomes a report or an estimate, or is counted.

A part of a table may be tried several times, and by several processes at once. `PartWriter` publishes exactly one
result (`jobs.storage` says how). Other machines get the files of the release as bytes, and check them as a device does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from taskveil.client.base_field import Coded
from taskveil.client.device import Device
from taskveil.client.families import FAMILY, DeviceFamily, draw, read_family, single
from taskveil.client.fields import Number
from taskveil.client.reading import read_device
from taskveil.errors import DataError, TaskveilError, needs
from taskveil.estimates.scores import Tally, scores_of
from taskveil.jobs.fingerprints import Fingerprint
from taskveil.jobs.plans import JobPart, Source, check_job
from taskveil.jobs.reports import (
    MEMBER,
    RELEASE,
    AnswerColumns,
    csv_batch,
    csv_schema,
    estimates_of,
    family_schema,
    outputs_of,
    own_batches,
    report_batches,
    report_columns,
    report_schema,
)
from taskveil.jobs.storage import Draft, Folder
from taskveil.jobs.tables import (
    BATCH_BYTES,
    TableFile,
    check_units,
    encoder_input,
    match_columns,
    natural_values,
    words_of,
)
from taskveil.tasks import Task, check_single
from taskveil.veil import Veil

with needs("a folder of records"):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

JOB, SOURCE = b"taskveil.job", b"taskveil.source"
"""Keys in the metadata of a part: of the job's name and the part's number, and of the bytes that it was made of."""
UNSEALED = "0" * hashlib.sha256().digest_size * 2
"""Stands in a part for the SHA-256 of the part itself, until all of it is written."""
Groups = Sequence[int] | None
"""Row groups of a table; None for all rows."""
Files = tuple[tuple[str, bytes], ...]
"""The files of a release by name, as `Veil.files` gives them."""


@dataclass
class Unfit:
    """Counts of values that no field has, by column: how many are `missing`, and how many are `outside` the bounds or
    the list of values, among all `rows`. They are for the person who has the table: no file holds them."""

    rows: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)

    def add(self, device: Device, names: Sequence[str], values: Sequence[Any]) -> None:
        """Count more values: columns (N,) by name."""
        fields = device.fields.fields if device.fields else [Number()] * len(names)
        for name, one, column in zip(names, fields, values, strict=True):
            missing, outside = one.outside(column)
            self.missing[name] += missing
            self.outside[name] += outside
        self.rows += len(values[0].codes if isinstance(values[0], Coded) else values[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Privatizing:
    """Draws a report for every row. `files` are those of a release's client folder, or those of a family that devices
    read: then every row gets a report of a member that is drawn for it. The rest is as in `commands.privatize_tables`.
    """

    files: Files
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    verify_key: bytes | None = None
    unfit: Unfit | None = None
    """Counts values that are no values of their field, on this machine."""

    @property
    def family(self) -> DeviceFamily:
        """What every row goes through, after all checks; one release is a family of one member."""
        return _family(self.files, self.verify_key)

    @property
    def schema(self) -> pa.Schema:
        """The schema of a file of reports."""
        members, release = self.family.members, self.family.release.hex()
        widths = {one.name: one.device.mechanism.report_width for one in members}
        if len(members) == 1:
            return report_schema(max(widths.values()), release)
        return family_schema(widths, {one.name: one.release.hex() for one in members}, release)

    def batches(self, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        """New reports, drawn from the operating system's entropy."""
        names, family, schema, done = self.names(table), self.family, self.schema, 0
        first, width = family.members[0].device, max(one.device.mechanism.report_width for one in family.members)
        for batch in table.batches(names, words=words_of(first), groups=groups):
            # The members are drawn from the number of rows alone, before anything is made of the rows.
            places = draw([one.weight for one in family.members], batch.num_rows)
            reports = np.zeros((batch.num_rows, width), dtype=np.int64)
            for place, member in enumerate(family.members):
                own = np.flatnonzero(places == place)
                values = natural_values(member.device, batch, names, table, done)
                records = encoder_input(member.device, values)
                if self.unfit is not None and place == 0:  # every member takes the same columns
                    self.unfit.add(first, names, values)
                reports[own, : member.device.mechanism.report_width] = member.device.privatize(records[own])
            more = [] if len(family.members) == 1 else [pa.array([family.members[place].name for place in places])]
            yield pa.record_batch([*(pa.array(column) for column in reports.T), *more], schema=schema)
            done += len(reports)

    def names(self, table: TableFile) -> list[str]:
        """The columns that are read, or a DataError if one is missing or has another unit."""
        for member in self.family.members:
            names = match_columns(member.device, table, dict(self.columns))
            check_units(member.device, table, names, dict(self.units))
        return names


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoding:
    """Computes an estimate, or an answer of the task, for every report. `files` are those of the whole release; the
    rest is as in `commands.decode_tables`."""

    files: Files
    columns: Mapping[str, str] = field(default_factory=dict)
    predict: bool = False
    probabilities: bool = False
    task: Task | None = None
    verify_key: bytes | None = None
    of_family: bool = False
    """Whether the reports are of a family that the release is a member of. Rows of other members are then empty, and a
    column `member` says which rows are of this one."""

    @property
    def veil(self) -> Veil:
        """The veil of the release, after all checks."""
        return veil_of(self.files, self.verify_key, self.task)

    @property
    def schema(self) -> pa.Schema:
        """The schema of a file of estimates or answers."""
        schema = self._answers().schema
        if self.of_family:
            more = pa.field(MEMBER, pa.bool_(), nullable=False)
            schema = pa.schema([*(one.with_nullable(True) for one in schema), more])
        return schema.with_metadata({RELEASE: self.veil.release_id.encode()})

    def names(self, table: TableFile) -> list[str]:
        """The columns that are read, or a DataError if the reports were made with another release."""
        return report_columns(self.veil, table)

    def batches(self, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        """Estimates or answers."""
        answers, schema = self._answers(), self.schema
        for reports, held in own_batches(self.veil, table, groups, made=len(schema)):
            if held is None:
                yield pa.record_batch(answers.arrays(reports), schema=schema)
                continue
            places = pa.array(np.where(held, np.cumsum(held) - 1, 0), mask=~held)  # null where another member reported
            arrays = [pa.array(one).take(places) for one in answers.arrays(reports[held])]
            yield pa.record_batch([*arrays, pa.array(held)], schema=schema)

    def sample(self) -> str:
        """A digest of the answers to 16 reports, to six digits. It differs between models."""
        layout, count = self.veil.mechanism.layout, 16
        high = np.minimum(np.array(layout.high, dtype=object) - layout.low, count - 1)
        reports = np.array(layout.low, dtype=object) + np.minimum(np.arange(count)[:, None], high)
        answers = np.column_stack(self._answers().arrays(reports.astype(np.int64)))
        digits = [*self.schema.names, *(f"{answer:.6g}" for answer in answers.ravel())]
        return hashlib.sha256("\0".join(digits).encode()).hexdigest()

    def _answers(self) -> AnswerColumns:
        veil = self.veil
        check_single(veil.task)
        if self.predict:
            return outputs_of(veil)
        return estimates_of(veil, dict(self.columns), probabilities=self.probabilities)


RowWork = Privatizing | Decoding
"""Turns the rows of a table into the rows of another table."""


def write_rows(
    draft: Draft,
    work: RowWork,
    table: TableFile,
    groups: Groups = None,
    *,
    metadata: Callable[[], Mapping[bytes, bytes]] = dict,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Writes the results of a table's rows into a draft, as Parquet, with `metadata` that is known at the end; returns
    the number of rows."""
    rows = 0
    with pq.ParquetWriter(draft.file, work.schema) as writer:
        for batch in work.batches(table, groups):
            writer.write_batch(batch)
            rows += batch.num_rows
            progress(batch.num_rows)
        writer.add_key_value_metadata(metadata())
    return rows


def write_csv(draft: Draft, work: RowWork, table: TableFile, *, progress: Callable[[int], None]) -> int:
    """As `write_rows`, but writes CSV. Reports get a column `release` with the id that Parquet has in its metadata."""
    rows, schema = 0, csv_schema(work.schema)
    with pa.csv.CSVWriter(draft.file, schema) as writer:
        for batch in work.batches(table, None):
            writer.write_batch(csv_batch(batch, schema))
            rows += batch.num_rows
            progress(batch.num_rows)
    return rows


@dataclass(frozen=True, kw_only=True)
class WrittenPart:
    """A part that is published: its file, rows, bytes and SHA-256; its source, its first row there, and the fingerprint
    of the bytes that it was made of."""

    file: str
    rows: int
    bytes: int
    sha256: str
    source: str
    row: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True, eq=False)
class PartWriter:
    """Publishes each part of a job in the `target`, exactly once."""

    job: str
    work: RowWork
    sources: tuple[Source, ...]
    source: Folder
    target: Folder

    def __call__(self, part: JobPart) -> WrittenPart:
        """The part. It is made now unless it is there; a part that is there is only read."""
        made = self.target.kind(part.name) == "nothing" and self._make(part)
        return self._look(part, made=made)

    def _make(self, part: JobPart) -> bool:
        """Whether this attempt has published the part: another one may have been first."""
        source, fingerprint = self.sources[part.source], Fingerprint(self.job)
        check_job(self.job, self.target)  # before any report is drawn
        table = replace(source.open(self.source), fingerprint=fingerprint)

        def metadata() -> dict[bytes, bytes]:
            made_of = {
                "version": table.version,
                "columns": "all" if fingerprint.whole else "some",
                "fingerprint": fingerprint.hexdigest(),
                "seal": UNSEALED,
            }
            return {JOB: self._stated(part), SOURCE: json.dumps(made_of).encode()}

        with self.target.draft() as draft:
            rows = write_rows(draft, self.work, table, range(part.first, part.last), metadata=metadata)
            if rows != part.rows:
                raise DataError(f"{self.source.at(source.name)} changed while it was read. Nothing was kept of it.")
            _seal(draft.file)
            source.open(self.source)  # it must not have changed while it was read
            check_job(self.job, self.target)
            try:
                draft.publish(part.name)
            except FileExistsError:  # another attempt was first: this one is deleted unread
                return False
        return True

    def _look(self, part: JobPart, *, made: bool) -> WrittenPart:
        """The part that is there, or a DataError if the file is not this part. Unless it was `made` now, one is also
        raised if it was made of other bytes than those that are in the source."""
        try:
            with self.target.open(part.name) as file, pq.ParquetFile(file) as written:
                size, rows, stated = file.size(), written.metadata.num_rows, written.metadata.metadata or {}
                source = dict(json.loads(stated[SOURCE]))
                version, columns, fingerprint = (str(source.pop(key)) for key in ("version", "columns", "fingerprint"))
                seal = str(source.pop("seal", ""))  # parts of earlier versions have none
                sha256, sealed, _ = _digests(file, seal.encode())
            if source or (seal and seal != sealed):
                raise ValueError("a part that was changed")
        except TaskveilError:
            raise
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, RecursionError):
            rows, stated = -1, {}
        if rows != part.rows or stated.get(JOB) != self._stated(part):
            raise DataError(
                f"{self.target.at(part.name)} is not the part that this job makes: another program has written it, or "
                "the disk has damaged it. Nothing was changed."
            )
        if not made:
            self._compare(part, version, columns, fingerprint)
        return WrittenPart(
            file=part.name,
            rows=rows,
            bytes=size,
            sha256=sha256,
            source=self.sources[part.source].name,
            row=part.row,
            fingerprint=fingerprint,
        )

    def _compare(self, part: JobPart, version: str, columns: str, fingerprint: str) -> None:
        """Raises a DataError unless the source still has the bytes that a part was made of."""
        source = self.sources[part.source]
        table, place = source.open(self.source), self.source.at(source.name)
        if table.version == version and version.startswith("etag="):  # an object store vouches for all bytes
            return
        remedy = "Put the old file back, or start a new job in another folder."
        unknown = version in ("", "None")  # earlier versions wrote None
        if unknown and columns != "all":
            raise DataError(
                f"{place} lies in a storage that does not say when a file was written. This job reads only some of its "
                f"columns, so that it cannot tell whether the rows are still those of the people in {part.name}. No "
                "report was drawn. Start a new job in another folder, with a copy of the source on a disk."
            )
        if table.version != version and columns != "all":
            raise DataError(
                f"{place} was written, moved or copied since {part.name} was made of it. This job reads only some of "
                "its columns, so that it cannot tell whether the rows are still those of the same people. No report "
                f"was drawn. {remedy}"
            )
        groups = range(part.first, part.last)
        if table.fingerprint_of(self.job, self.work.names(table), groups) != fingerprint:
            raise DataError(
                f"{place} has changed since {part.name} was made of it: some people would get a second report, and "
                f"others none. No report was drawn. {remedy}"
            )

    def _stated(self, part: JobPart) -> bytes:
        return f"{self.job}/{part.number}".encode()


def _digests(file: Any, seal: bytes) -> tuple[str, str, int]:
    """The SHA-256 of an open Parquet file; the same with `UNSEALED` instead of the seal in its footer; and the place of
    the seal, which is before the footer if there is none. Names and values of columns come earlier in the footer, and
    may be zeros too."""
    size = file.seek(0, os.SEEK_END)
    file.seek(size - 8)
    start = size - 8 - int.from_bytes(file.read(4), "little")
    file.seek(0)
    whole, left = hashlib.sha256(), start
    while left > 0 and (block := file.read(min(left, BATCH_BYTES // 64))):
        whole.update(block)
        left -= len(block)
    sealed, footer = whole.copy(), bytes(file.read())
    whole.update(footer)
    sealed.update(footer.replace(seal, UNSEALED.encode(), 1))
    return whole.hexdigest(), sealed.hexdigest(), start + footer.rfind(seal)


def _seal(file: Any) -> None:
    """Writes the SHA-256 of a part into it, over `UNSEALED`."""
    _, sealed, place = _digests(file, UNSEALED.encode())
    file.seek(place)
    file.write(sealed.encode())


@dataclass(frozen=True, kw_only=True, eq=False)
class Counting:
    """Adds up the reports of each part. `files` are those of the whole release."""

    files: Files
    sources: tuple[Source, ...]
    source: Folder

    def __call__(self, part: JobPart) -> Tally:
        """The tally of the reports of a part."""
        veil, total = veil_of(self.files), self.empty
        scores, table = scores_of(veil), self.sources[part.source].open(self.source)
        for reports in report_batches(veil, table, range(part.first, part.last)):
            total += scores.tally(veil.checked(reports))
        return total

    @property
    def empty(self) -> Tally:
        """The tally of no report."""
        veil = veil_of(self.files)
        return scores_of(veil).tally(np.zeros((0, veil.mechanism.report_width), dtype=np.int64))


@lru_cache(maxsize=2)
def _family(files: Files, verify_key: bytes | None) -> DeviceFamily:
    """The family or the release in these files. A process opens it once for all parts."""
    if FAMILY in dict(files):
        return read_family(dict(files), verify_key)
    device, manifest = read_device(dict(files), verify_key)
    return single(device, bytes.fromhex(manifest["digest"]))


@lru_cache(maxsize=2)
def veil_of(files: Files, verify_key: bytes | None = None, task: Task | None = None) -> Veil:
    """The veil of a release. A process opens a release once for all parts."""
    return Veil.from_files(dict(files), task=task, verify_key=verify_key)
