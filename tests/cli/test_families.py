"""`taskveil family`, and the commands that take a family where they take a release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from typer.testing import CliRunner

import taskveil as tv
from families import answers, means
from taskveil.cli.app import app
from taskveil.client import Client
from taskveil.collector.store import open_store
from taskveil.errors import ReleaseError
from veil.test_signing import pem, public


@pytest.fixture
def home(tmp_path: Path) -> Path:
    answers().save(tmp_path / "a")
    means(1.0).save(tmp_path / "b")
    means(0.5).save(tmp_path / "c")
    return tmp_path


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def made(home: Path) -> Path:
    run("family", home / "f", "--member", f"answers={home / 'a'}:0.9", "--member", f"survey={home / 'b'}:0.1")
    return home / "f"


def test_members_with_weights_and_budgets(home: Path) -> None:
    family = tv.Family.load(made(home))
    assert family.weights == {"answers": 9, "survey": 1}
    assert family.members["survey"].release_id == means(1.0).release_id
    said = run("family", home / "g", "--budgets", f"0.5={home / 'c'}", "--budgets", f"1={home / 'b'}")
    assert "choice itself is visible" in said
    assert tv.Family.load(home / "g").kind == "chosen"


def test_what_is_wrong_is_said(home: Path) -> None:
    a, b = home / "a", home / "b"
    for words, said in (
        ((), "--member NAME=FOLDER:WEIGHT"),
        (("--member", "survey"), "NAME=FOLDER:WEIGHT"),
        (("--member", f"a={a}:1", "--member", f"a={b}:1"), "twice"),
        (("--member", f"a={a}:1"), "two members"),
        (("--member", f"a={a}:1", "--member", f"b={b}:0"), "above zero"),
        (("--member", f"a={a}:many", "--member", f"b={b}:1"), "NAME=FOLDER:WEIGHT"),
        (("--member", f"../a={a}:1", "--member", f"b={b}:1"), "name"),
        (("--member", f"a={home / 'nowhere'}:1", "--member", f"b={b}:1"), "cannot read"),
        (("--budgets", f"0.5={b}", "--budgets", f"2={a}"), "costs"),
        (("--budgets", f"0.5={b}", "--member", f"a={a}:1"), "or by"),
    ):
        assert said in run("family", home / "f", *words, code=2), words
        assert not (home / "f").exists()


def test_where_one_release_is_wanted_a_family_is_named_as_such(home: Path) -> None:
    family = made(home)
    for folder in (family, family / "client"):
        with pytest.raises(ReleaseError, match="is a family of releases"):
            tv.Veil.load(folder)
    (home / "p.csv").write_text("a\n1\n")
    for command in ("privatize", "decode"):
        words = (command, home / "p.csv", home / "o.parquet", "--release", family / "client")
        assert f"{family} is a family of releases" in run(*words, code=2)
    with pytest.raises(ReleaseError, match="Is this a taskveil release"):
        tv.Veil.load(family / "answers" / "client")  # a part of one member, and no family


def test_sign_audit_and_an_existing_folder(home: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (home / "key.pem").write_bytes(pem(key))
    assert "family.sig" in run("sign", made(home), "--key", home / "key.pem")
    Client.load(home / "f", ledger=home / "ledger", verify_key=public(key)).close()
    tv.Family.load(home / "f", verify_key=public(key))
    report = json.loads(run("audit", home / "f", "--trials", 2000, "--json"))
    assert report["passed"]
    assert set(report["members"]) == {"answers", "survey"}
    both = ("--member", f"answers={home / 'a'}:1", "--member", f"survey={home / 'b'}:1")
    assert "f exists already. Choose another name, or pass --overwrite." in run("family", home / "f", *both, code=2)
    run("family", home / "f", *both, "--overwrite")
    assert tv.Family.load(home / "f").weights == {"answers": 1, "survey": 1}
    assert not (home / "f" / "family.sig").exists()


def test_a_collection_of_a_family(home: Path) -> None:
    folder, db = made(home), f"sqlite:///{home / 'c.db'}"
    assert "f (" in run("collection", "open", folder, "--db", db)
    run("collection", "round", folder, "w2", "--db", db)
    with_round = {one.name: [kept.name for kept in one.rounds] for one in releases(db)}
    assert with_round == {"f/answers": ["0", "w2"], "f/survey": ["0", "w2"]}
    assert "has ended with 0 reports" in run("collection", "end", "f", "w2", "--db", db)
    assert "0 reports" in run("collection", "forget", "f", "w2", "--yes", "--db", db)
    run("collection", "close", folder, "--db", db)
    assert not any(one.open for one in releases(db))
    run("collection", "open", folder, "--db", db)
    assert all(one.open for one in releases(db))
    run("token", "create", "phones", "--scope", "upload", "--release", folder, "--db", db)
    assert json.loads(run("token", "list", "--json", "--db", db))[0]["release"] == tv.Family.load(folder).release_id


def releases(db: str) -> tuple[object, ...]:
    store = open_store(db)
    try:
        return store.releases()
    finally:
        store.close()
