"""Which rows become which part: all of them once, the same for whoever reads the plan, and nothing else after it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from taskveil.errors import DataError
from taskveil.jobs import plans
from taskveil.jobs.plans import MANIFEST, PLAN, JobPlan, opened
from taskveil.jobs.storage import Folder


def write(path: Path, rows: int, *, group: int = 10, value: float = 0.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"x": np.arange(rows) + value})
    pq.write_table(table, path, row_group_size=group, compression="none", use_dictionary=False)
    return path


def plan_of(home: Path) -> JobPlan:
    _, tables = opened(home)
    return JobPlan.of(tables, {"kind": "reports"})


@pytest.mark.parametrize("seed", range(20))
def test_every_row_is_in_one_part(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    groups, most = rng.integers(0, 30, size=rng.integers(0, 30)).tolist(), int(rng.integers(1, 40))
    monkeypatch.setattr(plans, "PART_ROWS", most)
    parts = list(plans._cut(groups))
    starts = np.concatenate([[0], np.cumsum(groups)])
    rows = [row for first, last, row, count in parts for row in range(row, row + count)]
    assert rows == list(range(sum(groups)))
    for first, last, row, count in parts:
        assert (row, row + count) == (starts[first], starts[last])
        assert count > 0
        assert count <= most or sum(size > 0 for size in groups[first:last]) == 1


def test_a_plan_is_the_same_whoever_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "PART_ROWS", 25)
    write(tmp_path / "b.parquet", 47)
    write(tmp_path / "a" / "c.parquet", 12)
    made = plan_of(tmp_path)
    assert [source.name for source in made.sources] == ["a/c.parquet", "b.parquet"]
    assert [(part.source, part.row, part.rows) for part in made.parts] == [
        (0, 0, 12),
        (1, 0, 20),
        (1, 20, 20),
        (1, 40, 7),
    ]
    assert [part.number for part in made.parts] == [0, 1, 2, 3]
    assert made.rows == 59
    read = JobPlan.read(made.content(), "here")
    assert read == made
    again = plan_of(tmp_path)
    assert again.same(read)
    assert again.job != read.job  # parts of two jobs are never taken for each other


@pytest.mark.parametrize(
    "other",
    [
        lambda home: write(home / "b.parquet", 47, value=1.0),
        lambda home: write(home / "b.parquet", 46),
        lambda home: write(home / "b.parquet", 47, group=9),
        lambda home: write(home / "more.parquet", 1),
        lambda home: (home / "b.parquet").rename(home / "c.parquet"),
        lambda home: (home / "a.parquet").unlink(),
    ],
    ids=["values", "rows", "groups", "another file", "a name", "a file less"],
)
def test_plans_of_other_rows_differ(other: object, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 12)
    write(tmp_path / "b.parquet", 47)
    made = plan_of(tmp_path)
    assert made.same(plan_of(tmp_path))
    other(tmp_path)  # type: ignore[operator]
    assert not made.same(plan_of(tmp_path))


def test_plans_of_other_parts_or_purposes_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.parquet", 47)
    made = plan_of(tmp_path)
    assert not made.same(replace(made, what={"kind": "estimates"}))
    monkeypatch.setattr(plans, "PART_ROWS", 20)
    assert not made.same(plan_of(tmp_path))


def test_a_source_that_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 47)
    (source,) = plan_of(tmp_path).sources
    folder = Folder.of(tmp_path)
    source.open(folder)
    content = path.read_bytes()
    stat = path.stat()
    write(path, 47, value=1.0)
    assert len(content) == path.stat().st_size  # which alone would not tell
    with pytest.raises(DataError, match=r"a.parquet has changed"):
        source.open(folder)
    for broken in (content[:-30], content + b"x", b""):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"a.parquet has changed"):
            source.open(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"a.parquet"):
        source.open(folder)
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the time of the last change of any kind cannot be set
    with pytest.raises(DataError, match=r"a.parquet has changed"):
        source.open(folder)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"job": 1, "what": {}, "sources": [1], "parts": []}',
        b'{"job": "\\ud800", "what": {}, "sources": [], "parts": []}',
    ],
)
def test_what_is_no_plan(content: bytes) -> None:
    with pytest.raises(DataError, match="here is no plan"):
        JobPlan.read(content, "here")


def test_folders_of_jobs_are_read_when_they_are_complete(tmp_path: Path) -> None:
    write(tmp_path / "part-00000.parquet", 10)
    (tmp_path / PLAN).write_text('{"job": "it"}')
    with pytest.raises(DataError, match="is not complete: run its job"):
        opened(tmp_path)
    digest = hashlib.sha256((tmp_path / "part-00000.parquet").read_bytes()).hexdigest()
    parts = [{"file": "part-00000.parquet", "sha256": digest}]
    (tmp_path / MANIFEST).write_text(json.dumps({"job": "it", "parts": parts}))
    assert list(opened(tmp_path)[1]) == ["part-00000.parquet"]
    write(tmp_path / "copy of part-00000.parquet", 10)
    with pytest.raises(DataError, match="does not hold the parts"):
        opened(tmp_path)
    (tmp_path / "copy of part-00000.parquet").unlink()
    (tmp_path / "part-00000.parquet").unlink()
    with pytest.raises(DataError, match="does not hold the parts"):
        opened(tmp_path)
    for content in ("[", '{"job": "\\ud800", "parts": []}'):
        (tmp_path / MANIFEST).write_text(content)
        with pytest.raises(DataError, match="is no manifest"):
            opened(tmp_path)


@pytest.mark.parametrize("below", ["", "reports"])
def test_parts_without_their_plan_are_compared_with_their_manifest(below: str, tmp_path: Path) -> None:
    home = tmp_path / below
    path = write(home / "part-00000.parquet", 10)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    listed = json.dumps({"job": "it", "parts": [{"file": path.name, "sha256": digest}]})
    (home / MANIFEST).write_text(listed)
    names = [str(path.relative_to(tmp_path))]
    assert list(opened(tmp_path)[1]) == names
    write(path, 10, value=1.0)
    with pytest.raises(DataError, match=r"part-00000\.parquet is not the file that its job wrote"):
        opened(tmp_path)
    assert list(opened(tmp_path, verify=False)[1]) == names
    for damaged in (listed[:-1], listed.replace('"job"', '"jab"')):
        (home / MANIFEST).write_text(damaged)
        with pytest.raises(DataError, match="is no manifest of taskveil"):
            opened(tmp_path)
    (home / MANIFEST).write_text('{"files": []}')  # another program's
    assert list(opened(tmp_path)[1]) == names


def test_parts_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["part-00002.parquet", "part-10001.parquet", "part-99999.parquet", "part-100000.parquet"]
    for name in reversed(names):
        write(tmp_path / name, 1)
    assert list(opened(tmp_path)[1]) == names


def test_targets_inside_their_source(tmp_path: Path) -> None:
    source = tmp_path / "people"
    write(source / "a.parquet", 10)
    hidden = f"file://{tmp_path}/people/../people/reports"
    for inside in (source, source / "reports", tmp_path / "people" / ".." / "people" / "reports", hidden):
        with pytest.raises(DataError, match="lies inside the source"):
            opened(source, apart_from=Folder.of(inside))
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(DataError, match="lies inside the source"):
        opened(source, apart_from=Folder.of(tmp_path / "link" / "reports"))
    assert list(opened(source, apart_from=Folder.of(tmp_path / "people2"))[1]) == ["a.parquet"]


def test_sources_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        opened(tmp_path / "nothing")
    with pytest.raises(DataError, match="holds no Parquet files"):
        opened(tmp_path)
    write(tmp_path / "a.parquet", 10)
    assert list(opened(tmp_path / "a.parquet")[1]) == ["a.parquet"]
