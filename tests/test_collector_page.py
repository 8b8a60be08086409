"""What docs/operate/collector.md and operations.md tell you to type runs, and their numbers are right."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import databases
import taskveil as tv
from cli.running import run
from conftest import needs
from pages import ROOT, blocks, terminal
from taskveil.cli.serving import DAYS_UNTIL_EXPIRY as DAYS
from taskveil.client.values import LONGEST_TEXT
from taskveil.client.wire import MOST_POSTED
from taskveil.collector.problems import ProblemType
from taskveil.collector.settings import Settings
from taskveil.estimates import FEWEST

COLLECTOR = (ROOT / "docs/operate/collector.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs/operate/operations.md").read_text(encoding="utf-8")


def test_variables_that_python_reads_are_exported() -> None:
    """The test of the tour exports all variables of the shell, which a reader's terminal does not."""
    names = re.findall(r'os\.environ\["(\w+)"\]', COLLECTOR)
    assert names
    assert [name for name in names if f"\nexport {name}=" not in COLLECTOR] == []


def test_the_tour_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    said: list[str] = []
    with terminal(tmp_path) as shell:
        for place, (language, block) in enumerate(blocks(COLLECTOR)):
            if language == "python":
                exec(compile(shell.here(block), f"collector.md, block {place + 1}", "exec"), names)
            elif language == "sh" and not block.startswith("pip install"):
                said.append(shell.type(block))
                for name, value in shell.variables.items():
                    monkeypatch.setenv(name, value)
        assert shell.stop() == 0
        log = shell.log
    assert capsys.readouterr().out == "300\n"
    _, reading, rounds, planned, forgotten, tokens, again, administered, problem = said
    decoder = json.JSONDecoder()
    releases, end = decoder.raw_decode(reading)
    (release,) = releases["releases"]
    assert release["rounds"] == [{"name": "2026-W46", "open": True, "reports": 300}]
    estimate, end = decoder.raw_decode(reading, end)
    assert estimate["reports"] == 300
    for row in estimate["rows"]:  # the table of the exported reports says the same
        cells = (row["name"], row["estimate"], row["interval"], row["volunteers"], row["forged"])
        assert re.search(".* ".join(map(re.escape, cells)), reading[end:]), (cells, reading[end:])
    assert re.search(r"2026-W46.*no, ended.*300", rounds)
    assert re.search(r"2026-W47.*yes, current", rounds)
    (shown,) = re.findall(r"^commute: .*$", COLLECTOR, flags=re.MULTILINE)
    assert shown in " ".join(reading.split())
    told = " ".join(planned.split())
    assert (
        "in each of its 2 rounds spent ε = 4 (odds of at most 54.6 to 1). The 52 planned rounds add up to ε = 104"
        in told
    )
    assert "300 reports of round 2026-W46 of commute are deleted" in forgotten
    assert re.search(r"tablets.*200/s", tokens)
    first, second = (json.loads(part + "}") for part in again.strip().removesuffix("}").split("}", 1))
    assert first == {"accepted": 300, "duplicate": 0, "rejected": []}
    assert second == {"accepted": 0, "duplicate": 300, "rejected": []}
    answers, end = [], 0
    while administered.startswith("{", end):  # what curl printed; then comes what `token create` said
        answer, end = decoder.raw_decode(administered, end)
        answers.append(answer)
    assert [answer.get("current") for answer in answers] == ["2026-W48", "2026-W48", None, "2026-W48"]
    assert answers[2] == {"forgotten": 300}
    assert answers[3]["open"] is False
    assert json.loads(problem)["type"] == ProblemType.TOKEN_MISSING.document().type
    assert "127.0.0.1" not in log.replace(shell.address, "")
    assert not any(shell.variables[name] in log for name in ("UPLOAD", "READ"))


def test_every_setting_is_listed_with_its_default() -> None:
    (listed,) = (code for language, code in blocks(COLLECTOR) if language == "toml")
    given = tomllib.loads(listed)
    defaults = Settings().model_dump(mode="json")
    assert {name: defaults[name] for name in given} == given
    named = set(re.findall(r"^(?:# )?(\w+) = ", listed, flags=re.MULTILINE))
    assert named == set(defaults)


def test_numbers_in_words() -> None:
    said = " ".join(COLLECTOR.split())
    assert f"| {DAYS['upload']} days |" in said  # type: ignore[index]
    assert said.count(f"| {DAYS['read']} days |") == 2  # type: ignore[index]
    most = f"{Settings().most_bytes // 2**20} MiB and {MOST_POSTED:,} reports"
    assert f"at most {most}" in said
    assert f"fewer than {FEWEST} reports" in OPERATIONS
    assert f"at most {most}, a round's name {LONGEST_TEXT:,} bytes" in " ".join(OPERATIONS.split())


def test_every_problem_has_its_status_in_the_table() -> None:
    section = COLLECTOR.split("| status | when |")[1].split("\n\n")[0]
    named = {int(status) for row in re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE) for status in row.split(",")}
    own = {404, 405, 500}  # of routes, methods and faults, not of what a client sends
    every = {problem.status for problem in ProblemType}
    assert every - own <= named <= every


def test_every_metric_exists_and_is_listed() -> None:
    from taskveil.collector.metrics import Metrics

    exposed = {family.name for family in Metrics().registry.collect() if family.name.startswith("taskveil_")}
    named = {name.removesuffix("_total") for name in re.findall(r"^\| `(taskveil_\w+)", OPERATIONS, re.MULTILINE)}
    assert named == exposed


@needs(shutil.which("sqlite3") is not None, "SQLite's command")
def test_a_backup_of_a_running_collector_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's lines of operations.md, on a database with a log beside it."""
    monkeypatch.chdir(tmp_path)
    run("token", "create", "phones", "--scope", "upload")
    with sqlite3.connect("collector.db", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")  # somebody is about to write
        (lines,) = (code for language, code in blocks(OPERATIONS) if language == "sh" and "VACUUM INTO" in code)
        done = subprocess.run(["bash", "-ec", lines], capture_output=True, text=True, check=True)
    writer.close()
    assert done.stdout == "ok\n"
    for copy in ("backup.db", "backup-2.db"):
        assert "phones" in run("token", "list", "--db", f"sqlite:///{copy}")


@needs(databases.POSTGRES is not None and shutil.which("pg_dump") is not None, "PostgreSQL")
def test_postgresql_from_an_empty_database_to_a_restored_backup(tmp_path: Path, veil: tv.Veil) -> None:
    """The lines of operations.md, against a server whose place the environment says."""
    veil.save(tmp_path / "renewal")
    lines = [code for language, code in blocks(OPERATIONS) if language == "sh" and "createdb" in code]
    with databases.running() as server, terminal(tmp_path) as shell:
        shell.variables |= {"PGHOST": str(server.folder), "PGUSER": "tester"}
        begin, backup = (code.replace("postgresql://localhost/", "postgresql:///") for code in lines)
        shell.type(begin)
        assert shell.answers("/readyz")
        assert "renewal" in shell.type(backup)
        assert shell.stop() == 0
