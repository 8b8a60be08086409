"""docs/guides/estimates.md: its code runs from top to bottom, and numbers that it names are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import taskveil as tv
from pages import run_code
from taskveil.estimates import FEWEST
from taskveil.estimates.drift import LEVEL
from taskveil.estimates.intervals import BETS
from taskveil.estimates.result import FORMAT
from taskveil.veil.volunteers import FEWEST as SMALLEST

PAGE = Path(__file__).parents[1] / "docs/guides/estimates.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    assert "(renews = yes, " in printed
    assert "Within each of 3 cells of codes" in printed
    assert "People differ from the volunteers" in printed
    assert names["age"].assumes is None
    assert abs(names["age"].mean - names["older"]["age"].mean()) < 1.5  # reports are drawn anew in every run
    assert "covariate shift" in names["more"].attributes[0].assumes
    assert abs(names["shifted"].shares[1].mean - 0.4) < 0.05
    usual, always = (one.frequencies[0] for one in (names["estimate"], names["now"]))
    assert always.low < usual.low < usual.high < always.high
    assert [row.name for row in names["both"].attributes] == ["age", "tickets"]
    assert Path("estimate.json").exists()
    assert Path("estimate.png").exists()
    bare = tmp_path / "bare"
    names["veil"].save(bare, volunteers=False)
    assert "keeps no sums" in tv.estimate(tv.Veil.load(bare), names["reports"]).drift.words


def test_numbers_in_words() -> None:
    said = " ".join(TEXT.split())
    assert f"an alarm in at most about {LEVEL:.0%} of collections" in said
    assert f"fewer than {FEWEST} reports" in said
    assert SMALLEST == 10
    assert "groups of at least ten volunteers" in said
    assert f"a mixture of {len(BETS)} bets" in said
    assert f'"format": "{FORMAT}"' in said
