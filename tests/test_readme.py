"""Every code block of README.md does what it says.

Blocks run one after the other in one namespace and one empty folder, as a reader would type them. A thousand other
devices report in between; the collector's address is replaced by that of the `taskveil serve` which the page itself
starts. `# taskveil …` lines of a block are run after it.

The JavaScript block runs in Node with the built bundle, a simulated IndexedDB and a real collector; it needs
`npm ci && npm run build` in js/, which `make test` does first. Real browsers are tested in js/browser.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pages
import taskveil as tv
from conftest import needs
from pages import Shell, terminal
from taskveil.client import upload
from taskveil.client.promise import together
from taskveil.client.wire import Report

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUNDLE, INDEXED_DB = ROOT / "js/dist/taskveil.js", ROOT / "js/node_modules/fake-indexeddb/auto/index.mjs"


def blocks(language: str) -> list[str]:
    """The fenced code blocks of one language, in order."""
    return [code for named, code in pages.blocks(TEXT) if named == language]


def make_keys(folder: Path) -> None:
    """Type the README's `openssl` lines."""
    lines = [line for line in "".join(blocks("sh")).splitlines() if line.startswith("openssl ")]
    assert len(lines) == 2
    for line in lines:
        subprocess.run(shlex.split(line), cwd=folder, check=True, capture_output=True)


def taskveil(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The installed command, from these sources."""
    module, _, name = PROJECT["scripts"]["taskveil"].partition(":")
    code = f"import sys; from {module} import {name}; sys.argv[0] = 'taskveil'; sys.exit({name}())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def commands(block: str) -> list[list[str]]:
    """The arguments of every `# taskveil …` line; what follows in brackets is said to the reader."""
    lines = re.findall(r"^# taskveil (.*?)(?:\s+\(.*\))?$", block, flags=re.MULTILINE)
    return [shlex.split(line) for line in lines]


def other_devices(namespace: dict[str, Any], shell: Shell) -> None:
    """A thousand people's reports: what a collection consists of."""
    veil = tv.Veil.load("renewal")
    people = tv.datasets.load_churn().X[:1000]
    release, pack = bytes.fromhex(veil.release_id), veil.mechanism.layout.pack
    reports = [Report(release=release, id=os.urandom(16), payload=pack(one)) for one in veil.privatize(people).tolist()]
    assert upload(reports, f"{shell.address}/v1/reports", token=namespace["UPLOAD"]) == 1000


def test_the_blocks_run_as_a_reader_types_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    namespace: dict[str, Any] = {}
    run: list[list[str]] = []
    with terminal(tmp_path) as shell:
        for place, (language, block) in enumerate(pages.blocks(TEXT)):
            if language == "sh" and not block.startswith("pip install "):
                shell.type(block)
            if language == "sh" and "taskveil serve" in block:
                namespace |= {name: shell.variables[name] for name in ("UPLOAD", "READ")}
                other_devices(namespace, shell)
            if language == "python":
                exec(compile(shell.here(block), f"README.md, block {place + 1}", "exec"), namespace)
                for arguments in commands(block):
                    done = taskveil(arguments, tmp_path)
                    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
                    run.append(arguments)
        check_the_collector(shell, namespace)
        assert shell.stop() == 0
    assert [arguments[0] for arguments in run] == ["data", "privatize", "decode", "estimate"]
    printed = capsys.readouterr().out
    assert "HOLDS." in printed
    assert namespace["same"] == namespace["report"]
    assert namespace["answers"].shape == (1001, 2)
    assert namespace["estimates"].columns.tolist() == ["country", "since", "income", "children", "owner"]
    assert [row["epsilon"] for row in namespace["frontier"].rows() if row["method"] == "codebook"] == [1, 5]
    assert all(" (renewed = " in share.name for share in namespace["estimate"].frequencies)
    assert "share of labels: renewed = yes" in printed  # of the estimate with an assumption
    assert (tmp_path / "estimate.png").stat().st_size > 10_000
    estimates = pd.read_parquet(tmp_path / "estimates.parquet")
    truth, _ = tv.datasets.load_churn()
    assert len(estimates) == len(truth)
    assert set(estimates["country"]) <= set(truth["country"])
    assert abs(estimates["income"].mean() - truth["income"].mean()) < 0.2 * truth["income"].std()


def check_the_collector(shell: Shell, namespace: dict[str, Any]) -> None:
    """The store has the uploaded reports. The page and the estimates answer, but only with a token."""
    (stored,) = json.loads(taskveil(["collection", "status", "--json"], shell.folder).stdout)
    assert [(one["name"], one["reports"]) for one in stored["rounds"]] == [("2026-W46", 1001)]
    bearer = {"Authorization": f"Bearer {namespace['READ']}"}
    with shell.ask(f"/v1/estimates?release={stored['id']}&round=2026-W46", **bearer) as answer:
        said = json.load(answer)
    assert said["reports"] == 1001
    ours = {share.name: share.mean for share in namespace["estimate"].frequencies}
    theirs = {share["name"]: share["mean"] for share in said["frequencies"]}
    assert theirs == pytest.approx(ours, rel=1e-6)
    with shell.ask("/") as answer:
        assert b"<html" in answer.read()
    assert not shell.answers(f"/v1/estimates?release={stored['id']}")
    assert "127.0.0.1" not in shell.log.replace(shell.address, "")
    assert namespace["UPLOAD"] not in shell.log


@needs(BUNDLE.exists() and INDEXED_DB.exists() and shutil.which("node") is not None, "Node and the built js/dist")
def test_the_javascript_block_runs(tmp_path: Path) -> None:
    from taskveil.veil.release import sign

    table = tv.datasets.load_churn().X[:300]
    veil = tv.design(table, tv.LinearTask(np.diag([0, 0, 1e-4, 1.0, 1.0])), epsilon=2.0)
    veil.save(tmp_path / "renewal")
    make_keys(tmp_path)
    sign(tmp_path / "renewal", (tmp_path / "key.pem").read_bytes())
    (serving,) = (code for code in blocks("sh") if "taskveil serve" in code)
    with terminal(tmp_path) as shell:
        shell.type(serving)
        key, token = (tmp_path / "public.pem").read_text(encoding="utf-8"), shell.variables["UPLOAD"]
        shipped = f"export const verifyKey = {json.dumps(key)}, token = {json.dumps(token)};\n"
        (tmp_path / "key.mjs").write_text(shipped, encoding="utf-8")
        (block,) = blocks("js")
        block = shell.here(block).replace("./taskveil.js", BUNDLE.as_uri()).replace("/RELEASE/", f"/{veil.release_id}/")
        script = f'import "{INDEXED_DB.as_uri()}";\n{block}'
        (tmp_path / "block.mjs").write_text(script, encoding="utf-8")
        done = subprocess.run(["node", str(tmp_path / "block.mjs")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        words = f"{veil.guarantee.statement} {together(2.0, 9.0)}"
        assert done.stdout.strip() == f"{words} {{ soFar: 2, planned: 2, lifetime: 9 }}"  # rounded up for people
        (stored,) = json.loads(shell.type("taskveil collection status --json"))
    assert [one["reports"] for one in stored["rounds"]] == [1]


def test_what_it_tells_to_install_exists() -> None:
    asked = re.findall(r"pip install '?(?:taskveil|\.)(?:\[(\w+)\])?'?[\s`]", TEXT)
    assert {"", "design", "server"} <= set(asked)
    assert {extra for extra in asked if extra} <= set(PROJECT["optional-dependencies"])


def test_the_make_targets_and_commands_it_names_exist(tmp_path: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = re.findall(r"(?:^    |`)make (\w+)", TEXT, flags=re.MULTILINE)
    assert {"demo", "test"} <= set(named) <= set(targets)
    for command in {line.split()[0] for line in re.findall(r"`taskveil ([^`]+)`", TEXT)}:
        assert taskveil([command, "--help"], tmp_path).returncode == 0, command


def test_the_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_no_block_is_left_out() -> None:
    """Blocks are of the languages that are run here; every fence of the page belongs to one of them."""
    fences = re.findall(r"^```(\w*)$", TEXT, flags=re.MULTILINE)
    assert set(fences) == {"python", "js", "sh", ""}
    assert len(fences) == 2 * sum(len(blocks(language)) for language in ("python", "js", "sh"))
    for line in "".join(blocks("sh")).splitlines():
        run = line.startswith(("pip install ", "openssl ", "taskveil sign ", "taskveil serve ", "UPLOAD=", "READ="))
        assert run, f"nobody runs this line: {line}"


def test_it_can_be_read_in_five_minutes() -> None:
    assert len(TEXT.split()) <= 1300
