"""Files that tools and strangers read: the citation, the workflow, the hooks. They say what is so."""

from __future__ import annotations

import json
import os
import re
import subprocess
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


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_by_commit_and_ask_for_few_permissions(path: Path) -> None:
    """A tag can be moved to other code; a commit cannot. The comment says which version the commit is."""
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"^\s*(?:- )?uses: (.*)$", text, flags=re.MULTILINE)
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
    versions = {tuple(one.split("@", 1)) for one in used}
    assert len(versions) == len({action for action, _ in versions}), "one version of each action"
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    if path.name != "release.yml":
        assert all("permissions" not in job for job in workflow["jobs"].values())
        assert "secrets." not in text


def test_actions_have_one_version_in_all_workflows() -> None:
    used = {use for path in WORKFLOWS for use in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))}
    assert len(used) == len({use.split("@")[0] for use in used})


def test_only_the_jobs_that_publish_or_sign_may_ask_for_an_identity() -> None:
    """The job that runs the code of others (pip, npm, the tests) cannot publish; the jobs that can run none of it."""
    workflow = read(".github/workflows/release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    assert workflow["permissions"] == {}
    jobs = workflow["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "attest": {"id-token": "write", "attestations": "write"},
        "pypi": {"id-token": "write"},
        "npm": {"id-token": "write"},
    }
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "attest": "build",
        "pypi": "attest",
        "npm": "attest",
    }
    for name in ("attest", "pypi", "npm"):
        commands = [step["run"] for step in jobs[name]["steps"] if "run" in step]
        assert commands == (["npm publish --provenance --access public ./dist/npm/*.tgz"] if name == "npm" else [])
        assert not any("checkout" in step.get("uses", "") for step in jobs[name]["steps"])
    assert jobs["pypi"]["environment"]["name"] == "pypi"
    assert jobs["npm"]["environment"]["name"] == "npm"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")


def test_the_release_is_built_tested_and_described_before_it_is_signed() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]
    said = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    for command in ("python -m build", "npm pack", "make install-test", "cyclonedx-py environment", "npm sbom"):
        assert command in said
    described = [step["with"] for step in jobs["attest"]["steps"] if "attest@" in step["uses"]]
    assert {one["subject-path"]: one.get("sbom-path") for one in described} == {
        "dist/*/*": None,
        "dist/python/*": "dist/sbom/taskveil-python.cdx.json",
        "dist/npm/*": "dist/sbom/taskveil-npm.cdx.json",
    }
    assert all(one["sbom-path"] in said for one in described if "sbom-path" in one)


def test_the_sbom_names_the_version() -> None:
    """CycloneDX's tool takes name and version of the package from the file that it is given."""
    said = "\n".join(step.get("run", "") for step in read(".github/workflows/release.yml")["jobs"]["build"]["steps"])
    (line,) = re.findall(r"^(sed .*) > versioned\.toml$", said, flags=re.MULTILINE)
    assert "--pyproject versioned.toml" in said
    environment = {**os.environ, "GITHUB_REF_NAME": "v1.2.3"}
    made = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    project = tomllib.loads(made.stdout)["project"]
    assert (project["name"], project["version"], project.get("dynamic")) == ("taskveil", "1.2.3", None)


def test_all_files_name_one_repository() -> None:
    package = json.loads((ROOT / "js/package.json").read_text(encoding="utf-8"))
    home = read("CITATION.cff")["repository-code"]
    assert package["repository"] == {"type": "git", "url": f"git+{home}.git", "directory": "js"}
    assert package["homepage"].startswith(f"{home}/")
    assert package["bugs"] == f"{home}/issues"
    assert package["publishConfig"] == {"access": "public", "provenance": True}
    assert all(url == home or url.startswith(f"{home}/") for url in PROJECT["urls"].values())


def test_the_change_log_has_the_date_of_the_release() -> None:
    citation, log = read("CITATION.cff"), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (heading, *_) = re.findall(r"^## (.*)$", log, flags=re.MULTILINE)
    assert heading == f"{citation['version']} ({citation['date-released']})"


def test_make_demo_says_first_what_it_downloads() -> None:
    """make runs the rules of a target's prerequisites in order: the words come before pip."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\ndemo: announced $(DEMO)\n" in makefile
    done = subprocess.run(
        ["make", "-s", "announced", "VENV=nowhere"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(r"without torch: \d+ MB, \d+ MB on disk", done.stdout), done.stderr
    assert "minutes" in done.stdout


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
    assert "demo: announced $(DEMO)" in makefile
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
