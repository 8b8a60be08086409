"""One part, tried several times and by several: made once, complete, and of nothing but its rows."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from lost_workers import people
from taskveil.errors import DataError
from taskveil.jobs import parts
from taskveil.jobs.parts import JOB, SOURCE, Decoding, Groups, PartWriter, Privatizing, WrittenPart
from taskveil.jobs.plans import PLAN, JobPart, JobPlan, opened
from taskveil.jobs.storage import Folder
from taskveil.jobs.tables import TableFile
from taskveil.veil.release import release_files

ROWS = 1000


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "release"
    people.veil().save(folder)
    return folder


def writer_of(release: Path, home: Path) -> tuple[PartWriter, tuple[JobPart, ...]]:
    """How the parts of two files in `people` come to be in `reports`."""
    if not (home / "people").exists():
        people.write(home / "people", rows=ROWS, files=2)
    (home / "reports").mkdir(exist_ok=True)
    source, tables = opened(home / "people")
    plan = replace(JobPlan.of(tables, {}), job="job")
    (home / "reports" / PLAN).write_bytes(plan.content())
    making = Privatizing(files=tuple(release_files(release).items()))
    work = PartWriter(job="job", work=making, sources=plan.sources, source=source, target=Folder.of(home / "reports"))
    return work, plan.parts


def test_a_part_holds_a_report_of_each_of_its_rows(release: Path, tmp_path: Path) -> None:
    work, (first, second) = writer_of(release, tmp_path)
    for part in (first, second):
        written = work(part)
        path = tmp_path / "reports" / part.name
        rows = people.rows_of(pq.read_table(path))
        assert np.array_equal(rows, np.arange(500) + 500 * part.number)
        content = path.read_bytes()
        assert written == WrittenPart(
            file=part.name,
            rows=500,
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            source=f"half-{part.number}/people-000{part.number}.parquet",
            row=0,
            fingerprint=written.fingerprint,
        )
        metadata = pq.read_metadata(path).metadata
        assert metadata[JOB] == f"job/{part.number}".encode()
        version = work.sources[part.source].version
        stated = json.loads(metadata[SOURCE])
        seal = stated.pop("seal")
        assert stated == {"version": version, "columns": "all", "fingerprint": written.fingerprint}
        assert content.count(seal.encode()) == 1
        unsealed = content.replace(seal.encode(), b"0" * 64)
        assert hashlib.sha256(unsealed).hexdigest() == seal
    assert sorted(os.listdir(tmp_path / "reports")) == [PLAN, first.name, second.name]


def test_a_part_that_is_there_is_only_looked_at(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    written = work(part)
    before = (tmp_path / "reports" / part.name).stat()

    def never(*_: object) -> None:
        raise AssertionError("it was drawn again")

    monkeypatch.setattr(Privatizing, "batches", never)
    assert work(part) == written
    after = (tmp_path / "reports" / part.name).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_whoever_is_second_takes_what_is_there(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt publishes while this one is still drawing: this one's reports disappear."""
    work, (part, _) = writer_of(release, tmp_path)
    other, _ = writer_of(release, tmp_path)
    ours: list[WrittenPart] = []
    draw = Privatizing.batches

    def slow(self: Privatizing, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        monkeypatch.setattr(Privatizing, "batches", draw)
        yield from draw(self, table, groups)
        ours.append(other(part))

    monkeypatch.setattr(Privatizing, "batches", slow)
    assert work(part) == ours[0]
    assert sorted(os.listdir(tmp_path / "reports")) == [PLAN, part.name]


def test_the_half_of_a_part_is_never_published(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    draw = Privatizing.batches

    def half(self: Privatizing, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        yield from draw(self, table, groups[:1])

    def failing(self: Privatizing, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        yield from half(self, table, groups)
        raise OSError("the cable was pulled")

    for broken, error in ((half, DataError), (failing, OSError)):
        monkeypatch.setattr(Privatizing, "batches", broken)
        with pytest.raises(error):
            work(part)
        assert os.listdir(tmp_path / "reports") == [PLAN]
    monkeypatch.undo()
    assert work(part).rows == 500


def test_a_source_that_changed_is_not_drawn_from(release: Path, tmp_path: Path) -> None:
    work, (part, other) = writer_of(release, tmp_path)
    path = tmp_path / "people" / work.sources[part.source].name
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 499), path)
    with pytest.raises(DataError, match="has changed since this job began"):
        work(part)
    assert os.listdir(tmp_path / "reports") == [PLAN]
    assert work(other).rows == 500


def test_nothing_is_drawn_for_a_folder_that_is_another_job_s(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    plan = tmp_path / "reports" / PLAN
    ours, others = plan.read_bytes(), plan.read_bytes().replace(b': "job"', b': "another"', 1)
    drawn: list[object] = []
    draw = Privatizing.batches

    def counted(self: Privatizing, table: TableFile, groups: Groups) -> Iterator[pa.RecordBatch]:
        drawn.append(table)
        plan.write_bytes(others)  # or while it is drawn
        yield from draw(self, table, groups)

    monkeypatch.setattr(Privatizing, "batches", counted)
    for content, draws in ((others, 0), (ours, 1)):
        plan.write_bytes(content)
        with pytest.raises(DataError, match="is another job's"):
            work(part)
        assert len(drawn) == draws
    plan.unlink()  # a machine with another folder under the same path
    with pytest.raises(DataError, match="cannot use"):
        work(part)
    assert os.listdir(tmp_path / "reports") == []


def broken_parts(work: PartWriter, part: JobPart, other: JobPart, path: Path) -> Iterator[None]:
    """What somebody may have put where a part belongs."""
    work(part)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    yield
    path.write_bytes(content[: len(content) // 2])
    yield
    path.write_bytes(b"")
    yield
    path.write_bytes(content[:-4] + b"????")
    yield
    table = pq.read_table(path.with_name(work(other).file))
    pq.write_table(table, path)  # of another place
    yield
    path.unlink()
    work(part)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), JOB: b"another/0"}), path)
    yield
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), JOB: b"job/0"}).slice(1), path)
    yield


def test_what_lies_in_a_part_s_place_is_refused_and_kept(release: Path, tmp_path: Path) -> None:
    work, (part, other) = writer_of(release, tmp_path)
    path = tmp_path / "reports" / part.name
    tried = 0
    for _ in broken_parts(work, part, other, path):
        content = path.read_bytes()
        with pytest.raises(DataError, match="is not the part that this job makes"):
            work(part)
        assert path.read_bytes() == content
        tried += 1
    assert tried == 7


def test_one_wrong_bit_anywhere_in_a_part_is_noticed(release: Path, tmp_path: Path) -> None:
    """Parquet has no checksum by itself: a job that continues would list the SHA-256 of the damaged part."""
    work, (part, _) = writer_of(release, tmp_path)
    path = tmp_path / "reports" / part.name
    written, content = work(part), path.read_bytes()
    taken = []
    for place in range(len(content)):
        wrong = bytes([content[place] ^ 1 << place % 8])
        path.write_bytes(content[:place] + wrong + content[place + 1 :])
        try:
            work(part)
        except DataError as error:
            assert part.name in str(error)  # noqa: PT017
            continue
        taken.append(place)
    assert taken == []
    path.write_bytes(content)
    assert work(part) == written


@pytest.mark.parametrize("wide", [False, True])
def test_a_part_of_an_earlier_version_has_no_seal(wide: bool, release: Path, tmp_path: Path) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    path, written = tmp_path / "reports" / part.name, work(part)
    stated = json.loads(pq.read_metadata(path).metadata[SOURCE])
    stated.pop("seal")
    rewrite(path, json.dumps({**stated, "sdal": ""} if wide else stated).encode())
    if wide:  # a wrong bit in the name of the seal
        with pytest.raises(DataError, match="is not the part that this job makes"):
            work(part)
    else:
        content = path.read_bytes()
        assert work(part) == replace(written, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def rewrite(path: Path, source: bytes) -> None:
    """The same part with other words about its source."""
    table, metadata = pq.read_table(path), pq.read_metadata(path).metadata
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({JOB: metadata[JOB], SOURCE: source})


def test_deep_words_about_a_source_are_refused(release: Path, tmp_path: Path) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    work(part)
    rewrite(tmp_path / "reports" / part.name, b"[" * 100_000)
    with pytest.raises(DataError, match="is not the part that this job makes"):
        work(part)


def test_a_damaged_footer_is_refused(release: Path, tmp_path: Path) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    path = tmp_path / "reports" / part.name
    work(part)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[: -8 - length] + b"\xff" * length + content[-8:])
    with pytest.raises(DataError, match="is not the part that this job makes"):
        work(part)


DYING = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from jobs.test_parts import writer_of
from taskveil.jobs.parts import Privatizing
draw = Privatizing.batches

def dying(*given):
    for batch in draw(*given):
        yield batch
        os.kill(os.getpid(), signal.SIGKILL)

Privatizing.batches = dying
work, parts = writer_of(Path(sys.argv[2]), Path(sys.argv[3]))
work(parts[0])
"""


def test_killed_while_it_draws(release: Path, tmp_path: Path) -> None:
    work, (part, _) = writer_of(release, tmp_path)
    here = Path(__file__).parents[1]
    ended = subprocess.run([sys.executable, "-c", DYING, str(here), str(release), str(tmp_path)], capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert os.listdir(tmp_path / "reports") == [PLAN]
    assert work(part).rows == 500


def test_a_release_is_opened_once_in_a_process(release: Path, tmp_path: Path) -> None:
    parts._family.cache_clear()
    work, all_parts = writer_of(release, tmp_path)
    for part in all_parts:
        work(part)
    assert parts._family.cache_info().misses == 1


@pytest.mark.parametrize("kind", ["laplace_box", "codebook", "lattice", "sums", "levels"])
def test_models_are_told_apart_by_their_answers(kind: str, tmp_path: Path) -> None:
    import torch

    device = releases.devices()[kind]
    veil = replace(releases.veil(device.encoder, device.mechanism), task=None)
    veil.save(tmp_path / "release")
    files = tuple(release_files(tmp_path / "release").items())

    def sample(seed: int) -> str:
        torch.manual_seed(seed)
        task = tv.ModelTask(torch.nn.Linear(veil.encoder.width, 2).double(), loss="mse")
        return Decoding(files=files, predict=True, task=task).sample()

    assert sample(1) == sample(1) != sample(2)
