"""docs/guides/surveys.md: its code runs from top to bottom, and what it says of the example is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import run_code

PAGE = Path(__file__).parents[1] / "docs/guides/surveys.md"


def test_the_code_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    e, people = names["e"], names["people"]
    assert "By region: income" in printed
    assert e.means["income"].assumes is None
    assert abs(e.means["income"].mean - people["income"].mean()) < 4  # reports are drawn anew in every run
    assert abs(e.shares["plan"]["Basic"].mean - (people["plan"] == "Basic").mean()) < 0.08
    assert e.drift.raised
    assert "People differ from the volunteers" in printed
    always = names["always"].means["income"]
    assert always.low < e.means["income"].low < e.means["income"].high < always.high
    assert sum(share.mean for share in names["smooth"].shares["plan"].values()) == pytest.approx(1.0)
    assert abs(names["found"].shares["search"]["rain"].mean - 0.5) < 0.1
    assert len(names["table"]) > 40
    assert Path("survey.json").exists()
    assert Path("survey.png").exists()
