"""Tables of mixed records: text, flags, dates and holes, from CSV and Parquet to reports and back to a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
import taskveil as tv
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Codebook
from taskveil.client.reading import read_device
from taskveil.decoders import CodewordDecoder
from taskveil.engines.parquet import decode_table, privatize_table
from taskveil.errors import DataError

FIELDS = {
    "power": tv.Number(0, 200, "kW", missing=True),
    "cylinders": tv.Count(3, 8),
    "origin": tv.Category(["Europe", "NA", "USA", "4"], missing=True),
    "electric": tv.Flag(missing=True),
    "since": tv.Date("2020-01-01", "2024-12-31", missing=True),
}
WIDTH = tv.Schema(FIELDS).width
PEOPLE = {
    "power": [120.5, None, 500.0, -3.0, 80.0],
    "cylinders": [4, 6, 8, 3, 12],
    "origin": ["Europe", "NA", None, "Mars", "4"],
    "electric": [True, False, None, False, True],
    "since": ["2021-03-04", None, "1999-01-01", "2024-02-30", "2022-06-01"],
}


def veil(schema: tv.Schema) -> tv.Veil:
    """A budget so large that reports hardly vary: what arrives can be compared with what was sent."""
    mechanism = Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 40.0),))
    low, high = schema.fields.box
    rng = np.random.default_rng(4)
    codewords = low + rng.random((16, schema.width)) * (high - low)
    weights = rng.normal(size=(3, schema.width)) / np.maximum(high - low, 1e-9)
    encoder = LinearEncoder.of(low=low, high=high, weights=weights, offset=-weights @ (low + high) / 2)
    return tv.Veil(
        encoder=encoder,
        mechanism=mechanism,
        decoder=CodewordDecoder(codewords=codewords, sizes=np.array([16])),
        task=tv.LinearTask(np.diag([2.0, 1.0, 3.0, 1.0, 0.5])).on(schema),
        method="by hand",
        schema=schema,
        columns=schema.names,
        units=schema.fields.units,
    )


@pytest.fixture
def release(tmp_path: Path) -> Path:
    veil(tv.Schema(FIELDS)).save(tmp_path / "release")
    return tmp_path / "release"


def reports(release: Path, source: Path) -> np.ndarray:
    device, manifest = read_device(release / "client")
    target = source.with_suffix(".reports.parquet")
    count = privatize_table(device, manifest["digest"], source, target, overwrite=True)
    found = pq.read_table(target)["report_0"].to_numpy()
    assert len(found) == count
    return found


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


def test_estimates_are_a_table_like_the_volunteers(release: Path, tmp_path: Path) -> None:
    made = tv.Veil.load(release)
    (tmp_path / "p.csv").write_text(",".join(FIELDS) + "\n" + "120,4,USA,true,2021-03-04\n" * 7)
    found = reports(release, tmp_path / "p.csv")
    decode_table(made, tmp_path / "p.reports.parquet", tmp_path / "x.parquet", columns={"power": "P"})
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["P", *list(FIELDS)[1:]]
    assert table.schema.field("P").metadata == {b"unit": b"kW"}
    assert [str(field.type) for field in table.schema] == ["double", "int64", "string", "bool", "timestamp[us]"]
    expected = made.decode(found[:, None])
    pd.testing.assert_frame_equal(
        table.to_pandas().rename(columns={"P": "power"}), expected, check_dtype=False, check_index_type=False
    )
    decode_table(made, tmp_path / "p.reports.parquet", tmp_path / "q.parquet", probabilities=True)
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
    decode_table(tv.Veil.load(tmp_path / "r"), tmp_path / "p.reports.parquet", tmp_path / "x.parquet")
    types = [str(field.type).partition("<")[0] for field in pq.read_schema(tmp_path / "x.parquet")]
    assert types == ["float", "int64", "dictionary", "timestamp[us]", "bool"]


def test_answers_of_weighted_means_are_named_and_in_the_columns_own_units(release: Path, tmp_path: Path) -> None:
    made = tv.Veil.load(release)
    (tmp_path / "p.csv").write_text(",".join(FIELDS) + "\n" + "120,4,USA,true,2021-03-04\n5,8,,false,\n")
    found = reports(release, tmp_path / "p.csv")
    decode_table(made, tmp_path / "p.reports.parquet", tmp_path / "y.parquet", predict=True)
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
        decode_table(plain, tmp_path / "p.reports.parquet", tmp_path / "x.parquet", probabilities=True)
