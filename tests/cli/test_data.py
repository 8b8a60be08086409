"""`taskveil data NAME` writes a data set of the package as CSV."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import taskveil as tv
from cli.running import one_line, run


@pytest.mark.parametrize("name", ["churn", "survey", "power"])
def test_the_file_is_the_data_set(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("data", name)
    table = pd.read_csv(f"{name}.csv")
    loaded = getattr(tv.datasets, f"load_{name}")()
    whole = loaded.X.assign(renewed=loaded.y) if name == "churn" else loaded
    assert said.startswith(f"{len(whole):,} simulated people in {name}.csv: ")
    dates = {column: "string" for column in ("since", "last_training") if column in whole}
    both = [frame.astype(dates).astype(object).where(frame.notna(), None) for frame in (table, whole)]
    pd.testing.assert_frame_equal(*both)


def test_the_file_is_named_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "volunteers.csv"
    run("data", "churn", "-o", path)
    written = path.read_bytes()
    path.write_text("mine")
    assert "exists already" in one_line("data", "churn", "-o", path)
    assert path.read_text() == "mine"
    run("data", "churn", "-o", path, "--overwrite")
    assert path.read_bytes() == written
    assert "taskveil data NAME" in one_line("data", "-o", tmp_path / "other.csv")
    assert not (tmp_path / "other.csv").exists()
    assert "'people' is not one of" in run("data", "people", code=2)


def test_the_tutorials_first_command_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "volunteers.csv"
    run("data", "churn", "-o", path)
    said = run("schema", path, "--target", "renewed", "-o", tmp_path / "schema.json")
    assert "1,500 volunteers" in said
    schema = tv.Schema.from_json(tmp_path / "schema.json")
    assert schema.names == ("country", "since", "income", "children", "owner")
    assert isinstance(schema["since"], tv.Date)
