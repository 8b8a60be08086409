"""docs/operate/dossier.md: its code prints what stands beside it, and its options and numbers are right."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from cli.running import run
from pages import blocks, run_code
from taskveil.signoff.odds import level

PAGE = Path(__file__).parents[1] / "docs/operate/dossier.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_prints_what_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_code(PAGE)
    printed = capsys.readouterr().out
    assert [code for language, code in blocks(TEXT) if language == "text"] == [printed]
    assert Path("dossier.html").exists()
    assert Path("dossier.json").exists()


def test_the_command_has_the_options_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("dossier", "--help")
    (command,) = (code for language, code in blocks(TEXT) if language == "sh")
    named = set(re.findall(r"(?<!\S)--?[a-z-]+", command.partition("taskveil dossier")[2]))
    assert named == {"--rounds", "--people", "--audit", "--verify-key", "--purpose", "--retention", "-o", "--pdf"}
    assert all(option in shown for option in named)


def test_numbers_in_words() -> None:
    edge = 2 * math.log(99)
    assert f"ε above {edge:.2f}" in TEXT
    assert [level(edge - 0.01), level(edge + 0.01)] == ["weak", "none"]
    assert '"Weak protection" begins at ε = 5' in TEXT
    assert [level(5.0), level(5.01)] == ["kept", "weak"]
