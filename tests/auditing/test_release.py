"""A release folder under attack, from Python and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import taskveil as tv
from auditing import sound
from taskveil.cli.app import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sound.codebook_for(2.0).save(tmp_path / "release")
    return tmp_path / "release"


def test_the_command_line_says_what_it_found(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskveil.auditing.attack.FORKS", 4)
    picture = tmp_path / "audit.png"
    result = CliRunner().invoke(app, ["audit", str(folder), "--trials", "20000", "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "HOLDS" in text
    assert "no entropy, no report" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_line_as_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskveil.auditing.attack.structural_checks", lambda *_: ())
    result = CliRunner().invoke(app, ["audit", str(folder), "--trials", "20000", "--json"])
    found = json.loads(result.output)
    assert found["passed"]
    assert found["epsilon_lower"] <= found["epsilon_claimed"] == tv.Veil.load(folder).guarantee.epsilon


def test_a_broken_release_exits_with_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's response is patched to ignore its budget: the command must notice."""
    from taskveil.client.mechanisms import Response

    monkeypatch.setattr("taskveil.auditing.attack.structural_checks", lambda *_: ())
    monkeypatch.setattr(Response, "__call__", lambda self, favoured: favoured[:, 0])
    result = CliRunner().invoke(app, ["audit", str(folder), "--trials", "20000"])
    assert result.exit_code == 1
    assert "BROKEN" in result.output


def test_no_release_no_audit(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["audit", str(tmp_path)]).exit_code == 2
