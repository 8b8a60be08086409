"""What comes out of an estimate: a table to read, a picture to look at, JSON that every reader takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.estimates import Estimate
from taskveil.estimates.drift import Drift
from taskveil.estimates.labels import Label
from taskveil.estimates.result import FORMAT, KINDS
from taskveil.estimates.rows import Row


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    """Of 5,000 people like the 300 volunteers; the task weighs the columns and adds two of them up."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(5300, 3)) * [1.0, 20.0, 0.1] + [0.0, 1000.0, 5.0], columns=["a", "b", "c"])
    K = np.array([[1.0, 0.05, 0.0], [0.0, 0.05, 0.0], [0.0, 0.0, 10.0]])
    veil = tv.design(table[:300], tv.MeanTask(K), epsilon=4.0)
    veil = replace(veil, columns=("a", "b", "c"), units=("", "kW", ""))
    return tv.estimate(veil, veil.privatize(table[300:]))


@pytest.fixture(scope="module")
def mixed(estimate: Estimate) -> Estimate:
    """The same beside a row that rests on an assumption."""
    assumed = Row(Label("renewed = yes", "share"), 0.5, 0.4, 0.6, 0.5, 0.5, 1.5, "People are alike.")
    groups = {"shares": (assumed,), **estimate.groups}
    return replace(estimate, groups=groups, notes=("Assumed rows: People are alike.",))


def test_the_table_has_a_line_for_every_row_that_adds_something(estimate: Estimate) -> None:
    header, measured, *lines = estimate.table().split("\n\n")[0].splitlines()
    assert measured == "Measured"
    assert estimate.header == ("", "estimate", "95% interval", "volunteers", "1% forged")
    assert all(heading in header for heading in estimate.header)
    assert [line.split("  ")[0] for line in lines] == ["a", "b [kW]", "c", "answer 1"]  # others repeat an attribute
    assert len({len(line) for line in (header, *lines)}) == 1
    for row, line in zip(estimate.rows(), lines, strict=True):
        assert len(row.cells) == 5
        assert all(cell in line for cell in row.cells)
        assert row.interval.low < row.interval.mean < row.interval.high
    assert f"5,000 reports of ε = 4. {estimate.drift.words}" in estimate.table()


def test_assumed_rows_stand_apart_and_carry_the_sentence(mixed: Estimate) -> None:
    lines = mixed.table().splitlines()
    place = lines.index("Assumed")
    assert lines.index("Measured") < place
    assert lines[place + 1].startswith("renewed = yes")
    assert lines[-1] == "Assumed rows: People are alike."
    assert mixed.assumes == mixed.shares[0].assumes == "People are alike."
    assert [row.interval.assumes for row in mixed.rows()][-2:] == [None, "People are alike."]


def test_json_has_everything_and_is_strict(mixed: Estimate, tmp_path: Path) -> None:
    strange = replace(mixed, drift=Drift(p_value=float("nan"), moved=("ä",), words="“no”"))
    text = strange.to_json(tmp_path / "e.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["format"] == FORMAT == "taskveil.estimate.2"
    assert content["drift"] == {"p_value": None, "raised": False, "moved": ["ä"], "words": "“no”"}
    assert (content["confidence"], content["anytime"]) == (0.95, False)
    assert len(content["releases"][0]) == 64
    for kind in KINDS:
        for row, interval in zip(content[kind], getattr(mixed, kind), strict=True):
            assert tuple(row[name] for name in ("name", "mean", "low", "high", "assumes")) == interval
    assert [row["unit"] for row in content["attributes"]] == ["", "kW", ""]
    assert content["attributes"][1]["volunteers"] == pytest.approx(1000, abs=10)
    assert content["shares"][0]["forged"] == pytest.approx(0.015)
    assert content["assumes"] == "People are alike."
    assert content["notes"] == list(mixed.notes)


def test_what_is_not_finite_is_null(estimate: Estimate) -> None:
    nan = float("nan")
    unknown = [
        row._replace(mean=nan, low=-np.inf, high=nan, volunteers=nan, spread=nan)
        for row in estimate.groups["attributes"]
    ]
    content = replace(estimate, groups={"attributes": tuple(unknown)}).content()
    json.dumps(content, allow_nan=False)
    assert content["attributes"][0]["mean"] is None


def test_the_header_says_that_intervals_hold_at_all_times(estimate: Estimate) -> None:
    assert replace(estimate, anytime=True).header[2] == "95% at all times"


def test_the_picture_is_written(mixed: Estimate, tmp_path: Path) -> None:
    path = mixed.plot(tmp_path / "new" / "e.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_name_is_known_with_its_unit(estimate: Estimate) -> None:
    assert estimate.label("b").unit == "kW"
    assert estimate.label("nothing of ours").kind == "number"
