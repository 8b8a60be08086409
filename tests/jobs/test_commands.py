"""Jobs over folders: all rows once, gone on with and never begun twice, and refused where they are not the same."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from lost_workers import people
from lost_workers.checks import wrong_with
from lost_workers.watching import Seen
from taskveil.client.mechanisms import Laplace
from taskveil.errors import DataError
from taskveil.jobs.commands import Done, decode_tables, privatize_tables
from taskveil.jobs.parts import Privatizing
from taskveil.jobs.plans import MANIFEST, PLAN
from taskveil.jobs.storage import DRAFT, Folder

ROWS, FILES = 1200, 6


@pytest.fixture(scope="module")
def veil() -> tv.Veil:
    return people.veil()


@pytest.fixture
def home(veil: tv.Veil, tmp_path: Path) -> Path:
    veil.save(tmp_path / "release")
    people.write(tmp_path / "people", rows=ROWS, files=FILES)
    return tmp_path


def job(home: Path, **options: Any) -> Done:
    return privatize_tables(home / "release", home / "people", home / "reports", **options)


def seen(home: Path) -> dict[str, Seen]:
    return {path.name: Seen.of(path) for path in sorted((home / "reports").glob("part-*"))}


@contextlib.contextmanager
def interrupted(monkeypatch: pytest.MonkeyPatch, after: int) -> Any:
    """A job in which the computer is switched off after so many parts."""
    draw, drawn = Privatizing.batches, []

    def batches(self: Privatizing, *given: Any) -> Any:
        if len(drawn) == after:
            raise KeyboardInterrupt
        drawn.append(given)
        yield from draw(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Privatizing, "batches", batches)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_every_row_has_one_report(home: Path, veil: tv.Veil) -> None:
    steps: list[tuple[int, int]] = []
    done = job(home, progress=lambda *step: steps.append(step))
    assert (done.rows, len(done.parts), done.found) == (ROWS, FILES, 0)
    assert steps == [(0, ROWS), *[(200, ROWS)] * FILES]
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []
    manifest = json.loads((home / "reports" / MANIFEST).read_text())
    assert [part["rows"] for part in manifest["parts"]] == [200] * FILES


def test_a_resumed_job_makes_only_what_is_missing(home: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted(monkeypatch, after=4):
        job(home)
    before = seen(home)
    assert len(before) == 4
    assert not (home / "reports" / MANIFEST).exists()
    plan = (home / "reports" / PLAN).read_bytes()
    done = job(home)
    assert (done.rows, len(done.parts), done.found) == (ROWS, FILES, 4)
    after = seen(home)
    assert {name: after[name] for name in before} == before
    assert (home / "reports" / PLAN).read_bytes() == plan
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []


def test_reports_that_are_there_are_not_drawn_again(home: Path, veil: tv.Veil) -> None:
    job(home)
    before = seen(home)
    with pytest.raises(DataError, match=r"draws a second report for the same people.*e\^"):
        job(home)
    (home / "reports" / "part-00003.parquet").unlink()  # also not of one that somebody has lost
    with pytest.raises(DataError, match="draws a second report"):
        job(home)
    del before["part-00003.parquet"]
    assert seen(home) == before
    job(home, overwrite=True)
    assert not {part.sha256 for part in seen(home).values()} & {part.sha256 for part in before.values()}
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []


def test_overwriting_that_was_interrupted_goes_on(home: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> None:
    job(home)
    delete, deleted = Folder.delete, []

    def interrupt(self: Folder, name: str) -> None:
        if len(deleted) == 3:
            raise KeyboardInterrupt
        deleted.append(name)
        delete(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "delete", interrupt)
        with pytest.raises(KeyboardInterrupt):
            job(home, overwrite=True)
    with pytest.raises(DataError, match="is not complete"):
        decode_tables(home / "release", home / "reports", home / "estimates")
    job(home, overwrite=True)
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []


def other_release(home: Path) -> dict[str, Any]:
    other = people.veil()
    mechanism = Laplace(region=other.mechanism.region, scale=11.0)  # type: ignore[union-attr]
    releases.veil(other.encoder, mechanism).save(home / "release", overwrite=True)
    return {}


def other_units(home: Path) -> dict[str, Any]:
    return {"units": {"a": "kW"}}


def other_columns(home: Path) -> dict[str, Any]:
    return {"columns": {"a": "b", "b": "a"}}


def another_file(home: Path) -> dict[str, Any]:
    people.write(home / "people" / "more", rows=10, files=1)
    return {}


def a_file_less(home: Path) -> dict[str, Any]:
    next((home / "people").rglob("*.parquet")).unlink()
    return {}


def another_row(home: Path) -> dict[str, Any]:
    path = next((home / "people").rglob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    return {}


@pytest.mark.parametrize("change", [other_release, other_units, other_columns, another_file, a_file_less, another_row])
def test_another_job_does_not_go_on(change: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted(monkeypatch, after=2):
        job(home)
    (home / "reports" / f"{DRAFT}of-somebody-at-work").write_bytes(b"")
    before, names = seen(home), set(os.listdir(home / "reports"))
    with pytest.raises(DataError, match="holds parts of another job"):
        job(home, **change(home))
    assert seen(home) == before
    assert set(os.listdir(home / "reports")) == names


def test_targets_that_are_not_ours(home: Path) -> None:
    (home / "reports").mkdir()
    (home / "reports" / "thesis.tex").write_text("all of it")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="holds something else"):
            job(home, overwrite=overwrite)
    assert os.listdir(home / "reports") == ["thesis.tex"]
    (home / "reports" / "thesis.tex").unlink()
    (home / "reports" / "part-00000.parquet").write_bytes(b"of a job whose plan was lost")
    with pytest.raises(DataError, match="holds something else"):
        job(home, overwrite=True)
    with pytest.raises(DataError, match="the parts need a folder"):
        privatize_tables(home / "release", home / "people", home / "reports" / "part-00000.parquet")
    with pytest.raises(DataError, match="lies inside the source"):
        privatize_tables(home / "release", home / "people", home / "people" / "reports")
    assert os.listdir(home / "reports") == ["part-00000.parquet"]


def test_only_complete_folders_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted(monkeypatch, after=2):
        job(home)
    with pytest.raises(DataError, match="is not complete"):
        decode_tables(home / "release", home / "reports", home / "estimates")
    assert not (home / "estimates").exists()
    job(home)
    extra = home / "reports" / "part-00000 (copy).parquet"
    extra.write_bytes((home / "reports" / "part-00000.parquet").read_bytes())
    with pytest.raises(DataError, match="does not hold the parts"):
        decode_tables(home / "release", home / "reports", home / "estimates")
    extra.unlink()
    assert decode_tables(home / "release", home / "reports", home / "estimates").rows == ROWS
    with pytest.raises(DataError, match=r"exists already\. Choose another name, or overwrite"):
        decode_tables(home / "release", home / "reports", home / "estimates")


def test_drafts_that_were_left_are_forgotten(home: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted(monkeypatch, after=2):
        job(home)
    left = home / "reports" / f"{DRAFT}left"
    left.write_bytes((home / "reports" / "part-00000.parquet").read_bytes())
    there: list[bool] = []
    job(home, progress=lambda *_: there.append(left.exists()))
    assert there == [False] * (1 + FILES)  # gone before anything is drawn
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []
    (home / "empty").mkdir()
    (home / "empty" / f"{DRAFT}of-a-plan").write_bytes(b"{")  # killed before the plan was there
    privatize_tables(home / "release", home / "people", home / "empty")
    assert wrong_with(home / "empty", ROWS, veil.release_id) == []


def test_without_names_for_nothing(home: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk on which drafts have names, none is left either."""
    monkeypatch.delattr(os, "O_TMPFILE")
    job(home)
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []


DRIVER = """
import sys, time
from pathlib import Path
import taskveil.jobs.commands as folders
from taskveil.jobs.parts import Privatizing
from taskveil.errors import DataError
home, draw, begun = Path(sys.argv[1]), Privatizing.batches, 0

def batches(*given):
    global begun
    begun += 1
    yield from draw(*given)
    time.sleep(0.02)  # so that both are at the same part

Privatizing.batches = batches
print("ready", flush=True)
sys.stdin.readline()
done = folders.privatize_tables(home / "release", home / "people", home / "reports")
print(begun, done.rows, *(part.sha256 for part in done.parts))
"""


def test_two_at_once_make_every_part_once(home: Path, veil: tv.Veil) -> None:
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for driver in drivers:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
    for driver in drivers:
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.flush()
    said = [driver.communicate()[0].split() for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0]
    assert said[0][1:] == said[1][1:]  # the same parts, whoever made them
    assert int(said[0][0]) + int(said[1][0]) > FILES, "they never met"
    assert wrong_with(home / "reports", ROWS, veil.release_id) == []


def test_a_job_that_is_overwritten_while_it_runs_stops(
    home: Path, veil: tv.Veil, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, drawn = Privatizing.batches, []

    def batches(self: Privatizing, *given: Any) -> Any:
        drawn.append(given)
        if len(drawn) == FILES:  # at the last part of the first job, somebody begins another, and is interrupted
            people.write(home / "others", rows=ROWS + FILES, files=FILES)
            with interrupted(monkeypatch, after=FILES - 1):
                privatize_tables(home / "release", home / "others", home / "reports", overwrite=True)
        yield from draw(self, *given)

    monkeypatch.setattr(Privatizing, "batches", batches)
    with pytest.raises(DataError, match="is another job's since this one began"):
        job(home)
    assert not (home / "reports" / MANIFEST).exists()
    assert len(seen(home)) == FILES - 1  # and nothing of the first lies among those of the second
    privatize_tables(home / "release", home / "others", home / "reports")
    assert wrong_with(home / "reports", ROWS + FILES, veil.release_id) == []


def test_a_manifest_of_another_job_completes_nothing(home: Path) -> None:
    job(home)
    old = (home / "reports" / MANIFEST).read_bytes()
    job(home, overwrite=True)
    (home / "reports" / MANIFEST).write_bytes(old)
    with pytest.raises(DataError, match="is another job's"):
        decode_tables(home / "release", home / "reports", home / "estimates")


def test_a_folder_below_that_is_not_complete_is_refused(home: Path) -> None:
    privatize_tables(home / "release", home / "people", home / "rounds" / "W46")
    (home / "rounds" / "W46" / MANIFEST).unlink()
    with pytest.raises(DataError, match="W46 is not complete"):
        decode_tables(home / "release", home / "rounds", home / "estimates")


def test_overwriting_deletes_parts_alone(home: Path) -> None:
    job(home)
    (home / "mine").mkdir()
    (home / "mine" / "notes.txt").touch()
    (home / "reports" / "part-links").symlink_to(home / "mine")
    (home / "reports" / "part-notes.txt").touch()
    job(home, overwrite=True)
    assert (home / "mine" / "notes.txt").exists()
    assert (home / "reports" / "part-notes.txt").exists()


@pytest.mark.parametrize("link", ["symlink", "hard link", "loop"])
def test_nobody_is_taken_twice_because_of_a_link(home: Path, link: str) -> None:
    file = next((home / "people").rglob("*.parquet"))
    if link == "symlink":
        (home / "people" / "again.parquet").symlink_to(file)
    elif link == "hard link":
        (home / "people" / "again.parquet").hardlink_to(file)
    else:
        (home / "people" / "again").symlink_to(home / "people")
    with pytest.raises(DataError, match="are the same file"):
        job(home)
    assert not (home / "reports").exists()


def test_a_source_that_is_exchanged_while_it_is_read_is_not_published(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = Privatizing.batches
    people.write(home / "others", rows=ROWS, files=FILES)  # as many rows, other values
    for file in (home / "others").rglob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.slice(1).append_column("more", table.slice(1)[0]), file)

    def batches(self: Privatizing, table: Any, groups: Any) -> Any:
        rows = list(draw(self, table, groups))
        os.replace(home / "others" / Path(table.path).relative_to(home / "people"), table.path)
        yield from rows

    monkeypatch.setattr(Privatizing, "batches", batches)
    with pytest.raises(DataError, match="has changed since this job began"):
        job(home)
    assert seen(home) == {}


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", '{"job": 1}', "\x00"])
def test_a_forged_plan_is_refused(home: Path, content: str) -> None:
    (home / "reports").mkdir()
    (home / "reports" / PLAN).write_text(content)
    with pytest.raises(DataError, match="is no plan of taskveil"):
        job(home)


def test_numbers_of_a_forged_plan_are_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with interrupted(monkeypatch, after=2):
        job(home)
    plan = json.loads((home / "reports" / PLAN).read_text())
    for part in plan["parts"]:
        part["number"] = float(part["number"])  # equal to the true one, and of no use in a name
    (home / "reports" / PLAN).write_text(json.dumps(plan))
    assert job(home).rows == ROWS
