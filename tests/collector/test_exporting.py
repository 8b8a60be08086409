"""The export is a file of reports like any other, and takes constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import run
from collections_drawn import records
from running_collector import Asked, running, small_veil
from taskveil.collector import exporting
from taskveil.collector.exporting import exported
from taskveil.collector.problems import ProblemError, ProblemType
from taskveil.collector.store import Store
from taskveil.jobs.reports import RELEASE

RNG = np.random.default_rng(8)


@pytest.fixture
def collected(tmp_path: Path, store_url: str) -> Iterator[tuple[Asked, tv.Veil, dict[str, Any]]]:
    """Two rounds of reports."""
    veil = small_veil()
    reports = {"one": veil.privatize(records(500, RNG)), "two": veil.privatize(records(300, RNG))}
    with running(tmp_path, veil, db=store_url) as asked:
        asked.send(veil, reports["one"])
        assert asked.ask("PUT", f"/v1/releases/{veil.release_id}/rounds/two", "admin").status_code == 200
        asked.send(veil, reports["two"])
        yield asked, veil, reports


def export(asked: Asked, veil: tv.Veil, more: str = "") -> bytes:
    answer = asked.ask("GET", f"/v1/export?release={veil.release_id}{more}", "read")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/vnd.apache.parquet")
    return answer.content


def test_all_reports_are_there_under_their_round_and_no_id(collected: tuple[Asked, tv.Veil, dict[str, Any]]) -> None:
    asked, veil, reports = collected
    table = pq.read_table(io.BytesIO(export(asked, veil)))
    assert table.column_names == ["report_0", "round"]
    assert table.schema.metadata[RELEASE] == veil.release_id.encode()
    rounds = np.array(table["round"].to_pylist())
    for name, sent in reports.items():
        found = table["report_0"].to_numpy()[rounds == name]
        assert sorted(found.tolist()) == sorted(sent[:, 0].tolist())
        assert found.tolist() != sent[:, 0].tolist()  # not in the order in which they came
    alone = pq.read_table(io.BytesIO(export(asked, veil, "&round=two")))
    assert set(alone["round"].to_pylist()) == {"two"}
    assert len(alone) == 300


def test_csv_has_the_same_rows(collected: tuple[Asked, tv.Veil, dict[str, Any]]) -> None:
    asked, veil, _ = collected
    for more in ("", "&round=two"):
        answer = asked.ask("GET", f"/v1/export?release={veil.release_id}{more}&format=csv", "read")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
        assert answer.headers["content-disposition"].endswith('.csv"')
        table = pq.read_table(io.BytesIO(export(asked, veil, more)))
        found = list(csv.reader(io.StringIO(answer.text)))
        assert found[0] == table.column_names
        assert found[1:] == [[str(value) for value in row.values()] for row in table.to_pylist()]
        assert len(found) > 300
    unknown = asked.ask("GET", f"/v1/export?release={veil.release_id}&format=xls", "read")
    assert unknown.json()["type"] == "urn:taskveil:problem:invalid"


def test_the_commands_read_it(collected: tuple[Asked, tv.Veil, dict[str, Any]], tmp_path: Path) -> None:
    asked, veil, reports = collected
    file, folder, told = tmp_path / "reports.parquet", tmp_path / "release-0", tmp_path / "told.json"
    file.write_bytes(export(asked, veil))
    assert "800 reports" in run("estimate", file, "--release", folder, "--json", told)
    expected = tv.estimate(veil, np.concatenate(list(reports.values())))
    assert f'"mean": {expected.frequencies[0].mean!r}' in told.read_text()
    run("decode", file, tmp_path / "decoded.parquet", "--release", folder)
    assert pq.read_table(tmp_path / "decoded.parquet").num_rows == 800


class Endless:
    """A store of so many reports that they fit in no memory at once."""

    def __init__(self, veil: tv.Veil, parts: int, size: int = 10_000) -> None:
        self.part = np.array([[row % 5] for row in range(size)], dtype=np.uint8)
        self.parts = parts

    def payloads(self, release: str, round: str | None = None) -> Iterator[tuple[list[str], Any]]:
        return ((["one" if place % 3 else "two"] * len(self.part), self.part) for place in range(self.parts))


def test_pieces_are_small_however_many_reports_there_are() -> None:
    veil = small_veil()
    store = cast(Store, Endless(veil, 100))
    pieces = list(exported(veil, store))
    assert max(map(len, pieces)) < 100_000
    file = pq.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert file.metadata.num_rows == 1_000_000
    groups = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    assert max(groups) <= 10_000
    assert pc.sum(pc.equal(file.read(["round"])["round"].cast("string"), "two")).as_py() == 340_000


def test_only_some_are_written_at_once_and_who_goes_away_makes_room() -> None:
    veil = small_veil()
    store = cast(Store, Endless(veil, 10**9))
    begun = [exported(veil, store) for _ in range(exporting.MAX_EXPORTS_AT_ONCE)]
    for one in begun:
        next(one)
    with pytest.raises(ProblemError) as error:
        next(exported(veil, store))
    assert error.value.problem is ProblemType.BUSY
    for one in begun:
        one.close()  # type: ignore[attr-defined]
    assert next(exported(veil, store))[:4] == b"PAR1"


def test_a_file_that_was_cut_short_is_none() -> None:
    veil = small_veil()
    *most, _ = exported(veil, cast(Store, Endless(veil, 20)))
    with pytest.raises(Exception, match="Parquet"):
        pq.ParquetFile(io.BytesIO(b"".join(most)))
