"""Workers lost at random points, at small size; and that the checks object to what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lost_workers import people
from lost_workers.checks import left_in, wrong_with
from lost_workers.kills import Kills
from lost_workers.run import killed_job
from lost_workers.watching import Watch
from taskveil.jobs.commands import privatize_tables
from taskveil.jobs.plans import MANIFEST, PLAN


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name, for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="tv-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_every_row_has_one_report_however_many_workers_are_lost(short: Path) -> None:
    # How many kills there is time for depends on what else the machine does; `make ray` insists on all.
    killed = 0
    for turn in "abcd":
        (home := short / turn).mkdir()
        job = killed_job(home, rows=600_000, files=60, kills=6, drivers=0, units=700, seed=None, starting=False)
        assert [complaint for complaint in job.complaints if not complaint.startswith("only")] == []
        killed += job.counts["workers"]
        if killed >= 3:
            break
    assert killed >= 3


def test_a_job_is_of_one_state_of_its_source_however_often_it_is_killed(short: Path) -> None:
    """At small size; by itself, the script repeats it 100 times."""
    script, environment = Path(__file__).with_name("changes.py"), {**os.environ, "TMPDIR": str(short)}
    command = [sys.executable, "-W", "ignore", str(script), "--repeat", "10"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


ROWS = 1200


@pytest.fixture
def done(tmp_path: Path) -> tuple[Path, str]:
    """A folder of reports, and the release that they are of."""
    veil = people.veil()
    veil.save(tmp_path / "release")
    people.write(tmp_path / "people", rows=ROWS, files=3)
    privatize_tables(tmp_path / "release", tmp_path / "people", tmp_path / "reports")
    return tmp_path / "reports", veil.release_id


def test_a_job_that_was_complete_already_has_not_failed(done: tuple[Path, str], tmp_path: Path) -> None:
    """The driver may be killed between the manifest and its own end. The next run then is refused, as it must be."""
    command = [sys.executable, "-m", "taskveil", "privatize", str(tmp_path / "people"), str(done[0])]
    (tmp_path / "t").mkdir()
    job = Kills([*command, "--release", str(tmp_path / "release")], done[0], tmp_path / "t", wanted=0, parts=3)
    job.run()
    assert job.complaints == []
    assert job.counts["complete before"] == 1
    shutil.rmtree(tmp_path / "release")
    job = Kills([*command, "--release", str(tmp_path / "release")], done[0], tmp_path / "t", wanted=0, parts=3)
    job.run()
    assert "the job ended with 2" in job.complaints[0]


def rewritten(target: Path, table: pa.Table) -> None:
    """Other reports in the place of the first part, and the manifest to match."""
    manifest = json.loads((target / MANIFEST).read_text())
    path = target / "part-00000.parquet"
    pq.write_table(table, path)
    manifest["parts"][0] |= {"rows": len(table), "bytes": path.stat().st_size, "sha256": people.digest(path)}
    (target / MANIFEST).write_text(json.dumps(manifest))


def test_the_checks_object(done: tuple[Path, str]) -> None:
    target, release = done
    assert wrong_with(target, ROWS, release) == []
    watch = Watch(target)
    assert len(watch.look()) == 3
    assert watch.changed() == []
    first, second = (pq.read_table(target / f"part-0000{number}.parquet") for number in (0, 1))
    manifest = (target / MANIFEST).read_bytes()
    rewritten(target, first.slice(1))
    assert wrong_with(target, ROWS, release) == ["1 rows have 0 reports"]
    assert watch.changed() == ["part-00000.parquet is not what it was"]
    rewritten(target, pa.concat_tables([first, first.slice(7, 2)]))
    assert wrong_with(target, ROWS, release) == ["2 rows have 2 reports"]
    rewritten(target, second)
    assert "two parts were drawn with the same noise" in wrong_with(target, ROWS, release)
    (target / MANIFEST).write_bytes(manifest)
    assert "part-00000.parquet is not the one that the manifest lists" in wrong_with(target, ROWS, release)
    rewritten(target, first)
    (target / "part-00009.parquet").write_bytes(b"")
    assert wrong_with(target, ROWS, release) == ["the folder holds other files than are listed: ['part-00009.parquet']"]
    (target / "part-00009.parquet").rename(target / ".taskveil-draft-1")
    assert len(wrong_with(target, ROWS, release)) == 1
    (target / ".taskveil-draft-1").unlink()
    assert wrong_with(target, ROWS, release) == []
    (target / PLAN).write_text((target / PLAN).read_text().replace('"job": "', '"job": "x'))
    assert len(wrong_with(target, ROWS, release)) == 1
    assert len(wrong_with(target, ROWS, "another")) == 1


def test_what_is_left_is_found(tmp_path: Path) -> None:
    (tmp_path / "ray" / "logs").mkdir(parents=True)
    (tmp_path / "ray" / "logs" / "raylet.out").write_text("said")
    assert left_in(tmp_path) == []
    (tmp_path / "taskveil-records-1").mkdir()
    (tmp_path / "ray" / "logs" / "table").write_bytes(b"PAR1....")
    (tmp_path / "ray" / "spilled").mkdir()
    (tmp_path / "ray" / "spilled" / "object").write_bytes(b"anything")
    assert len(left_in(tmp_path)) == 3
