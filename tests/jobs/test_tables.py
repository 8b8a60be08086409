from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.running import run
from taskveil.jobs import tables
from taskveil.jobs.tables import TableFile


@pytest.mark.parametrize(("columns", "made", "most"), [(2, 0, 33), (8, 0, 9), (2, 32, 3), (8, 4, 9), (1, 0, 40)])
def test_many_columns_are_read_fewer_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, made: int, most: int
) -> None:
    monkeypatch.setattr(tables, "BATCH_ROWS", 40)
    monkeypatch.setattr(tables, "BATCH_BYTES", 8 * 64)
    X = np.random.default_rng(0).normal(size=(100, columns))
    path, names = tmp_path / "table.parquet", [f"x{place}" for place in range(columns)]
    pq.write_table(pa.table(dict(zip(names, X.T, strict=True))), path)
    batches = list(TableFile.open(path).batches(names, made=made))
    assert max(batch.num_rows for batch in batches) == most
    assert np.array_equal(pa.Table.from_batches(batches).to_pandas().to_numpy(), X)


@pytest.mark.parametrize("command", ["schema", "design"])
def test_a_folder_where_one_file_is_needed_is_explained(command: str, tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    more = (tmp_path / "release", "--means", "--epsilon", "1") if command == "design" else ()
    said = " ".join(run(command, tmp_path / "people", *more, code=2).split())
    assert "people is a folder, and one CSV or Parquet file is needed here" in said
