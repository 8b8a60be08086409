"""`privatize` shows the operator how many values are missing or out of range; no file and no report depends on it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import taskveil as tv
from cli.running import run
from taskveil.cli.app import app
from taskveil.client import entropy

SCHEMA = tv.Schema({
    "city": tv.Category(["Bonn", "Köln"], missing=True),
    "litres": tv.Number(0, 20, missing=True),
    "since": tv.Date("2019-01-01", "2022-12-31", missing=True),
    "member": tv.Flag(missing=True),
})  # fmt: skip


def people(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = np.datetime64("2019-01-01") + rng.integers(0, 900, count)
    return pd.DataFrame({
        "city": rng.choice(["Bonn", "Köln"], count),
        "litres": rng.uniform(0, 20, count).round(2),
        "since": days.astype("datetime64[D]").astype(str),
        "member": rng.random(count) < 0.5,
    })  # fmt: skip


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unfit") / "release"
    veil = tv.design(people(200), tv.MeanTask(), epsilon=4.0, schema=SCHEMA)
    veil.save(folder)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """As many values of each kind of fault as the test below names."""
    found = people(40).astype(object)
    found.loc[0:2, "city"] = "Aachen"
    found.loc[3:3, "city"] = None
    found.loc[0:4, "litres"] = 1e6
    found.loc[5:6, "litres"] = "lots"
    found["since"] = pd.to_datetime(found["since"]).dt.strftime("%d.%m.%Y")
    found.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


COUNTS = {"city": ("1", "3"), "litres": ("2", "5"), "since": ("40", "0")}


def counts(said: str) -> dict[str, tuple[str, str]]:
    found = re.findall(r"^(city|litres|since|member) +([\d,]+) +([\d,]+)", said, re.MULTILINE)
    return {name: (missing, outside) for name, missing, outside in found}


def test_values_that_no_field_has_are_counted_by_column(table: Path, release: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["privatize", str(table), str(tmp_path / "o.parquet"), "--release", str(release)])
    assert result.exit_code == 0
    assert counts(result.stderr) == COUNTS  # `member` has none, and is not listed
    assert counts(result.stdout) == {}
    assert "in 40 rows" in result.stderr
    right = ("--date-format", "%d.%m.%Y")
    said = run("privatize", table, tmp_path / "p.parquet", "--release", release, *right)
    assert counts(said) == {name: COUNTS[name] for name in ("city", "litres")}


def test_a_parquet_file_is_counted_too(release: Path, tmp_path: Path) -> None:
    found = people(40)
    found.loc[0:6, "litres"] = np.nan
    found.to_parquet(tmp_path / "people.parquet")
    said = run("privatize", tmp_path / "people.parquet", tmp_path / "o.parquet", "--release", release)
    assert counts(said) == {"litres": ("7", "0")}


def test_counts_change_no_report_and_no_file(
    table: Path, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same entropy, the bytes of the reports are the same with and without counts."""
    made = []
    for options in ((), ("--quiet",)):
        monkeypatch.setattr(entropy, "system_bytes", np.random.default_rng(7).bytes)
        said = run("privatize", table, tmp_path / "o.csv", "--release", release, "--overwrite", *options)
        assert bool(counts(said)) == (not options)
        made.append((tmp_path / "o.csv").read_bytes())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "people.csv"]
    assert made[0] == made[1]


def test_of_a_folder_it_is_said_that_nothing_is_counted(release: Path, tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    people(40).to_parquet(tmp_path / "people" / "0.parquet")
    arguments = ("privatize", tmp_path / "people", tmp_path / "reports", "--release", release)
    said = " ".join(run(*arguments).split())
    assert "are counted for one file, and not for a folder or a cluster" in said
    assert "are counted" not in run(*arguments[:2], tmp_path / "other", *arguments[3:], "--quiet")
