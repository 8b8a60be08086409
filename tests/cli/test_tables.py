from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import one_line, run


def test_options_that_name_no_attribute_are_explained(veil: tv.Veil, tmp_path: Path) -> None:
    dataclasses.replace(veil, columns=tuple("abcdef")).save(tmp_path / "r")
    (tmp_path / "people.csv").write_text("a,b,c,d,e,f\n1,2,3,4,5,6\n")
    files = (tmp_path / "people.csv", tmp_path / "reports.parquet", "--release", tmp_path / "r")
    assert "--column takes name=column, with a name of a, b" in one_line("privatize", *files, "--column", "z=a")
    assert "1 reports, ε = " in run("privatize", *files)
    assert "--column takes" in one_line("decode", *files[1:2], tmp_path / "out.parquet", *files[2:], "--column", "z=a")


def test_a_missing_file_is_explained(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "r")
    assert "nowhere.csv" in one_line(
        "privatize", tmp_path / "nowhere.csv", tmp_path / "o.parquet", "--release", tmp_path / "r"
    )


def test_a_slip_in_the_name_of_a_folder_is_no_word_about_the_target(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "r")
    for command in ("privatize", "decode"):
        said = one_line(command, tmp_path / "peopel", tmp_path / "reports", "--release", tmp_path / "r")
        assert "peopel': there is no such file or folder" in said


def test_nothing_is_overwritten_unasked(veil: tv.Veil, volunteers: np.ndarray, tmp_path: Path) -> None:
    """A second run would randomise the same people again, and hide the first."""
    veil.save(tmp_path / "r")
    np.savetxt(tmp_path / "p.csv", volunteers[:20], delimiter=",", header="a,b,c,d,e,f", comments="")
    arguments = ("privatize", tmp_path / "p.csv", tmp_path / "o.parquet", "--release", tmp_path / "r")
    run(*arguments)
    before = (tmp_path / "o.parquet").read_bytes()
    assert "once more" in one_line(*arguments)
    assert (tmp_path / "o.parquet").read_bytes() == before
    run(*arguments, "--overwrite")
    assert (tmp_path / "o.parquet").read_bytes() != before


def test_results_are_parquet_or_csv(veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "r")
    (tmp_path / "p.csv").touch()
    for command in ("privatize", "decode"):
        said = one_line(command, tmp_path / "p.csv", tmp_path / "o.txt", "--release", tmp_path / "r")
        assert "o.parquet" in said


def test_who_interrupts_a_folder_is_told_how_to_go_on(
    veil: tv.Veil, volunteers: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    veil.save(tmp_path / "r")
    (tmp_path / "people").mkdir()
    pq.write_table(
        pa.table({str(place): column for place, column in enumerate(volunteers.T)}), tmp_path / "people/0.pq"
    )
    arguments = ("privatize", tmp_path / "people", tmp_path / "reports", "--release", tmp_path / "r")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("taskveil.jobs.parts.PartWriter.__call__", interrupt)
        assert "run the same command again to go on" in run(*arguments, code=130)
    assert "reports in 1 part," in run(*arguments)
