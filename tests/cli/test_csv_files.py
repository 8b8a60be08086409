from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.running import one_line
from taskveil.cli.csv_files import read_csv
from taskveil.errors import DataError


def test_names_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "good.csv"
    path.write_text("a,b c\n1,-2e3\n0.5,4\n")
    names, values = read_csv(path)
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
        read_csv(path)
    assert cell not in str(caught.value)
