"""Code on the pages of docs/theory: it runs, and prints the numbers that the pages name."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from pages import blocks, run_code

THEORY = Path(__file__).parents[1] / "docs/theory"
PAGES = ["audit.md", "guarantee.md", "statistics.md"]


def code_of(page: str) -> str:
    """The one Python block of a page."""
    (code,) = (block for language, block in blocks((THEORY / page).read_text("utf-8")) if language == "python")
    return code


def test_no_other_page_has_code() -> None:
    with_code = [page.name for page in THEORY.glob("*.md") if "```python" in page.read_text(encoding="utf-8")]
    assert sorted(with_code) == PAGES


def test_a_shrunk_constant_looks_like_signal(capsys: pytest.CaptureFixture[str]) -> None:
    run_code(THEORY / "statistics.md")
    mean, share = map(float, capsys.readouterr().out.split())
    text = (THEORY / "statistics.md").read_text(encoding="utf-8")
    assert f"a mean t of {mean:.1f} and passes the 5% test in {100 * share:.0f}% of samples" in text
    lines = [line for line in code_of("statistics.md").splitlines() if "y -= y.mean()" not in line]
    exec(compile("\n".join(lines), "statistics.md, without the marked line", "exec"), {})
    mean, share = map(float, capsys.readouterr().out.split())
    assert f"the figures are {mean:.1f} and {100 * share:.0f}%" in " ".join(text.split())


def test_what_a_crowd_adds(capsys: pytest.CaptureFixture[str]) -> None:
    veil = tv.design(np.random.default_rng(0).random((200, 2)), tv.MeanTask(), epsilon=1.0)
    names = {"veil": veil, "tv": tv}
    exec(compile(code_of("guarantee.md"), "guarantee.md", "exec"), names)
    assert "100,000 reports" in capsys.readouterr().out
    assert names["found"].epsilon < names["year"].epsilon < 52 * names["found"].epsilon


def test_what_an_audit_says() -> None:
    """Every attribute that the page names is there."""
    code = code_of("audit.md")
    veil = tv.design(np.random.default_rng(0).random((200, 2)), tv.MeanTask(), epsilon=1.0)
    assert code.startswith("found = tv.audit(veil)  # a million reports")
    found = tv.audit(veil, trials=2000)
    for line in code.splitlines()[1:]:
        exec(compile(line, "audit.md", "exec"), {"found": found})
    for name in re.findall(r"\.(\w+)", code.partition("structural checks:")[2].partition("\n")[0]):
        assert all(hasattr(check, name) for check in found.checks)
    assert found.passed
