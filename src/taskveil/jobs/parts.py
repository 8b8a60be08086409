"""What becomes of the rows of one part, wherever that is computed: reports, estimates, or what they add up to.

A part may be tried several times and by several at once; `settle` makes exactly one of it (`jobs.storage` says how).
What is sent to other machines is the release's files as bytes, opened and checked there as a device does.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np

from taskveil.client.device import Device
from taskveil.client.reading import read_device
from taskveil.errors import DataError, needs
from taskveil.estimates.scores import Tally, scores_of
from taskveil.jobs.answers import Answers, estimates_of, outputs_of
from taskveil.jobs.columns import check_units, encoder_input, match_columns, words_of
from taskveil.jobs.files import TableFile
from taskveil.jobs.plans import Part, Source, check_job, check_same
from taskveil.jobs.report_files import RELEASE, report_schema
from taskveil.jobs.reports import report_batches, report_columns, tally_rows
from taskveil.jobs.storage import Folder
from taskveil.tasks import Task
from taskveil.veil import Veil

with needs("a folder of records"):
    import pyarrow as pa
    import pyarrow.parquet as pq

JOB = b"taskveil.job"
"""Under which a part's metadata has the name of its job and its number."""
_CHUNK = 1 << 20
_TRIED = 16  # reports by whose answers two models are told apart
Groups = Sequence[int]
Files = tuple[tuple[str, bytes], ...]
"""A release's files by name, as `Veil.files` gives them."""


class Making(Protocol):
    """Rows in, rows out, some at a time."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that come out; the id of the release is in its metadata."""
        ...

    def check(self, table: TableFile) -> None:
        """A DataError if the table does not fit."""
        ...

    def batches(self, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        """One row for every row of some row groups of a table."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Privatizing:
    """A report for every row. `files` are those of a release's client folder; the rest is as in `privatize_table`."""

    files: Files
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    verify_key: bytes | None = None

    @property
    def device(self) -> Device:
        """What every row goes through, checked bit by bit."""
        return _device(self.files, self.verify_key)[0]

    @property
    def schema(self) -> pa.Schema:
        """Of reports."""
        device, release = _device(self.files, self.verify_key)
        return report_schema(device.mechanism.report_width, release)

    def check(self, table: TableFile) -> None:
        """A DataError if columns are lost, or in other units."""
        self._names(table)

    def batches(self, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        """Reports, each drawn anew from the operating system's entropy."""
        names, device, schema, done = self._names(table), self.device, self.schema, 0
        for batch in table.batches(names, words=words_of(device), groups=groups):
            reports = device.privatize(encoder_input(device, batch, names, table, done))
            yield pa.record_batch([pa.array(column) for column in reports.T], schema=schema)
            done += len(reports)

    def _names(self, table: TableFile) -> list[str]:
        names = match_columns(self.device, table, dict(self.columns))
        check_units(self.device, table, names, dict(self.units))
        return names


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoding:
    """An estimate, or an answer of the task, for every report. `files` are those of the whole release; the rest is as
    in `decode_table` and `Veil.load`."""

    files: Files
    columns: Mapping[str, str] = field(default_factory=dict)
    predict: bool = False
    probabilities: bool = False
    task: Task | None = None
    verify_key: bytes | None = None

    @property
    def veil(self) -> Veil:
        """The release, opened and checked."""
        return veil_of(self.files, self.verify_key, self.task)

    @property
    def schema(self) -> pa.Schema:
        """Of estimates or answers."""
        return self._answers().schema.with_metadata({RELEASE: self.veil.release_id.encode()})

    def check(self, table: TableFile) -> None:
        """A DataError if the reports are of another release."""
        report_columns(self.veil, table)

    def batches(self, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        """What the server makes of every report."""
        answers, schema = self._answers(), self.schema
        for reports in report_batches(table, report_columns(self.veil, table), groups=groups, made=len(schema)):
            yield pa.record_batch(answers.arrays(reports), schema=schema)

    def sample(self) -> str:
        """A digest of what some reports are answered with, to six digits: another model has another."""
        layout = self.veil.mechanism.layout
        high = np.minimum(np.array(layout.high, dtype=object) - layout.low, _TRIED - 1)
        reports = np.array(layout.low, dtype=object) + np.minimum(np.arange(_TRIED)[:, None], high)
        answers = np.column_stack(self._answers().arrays(reports.astype(np.int64)))
        told = [*self.schema.names, *(f"{answer:.6g}" for answer in answers.ravel())]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()

    def _answers(self) -> Answers:
        if self.predict:
            return outputs_of(self.veil)
        return estimates_of(self.veil, dict(self.columns), probabilities=self.probabilities)


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A part that is there: its file, rows, bytes and SHA-256, and which rows it is of."""

    file: str
    rows: int
    bytes: int
    sha256: str
    source: str
    row: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Settling:
    """How each part of a job comes to be in the `target`, exactly once."""

    job: str
    making: Making
    sources: tuple[Source, ...]
    source: Folder
    target: Folder

    def __call__(self, part: Part) -> Settled:
        """The part, made now unless it is there; what is there is only looked at."""
        if self.target.kind(part.name) == "nothing":
            self._make(part)
        return self._look(part)

    def packed(self, result: Settled) -> pa.Table:
        """As one row."""
        return pa.Table.from_pylist([asdict(result)])

    def unpacked(self, row: pa.Table) -> Settled:
        """What was packed."""
        return Settled(**row.select([part.name for part in fields(Settled)]).to_pylist()[0])

    def _make(self, part: Part) -> None:
        source = self.sources[part.source]
        check_job(self.job, self.target)  # before anything is drawn
        check_same(source, self.source)
        table = TableFile.open(PurePosixPath(self.source.at(source.name)), self.source.filesystem)
        schema = self.making.schema
        stated = {**(schema.metadata or {}), JOB: self._stated(part)}
        with self.target.draft() as draft:
            done = 0
            with pq.ParquetWriter(draft.file, schema.with_metadata(stated)) as writer:
                for batch in self.making.batches(table, range(part.first, part.last)):
                    writer.write_batch(batch.replace_schema_metadata(stated))
                    done += batch.num_rows
            if done != part.rows:
                raise DataError(f"{self.source.at(source.name)} has changed while it was read. Nothing was kept of it.")
            check_same(source, self.source)  # as it was when it was read, too
            check_job(self.job, self.target)
            with contextlib.suppress(FileExistsError):  # another attempt was first; ours disappears unread
                draft.publish(part.name)

    def _look(self, part: Part) -> Settled:
        """What lies there, or a DataError if it is not the part."""
        with self.target.open(part.name) as file:
            digest = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            size = file.size()
            file.seek(0)
            try:
                with pq.ParquetFile(file) as written:
                    rows, stated = written.metadata.num_rows, (written.schema_arrow.metadata or {}).get(JOB)
            except pa.ArrowException:
                rows, stated = -1, None
        if rows != part.rows or stated != self._stated(part):
            raise DataError(
                f"{self.target.at(part.name)} is not the part that this job makes: somebody else has put it there, or "
                "the disk has damaged it. Nothing was changed."
            )
        source = self.sources[part.source].name
        return Settled(file=part.name, rows=rows, bytes=size, sha256=digest.hexdigest(), source=source, row=part.row)

    def _stated(self, part: Part) -> bytes:
        return f"{self.job}/{part.number}".encode()


@dataclass(frozen=True, kw_only=True, eq=False)
class Counting:
    """What each part of a folder of reports adds up to. `files` are those of the whole release."""

    files: Files
    sources: tuple[Source, ...]
    source: Folder

    def __call__(self, part: Part) -> Tally:
        """Of the reports of a part."""
        source, veil = self.sources[part.source], veil_of(self.files)
        check_same(source, self.source)
        table = TableFile.open(PurePosixPath(self.source.at(source.name)), self.source.filesystem)
        return tally_rows(veil, table, range(part.first, part.last))

    @property
    def nothing(self) -> Tally:
        """What no report adds up to."""
        veil = veil_of(self.files)
        return scores_of(veil).tally(np.zeros((0, veil.mechanism.report_width), dtype=np.int64))

    def packed(self, result: Tally) -> pa.Table:
        """As one row: whole numbers and doubles, bit for bit."""
        return pa.table(
            {
                "release": [result.release],
                "count": [result.count],
                "codes": pa.array([result.codes], type=pa.list_(pa.int64())),
                "total": pa.array([result.total], type=pa.list_(pa.float64())),
                "square": pa.array([result.square.ravel()], type=pa.list_(pa.float64())),
            }
        )

    def unpacked(self, row: pa.Table) -> Tally:
        """What was packed."""
        codes, total, square = (row.column(name)[0].values for name in ("codes", "total", "square"))
        sums = np.asarray(total)
        return Tally(
            release=row.column("release")[0].as_py(),
            count=row.column("count")[0].as_py(),
            codes=None if codes is None else np.asarray(codes),
            total=sums,
            square=np.asarray(square).reshape(len(sums), len(sums)),
        )


@lru_cache(maxsize=2)
def _device(files: Files, verify_key: bytes | None) -> tuple[Device, str]:
    """The device of a release and its id; opened once in a process, however many parts come."""
    device, manifest = read_device(dict(files), verify_key)
    return device, str(manifest["digest"])


@lru_cache(maxsize=2)
def veil_of(files: Files, verify_key: bytes | None = None, task: Task | None = None) -> Veil:
    """The release that these files make; opened once in a process."""
    return Veil.from_files(dict(files), task=task, verify_key=verify_key)
