"""docs/estimates.md: its code runs from top to bottom, and numbers that it names are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import taskveil as tv
from pages import run_code
from taskveil.errors import DataError
from taskveil.reference import MOST_VOLUNTEERS
from taskveil.server.estimates.calibration import ALARMS, BEND, MOST_FEATURES
from taskveil.server.estimates.result import FORMAT
from taskveil.server.estimates.rounds import FEWEST, SURE

PAGE = Path(__file__).parents[1] / "docs/estimates.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    assert "Nothing is assumed about the people" in printed
    assert "People differ from the volunteers" in printed  # six years older
    assert names["age"].name == "age"
    assert Path("estimate.json").exists()
    assert Path("estimate.png").exists()
    bare, veil = tv.Veil.load("release"), names["veil"]
    assert bare.release_id == veil.release_id
    reports = veil.privatize(names["people"])
    assert bare.predict(reports).shape == (20_000, 2)
    with pytest.raises(DataError, match="keeps no volunteers"):
        tv.estimate(bare, reports)


def test_numbers_in_words() -> None:
    said = " ".join(TEXT.split())
    assert f"at most {MOST_FEATURES} directions" in said
    assert f"raises at {ALARMS:.0%}" in said
    assert BEND == 0.5
    assert "half as much of its square" in said
    assert f"Fewer than {FEWEST} reports" in said
    assert SURE == 0.25
    assert "within a quarter of a standard deviation" in said
    assert f"up to {MOST_VOLUNTEERS:,} of them" in said
    assert f'"format": "{FORMAT}"' in said
