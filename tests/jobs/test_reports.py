"""Files of reports: tallied in constant memory, and refused in the words that `decode` has for them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from taskveil.arrays import Integers
from taskveil.client.mechanisms import Codebook
from taskveil.errors import DataError
from taskveil.estimates import tally
from taskveil.estimates.scores import Tally
from taskveil.jobs import parts, tables
from taskveil.jobs.commands import decode_tables, tally_tables
from taskveil.jobs.reports import RELEASE

N = 1000


def codebook(codewords: int = 16) -> tv.Veil:
    stages = (releases.stage(codewords, 2, 3.0),)
    return releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=stages))


def laplace() -> tv.Veil:
    device = releases.devices()["laplace_box"]
    return releases.veil(device.encoder, device.mechanism)


def reports_of(veil: tv.Veil, count: int = N) -> np.ndarray:
    return veil.privatize(np.random.default_rng(0).normal(size=(count, 5)))


def write(path: Path, reports: np.ndarray, release: str | None) -> Path:
    table = pa.table({f"report_{place}": column for place, column in enumerate(reports.T)})
    pq.write_table(table.replace_schema_metadata({RELEASE: release.encode()} if release else None), path)
    return path


def tallied(veil: tv.Veil, source: Path) -> Tally:
    """The tally of a file, counted with a release that is saved beside it."""
    veil.save(source.parent / "release", overwrite=True)
    _, (found,) = tally_tables([source.parent / "release"], [source])
    return found


@pytest.mark.parametrize("veil", [codebook(), laplace()], ids=["codes", "numbers"])
def test_a_file_adds_up_to_what_its_reports_do(veil: tv.Veil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH_ROWS", 300)  # three batches and a rest
    reports = reports_of(veil)
    found = tallied(veil, write(tmp_path / "r.parquet", reports, veil.release_id))
    whole = tally(veil, reports)
    assert found.count == whole.count == N
    if whole.codes is None:
        assert np.allclose(found.total, whole.total, rtol=1e-12)
        assert np.allclose(found.square, whole.square, rtol=1e-12)
        assert len(whole.total) > 1
    else:
        assert found.codes is not None
        assert np.array_equal(found.codes, whole.codes)
        assert whole.codes.sum() == N


def test_no_report_is_none_at_all(tmp_path: Path) -> None:
    veil = codebook()
    empty = tallied(veil, write(tmp_path / "r.parquet", reports_of(veil, 0), veil.release_id))
    assert empty.count == 0
    assert (empty + tally(veil, reports_of(veil))).count == N


def spoiled(name: str, veil: tv.Veil, path: Path) -> Path:
    reports = reports_of(veil, 50)
    if name == "another release":
        return write(path, reports, "ab" * 32)
    if name == "no release":
        return write(path, reports, None)
    if name == "a number that no device makes":
        reports[17, 0] = 16
    if name == "a negative number":
        reports[17, 0] = -1
    if name == "fractions":
        return write(path, reports + 0.5, veil.release_id)
    write(path, reports, veil.release_id)
    if name == "a lost column":
        table = pq.read_table(path)
        pq.write_table(table.rename_columns(["code"]).replace_schema_metadata(table.schema.metadata), path)
    if name == "missing reports":
        column = pa.array([*range(10), None], pa.int64())
        pq.write_table(pa.table({"report_0": column}).replace_schema_metadata(pq.read_schema(path).metadata), path)
    if name == "no table":
        path.write_bytes(b"report_0\n3\n")
    return path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("another release", "holds reports of release abababababab…, not of"),
        ("no release", "holds reports of no known release, not of"),
        ("a number that no device makes", "report 17 holds a number that no device makes with this release"),
        ("a negative number", "report 17 holds a number that no device makes with this release"),
        ("fractions", "holds fractions, but reports are whole numbers"),
        ("a lost column", "lacks the columns report_0"),
        ("missing reports", "has rows without a report"),
        ("no table", "cannot read"),
    ],
)
def test_what_decode_refuses_is_refused_in_the_same_words(name: str, says: str, tmp_path: Path) -> None:
    veil = codebook()
    source = spoiled(name, veil, tmp_path / "r.parquet")
    with pytest.raises(DataError) as counted:
        tallied(veil, source)
    with pytest.raises(DataError, match=says) as decoded:
        decode_tables(tmp_path / "release", source, tmp_path / "out.parquet")
    if "release" not in name:  # of several releases, the message names all
        assert str(counted.value) == str(decoded.value)
    assert not (tmp_path / "out.parquet").exists()


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two million reports take 48 MB; what is held at any time are two pages of a column and a batch of rows."""
    veil = laplace()
    layout, rng = veil.mechanism.layout, np.random.default_rng(0)
    low, high = np.array(layout.low) // 2, np.array(layout.high) // 2
    reports = rng.integers(low, high, (2_000_000, len(low)))
    source = write(tmp_path / "r.parquet", reports, veil.release_id)
    before, by_arrow, read = pa.total_allocated_bytes(), [0], parts.report_batches

    def measured(*given: Any) -> Iterator[Integers]:
        for batch in read(*given):
            by_arrow.append(pa.total_allocated_bytes())
            yield batch

    monkeypatch.setattr(parts, "report_batches", measured)
    tracemalloc.start()
    try:
        found = tallied(veil, source)
        by_numpy = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.count == len(reports)
    assert by_numpy + max(by_arrow) - before < reports.nbytes / 2
