from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.running import one_line
from taskveil.cli.volunteers import read_volunteers
from taskveil.errors import DataError


def test_names_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    path.write_text("a,b c\n1,-2e3\n0.5,4\n")
    names, values = read_volunteers(path)
    assert names == ("a", "b c")
    np.testing.assert_array_equal(values, [[1, -2000], [0.5, 4]])


@pytest.mark.parametrize("text", ["", "a,b\n", "a,b\n1,x\n", "a,b\n1\n"])
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
    assert read_volunteers(path)[0] == ("power", "gas")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("größe,b\n1,2\n".encode("latin-1"), "UTF-8"),
        (b"1,2\n3,4\n5,6\n", "no header"),
        (b"a,b,a\n1,2,3\n", "two columns named 'a'"),
        (b'a,b\n"1,2\n', "values for"),
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
    names, values = read_volunteers(tmp_path / "people.parquet")
    assert names == ("a", "b")
    np.testing.assert_array_equal(values, [[1, 0.5], [2, 4]])
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    assert "broken.parquet" in one_line("design", tmp_path / "broken.parquet", tmp_path / "r", "--epsilon", "1")
    pq.write_table(pa.table({"a": ["text"], "b": [0.5]}), tmp_path / "text.parquet")
    assert "'a'" in one_line("design", tmp_path / "text.parquet", tmp_path / "r", "--epsilon", "1")
