"""Folders and files of reports: counted part by part, each with its own release, nobody twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from taskveil.client.mechanisms import Codebook
from taskveil.errors import DataError
from taskveil.estimates import tally
from taskveil.jobs import plans
from taskveil.jobs.commands import tally_tables
from taskveil.jobs.reports import RELEASE
from taskveil.jobs.running import Engine


def codebook(codewords: int = 16) -> tv.Veil:
    stages = (releases.stage(codewords, 2, 3.0),)
    return releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=stages))


def laplace() -> tv.Veil:
    device = releases.devices()["laplace_box"]
    return releases.veil(device.encoder, device.mechanism)


def sums() -> tv.Veil:
    device = releases.devices()["sums"]
    return releases.veil(device.encoder, device.mechanism)


def write(path: Path, veil: tv.Veil, count: int) -> np.ndarray:
    reports = veil.privatize(np.random.default_rng(0).normal(size=(count, 5)))
    table = pa.table({f"report_{place}": column for place, column in enumerate(reports.T)})
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table.replace_schema_metadata({RELEASE: veil.release_id.encode()}), path, row_group_size=70)
    return reports


class Backwards(Engine):
    """Parts that are done in another order than they were asked for, as on a cluster."""

    def run(self, work: Any, parts: Any, *, kept: str) -> Iterator[Any]:
        yield from super().run(work, parts[2::-1], kept=kept)
        yield from super().run(work, parts[:2:-1], kept=kept)


@pytest.mark.parametrize("veil", [codebook(), laplace(), sums()], ids=["codes", "numbers", "both"])
def test_a_folder_adds_up_to_what_its_reports_do(
    veil: tv.Veil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "PART_ROWS", 150)
    veil.save(tmp_path / "release")
    reports = np.concatenate([write(tmp_path / "reports" / f"{place}.parquet", veil, 333) for place in range(3)])
    steps: list[tuple[int, int]] = []
    (used,), (found,) = tally_tables(
        [tmp_path / "release"], [tmp_path / "reports"], progress=lambda *step: steps.append(step)
    )
    whole = tally(veil, reports)
    assert steps == [(0, 999), *[(140, 999), (140, 999), (53, 999)] * 3]
    assert (used.release_id, found.count) == (veil.release_id, 999)
    assert np.allclose(found.total, whole.total, rtol=1e-12)
    assert np.allclose(found.square, whole.square, rtol=1e-12)
    assert np.array_equal(found.codes, whole.codes)
    (_,), (other,) = tally_tables([tmp_path / "release"], [tmp_path / "reports"], engine=Backwards())
    assert other.count == 999
    assert np.array_equal(other.total, found.total)  # bit for bit, in whatever order parts are done
    assert np.array_equal(other.square, found.square)
    assert np.array_equal(other.codes, found.codes)


def test_sums_depend_on_the_plan_and_not_on_who_was_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With scores of very different sizes: reports of most releases add up exactly, in whatever order."""
    monkeypatch.setattr(plans, "PART_ROWS", 70)
    veil = laplace()
    veil.save(tmp_path / "release")
    write(tmp_path / "reports" / "r.parquet", veil, 400)

    def grown(work: Any, part: Any) -> Any:
        found = work(part)
        return dataclasses.replace(found, total=found.total + 3.0 ** (7 * part.number), square=found.square / 3.0)

    class Growing(Engine):
        def run(self, work: Any, parts: Any, *, kept: str) -> Iterator[Any]:
            yield from ((part, grown(work, part)) for part, _ in super().run(work, parts, kept=kept))

    class GrowingBackwards(Growing):
        def run(self, work: Any, parts: Any, *, kept: str) -> Iterator[Any]:
            yield from super().run(work, parts[::-1], kept=kept)

    places = [tmp_path / "release"], [tmp_path / "reports"]
    ((_,), (one,)), ((_,), (other,)) = (tally_tables(*places, engine=make()) for make in (Growing, GrowingBackwards))
    assert one.total.tobytes() == other.total.tobytes()
    assert one.square.tobytes() == other.square.tobytes()


def test_every_file_is_read_with_its_own_release(tmp_path: Path) -> None:
    one, other, unused = codebook(16), codebook(24), laplace()
    for name, veil in {"one": one, "other": other, "unused": unused}.items():
        veil.save(tmp_path / name)
    sources = [tmp_path / f"{name}.parquet" for name in "abc"]
    for source, veil, count in zip(sources, (other, one, other), (200, 300, 400), strict=True):
        write(source, veil, count)
    places = [tmp_path / name for name in ("one", "unused", "other")]
    steps: list[tuple[int, int]] = []
    used, tallies = tally_tables(places, sources, progress=lambda *step: steps.append(step))
    assert steps == [(0, 900), (200, 900), (300, 900), (400, 900)]  # of all sources together
    assert [veil.release_id for veil in used] == [one.release_id, other.release_id]
    assert [found.count for found in tallies] == [300, 600]
    assert [len(found.codes) for found in tallies if found.codes is not None] == [16, 24]
    with pytest.raises(DataError, match="not of"):
        tally_tables(places[:2], sources)


def test_no_file_counts_twice(tmp_path: Path) -> None:
    veil = codebook()
    veil.save(tmp_path / "release")
    write(tmp_path / "reports" / "r.parquet", veil, 100)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link.parquet").symlink_to(tmp_path / "reports" / "r.parquet")
    again = tmp_path / "other" / ".." / "reports" / "r.parquet"
    for twice in (again, tmp_path / "other", tmp_path / "reports"):
        with pytest.raises(DataError, match="named twice"):
            tally_tables([tmp_path / "release"], [tmp_path / "reports", twice])


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    veil = codebook()
    veil.save(tmp_path / "release")
    write(tmp_path / "reports" / "some.parquet", veil, 100)
    write(tmp_path / "none.parquet", veil, 0)
    _, (found,) = tally_tables([tmp_path / "release"], [tmp_path / "none.parquet", tmp_path / "reports"])
    assert found.count == 100


def test_reports_that_are_not_counted_are_noticed(tmp_path: Path) -> None:
    veil = codebook()
    veil.save(tmp_path / "release")
    for name in ("a", "b", "c"):
        write(tmp_path / "reports" / f"{name}.parquet", veil, 100)

    class Losing(Engine):
        def run(self, work: Any, parts: Any, *, kept: str) -> Iterator[Any]:
            yield from (done for done in super().run(work, parts, kept=kept) if done[0].number != 1)

    with pytest.raises(DataError, match="100 of 300 reports were counted"):
        tally_tables([tmp_path / "release"], [tmp_path / "reports"], engine=Losing())


def test_reports_that_change_while_they_are_counted_are_refused(tmp_path: Path) -> None:
    veil, path = codebook(), tmp_path / "reports" / "0.parquet"
    veil.save(tmp_path / "release")
    write(path, veil, 300)

    class Late(Engine):
        def run(self, work: Any, parts: Any, *, kept: str) -> Iterator[Any]:
            write(path, veil, 400)  # whose first row groups are as large as before
            yield from super().run(work, parts, kept=kept)

    with pytest.raises(DataError, match="has changed since this job began"):
        tally_tables([tmp_path / "release"], [tmp_path / "reports"], engine=Late())
