"""`design --like`: the file of `estimate --assume cells --json` is enough for a second round."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from cli.running import one_line, run
from taskveil.jobs.commands import tally_tables


def people(count: int, seed: int, *, centre: float) -> np.ndarray:
    return np.random.default_rng(seed).normal([centre, 0.0], 1.0, (count, 2))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A first round, whose people differ from the volunteers."""
    monkeypatch.chdir(tmp_path)
    for name, table in (("volunteers", people(300, 0, centre=0.0)), ("people", people(3000, 1, centre=1.0))):
        np.savetxt(f"{name}.csv", table, delimiter=",", header="a,b", comments="")
    run("design", "volunteers.csv", "first", *OPTIONS)
    run("privatize", "people.csv", "reports.parquet", "--release", "first")
    run("estimate", "reports.parquet", "--release", "first", "--assume", "cells", "--json", "estimate.json")
    return tmp_path


OPTIONS = ("--epsilon", "4", "--method", "codebook", "--unjudged")


def test_the_second_round_is_that_of_the_estimate_in_python(home: Path) -> None:
    run("design", "volunteers.csv", "second", *OPTIONS, "--like", "estimate.json")
    veils, tallies = tally_tables([home / "first"], ["reports.parquet"])
    found = tv.estimate(veils, tallies, assume="cells")
    first, second = tv.Veil.load("first"), tv.Veil.load("second")
    X = np.loadtxt("volunteers.csv", delimiter=",", skiprows=1)
    expected = tv.design(X, first.task, epsilon=4.0, method="codebook", like=found)
    np.testing.assert_allclose(second.decoder.codewords, expected.decoder.codewords)  # type: ignore[union-attr]
    assert second.decoder.codewords[:, 0].mean() > first.decoder.codewords[:, 0].mean()  # type: ignore[union-attr]


def test_what_is_no_such_estimate_is_refused_before_the_design(home: Path) -> None:
    again = ("design", "volunteers.csv", "second", *OPTIONS, "--like", "estimate.json")
    good = json.loads(Path("estimate.json").read_text())
    bad = {**good, "cells": {**good["cells"], "shares": [0.5, 0.4]}}
    for content, says in (
        ("{}", "says nothing about cells"),
        ("no json", "says nothing about cells"),
        ("[" * 100_000, "says nothing about cells"),
        (json.dumps(bad), "these are no shares of the"),
        (json.dumps({**good, "cells": {**good["cells"], "release": "0" * 64}}), "is about release 000000000000…"),
        (json.dumps({**good, "cells": {**good["cells"], "folder": "gone"}}), "there is no such folder"),
    ):
        Path("estimate.json").write_text(content)
        assert says in one_line(*again)
        assert not Path("second").exists()
