"""What comes out of an estimate: a table to read, a picture to look at, JSON that every reader takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.server.estimates import Estimate
from taskveil.server.estimates.drift import Drift
from taskveil.server.estimates.result import HEADER


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    """Of 5,000 people like the 300 volunteers; the task mixes two columns and weighs the third."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(5300, 3)) * [1.0, 20.0, 0.1] + [0.0, 1000.0, 5.0], columns=["a", "b", "c"])
    K = np.array([[1.0, 0.05, 0.0], [0.0, 0.0, 10.0]])
    veil = tv.design(table[:300], tv.LinearTask(K), epsilon=4.0, method="task_aware")
    veil = replace(veil, columns=("a", "b", "c"), units=("", "kW", ""))
    return tv.estimate(veil, veil.privatize(table[300:]))


def test_the_table_has_a_line_for_everything_that_says_something(estimate: Estimate) -> None:
    header, *lines = estimate.table().split("\n\n")[0].splitlines()
    assert header.split("  ")[0] == ""
    assert all(heading in header for heading in HEADER)
    assert [line.split("  ")[0] for line in lines] == ["a", "b [kW]", "c", "y0"]  # y1 is c times 10
    assert len({len(line) for line in (header, *lines)}) == 1
    for row, line in zip(estimate.rows(), lines, strict=True):
        assert all(cell in line for cell in row.cells)
        assert row.interval.low < row.interval.mean < row.interval.high
    assert "5,000 reports. " in estimate.table()
    assert estimate.table().endswith(estimate.assumes)


def test_json_has_everything_and_is_strict(estimate: Estimate, tmp_path: Path) -> None:
    strange = replace(estimate, drift=Drift(p_value=float("nan"), moved=("ä",), words="“no”"))
    text = strange.to_json(tmp_path / "e.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["drift"] == {"p_value": None, "raised": False, "moved": ["ä"], "words": "“no”"}
    assert content["confidence"] == 0.95
    assert len(content["releases"][0]) == 64
    assert [row["name"] for row in content["answers"]] == ["y0", "y1"]
    for kind in ("attributes", "answers", "shares"):
        for row, interval in zip(content[kind], getattr(estimate, kind), strict=True):
            assert (row["name"], row["mean"], row["low"], row["high"]) == interval
    assert [row["unit"] for row in content["attributes"]] == ["", "kW", ""]
    assert content["attributes"][1]["volunteers"] == pytest.approx(1000, abs=10)


def test_the_picture_is_written(estimate: Estimate, tmp_path: Path) -> None:
    path = estimate.plot(tmp_path / "new" / "e.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_name_is_known_with_its_unit(estimate: Estimate) -> None:
    assert estimate.label("b").unit == "kW"
    assert estimate.label("nothing of ours").kind == "number"


def test_a_few_whole_numbers_have_a_bin_each() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 6, 800), rng.normal(size=800)]).astype(float)
    veil = tv.design(X, tv.LinearTask(np.eye(2)), epsilon=4.0, method="codebook")
    found = tv.estimate(veil, veil.privatize(X))
    assert [entry.name for entry in found.histogram("x0")] == [f"x0 is {value}" for value in range(1, 6)]
    assert sum(entry.mean for entry in found.histogram("x0")) == pytest.approx(1.0)
    assert len(found.histogram("x1", 4)) == 4
