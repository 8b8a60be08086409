"""docs/guides/choosing-epsilon.md: its code prints the tables beside it, and its other numbers are right."""

from __future__ import annotations

import contextlib
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest

from taskveil.client.promise import WEAK
from taskveil.sweeps.segments import FEWEST_TESTED, FEWEST_VOLUNTEERS, MOST_SEGMENTS

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "guides" / "choosing-epsilon.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


def test_the_code_prints_what_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = []
    for block in blocks("python"):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, "choosing-epsilon.md", "exec"), names)
        printed.append(out.getvalue())
    gains, repeated, frontier, segments = printed
    assert gains in TEXT
    assert gains.count("\n") == 7
    assert blocks("text") == [repeated]
    assert (tmp_path / "frontier.html").exists()
    assert re.search(r"ε = \d with codebook keeps at least 50%", frontier)
    assert math.isfinite(names["budget"])
    assert re.search(r"^NZ +\d+ +\d+ +codebook +4 .* \*$", segments, flags=re.MULTILINE)
    assert re.search(r"^Tuvalu .*keeps the common design$", segments, flags=re.MULTILINE)
    assert (tmp_path / "releases" / "NZ" / "codebook-4").is_dir()
    assert f"below {FEWEST_VOLUNTEERS} volunteers" in TEXT
    assert f"or {FEWEST_TESTED} people to judge it" in TEXT
    assert f"{MOST_SEGMENTS:,} segments are refused" in TEXT


def test_numbers_in_words_are_those_of_the_table() -> None:
    def sure(before: float, epsilon: float) -> float:
        odds = math.exp(epsilon) * before / (1 - before)
        return 100 * odds / (1 + odds)

    assert f"1% becomes {sure(0.01, 2):.0f}% at most" in TEXT
    assert f"1% becomes {sure(0.01, 4):.0f}%." in TEXT
    assert f"with {sure(0.01, 8):.0f}% certainty" in TEXT
    assert round(math.exp(2)) == 7  # seven to one
    assert f"Above ε = {WEAK:g} the statement" in TEXT


def test_the_formula_of_rappor_gives_what_is_said() -> None:
    f, h = 0.5, 2
    assert f"{2 * h * math.log((1 - f / 2) / (f / 2)):.2f} by the paper's formula" in TEXT


def test_the_documents_lead_to_each_other() -> None:
    guarantee = (DOCS / "theory" / "guarantee.md").read_text(encoding="utf-8")
    assert "(../guides/choosing-epsilon.md)" in guarantee
    for target, section in re.findall(r'"([A-Z][^"]+)" in \[[\w.-]+\]\(([\w./-]+)\)', TEXT):
        assert f"## {target}" in (DOCS / "guides" / section).read_text(encoding="utf-8")
