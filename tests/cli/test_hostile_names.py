"""Names with control characters: refused in a design, and shown without effect when a release or a file has them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import taskveil as tv
from cli.running import one_line, run
from collections_drawn import records
from running_collector import running, small_veil
from taskveil.errors import DataError, printable
from veil.test_signing import pem

RED, LINE = "age\x1b[31m", "income\nε = 0.01, signed and verified\x9b2J"


def harmless(text: str) -> bool:
    """Whether no terminal obeys it, and no line of it is a name's."""
    controls = {letter for letter in text if letter != "\n" and letter != printable(letter)}
    return not controls and not any(line.startswith("ε = 0.01") for line in text.splitlines())


@pytest.mark.parametrize("name", [RED, LINE, "a\r", "a\u2028b", "a\u202eb", "a\u200bb", "a\x7f"])
def test_a_design_refuses_them_in_one_sentence(name: str, tmp_path: Path) -> None:
    table = pd.DataFrame({name: np.arange(50.0), "b": np.arange(50.0) % 7})
    for task in (tv.MeanTask(np.eye(2)), tv.LinearTask(np.eye(2))):
        with pytest.raises(DataError, match="control character") as error:
            tv.design(table, task, epsilon=1.0)
        assert harmless(str(error.value))
    table.to_parquet(tmp_path / "people.parquet")
    said = one_line("design", tmp_path / "people.parquet", tmp_path / "release", "--epsilon", 1)
    assert "control character" in said
    assert harmless(said)


def test_values_in_json_are_escaped(tmp_path: Path) -> None:
    """A terminal obeys \x9b as it obeys \x1b[, and JSON leaves it as it is."""
    values = np.array(["x\x9b2J\u202e", "größe\U000e0041", "z"])
    pd.DataFrame({"a": values[np.arange(60) % 3], "b": np.arange(60.0)}).to_parquet(tmp_path / "people.parquet")
    said = run("schema", tmp_path / "people.parquet", "--json")
    assert harmless(said)
    assert "größe" in said
    assert sorted(tv.Schema.from_json(said)["a"].words) == sorted(values)


def test_names_of_folders_are_shown_without_effect(tmp_path: Path) -> None:
    """Somebody else may have named them. A path in brackets is no markup."""
    home = tmp_path / "x\x1b[31m\u202e[bold]"
    home.mkdir()
    pd.DataFrame({"a": np.arange(50.0), "b": np.arange(50.0) % 7}).to_parquet(home / "people.parquet")
    (home / "key.pem").write_bytes(pem(Ed25519PrivateKey.generate()))
    common, release = ("--means", "--epsilons", "1,2"), home / "release"
    for command in (
        ("plan", home / "people.parquet", *common, "--people", 100, "--folder", home / "plan"),
        ("sweep", home / "people.parquet", *common, "--folder", home / "sweep"),
        ("design", home / "people.parquet", release, "--means", "--epsilon", 1),
        ("sign", release, "--key", home / "key.pem"),
        ("audit", release, "--trials", 1000, "--picture", home / "audit.png"),
    ):
        said = run(*command)
        assert harmless(said), command
        assert command[0] == "design" or "�[31m�[bold]/" in said, command


def test_names_in_other_scripts_are_none() -> None:
    for name in ("größe", "سن\u200cو\u200cسال", "年齢", "e\u0301 👩\u200d🔬"):
        assert printable(name) == name
    table = pd.DataFrame({"سن\u200cو\u200cسال": np.arange(50.0)})
    assert tv.design(table, tv.MeanTask(np.eye(1)), epsilon=1.0).schema.names == tuple(table.columns)


def test_what_a_release_is_called_is_shown_without_effect(tmp_path: Path) -> None:
    """Such a release was made by another program, or by a former version."""
    import pyarrow.parquet as pq

    from taskveil.records.schema import Schema

    names = (RED, LINE)
    veil = small_veil()
    veil = replace(veil, columns=names, schema=Schema.numbers(names, library="pandas"))
    with running(tmp_path, veil) as asked:
        asked.send(veil, veil.privatize(records(500, np.random.default_rng(1))))
        exported = asked.ask("GET", f"/v1/export?release={veil.release_id}", "read").content
        (shown,) = asked.ask("GET", "/v1/releases", "read").json()["releases"]
        assert shown["attributes"] == [printable(name) for name in names]
        rows = asked.ask("GET", f"/v1/estimates?release={veil.release_id}", "read").json()["rows"]
        assert all(harmless(row["name"]) and "\n" not in row["name"] for row in rows)
    pq.write_table(pq.read_table(io.BytesIO(exported)), tmp_path / "reports.parquet")
    file, common = tmp_path / "reports.parquet", ("--release", tmp_path / "release-0")
    printed = run("estimate", file, *common, "--plot", tmp_path / "rows.png", "--assume", "cells")
    assert harmless(printed)
    assert printable(RED) in printed
    assert harmless(one_line("decode", file, tmp_path / "decoded.parquet", *common, "--column", "x=y"))
