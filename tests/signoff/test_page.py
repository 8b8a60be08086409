"""The page: nothing from elsewhere, nothing that a name could smuggle in, and PDF by Chromium."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import families
import taskveil as tv
from dossiers import Reader, family, model, needs_chromium, survey
from taskveil.errors import TaskveilError, printable
from taskveil.signoff import printing
from taskveil.signoff.page import page
from taskveil.veil.volunteers import Outputs

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>&lt;b"
CONTROL = "a\x1b[31m\x00\x9b2J\u202eb\u2028\r\nε = 0.01"
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "ul", "li"),
    *("dl", "div", "dt", "dd", "strong", "span", "code", "table", "thead", "tbody", "tr", "th", "td", "blockquote"),
    *("figure", "svg", "text", "rect"),
}


def harmless(html: str) -> Reader:
    """The page, read as a browser reads it, if it has no elements, attributes or characters that it should not have."""
    read = Reader(html)
    assert set(read.elements) <= ALLOWED
    names = {name for name, _ in read.attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "href", "style", "srcset", "action"}
    allowed = {"\n", "\N{NO-BREAK SPACE}"}
    assert all(letter in allowed or letter == printable(letter) for letter in html)
    return read


@pytest.mark.parametrize("made", [model, survey, family])
def test_it_needs_nothing_from_elsewhere(made: Any) -> None:
    html = tv.dossier(made(), rounds=2, people=1000).html()
    read = harmless(html)
    assert not re.search(r"https?:|url\(|@import", html)
    policy = dict(read.attributes)["content"]
    assert policy is not None
    assert "default-src 'none'" in html
    assert 'name="viewport"' in html
    assert "@page" in html
    assert "prefers-color-scheme: dark" in html
    assert '<html lang="en">' in html


@pytest.mark.parametrize("evil", [SCRIPT, CONTROL])
def test_names_of_a_release_are_text(evil: str) -> None:
    """Another program may have written the release: nothing checks its names."""
    forged = tv.Schema({evil: tv.Category([evil, "b"]), "c": tv.Number(0.0, 1.0, unit=evil)})
    table = pd.DataFrame({"a": ["b", "d"] * 50, "c": np.linspace(0, 1, 100)})
    schema = tv.Schema({"a": tv.Category(["b", "d"]), "c": tv.Number(0.0, 1.0)})
    plain = tv.design(table, tv.MeanTask(), epsilon=1.0, schema=schema)
    veil = replace(plain, schema=forged, columns=forged.names, units=forged.fields.units)
    read = harmless(tv.dossier(veil, rounds=3, people=1000).html())
    assert " ".join(printable(evil).split()) in read.text
    outputs = Outputs(names=(evil, "b"), shares=np.array([1, 1], dtype=np.int8), labelled=True)
    harmless(tv.dossier(replace(model(), outputs=outputs)).html())


@pytest.mark.parametrize("evil", [SCRIPT, CONTROL])
def test_texts_of_the_operator_and_of_an_audit_are_text(evil: str) -> None:
    stated = dict.fromkeys(("title", "purpose", "stored", "retention", "utility"), evil)
    audit = {
        "release": families.answers().release_id, "date": "2026-11-18", "passed": False, "verdict": f"BROKEN. {evil}",
        "trials": 1000, "epsilon_lower": 0.5, "confidence": 0.9,
        "epsilon_claimed": families.answers().guarantee.epsilon,
        "checks": [{"name": evil, "outcome": "broken", "detail": evil}],
    }  # fmt: skip
    made = tv.dossier(families.answers(), audit=audit, **stated)
    read = harmless(made.html())
    assert read.text.count(" ".join(printable(" ".join(evil.split())).split())) >= 6
    assert "\x1b" not in made.to_json()
    assert json.loads(made.to_json()) == made.content
    shown = made._repr_html_()
    assert "<script" not in shown
    assert all(letter == printable(letter) for letter in shown)


def test_a_forged_id_does_not_reach_the_style() -> None:
    content = json.loads(tv.dossier(survey()).to_json())
    content["release"]["id"] = '"} body { display: none } '
    assert "display: none }" not in re.findall(r"@page \{.*?\}", page(content), flags=re.DOTALL)[0]


def test_files_are_written_with_their_folders(tmp_path: Path) -> None:
    made = tv.dossier(survey(), rounds=1)
    assert made.to_html(tmp_path / "new" / "page.html").read_text(encoding="utf-8") == made.html()
    assert (tmp_path / "a.json").exists() is False
    assert made.to_json(tmp_path / "a.json") == (tmp_path / "a.json").read_text(encoding="utf-8")


@needs_chromium
def test_it_is_printed_on_a4(tmp_path: Path) -> None:
    raw = tv.dossier(survey(), rounds=2, people=1000).to_pdf(tmp_path / "new" / "page.pdf").read_bytes()
    assert raw.startswith(b"%PDF-")
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", raw)
    assert box is not None
    assert [float(side) * 25.4 / 72 for side in box.groups()] == pytest.approx([210, 297], abs=1)
    assert 3 <= len(re.findall(rb"/Type /Page\b", raw)) <= 8
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.pdf"]


def test_without_a_browser_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(TaskveilError, match=r"apt-get install chromium.*print it there"):
        tv.dossier(survey()).to_pdf(tmp_path / "page.pdf")
    assert list(tmp_path.iterdir()) == []


def test_a_browser_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.pdf").write_bytes(b"old")
    monkeypatch.setattr(printing, "browser", lambda: shutil.which("false") or "/bin/false")
    with pytest.raises(TaskveilError, match="printed no PDF"):
        tv.dossier(survey()).to_pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes() == b"old"
