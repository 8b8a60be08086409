"""docs/guides/surveys.md: its code runs from top to bottom, and what it says of the example is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages import run_code
from taskveil.designs.means.ball import best_response
from taskveil.peers.literature import PrivUnit

PAGE = Path(__file__).parents[1] / "docs/guides/surveys.md"
BALLS = Path(__file__).parents[1] / "docs/theory/balls.md"


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


def test_both_pages_say_how_far_reports_of_a_ball_are_from_privunits() -> None:
    surveys, balls = (" ".join(page.read_text(encoding="utf-8").split()) for page in (PAGE, BALLS))
    assert "within 2% of PrivUnit's error up to 1,000 dimensions" in surveys
    assert "Up to 1,000 dimensions the error is within 2% of PrivUnit's" in balls
    for dim in (2, 4, 30, 100, 1000):
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            rows, _, lean = best_response(dim, epsilon)
            assert rows == 0  # "Up to 1,000 dimensions it takes none"
            assert 1.0 < lean.variance(dim) / PrivUnit.of(dim, epsilon).error < 1.02


def test_the_page_on_balls_says_what_codewords_for_the_centre_save() -> None:
    rows = re.findall(r"^\| (4|30) \| (0\.\d) \| (.*) \|$", BALLS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 4
    unit = []
    for dim, length, ratios in rows:
        for epsilon, ratio in zip((1.0, 2.0, 4.0, 8.0), ratios.split(" | "), strict=True):
            _, _, lean = best_response(int(dim), epsilon, float(length))
            least = PrivUnit.of(int(dim), epsilon).error
            assert lean.variance(int(dim), float(length)) / (least + 1.0 - float(length) ** 2) == pytest.approx(
                float(ratio), abs=6e-4
            )
            unit.append(lean.variance(int(dim)) / least)
    assert f"{min(unit):.2f} to {max(unit):.2f} times PrivUnit's error" in BALLS.read_text(encoding="utf-8")
