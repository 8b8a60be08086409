"""Files that tools and strangers read: the citation, the workflow, the hooks. They say what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "js/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PACKAGE = ROOT / "src" / "taskveil"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_a_valid_one() -> None:
    """What the Citation File Format 1.2.0 requires, of us and of the paper."""
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["license"] == PROJECT["license"]
    for cited in (citation, *citation["references"]):
        assert isinstance(cited["title"], str)
        assert cited["authors"]
        assert all(author.keys() in ({"name"}, {"family-names", "given-names"}) for author in cited["authors"])
    assert isinstance(citation["message"], str)
    (paper,) = citation["references"]
    assert paper["type"] == "conference-paper"
    assert paper["year"] == 2022
    assert isinstance(paper["conference"]["name"], str)


def test_the_workflow_tests_every_python_we_promise_with_the_command_of_the_makefile() -> None:
    promised = [entry.rpartition(" ")[2] for entry in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", entry)]
    job = read(".github/workflows/test.yml")["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    steps = [step.get("run", "") for step in job["steps"]]
    assert "make test PYTHON=python" in steps
    (node,) = (step["with"]["node-version"] for step in job["steps"] if "setup-node" in step.get("uses", ""))
    assert int(node) >= 20


def test_a_scheduled_workflow_runs_everything_at_full_size() -> None:
    workflow = read(".github/workflows/test-all.yml")
    assert workflow[True]["schedule"]  # YAML reads the key `on` as true
    assert "make test-all PYTHON=python" in [step.get("run", "") for step in workflow["jobs"]["test-all"]["steps"]]
    target = re.search(r"^test-all:.*?\n\n", (ROOT / "Makefile").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert target
    assert '-m "not install"' in target[0]
    assert "VECTORS=--full" in target[0]


@pytest.mark.parametrize("tool", ["ruff check", "ruff format", "mypy"])
def test_hooks_use_the_tools_of_the_makefile(tool: str) -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert any(hook["entry"].startswith(f".venv/bin/{tool}") for hook in local["hooks"])
    assert f"$(BIN)/{tool}" in (ROOT / "Makefile").read_text()


def test_every_package_of_an_extra_is_pinned() -> None:
    """A range that is not pinned is another package tomorrow, and with torch gigabytes of it."""
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    asked = [line for lines in PROJECT["optional-dependencies"].values() for line in lines] + PROJECT["dependencies"]
    names = {re.split(r"[\[<>=]", line)[0].lower().replace("_", "-") for line in asked} - {"taskveil"}
    assert names <= pinned


def test_only_its_own_extra_brings_torch() -> None:
    """From a public index torch is 6 GB, which designs for forests and linear models do without."""
    extras = PROJECT["optional-dependencies"]
    assert {name for name, lines in extras.items() if any(line.startswith("torch") for line in lines)} == {"torch"}
    for name in ("sign", "design", "server", "onnx", "ray"):
        asked = [extra for line in extras[name] for extra in re.findall(r"taskveil\[(.*)\]", line)]
        assert set(asked) <= {"sign", "design"}
    makefile = (ROOT / "Makefile").read_text()
    assert "demo: $(DEMO)" in makefile
    assert "$(DEMO): pyproject.toml constraints.txt\n\t$(call install,design)" in makefile


def missing_files(text: str) -> list[str]:
    """Paths in backticks (`….py`, `….ts`, `….md`, `…/`) that exist neither in the repository nor in the package."""
    named = re.findall(r"`([\w./-]+(?:\.(?:py|ts|md)|/))`", text)
    # `server/` is a folder of a release.
    return [at for at in named if at != "server/" and not any((home / at).exists() for home in (ROOT, PACKAGE))]


def test_every_file_that_a_document_names_exists() -> None:
    """The change log is left out: it names files of earlier versions."""
    for document in (document for document in DOCUMENTS if document.name != "CHANGELOG.md"):
        assert missing_files(document.read_text(encoding="utf-8")) == [], document.name
    assert missing_files("`client/nowhere.py`, `client/client.py` and `nowhere/`") == ["client/nowhere.py", "nowhere/"]


def test_every_link_of_a_document_leads_to_a_file() -> None:
    for document in DOCUMENTS:
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
        missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
        assert missing == [], document.name
