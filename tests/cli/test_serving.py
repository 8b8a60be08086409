"""`taskveil serve`: from a release's folder to a page and an upload; tokens are shown once and nowhere else."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releases
import taskveil as tv
from cli.running import one_line, run
from taskveil.client import Client, upload
from taskveil.collector import serving
from taskveil.collector.settings import Settings
from taskveil.collector.store import open_store

TOKEN = re.compile(r"tv_[0-9a-f]{16}_[0-9a-f]{64}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release in `power`, and another in `water`."""
    folder = tmp_path_factory.mktemp("serve")
    for name, kind in (("power", "codebook"), ("water", "levels")):
        device = releases.devices()[kind]
        releases.veil(device.encoder, device.mechanism).save(folder / name)
    return folder


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The collectors that were started: they say where they listen, and end."""
    seen: list[Settings] = []

    def serve(settings: Settings, *, demo: Path | None = None, bound: Callable[[str], None]) -> int:
        seen.append(settings)
        bound(f"http://{settings.host}:{settings.port}")
        return 0

    monkeypatch.setattr(serving, "serve", serve)
    return seen


def test_a_newcomer_gets_a_page_and_an_upload(home: Path, tmp_path: Path) -> None:
    db = tmp_path / "c.db"
    command = [sys.executable, "-m", "taskveil", "serve", home / "power", "--db", db, "--port", "0", "--print-tokens"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = list(lines(process, "Tokens are shown"))
        address = re.search(r"listens on (\S+)\. ", said[0])[1]  # type: ignore[index]
        read = next(TOKEN.search(line)[0] for line in said if "The page" in line)  # type: ignore[index]
        sending = next(TOKEN.search(line)[0] for line in said if "Uploads" in line)  # type: ignore[index]
        with Client.load(home / "power", ledger=tmp_path / "ledger.sqlite") as client:
            report = client.report(np.zeros(client.device.encoder.width))
        for _ in range(2):
            assert upload([report], f"{address}/v1/reports", token=sending) == 1
        asked = urllib.request.Request(f"{address}/v1/releases", headers={"Authorization": f"Bearer {read}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            [found] = json.load(answer)["releases"]
        assert (found["name"], found["reports"]) == ("power", 1)
    finally:
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    for where in (out, errors, db.read_bytes().decode(errors="replace")):
        assert not any(token.rpartition("_")[2] in where for token in (read, sending))


def lines(process: subprocess.Popen[str], last: str) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line
        if last in line:
            return
    raise AssertionError(process.communicate()[1])


def test_it_says_what_is_open_and_what_is_promised(home: Path, tmp_path: Path, served: list[Settings]) -> None:
    output = run(
        "serve", home / "power", home / "water", "--db", tmp_path / "c.db", "--round", "spring", "--port", 8123
    )
    assert "listens on http://127.0.0.1:8123." in output
    for name in ("power", "water"):
        veil = tv.Veil.load(home / name)
        about, promise = output[output.index(f"  {name} (") :].splitlines()[:2]
        assert f"{name} ({veil.release_id[:12]}…): open; current round spring; rounds spring (0 reports)" in about
        assert promise.strip() in veil.guarantee.statement
        assert "times as likely" in promise
    assert output.count("for one report. What all rounds add up to: taskveil collection status\n") == 1
    assert [one.port for one in served] == [8123]


def test_tokens_are_made_for_people_only_and_once(home: Path, tmp_path: Path, served: list[Settings]) -> None:
    asked = ("serve", home / "power", "--db", tmp_path / "c.db")
    unseen = run(*asked)  # no terminal
    assert not TOKEN.search(unseen)
    assert "taskveil token create" in unseen
    shown = run(*asked, "--print-tokens")
    assert len(set(TOKEN.findall(shown))) == 2
    again = run(*asked, "--print-tokens")
    assert not TOKEN.search(again)
    store = open_store(str(tmp_path / "c.db"))
    assert sorted((token.name, token.scope) for token in store.tokens()) == [
        ("first read", "read"),
        ("first upload", "upload"),
    ]
    store.close()
    anyone = run("serve", home / "power", "--db", tmp_path / "d.db", "--uploads", "anyone", "--print-tokens")
    assert len(set(TOKEN.findall(anyone))) == 1


def test_a_restart_opens_nothing_that_was_closed(home: Path, tmp_path: Path, served: list[Settings]) -> None:
    asked = ("serve", home / "power", "--db", tmp_path / "c.db")
    run(*asked, "--round", "spring")
    store = open_store(str(tmp_path / "c.db"))
    store.open_round(store.releases()[0].id, "summer")
    store.set_open(store.releases()[0].id, open=False)
    assert "closed; current round summer" in run(*asked)
    assert "closed" in run("serve", "--db", tmp_path / "c.db")
    assert "open; current round autumn" in run(*asked, "--round", "autumn")
    store.close()


def test_a_collector_for_others_is_told_about_https(home: Path, tmp_path: Path, served: list[Settings]) -> None:
    output = run("serve", home / "power", "--db", tmp_path / "c.db", "--host", "0.0.0.0", "--print-tokens")
    assert "devices send only over https" in output
    assert "The page: http://127.0.0.1:8000/#token=tv_" in output


def test_options_win_over_the_file(home: Path, tmp_path: Path, served: list[Settings]) -> None:
    (tmp_path / "c.toml").write_text(f'db = "sqlite:///{tmp_path / "c.db"}"\nport = 1234\nrate = 7.5\n')
    run("serve", home / "power", "--config", tmp_path / "c.toml", "--port", 4321)
    assert [(one.port, one.rate) for one in served] == [(4321, 7.5)]
    assert (tmp_path / "c.db").exists()


def test_a_collector_may_be_up_before_its_first_release(tmp_path: Path, served: list[Settings]) -> None:
    output = run("serve", "--db", tmp_path / "c.db")
    assert "no release to collect for yet: taskveil collection open" in output
    assert len(served) == 1


def wrong(tmp_path: Path, home: Path) -> dict[str, tuple[list[Any], str]]:
    (tmp_path / "c.toml").write_text("prot = 1234\n")
    (tmp_path / "folder").mkdir()
    db = ["--db", tmp_path / "c.db"]
    return {
        "no folder": ([tmp_path / "nowhere", *db], "nowhere"),
        "another folder": ([tmp_path / "folder", *db], "folder"),
        "an unknown key": ([home / "power", *db, "--config", tmp_path / "c.toml"], "prot"),
        "who uploads": ([home / "power", *db, "--uploads", "everyone"], "uploads"),
        "a round": ([home / "power", *db, "--round", "a/b"], "round"),
        "another database": ([home / "power", "--db", "mysql://me:secret@host/x"], "database must be"),
        "no database": (
            [home / "power", "--db", "postgresql://me:secret@127.0.0.1:1/x"],
            "no PostgreSQL server answers",
        ),
        "a round of nothing": ([*db, "--round", "spring"], "taskveil collection round RELEASE spring"),
        "a lone key": ([home / "power", *db, "--key", tmp_path / "c.toml"], "certificate"),
    }


@pytest.mark.parametrize("case", [
    *("no folder", "another folder", "an unknown key", "who uploads", "a round", "another database"),
    *("no database", "a lone key", "a round of nothing"),
])  # fmt: skip
def test_errors_are_one_line(case: str, home: Path, tmp_path: Path) -> None:
    asked, words = wrong(tmp_path, home)[case]
    output = one_line("serve", *asked)
    assert words in output
    assert "secret" not in output


def test_a_port_that_is_taken_is_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "BIND_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        output = one_line("serve", home / "power", "--db", tmp_path / "c.db", "--port", port, "--print-tokens")
    assert str(port) in output
    store = open_store(str(tmp_path / "c.db"))
    assert store.tokens() == ()  # nobody has seen any
    store.close()


def test_an_install_without_the_server_is_told_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "taskveil.collector.serving")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for command in (("serve",), ("demo", "--serve")):
        assert one_line(*command) == "error: this command needs uvicorn: pip install 'taskveil[server]'\n"
