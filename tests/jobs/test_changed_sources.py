"""A job that continues reads the same bytes as before, or it is refused before anything is drawn."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import taskveil as tv
from cli.running import run as cli
from jobs.test_commands import interrupted, seen
from lost_workers import people
from taskveil.client.reading import client_files
from taskveil.errors import DataError
from taskveil.jobs import plans
from taskveil.jobs.commands import Done, decode_tables, privatize_tables, tally_tables
from taskveil.jobs.fingerprints import Fingerprint
from taskveil.jobs.parts import JOB, SOURCE, Counting, PartWriter, Privatizing
from taskveil.jobs.plans import MANIFEST, PLAN, JobPart, Source
from taskveil.jobs.storage import Folder
from taskveil.jobs.tables import TableFile

ROWS, GROUP = 4096, 1024


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release, and two files of truth values in four parts each."""
    monkeypatch.setattr(plans, "PART_ROWS", GROUP)
    people.veil().save(tmp_path / "release")
    (tmp_path / "people").mkdir()
    for number in range(2):
        write(tmp_path / f"people/{number}.parquet", truths(number))
    return tmp_path


def truths(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((ROWS, 4)) < 0.5


def write(path: Path, values: np.ndarray, **more: Any) -> None:
    columns = dict(zip("abcd", values.T, strict=True))
    plain = {"use_dictionary": False, "write_statistics": False, "compression": "none"} if more else {}
    pq.write_table(pa.table({**columns, **more}), path, row_group_size=GROUP, **plain)


def footer(path: Path) -> bytes:
    content = path.read_bytes()
    return content[-8 - int.from_bytes(content[-8:-4], "little") :]


def job(home: Path, **options: Any) -> Done:
    return privatize_tables(home / "release", home / "people", home / "reports", **options)


def begun(home: Path, monkeypatch: pytest.MonkeyPatch, parts: int = 2) -> dict[str, Any]:
    """The parts of a job that was killed after so many."""
    with interrupted(monkeypatch, after=parts):
        job(home)
    found = seen(home)
    assert len(found) == parts
    return found


def refused(home: Path, before: dict[str, Any], monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """The job is refused, and no report is drawn."""

    def never(*_: object) -> None:
        raise AssertionError("a report was drawn")

    with monkeypatch.context() as patch:
        patch.setattr(Privatizing, "batches", never)
        with pytest.raises(DataError, match=says):
            job(home)
    assert seen(home) == before
    assert not (home / "reports" / MANIFEST).exists()


def in_another_order(path: Path, rows: slice = slice(None)) -> None:
    """The same people again, some of them in another order, in a file with the same footer."""
    before, values = footer(path), truths(int(path.stem))
    some = np.arange(ROWS)[rows]
    values[some] = values[some[::-1]]
    write(path, values)
    assert footer(path) == before


@pytest.mark.parametrize("keep_time", [False, True])
def test_the_same_people_in_another_order_are_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, keep_time: bool
) -> None:
    """Some of them would have two reports, and others none: footers of such files are the same."""
    before = begun(home, monkeypatch)
    path = home / "people/0.parquet"
    stat = path.stat()
    in_another_order(path)
    if keep_time:
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    refused(home, before, monkeypatch, r"0\.parquet has changed since part-00000\.parquet was made of it")


def test_files_that_were_exchanged_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = begun(home, monkeypatch)
    first, second = home / "people/0.parquet", home / "people/1.parquet"
    assert footer(first) == footer(second)
    os.rename(first, home / "other")
    os.rename(second, first)
    os.rename(home / "other", second)
    refused(home, before, monkeypatch, r"0\.parquet has changed since")


def test_parts_that_are_not_made_yet_come_from_the_file_that_is_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts then are those of the new files: everybody in them has one report."""
    before = begun(home, monkeypatch)
    in_another_order(home / "people/0.parquet", slice(2 * GROUP, None))
    in_another_order(home / "people/1.parquet")
    done = job(home)
    assert (done.rows, done.found) == (2 * ROWS, 2)
    after = seen(home)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("way", ["touched", "copied", "written again"])
def test_the_same_bytes_are_the_same_source(way: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(home, monkeypatch)
    path = home / "people/0.parquet"
    if way == "touched":
        os.utime(path)
    elif way == "copied":
        shutil.copy(path, home / "copy")
        os.replace(home / "copy", path)
    else:
        write(path, truths(0))
    assert job(home).found == 2


@pytest.mark.parametrize("ids", ["other", "same"])
def test_columns_that_a_job_does_not_read_tell_people_apart(
    ids: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports come from columns that are the same in both files, but the rows are of other people. The job has not
    read their names, so that it cannot compare them: it takes a file only if nothing has written to it."""
    path, values = home / "people/0.parquet", np.sort(truths(0), axis=0)
    order = np.arange(ROWS)
    write(path, values, person=order)
    before = begun(home, monkeypatch)
    stat, same = path.stat(), footer(path)
    write(path, values, person=order[::-1] if ids == "other" else order)
    assert footer(path) == same
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    refused(home, before, monkeypatch, r"0\.parquet was written, moved or copied since part-00000\.parquet was made")


def test_an_unread_column_is_no_obstacle_if_nothing_was_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "people/0.parquet", truths(0), person=np.arange(ROWS))
    begun(home, monkeypatch)
    assert job(home).found == 2


@pytest.mark.parametrize("parts", [1, 4, 8])
def test_a_file_that_changes_during_a_run_is_noticed(parts: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all its parts are made: the manifest says that all reports come from one source."""
    draw, drawn = Privatizing.batches, []

    def batches(self: Privatizing, *given: Any) -> Any:
        yield from draw(self, *given)
        drawn.append(given)
        if len(drawn) == parts:
            in_another_order(home / "people/0.parquet")

    with monkeypatch.context() as patch:
        patch.setattr(Privatizing, "batches", batches)
        with pytest.raises(DataError, match=r"0\.parquet has changed"):
            job(home)
    assert not (home / "reports" / MANIFEST).exists()
    before = seen(home)
    if before:
        refused(home, before, monkeypatch, r"0\.parquet has changed since part-00000\.parquet")


def without_fingerprints(home: Path) -> None:
    """The folder as an earlier version would have left it."""
    plan = json.loads((home / "reports" / PLAN).read_text())
    plan.pop("format")
    for source in plan["sources"]:
        source.pop("version")
    (home / "reports" / PLAN).write_text(json.dumps(plan, indent=1))
    for path in (home / "reports").glob("part-*"):
        table = pq.read_table(path)
        kept = {key: value for key, value in table.schema.metadata.items() if key != b"taskveil.source"}
        pq.write_table(table.replace_schema_metadata(kept), path)


def test_a_job_of_an_earlier_version_is_not_continued(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(home, monkeypatch)
    without_fingerprints(home)
    refused(home, seen(home), monkeypatch, "began with an earlier version of taskveil")


def test_a_complete_folder_of_an_earlier_version_is_read(home: Path) -> None:
    job(home)
    without_fingerprints(home)
    manifest = json.loads((home / "reports" / MANIFEST).read_text())
    for part in manifest["parts"]:
        part.pop("fingerprint")
        content = home / "reports" / part["file"]
        part |= {"bytes": content.stat().st_size, "sha256": people.digest(content)}
    (home / "reports" / MANIFEST).write_text(json.dumps(manifest, indent=1))
    assert decode_tables(home / "release", home / "reports", home / "estimates").rows == 2 * ROWS
    with pytest.raises(DataError, match="draws a second report"):
        job(home)


class Stored(pa.OSFile):
    """An object of a bucket."""

    def metadata(self) -> dict[bytes, bytes]:
        return {b"Content-Length": b"1", b"ETag": Bucket.etag.encode()}


class Bucket:
    """A folder of this machine as S3 shows it."""

    type_name, etag = "s3", '"1"'

    def __getattr__(self, name: str) -> Any:
        return getattr(fs.LocalFileSystem(), name)

    def open_input_file(self, path: str) -> Stored:
        return Stored(path)


def test_objects_of_a_store_are_known_by_their_etag(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def writer() -> PartWriter:
        source = Folder(filesystem=Bucket(), path=str(home / "people"))
        tables = {name: TableFile.open(home / "people" / name, Bucket()) for name in ("0.parquet", "1.parquet")}
        sources = tuple(Source.of(name, table) for name, table in tables.items())
        work = Privatizing(files=tuple(client_files(home / "release").items()))
        return PartWriter(job="job", work=work, sources=sources, source=source, target=Folder.of(home / "reports"))

    part = JobPart(number=0, source=0, first=0, last=1, row=0, rows=GROUP)
    (home / "reports").mkdir()
    (home / "reports" / PLAN).write_text('{"job": "job"}')
    monkeypatch.setattr(Bucket, "etag", '"1"')
    early = writer()
    made = early(part)
    assert json.loads(pq.read_metadata(home / "reports" / part.name).metadata[SOURCE])["version"] == 'etag="1"'
    with monkeypatch.context() as patch:
        patch.delattr(TableFile, "fingerprint_of")  # the store vouches for it: not read again
        assert writer()(part) == made
    monkeypatch.setattr(Bucket, "etag", '"2"')
    with pytest.raises(DataError, match="has changed since this job began"):
        early(part)
    assert writer()(part) == made  # another upload of the same bytes
    in_another_order(home / "people/0.parquet")
    with pytest.raises(DataError, match="has changed since part-00000"):
        writer()(part)


class Silent(Bucket):
    """A folder of this machine in a storage that says nothing about the versions of files."""

    type_name = "py::fsspec+silent"

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(open(path, "rb"), mode="r")

    def get_file_info(self, path: str) -> fs.FileInfo:
        found = fs.LocalFileSystem().get_file_info(path)
        return fs.FileInfo(path, found.type, size=found.size)


@pytest.mark.parametrize("stated", ["", "None"])
@pytest.mark.parametrize("unread", [False, True])
def test_a_version_that_nobody_states_is_not_the_same_version(unread: bool, stated: str, home: Path) -> None:
    """Some storages of fsspec have no time of the last change."""
    path, order = home / "people/0.parquet", np.arange(ROWS)
    write(path, np.sort(truths(0), axis=0), **({"person": order} if unread else {}))
    table = TableFile.open(path, Silent())
    assert table.version == ""
    source, target = Folder(filesystem=Silent(), path=str(home / "people")), Folder.of(home / "reports")
    target.create()
    (home / "reports" / PLAN).write_text('{"job": "job"}')
    work = Privatizing(files=tuple(client_files(home / "release").items()))
    sources = (Source.of("0.parquet", table),)
    writer = PartWriter(job="job", work=work, sources=sources, source=source, target=target)
    part = JobPart(number=0, source=0, first=0, last=1, row=0, rows=GROUP)
    made = writer(part)
    place = home / "reports" / part.name
    if stated:  # as earlier versions wrote it
        reports, metadata = pq.read_table(place), pq.read_metadata(place).metadata
        found = json.loads(metadata[SOURCE])
        del found["seal"]
        with pq.ParquetWriter(place, reports.schema) as again:
            again.write_table(reports)
            again.add_key_value_metadata(
                {JOB: metadata[JOB], SOURCE: json.dumps({**found, "version": stated}).encode()}
            )
    if not unread:
        assert writer(part).fingerprint == made.fingerprint
        return
    write(path, np.sort(truths(0), axis=0), person=order[::-1])
    with pytest.raises(DataError, match=r"0\.parquet lies in a storage that does not say .* part-00000\.parquet"):
        writer(part)


def test_a_single_file_that_changes_while_it_is_read_gives_no_reports(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, draw = home / "people/0.parquet", Privatizing.batches
    pd.DataFrame(truths(0), columns=list("abcd")).astype(int).to_csv(home / "people.csv", index=False)

    def batches(self: Privatizing, table: TableFile, groups: Any) -> Any:
        yield from draw(self, table, groups)
        os.utime(table.path)

    monkeypatch.setattr(Privatizing, "batches", batches)
    for source in (path, home / "people.csv"):
        with pytest.raises(DataError, match=r"changed while it was read\. Nothing was written"):
            privatize_tables(home / "release", source, home / "reports.parquet")
        assert not (home / "reports.parquet").exists()


def test_reports_that_change_after_they_were_counted_are_not_an_estimate(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(home)
    count = Counting.__call__

    def late(self: Counting, part: JobPart) -> Any:
        found = count(self, part)
        if part.number == 7:
            os.utime(home / "reports/part-00000.parquet")
        return found

    monkeypatch.setattr(Counting, "__call__", late)
    with pytest.raises(DataError, match=r"part-00000\.parquet has changed"):
        tally_tables([home / "release"], [home / "reports"])


def test_a_file_whose_columns_share_their_bytes_has_a_fingerprint(home: Path) -> None:
    """A forged footer may say so; nobody waits for it forever."""
    table = TableFile.open(home / "people/0.parquet")

    class Twice:
        """A footer in which all columns of a row group lie in one place."""

        def __init__(self, found: Any) -> None:
            self.found, self.schema, self.num_columns = found, found.schema, found.num_columns

        def row_group(self, group: int) -> Any:
            return SimpleNamespace(column=lambda _: self.found.row_group(group).column(0))

    with pa.OSFile(str(table.path)) as file:
        found = Fingerprint("job")
        found.follow(file, Twice(pq.read_metadata(file)), list("abcd"), [0])  # type: ignore[arg-type]
        found.finish(1000)
        assert len(found.hexdigest()) == 64


@pytest.mark.parametrize("stated", [b"", b"[1, 2, 3]", b'"abc"', b'{"version": 1, "columns": [], "fingerprint": null}'])
def test_a_part_that_states_its_source_otherwise_is_refused(
    stated: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(home, monkeypatch)
    path = home / "reports/part-00000.parquet"
    table, metadata = pq.read_table(path), pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({JOB: metadata[JOB], SOURCE: stated})
    refused(home, seen(home), monkeypatch, "is not the part that this job makes|since part-00000.parquet was made")


CHANGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "appended": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "one bit": lambda path: path.write_bytes(_flipped(path.read_bytes(), 40)),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
    "renamed": lambda path: path.rename(path.with_name("2.parquet")),
    "one row more": lambda path: write(path, np.vstack([truths(0), truths(1)[:1]])),
}


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("change", list(CHANGES))
def test_any_other_change_is_refused(change: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = begun(home, monkeypatch)
    CHANGES[change](home / "people/0.parquet")
    refused(home, before, monkeypatch, "0.parquet|parts of another job")


def test_names_and_values_of_zeros_are_no_seal(home: Path) -> None:
    """The seal of a part was written over the first 64 zeros of its footer: no such job could end."""
    zeros = "0" * 64
    job(home)
    assert decode_tables(home / "release", home / "reports", home / "a", columns={"a": zeros}).rows == 2 * ROWS
    assert pq.read_schema(home / "a/part-00000.parquet").names[0] == zeros
    table = pd.DataFrame({"word": [zeros, "other"] * 100, "number": np.arange(200.0)})
    veil = tv.design(table, tv.LinearTask(np.eye(tv.Schema.of(table).width)), epsilon=9.0, method="codebook")
    veil.save(home / "words")
    (home / "tables").mkdir()
    table.to_parquet(home / "tables/0.parquet")
    privatize_tables(home / "words", home / "tables", home / "of words")
    assert decode_tables(home / "words", home / "of words", home / "b").rows == 200
    part = pq.read_metadata(home / "b/part-00000.parquet")
    assert part.row_group(0).column(0).statistics.max in (zeros, "other")


def exchanged(home: Path) -> None:
    """A complete folder of reports, in which one part was replaced by reports of other people afterwards."""
    job(home)
    path = home / "reports/part-00003.parquet"
    table = pq.read_table(path)
    stored = pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table.take(np.arange(len(table))[::-1]))
        writer.add_key_value_metadata({key: stored[key] for key in stored if key.startswith(b"taskveil.")})


@pytest.mark.parametrize("command", ["decode", "estimate"])
def test_a_part_that_was_replaced_after_its_job_is_noticed(command: str, home: Path) -> None:
    exchanged(home)

    def run(**options: Any) -> int:
        if command == "decode":
            return decode_tables(home / "release", home / "reports", home / "estimates", **options).rows
        _, (tally,) = tally_tables([home / "release"], [home / "reports"], **options)
        return tally.count

    with pytest.raises(DataError, match=r"part-00003\.parquet is not the file that its job wrote"):
        run()
    assert not (home / "estimates").exists()
    assert run(verify=False) == 2 * ROWS


def test_a_reader_can_take_the_parts_as_they_are(home: Path) -> None:
    exchanged(home)
    decode = ("decode", home / "reports", home / "estimates", "--release", home / "release")
    assert "is not the file that its job wrote" in cli(*decode, code=2)
    assert f"{2 * ROWS:,} estimates" in cli(*decode, "--no-verify")
    estimate = ("estimate", home / "reports", "--release", home / "release")
    assert "is not the file that its job wrote" in cli(*estimate, code=2)
