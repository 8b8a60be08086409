"""Jobs of families: a member is drawn for every row, and its reports are read back by member."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import taskveil as tv
from families import answers, chosen, drawn, means, people
from taskveil.cli.app import app
from taskveil.errors import DataError
from taskveil.estimates import tally
from taskveil.jobs.commands import decode_tables, privatize_tables, tally_tables

ROWS = 4_000


@pytest.fixture
def family(tmp_path: Path) -> Path:
    drawn().save(tmp_path / "family")
    return tmp_path / "family"


@pytest.fixture(params=["file", "folder"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    X = people(ROWS, seed=8)
    if request.param == "file":
        pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1]}), tmp_path / "people.parquet")
        return tmp_path / "people.parquet"
    (tmp_path / "people").mkdir()
    for place, rows in enumerate(np.split(X, 4)):
        table = pa.table({"x0": rows[:, 0], "x1": rows[:, 1]})
        pq.write_table(table, tmp_path / "people" / f"{place}.parquet", row_group_size=300)
    return tmp_path / "people"


def target(source: Path, name: str) -> Path:
    return source.with_name(name if source.is_dir() else f"{name}.parquet")


def test_a_member_is_drawn_for_every_row_and_estimates_read_it_back(family: Path, source: Path) -> None:
    reports = target(source, "reports")
    assert privatize_tables(family, source, reports).rows == ROWS
    read = pq.read_table(reports if reports.is_file() else sorted(reports.glob("part*.parquet"))).to_pandas()
    shares = read["member"].value_counts()
    assert set(shares.index) == {"answers", "survey"}
    assert 300 < shares["survey"] < 500
    veils, tallies = tally_tables([family], [reports])
    found = {veil.release_id: tally for veil, tally in zip(veils, tallies, strict=True)}
    for name, veil in drawn().members.items():
        own = read[read["member"] == name][[f"report_{i}" for i in range(veil.mechanism.report_width)]].to_numpy()
        assert found[veil.release_id].count == len(own)
        np.testing.assert_array_equal(found[veil.release_id].codes, tally(veil, own).codes)
    (alone,), (one,) = tally_tables([family / "survey"], [reports])
    assert alone.release_id == means(1.0).release_id
    assert one.count == shares["survey"]


def test_decode_reads_the_rows_of_one_member_and_keeps_their_places(family: Path, source: Path) -> None:
    reports, decoded = target(source, "reports"), target(source, "decoded")
    privatize_tables(family, source, reports)
    assert decode_tables(family / "answers", reports, decoded).rows == ROWS
    rows, made = (
        pq.read_table(place if place.is_file() else sorted(place.glob("part*.parquet"))).to_pandas()
        for place in (reports, decoded)
    )
    own = (rows["member"] == "answers").to_numpy()
    np.testing.assert_array_equal(made["member"].to_numpy(), own)
    assert made["x0"].isna().to_numpy().tolist() == (~own).tolist()
    width = answers().mechanism.report_width
    expected = answers().decode(rows[own][[f"report_{i}" for i in range(width)]].to_numpy())
    np.testing.assert_array_equal(made[["x0", "x1"]].to_numpy()[own], expected)


def test_what_a_family_cannot_do_is_said(family: Path, source: Path, tmp_path: Path) -> None:
    chosen().save(tmp_path / "choices")
    with pytest.raises(DataError, match="people choose"):
        privatize_tables(tmp_path / "choices", source, target(source, "reports"))
    assert privatize_tables(tmp_path / "choices" / "1", source, target(source, "reports")).rows == ROWS
    with pytest.raises(DataError, match="name one member"):
        decode_tables(family, target(source, "reports"), target(source, "decoded"))
    privatize_tables(family, source, target(source, "mixed"))
    with pytest.raises(DataError, match="family"):
        decode_tables(tmp_path / "choices" / "2", target(source, "mixed"), target(source, "decoded"))


def test_the_draw_is_independent_of_the_row(family: Path, tmp_path: Path) -> None:
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10_000, axis=0)
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1]}), tmp_path / "p.parquet")
    privatize_tables(family, tmp_path / "p.parquet", tmp_path / "r.parquet")
    survey = (pq.read_table(tmp_path / "r.parquet")["member"].to_pandas() == "survey").to_numpy()
    assert abs(survey[:10_000].mean() - survey[10_000:].mean()) < 5 * np.sqrt(2 * 0.09 / 10_000)


def test_a_row_of_no_member_is_refused(family: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x0": [0.1] * 50, "x1": [0.2] * 50}), tmp_path / "p.parquet")
    privatize_tables(family, tmp_path / "p.parquet", tmp_path / "r.parquet")
    table = pq.read_table(tmp_path / "r.parquet")
    strange = table.set_column(1, table.schema.field("member"), pa.array(["nobody", *table["member"].to_pylist()[1:]]))
    pq.write_table(strange, tmp_path / "s.parquet")
    with pytest.raises(DataError, match="unknown members"):
        tally_tables([family], [tmp_path / "s.parquet"])
    broken = table.replace_schema_metadata({**table.schema.metadata, b"taskveil.members": b"[1]"})
    pq.write_table(broken, tmp_path / "b.parquet")
    with pytest.raises(DataError, match="which members"):
        tally_tables([family], [tmp_path / "b.parquet"])


def test_from_the_command_line(family: Path, source: Path, tmp_path: Path) -> None:
    reports, runner = target(source, "reports"), CliRunner()

    def run(*words: object, code: int = 0) -> str:
        result = runner.invoke(app, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result.output

    assert "4,000 reports" in run("privatize", source, reports, "--release", family)
    shown = run("estimate", reports, "--release", family, "--json", tmp_path / "e.json")
    assert "has spent" not in shown
    content = json.loads((tmp_path / "e.json").read_text())
    assert set(content["members"]) == {"answers", "survey"}
    assert sum(one["reports"] for one in content["budgets"]) == ROWS
    run("decode", reports, target(source, "d"), "--release", family / "answers")
    assert "family" in run("decode", reports, target(source, "d2"), "--release", family, code=2)


def test_a_family_of_veils_with_reports_of_several_numbers(tmp_path: Path) -> None:
    """The column of a narrow member's missing numbers is zero, and is not read."""
    X = people(300)
    wide = tv.design(X, tv.LinearTask(np.eye(2)), epsilon=1.5, method="task_agnostic", domain=tv.Box([0, 0], [1, 1]))
    assert wide.mechanism.report_width == 2
    family = tv.Family({"wide": (wide, 1), "narrow": (means(1.0), 1)})
    family.save(tmp_path / "f")
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1]}), tmp_path / "p.parquet")
    privatize_tables(tmp_path / "f", tmp_path / "p.parquet", tmp_path / "r.parquet")
    read = pq.read_table(tmp_path / "r.parquet").to_pandas()
    assert (read[read["member"] == "narrow"]["report_1"] == 0).all()
    found = tv.estimate(family, _by_member(tmp_path, family))
    assert set(found.members) == {"wide", "narrow"}


def _by_member(folder: Path, family: tv.Family) -> dict[str, object]:
    veils, tallies = tally_tables([folder / "f"], [folder / "r.parquet"])
    names = {veil.release_id: name for name, veil in family.members.items()}
    return {names[veil.release_id]: tally for veil, tally in zip(veils, tallies, strict=True)}
