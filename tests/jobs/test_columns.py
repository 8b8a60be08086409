"""Cells of any quality, from CSV and Parquet: the same values give the same reports, and none is an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import run
from mixed_tables import FIELDS, reports, veil
from taskveil.jobs import tables

PEOPLE = {
    "power": [120.5, None, 500.0, -3.0, 80.0],
    "cylinders": [4, 6, 8, 3, 12],
    "origin": ["Europe", "NA", None, "Mars", "4"],
    "electric": [True, False, None, False, True],
    "since": ["2021-03-04", None, "1999-01-01", "2024-02-30", "2022-06-01"],
}


@pytest.fixture
def release(tmp_path: Path) -> Path:
    veil(tv.Schema(FIELDS)).save(tmp_path / "release")
    return tmp_path / "release"


def test_every_way_to_write_the_same_people_gives_the_same_reports(release: Path, tmp_path: Path) -> None:
    """As Python values, CSV, and Parquet of pandas, polars and Arrow with dictionaries and dates; in any order."""
    made = tv.Veil.load(release)
    expected = made.privatize([dict(zip(PEOPLE, row, strict=True)) for row in zip(*PEOPLE.values(), strict=True)])[:, 0]
    assert len(set(expected)) > 2
    rows = zip(*reversed(PEOPLE.values()), strict=True)
    cells = [",".join("" if cell is None else str(cell).replace("True", "1") for cell in row) for row in rows]
    (tmp_path / "p.csv").write_text(",".join(reversed(PEOPLE)) + "\n" + "\n".join(cells) + "\n")
    frame = pd.DataFrame(PEOPLE)
    frame.to_parquet(tmp_path / "pandas.parquet")
    frame.astype({"origin": "category", "cylinders": "Int64", "electric": "boolean"}).to_parquet(tmp_path / "c.parquet")
    pl.DataFrame(PEOPLE).write_parquet(tmp_path / "polars.parquet")
    arrow = pa.table(PEOPLE)
    arrow = arrow.set_column(2, "origin", arrow["origin"].dictionary_encode())
    pq.write_table(arrow.set_column(4, "since", arrow["since"].cast(pa.large_string())), tmp_path / "arrow.parquet")
    for source in ("p.csv", "pandas.parquet", "c.parquet", "polars.parquet", "arrow.parquet"):
        assert np.array_equal(reports(release, tmp_path / source), expected), source


def test_words_for_nothing_are_nothing_unless_they_are_values(release: Path, tmp_path: Path) -> None:
    made = tv.Veil.load(release)
    (tmp_path / "p.csv").write_text(
        "power,cylinders,origin,electric,since\nNA,4,NA,NA,NA\nn/a,4,n/a,null,\nnone,4.0,4.0,1,x\n1_000,4,USA,false,-\n"
    )
    same = [
        {"power": None, "cylinders": 4, "origin": "NA", "electric": None, "since": None},
        {"power": None, "cylinders": 4, "origin": None, "electric": None, "since": None},
        {"power": None, "cylinders": 4, "origin": "4", "electric": True, "since": None},
        {"power": None, "cylinders": 4, "origin": "USA", "electric": False, "since": None},
    ]
    assert np.array_equal(reports(release, tmp_path / "p.csv"), made.privatize(same)[:, 0])


HOSTILE = [
    *(b"", b"nan", b"-inf", b"1e999", b"0x10", b"1_000", b"1,5", b"true", b"TRUE", b"2021-13-45", b"9999-12-31"),
    *(b"\xff\xfe\x00bad", "größe".encode("latin-1"), "🚗".encode(), b"' OR 1=1 --", b"=cmd|' /C calc'!A0", b"\x00"),
    b"x" * 70_000,
    *(b"-1.#IND", b"None", b"[]", b"{}", b"NaN%", b"1e", b"+-1", b"0000-00-00", b"12:30", b" ", b"\t", b"\\N"),
]  # fmt: skip


def test_hostile_cells_are_reports_like_any_other(release: Path, tmp_path: Path) -> None:
    """No error and no lost row, whatever stands in whichever column, UTF-8 or not."""
    rows = [b",".join([b'"' + (cell if place == where else b"1") + b'"' for place in range(5)])
            for where in range(5) for cell in HOSTILE]  # fmt: skip
    (tmp_path / "p.csv").write_bytes(b"power,cylinders,origin,electric,since\n" + b"\n".join(rows) + b"\n")
    assert len(reports(release, tmp_path / "p.csv")) == len(rows)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"\xff\xfe", b"USA", None], pa.binary()),
        pa.array([b"\xff\xfe", b"USA", None], pa.binary()).view(pa.string()),
        pa.array([b"\xff\xfe", b"USA", None], pa.binary()).view(pa.string()).dictionary_encode(),
        pa.array([[1], [], None], pa.list_(pa.int64())),
        pa.array([{"a": 1}, {"a": None}, None]),
        pa.array([2**62, -(2**63), None], pa.timestamp("ns")),
        pa.array([2**62, -(2**63), None], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([2**30, -(2**30), None], pa.date32()),
        pa.array([2**62, 0, None], pa.duration("ns")),
        pa.array([1, 2, None], pa.time32("s")),
        pa.array([2**64 - 1, 0, None], pa.uint64()),
        pa.array(["9" * 60, "1", None]).cast(pa.decimal256(60)),
        pa.array([float("nan"), float("inf"), None]),
        pa.array([1, 2, None], pa.int64()).dictionary_encode(),
        pa.array([True, False, None]),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_any_type_are_reports_like_any_other(column: pa.Array, release: Path, tmp_path: Path) -> None:
    for name in FIELDS:
        pq.write_table(pa.table({**dict.fromkeys(FIELDS, pa.nulls(3)), name: column}), tmp_path / "p.parquet")
        assert len(reports(release, tmp_path / "p.parquet")) == 3


def test_a_cell_may_hold_line_breaks_wherever_it_stands_in_a_file(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow looks for the ends of its blocks: a line break in a cell is none."""
    monkeypatch.setattr(tables, "BATCH_BYTES", 16 * 256)
    rows = ['1,4,"U\n\nSA",true,2021-03-04\n', '1,4,USA,true,"20\n21"\n', '1,4,"\n",true,2021-03-04\n'] * 40
    (tmp_path / "p.csv").write_text(",".join(FIELDS) + "\n" + "".join(rows))
    assert len(reports(release, tmp_path / "p.csv")) == len(rows)


def test_columns_that_only_folders_names_say_are_explained(release: Path, tmp_path: Path) -> None:
    """As Spark and pandas write tables in partitions."""
    people = pa.table({name: pa.array(values) for name, values in PEOPLE.items()})
    pq.write_to_dataset(people, tmp_path / "people", partition_cols=["electric"])
    said = run("privatize", tmp_path / "people", tmp_path / "reports", "--release", release, code=2)
    assert "lacks the columns electric, which the names of its folders say" in said
    assert not (tmp_path / "reports").exists()
