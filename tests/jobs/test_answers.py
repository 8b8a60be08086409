"""What becomes of reports: a table like the volunteers', or answers that are named and in their own units."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from mixed_tables import FIELDS, reports, veil
from taskveil.client.mechanisms import Codebook
from taskveil.errors import DataError, TaskError
from taskveil.jobs.commands import decode_tables


@pytest.fixture
def release(tmp_path: Path) -> Path:
    veil(tv.Schema(FIELDS)).save(tmp_path / "release")
    return tmp_path / "release"


def test_estimates_are_a_table_like_the_volunteers(release: Path, tmp_path: Path) -> None:
    made = tv.Veil.load(release)
    (tmp_path / "p.csv").write_text(",".join(FIELDS) + "\n" + "120,4,USA,true,2021-03-04\n" * 7)
    found = reports(release, tmp_path / "p.csv")
    decode_tables(release, tmp_path / "p.reports.parquet", tmp_path / "x.parquet", columns={"power": "P"})
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["P", *list(FIELDS)[1:]]
    assert table.schema.field("P").metadata == {b"unit": b"kW"}
    assert [str(field.type) for field in table.schema] == ["double", "int64", "string", "bool", "timestamp[us]"]
    expected = made.decode(found[:, None])
    pd.testing.assert_frame_equal(
        table.to_pandas().rename(columns={"P": "power"}), expected, check_dtype=False, check_index_type=False
    )
    decode_tables(release, tmp_path / "p.reports.parquet", tmp_path / "q.parquet", probabilities=True)
    surer = pq.read_table(tmp_path / "q.parquet").to_pandas()
    assert list(surer)[:4] == ["power", "power probability", "cylinders", "cylinders probability"]
    assert surer["origin probability"].between(0, 1).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_types_survive_whichever_package_the_volunteers_came_in(library: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({
        "n": np.arange(60, dtype=np.float32), "i": np.arange(60), "c": pd.Categorical(["x", "y"] * 30),
        "d": pd.date_range("2021-01-01", periods=60), "f": [True, False] * 30,
    })  # fmt: skip
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}[library]
    made = veil(tv.Schema.of(table))
    made.save(tmp_path / "r")
    frame.to_parquet(tmp_path / "p.parquet")
    reports(tmp_path / "r", tmp_path / "p.parquet")
    decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "x.parquet")
    types = [str(field.type).partition("<")[0] for field in pq.read_schema(tmp_path / "x.parquet")]
    assert types == ["float", "int64", "dictionary", "timestamp[us]", "bool"]


def test_answers_of_weighted_means_are_named_and_in_the_columns_own_units(release: Path, tmp_path: Path) -> None:
    made = tv.Veil.load(release)
    (tmp_path / "p.csv").write_text(",".join(FIELDS) + "\n" + "120,4,USA,true,2021-03-04\n5,8,,false,\n")
    found = reports(release, tmp_path / "p.csv")
    decode_tables(release, tmp_path / "p.reports.parquet", tmp_path / "y.parquet", predict=True)
    answers = pq.read_table(tmp_path / "y.parquet")
    names = ["power", "cylinders", "origin=Europe", "origin=NA", "origin=USA", "origin=4", "origin is missing"]
    assert answers.column_names == [*names, "electric", "since in days"]
    assert answers.schema.field("power").metadata == {b"unit": b"kW"}
    columns = [made.schema.columns.index(name) for name in answers.column_names]
    means = made.decoder(found[:, None])[:, columns]
    np.testing.assert_allclose(np.column_stack(answers.columns), means, rtol=1e-12)


def test_only_estimates_of_mixed_records_have_probabilities(tmp_path: Path) -> None:
    plain = releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 4.0),)))
    plain.save(tmp_path / "r")
    pq.write_table(pa.table({name: [1.0] for name in "abcde"}), tmp_path / "p.parquet")
    reports(tmp_path / "r", tmp_path / "p.parquet")
    with pytest.raises(DataError, match="no probability"):
        decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "x.parquet", probabilities=True)


def test_columns_that_are_mixed_keep_the_tasks_own_outputs(tmp_path: Path) -> None:
    plain = releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 4.0),)))
    mixing = dataclasses.replace(plain, task=tv.LinearTask(np.ones((2, 5))))
    mixing.save(tmp_path / "r")
    pq.write_table(pa.table({name: [1.0] for name in "abcde"}), tmp_path / "p.parquet")
    found = reports(tmp_path / "r", tmp_path / "p.parquet")
    decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "y.parquet", predict=True)
    table = pq.read_table(tmp_path / "y.parquet")
    assert table.column_names == ["y0", "y1"]
    np.testing.assert_array_equal(np.column_stack(table.columns), mixing.predict(found[:, None]))
    dataclasses.replace(plain, task=None).save(tmp_path / "r", overwrite=True)
    with pytest.raises(TaskError, match="--model"):
        decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "z.parquet", predict=True)


def test_the_weights_of_a_task_are_not_in_its_answers(tmp_path: Path) -> None:
    plain = releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 4.0),)))
    weighted = dataclasses.replace(plain, task=tv.LinearTask(np.diag([4.0, 0.0, 1.0, 1e-6, -2.0]) / np.sqrt(5)))
    weighted.save(tmp_path / "r")
    pq.write_table(pa.table({name: [1.0] for name in "abcde"}), tmp_path / "p.parquet")
    found = reports(tmp_path / "r", tmp_path / "p.parquet")
    decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "y.parquet", predict=True)
    table = pq.read_table(tmp_path / "y.parquet")
    assert table.column_names == list("abcde")
    assert table.schema.field("a").metadata == {b"unit": b"kW"}
    expected = weighted.decode(found[:, None]) * [1, 0, 1, 1, 1]  # nobody asked for b
    np.testing.assert_allclose(np.column_stack(table.columns), expected, rtol=1e-12)


@pytest.mark.parametrize("predict", [False, True])
def test_reports_of_means_are_not_turned_into_rows(tmp_path: Path, predict: bool) -> None:
    X = np.random.default_rng(0).random((300, 2))
    box = tv.Box([0.0, 0.0], [1.0, 1.0])
    tv.design(X, tv.MeanTask(np.eye(2)), epsilon=2.0, domain=box).save(tmp_path / "r")
    pq.write_table(pa.table({"x0": X[:20, 0], "x1": X[:20, 1]}), tmp_path / "p.parquet")
    reports(tmp_path / "r", tmp_path / "p.parquet")
    with pytest.raises(DataError, match=r"tv\.estimate"):
        decode_tables(tmp_path / "r", tmp_path / "p.reports.parquet", tmp_path / "x.parquet", predict=predict)
    assert not (tmp_path / "x.parquet").exists()
