from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import taskveil as tv
from cli.running import one_line, run
from taskveil.cli.app import app
from taskveil.cli.serving import DAYS_UNTIL_EXPIRY as DAYS
from taskveil.collector.problems import ProblemError
from taskveil.collector.store import open_store
from taskveil.collector.tokens import Tokens, belongs


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/collector.db"


def created(*arguments: str) -> str:
    """What `token create` writes to standard output."""
    result = CliRunner().invoke(app, ["token", "create", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def granted(db: str, token: str, scope: str, release: str | None = None) -> bool:
    """Whether the collector would let a request pass."""
    store = open_store(db)
    try:
        found = Tokens(store).granted(f"Bearer {token}", scope)  # type: ignore[arg-type]
        if release is not None:
            belongs(found, release)
    except ProblemError:
        return False
    finally:
        store.close()
    return True


def test_a_token_opens_what_it_is_for_until_it_is_revoked(db: str) -> None:
    text = created("phones", "--scope", "upload", "--db", db)
    token = text.strip()
    assert text == f"{token}\n", "nothing but the token, so that a shell can take it"
    assert granted(db, token, "upload")
    assert not granted(db, token, "read")
    assert not granted(db, token[:-1] + ("0" if token[-1] != "0" else "1"), "upload")
    assert run("token", "revoke", "phones", "--db", db) == "phones is revoked.\n"
    assert not granted(db, token, "upload")
    assert "no token 'phones'" in one_line("token", "revoke", "phones", "--db", db)


def test_the_secret_is_shown_once_and_kept_nowhere(db: str, tmp_path: Path) -> None:
    output = run("token", "create", "anna", "--scope", "read", "--db", db)
    token = output.splitlines()[0]
    secret = token.rpartition("_")[2]
    assert output.count(secret) == 1
    assert "/#token=tv_…" in output
    assert secret not in run("token", "list", "--db", db) + run("token", "list", "--json", "--db", db)
    for file in tmp_path.iterdir():
        content = file.read_bytes()
        assert secret.encode() not in content
        assert bytes.fromhex(secret) not in content


@pytest.mark.parametrize("scope", list(DAYS))
def test_it_lasts_as_long_as_the_help_says(db: str, scope: str) -> None:
    run("token", "create", "default", "--scope", scope, "--db", db)
    run("token", "create", "week", "--scope", scope, "--days", 7, "--db", db)
    run("token", "create", "for ever", "--scope", scope, "--days", 0, "--rate", 50, "--db", db)
    found = {one["name"]: one for one in json.loads(run("token", "list", "--json", "--db", db))}
    for name, days in (("default", DAYS[scope]), ("week", 7)):  # type: ignore[index]
        left = datetime.fromisoformat(found[name]["expires"]) - datetime.now(UTC)
        assert timedelta(days=days, minutes=-5) < left <= timedelta(days=days)
    assert found["for ever"] == {"name": "for ever", "scope": scope, "release": None, "expires": None, "rate": 50.0}
    helped = " ".join(run("token", "create", "--help").replace("│", " ").split())
    assert f"{DAYS['upload']} for upload, {DAYS['read']} for others" in helped  # type: ignore[index]
    listed = run("token", "list", "--db", db)
    assert "never" in listed
    assert "50/s" in listed


def test_a_release_is_named_by_its_folder_before_the_collector_knows_it(db: str, veil: tv.Veil, tmp_path: Path) -> None:
    veil.save(tmp_path / "renewal")
    named = ("--release", str(tmp_path / "renewal"))
    token = created("phones", "--scope", "upload", *named, "--db", db).strip()
    assert granted(db, token, "upload", veil.release_id)
    assert not granted(db, token, "upload", "00" * 32)
    assert veil.release_id[:12] in run("token", "list", "--db", db)
    run("collection", "open", tmp_path / "renewal", "--db", db)
    assert "renewal (" in run("token", "list", "--db", db)
    by_id = created("tablets", "--scope", "upload", "--release", veil.release_id[:8], "--db", db).strip()
    assert granted(db, by_id, "upload", veil.release_id)


def test_what_cannot_be_done_is_said_in_one_line(db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASKVEIL_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "no database collector.db" in one_line("token", "list")
    assert not Path("collector.db").exists(), "asking for what is not there makes nothing"
    run("token", "create", "phones", "--scope", "upload", "--db", db)
    assert "already a token 'phones'" in one_line("token", "create", "phones", "--scope", "upload", "--db", db)
    assert "no release 'nothing' here" in one_line(
        "token", "create", "x", "--scope", "read", "--release", "nothing", "--db", db
    )
    assert "name has 1 to 100" in one_line("token", "create", "a\nb", "--scope", "read", "--db", db)
    assert "rate" in one_line("token", "create", "x", "--scope", "read", "--rate", 0, "--db", db)
    assert "must be sqlite:///FILE" in one_line("token", "list", "--db", "mysql://secret@host/x")
    assert "secret" not in one_line("token", "list", "--db", "mysql://secret@host/x")
    Path("wrong.toml").write_text("prot = 1\n")
    assert "prot" in one_line("token", "list", "--config", "wrong.toml")


def test_the_database_may_be_named_in_the_environment_or_a_file(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("token", "create", "phones", "--scope", "upload", "--db", db)
    monkeypatch.setenv("TASKVEIL_DB", db)
    assert "phones" in run("token", "list")
    monkeypatch.delenv("TASKVEIL_DB")
    (tmp_path / "collector.toml").write_text(f'db = "{db}"\nhost = "::1"\nport = 9000\n')
    assert "phones" in run("token", "list", "--config", tmp_path / "collector.toml")
    said = run("token", "create", "page", "--scope", "read", "--config", tmp_path / "collector.toml")
    assert "http://[::1]:9000/#token=" in said
    (tmp_path / "open.toml").write_text(f'db = "{db}"\nhost = "0.0.0.0"\n')
    said = run("token", "create", "page 2", "--scope", "read", "--config", tmp_path / "open.toml")
    assert "https://collector.example/#token=" in said
