"""`taskveil dossier`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

import families
import taskveil as tv
from cli.running import one_line, run
from dossiers import needs_chromium
from taskveil.veil.release import sign
from veil.test_signing import pem, public


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    families.answers().save(tmp_path / "sums")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_and_the_total(home: Path) -> None:
    said = run("dossier", "sums", "--rounds", 52, "--people", 1000)
    assert "52 reports of ε = 2 cost ε = 104 together. This is no protection." in said
    assert "page: dossier.html" in said
    assert "sums</h1>" in (home / "dossier.html").read_text(encoding="utf-8")
    assert "exists already" in one_line("dossier", "sums")
    run("dossier", "sums", "--overwrite", "--title", "Spring")
    assert "Spring</h1>" in (home / "dossier.html").read_text(encoding="utf-8")


def test_json_is_that_of_the_library(home: Path) -> None:
    stated = {"purpose": "Sums.", "stored": "Logs of the proxy.", "retention": "90 days.", "utility": "Good."}
    options = [word for name, text in stated.items() for word in (f"--{name}", text)]
    printed = run("dossier", "sums", "--json", "--rounds", 2, "--cap", 4, "--people", 10, *options)
    made = tv.dossier("sums", rounds=2, cap=4.0, people=10, **stated)  # type: ignore[arg-type]
    assert json.loads(printed) == made.content
    assert not (home / "dossier.html").exists()


def test_the_audit_that_the_command_wrote(home: Path) -> None:
    Path("audit.json").write_text(run("audit", "sums", "--json", "--trials", 1000))
    run("dossier", "sums", "-o", "a.html", "--audit", "audit.json")
    assert "Passed, " in Path("a.html").read_text(encoding="utf-8")
    families.means(1.0).save(home / "means")
    assert "this dossier is of" in one_line("dossier", "means", "--audit", "audit.json")


def test_a_family_and_a_key(home: Path) -> None:
    families.chosen().save(home / "family")
    content = json.loads(run("dossier", "family", "--json"))
    assert [one["name"] for one in content["release"]["members"]] == ["0.5", "1", "2"]
    key = ed25519.Ed25519PrivateKey.generate()
    Path("public.pem").write_bytes(public(key))
    assert "not signed" in one_line("dossier", "sums", "--verify-key", "public.pem")
    sign(home / "sums", pem(key))
    content = json.loads(run("dossier", "sums", "--json", "--verify-key", "public.pem"))
    assert content["release"]["signature"]["state"] == "verified"


@needs_chromium
def test_a_pdf_alone(home: Path) -> None:
    assert "PDF: page.pdf" in run("dossier", "sums", "--pdf", "page.pdf")
    assert Path("page.pdf").read_bytes().startswith(b"%PDF-")
    assert not (home / "dossier.html").exists()


def test_what_is_wrong_is_one_line(home: Path) -> None:
    assert "cannot read" in one_line("dossier", "nowhere")
    assert "allows no report" in one_line("dossier", "sums", "--cap", 1)
    assert "purpose is a text" in one_line("dossier", "sums", "--purpose", " ")
    assert not (home / "dossier.html").exists()


def test_what_a_crowd_adds(home: Path) -> None:
    said = run("central", "sums", "--reports", 100_000)
    assert "The 100,000 reports of a round without order, time and sender" in said
    assert "The promise to each person stays ε = 2 for each report" in said
    assert "probability 1e-07" in said
    made = json.loads(run("central", "sums", "--reports", 100_000, "--delta", 1e-9, "--rounds", 52, "--json"))
    own = tv.Veil.load("sums").central(reports=100_000, delta=1e-9)
    assert (made["epsilon"], made["delta"]) == (own.epsilon, 1e-9)
    assert own.epsilon < made["total"]["epsilon"] < 52 * own.epsilon
    assert made["total"]["delta"] == 104e-9


def test_the_least_that_can_be_proved_is_rounded_down(home: Path) -> None:
    rng = np.random.default_rng(0)
    task = tv.LinearTask(np.eye(4))
    veil = tv.design(rng.normal(size=(300, 4)), task, epsilon=2.0, method="codebook")
    veil.save("codes")
    said = run("central", "codes", "--reports", 100_000)
    found = veil.central(reports=100_000, delta=1e-7)
    assert found.at_least is not None
    (stated,) = re.findall("holds for all codewords can give a central ε below ([0-9.]+)\\.", " ".join(said.split()))
    assert found.at_least * (1 - 1e-5) <= float(stated) <= found.at_least


def test_a_crowd_of_each_member(home: Path) -> None:
    families.drawn().save(home / "both")
    said = run("central", "both", "--reports", 10_000)
    assert all(f"Member {name}:" in said for name in families.drawn().members)


def test_a_member_with_delta_has_no_crowd(home: Path) -> None:
    X, task = np.random.default_rng(0).normal(size=(300, 2)), tv.LinearTask(np.eye(2))
    noise = tv.design(X, task, epsilon=2.0, delta=1e-6, method="gaussian")
    codes = tv.design(X, task, epsilon=2.0, method="codebook")
    tv.Family({"codes": (codes, 0.5), "noise": (noise, 0.5)}).save("both")
    said = " ".join(run("central", "both", "--reports", 10_000).split())
    assert "Member codes: The 10,000 reports of a round" in said
    assert "Member noise: A central guarantee is known for mechanisms with δ = 0 only." in said
    made = json.loads(run("central", "both", "--reports", 10_000, "--json"))
    assert (made["codes"]["reports"], made["noise"]) == (10_000, None)
    noise.save("alone")
    assert "a central guarantee is known for mechanisms with δ = 0 only" in one_line(
        "central", "alone", "--reports", 10_000
    )


@pytest.mark.parametrize("delta", [0, 1, -1, 2])
def test_a_delta_that_says_nothing_is_refused_first(home: Path, delta: float) -> None:
    assert "--delta must lie between 0 and 1" in one_line("central", "no folder", "--reports", 10, "--delta", delta)
