"""docs/guides/tables.md: its code runs from top to bottom, and what it says of releases is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import taskveil as tv
from pages import run_code
from taskveil.records.inference import FEWEST_ALIKE, MOST_CATEGORIES

PAGE = Path(__file__).parents[1] / "docs/guides/tables.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    assert "'since'     Date(" in printed
    assert "country probability" in printed
    assert len(names["received"]) == 1
    poor, good = names["search"].cv_results_["mean_test_score"]
    assert poor < good
    assert tv.Schema.from_json("schema.json")["income"].unit == "€ a month"
    assert set(re.findall(r"`(Number|Count|Category|Flag|Date)\(", TEXT)) == {
        *("Number", "Count", "Category", "Flag", "Date")
    }


def test_numbers_in_words() -> None:
    said = " ".join(TEXT.split())  # wherever lines end
    assert FEWEST_ALIKE == 5
    assert "at least five volunteers share it" in said
    assert MOST_CATEGORIES == 50
    assert "the fifty most frequent ones" in said
