from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import one_line, run
from taskveil.cli.inputs import read_volunteers, with_labels
from taskveil.errors import DataError


def test_names_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    path.write_text("a,b c\n1,-2e3\n0.5,4\n")
    assert read_volunteers(path).to_pydict() == {"a": [1, 0.5], "b c": [-2000, 4]}


def test_cells_become_what_they_are(tmp_path: Path) -> None:
    """Dates stay text, as pandas and polars read them; words for nothing are nothing, however numbers are written."""
    path = tmp_path / "mixed.csv"
    path.write_text("n,s,f,d,t,o\n1,x,true,2021-03-04,12:30,1\nNA,,false,,13:00,none\n 3,y,,2021-03-06,,1e400\n")
    table = read_volunteers(path)
    assert table.to_pydict() == {
        "n": [1, None, 3],
        "s": ["x", None, "y"],
        "f": [True, False, None],
        "d": ["2021-03-04", None, "2021-03-06"],
        "t": ["12:30", "13:00", None],
        "o": [1, None, float("inf")],
    }


def test_a_schema_says_what_cells_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "people.csv"
    path.write_text("code,power\n1,5\n2,lots\nA,6\n3,7\n")
    message = r"line 4: column 'code' holds numbers, but here something else\. Correct it, pass --missing"
    with pytest.raises(DataError, match=message):
        read_volunteers(path)
    table = read_volunteers(path, {"code": tv.Category(["1", "2", "A"]), "power": tv.Number(0, 9)})
    assert table.to_pydict() == {"code": ["1", "2", "A", "3"], "power": [5, None, 6, 7]}
    assert "column 'power': cells that are no numbers count as missing values: 1." in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--drop", "code"), ("--columns", "power,weight")])
def test_a_column_that_is_left_out_may_hold_anything(tmp_path: Path, option: tuple[str, str]) -> None:
    path = tmp_path / "people.csv"
    path.write_text("code,power,weight\n1,5,7\n2,8,9\n-,6,8\n3,7,7\n")
    assert "(--drop code)" in one_line("schema", path, "--json")
    assert tv.Schema.from_json(run("schema", path, "--json", *option)).names == ("power", "weight")
    assert "at least 5 volunteers" in one_line("design", path, tmp_path / "release", "--epsilon", "1", *option)


def test_rows_without_a_label_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"a": [1, 2, 3], "y": ["sun", None, "rain"]})
    kept, labels = with_labels(tmp_path, table, "y")
    assert kept["a"].to_pylist() == [1, 3]
    assert labels.tolist() == ["sun", "rain"]
    assert "1 of 3 rows" in capsys.readouterr().err
    with pytest.raises(DataError, match="is empty"):
        with_labels(tmp_path, table.set_column(1, "y", pa.nulls(3)), "y")


@pytest.mark.parametrize("text", ["", "a,b\n", "a,b\n1,2\n2,x\n", "a,b\n1\n", "a;b\n1,5;2\n"])
def test_unreadable_tables_are_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert "bad.csv" in one_line("design", path, tmp_path / "r", "--epsilon", "1")


@pytest.mark.parametrize("cell", ["secret", "error: 17", "1;2"])
def test_no_record_is_quoted(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f"a,b\n1,2\n3,{cell}\n")
    with pytest.raises(DataError, match="line 3: column 'b'") as caught:
        read_volunteers(path)
    assert cell not in str(caught.value)


def test_the_byte_order_mark_of_spreadsheets_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufeffpower,gas\r\n1,2\r\n3,4\r\n".encode())
    assert read_volunteers(path).column_names == ["power", "gas"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("größe,b\n1,2\n".encode("latin-1"), "UTF-8"),
        (b"1,2\n3,4\n5,6\n", "no header"),
        (b"a,b,a\n1,2,3\n", "two columns named 'a'"),
        (b'a,b\n"1,2\n', "line 2 has 1 cells instead of 2"),
        (b"a;b\n1,5;2\n", "semicolons between its columns"),
        (b"a\tb\n1\t2\n", "tabs between its columns"),
    ],
)
def test_odd_files_get_one_line(tmp_path: Path, raw: bytes, says: str) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(raw)
    assert says in one_line("design", path, tmp_path / "r", "--epsilon", "1")
    assert says in one_line("sweep", path, "--folder", tmp_path / "s")
    assert not (tmp_path / "r").exists()


def test_parquet_is_read_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [0.5, 4.0]}), tmp_path / "people.parquet")
    assert read_volunteers(tmp_path / "people.parquet").to_pydict() == {"a": [1, 2], "b": [0.5, 4]}
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    assert "broken.parquet" in one_line("design", tmp_path / "broken.parquet", tmp_path / "r", "--epsilon", "1")
