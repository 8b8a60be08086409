"""The percentages that the paper states: what its figures and our rows give, and what docs/results/results.md says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from taskveil.experiments.headlines import TITLE, headline_lines, headlines, improvements
from taskveil.experiments.parts import Finished
from taskveil.experiments.report import ResultRow, published_curve
from taskveil.experiments.runs import Run
from taskveil.experiments.summary import write_summary

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/results/results.md"
AWARE, AGNOSTIC, SINGLE = "task_aware", "task_agnostic", "task_aware_single_start"


def rows(losses: Mapping[tuple[str, bool, float], float], experiment: str = "household") -> list[ResultRow]:
    """Rows of one experiment by (design, as published, ε)."""
    return [
        ResultRow(experiment=experiment, design=name, as_published=old, epsilon=e, loss=loss, low=loss, high=loss)
        for (name, old, e), loss in losses.items()
    ]


MEASURED = rows({
    (AWARE, True, 5.0): 0.9, (AWARE, True, 10.0): 0.3, (AGNOSTIC, True, 5.0): 1.0, (AGNOSTIC, True, 10.0): 0.4,
    (SINGLE, True, 10.0): 0.1,
    (AWARE, False, 5.0): 0.2, (AWARE, False, 10.0): 0.5, (AWARE, False, 50.0): 0.001,
    (AGNOSTIC, False, 5.0): 1.0, (AGNOSTIC, False, 10.0): 1.0,
})  # fmt: skip


def table(lines: list[str]) -> dict[tuple[str, str], list[str]]:
    """{(experiment, other design): the cells after these}."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {(name, against): rest for name, against, *rest in cells[2:]}


def test_improvements_are_of_the_same_rows_and_budgets() -> None:
    agnostic, private = headlines("household", MEASURED)
    assert (agnostic.against, agnostic.epsilon, agnostic.stated) == (AGNOSTIC, 10.0, 0.229)
    assert agnostic.as_published == pytest.approx({5.0: 0.1, 10.0: 0.25})
    assert agnostic.honest == pytest.approx({5.0: 0.8, 10.0: 0.5})  # nothing at ε = 50: the other design is not there
    assert private.as_published == private.honest == {}
    assert headlines("theory", MEASURED) == []


def test_cells_have_the_papers_budget_and_a_better_one() -> None:
    lines = headline_lines({"theory": [], "household": MEASURED})
    assert table(lines) == {
        ("household", "task agnostic"): ["10", "22.9%", "27.1%", "25%", "50%, most 80% (ε = 5)"],
        ("household", "privacy agnostic"): ["5", "11.7%", "12.4%", "", ""],
    }
    assert headline_lines({"theory": MEASURED}) == []


def test_which_stated_percentages_the_figures_give() -> None:
    """What the section says in words about published numbers."""
    found = [each for name in ("household", "real-estate", "breast-cancer", "mnist") for each in headlines(name, [])]
    assert len(found) == 7
    for each in found:
        there = each.published[each.epsilon]
        assert there == max(each.published.values())
        if each.experiment in ("real-estate", "breast-cancer"):
            assert there == pytest.approx(each.stated, abs=1e-3)
        else:
            assert abs(there - each.stated) > 0.006
            assert (there > each.stated) == (each.experiment == "household")
    curves = [published_curve("mnist", design)[20.0][0] for design in (AWARE, "privacy_agnostic")]
    assert curves[1] / curves[0] - 1 == pytest.approx(found[-1].stated, abs=5e-4)
    assert improvements({1.0: 1.0}, {1.0: 2.0, 2.0: 1.0}) == {1.0: 0.5}


def test_the_command_writes_the_section(tmp_path: Path) -> None:
    part = Finished(name="household", seconds=1.0, machine="a machine", date="2026-01-02", commit=None, rows=MEASURED)
    run = Run(name="household", seeds=1, parts=[part], rows=MEASURED, splits=[])
    write_summary(tmp_path / "r.md", [run])
    text = (tmp_path / "r.md").read_text()
    assert "\n".join(headline_lines({"household": MEASURED})) in text
    assert text.index("# Results") < text.index(TITLE) < text.index("## household\n")


def printed(page: Path, *options: str) -> str:
    """What benchmarks/headlines.py prints about a page."""
    command = [sys.executable, str(ROOT / "benchmarks/headlines.py"), str(page), *options]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout


def test_the_page_follows_from_its_own_tables(tmp_path: Path) -> None:
    """Up to the rounding of the tables, and of both percentages: a new measurement computes with all digits."""
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(TITLE)
    shown, section = text[start : text.index("\n## ", start + 1) + 1], printed(PAGE)
    (points,) = map(float, re.findall(r"by at most (\S+) points", section))
    assert 0 < points < 2
    ours, again = table(shown.splitlines()), table(section.splitlines())
    assert list(ours) == list(again)
    assert len(ours) == 7
    for key, cells in ours.items():
        for mine, other in zip(cells[1:], again[key][1:], strict=True):
            for place in (0, -1):
                one, two = (float(re.findall(r"(-?[\d.]+)%", cell)[place]) for cell in (mine, other))
                assert one == pytest.approx(two, abs=points + 1), key

    (tmp_path / "page.md").write_text(text, encoding="utf-8")  # the section is replaced, not added
    printed(tmp_path / "page.md", "--write")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == text.replace(shown, section)
    other = text.replace("| task aware | 1 | 0.0329 ", "| task aware | 1 | 0.0032 ")
    assert other != text
    (tmp_path / "page.md").write_text(other, encoding="utf-8")
    assert "91% (ε = 1)" in printed(tmp_path / "page.md")
