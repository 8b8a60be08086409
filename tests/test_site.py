"""The documentation site: every page can be found, every link leads somewhere, every public name is described.

These tests read the sources. `make docs` builds the site, with warnings as errors; a slow test builds it without its
notebooks, and others run them.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pages
import taskveil as tv

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "tutorial").glob("*.ipynb"))


def sources(folder: Path = DOCS) -> list[Path]:
    """The pages of the site."""
    found = [*folder.rglob("*.md"), *folder.rglob("*.ipynb")]
    return sorted(page for page in found if "_build" not in page.relative_to(folder).parts)


def text_of(page: Path) -> str:
    """A page's Markdown; of a notebook, that of its text cells."""
    if page.suffix == ".md":
        return page.read_text(encoding="utf-8")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def entries(page: Path) -> list[Path]:
    """The pages that a page's tables of contents name, without suffixes."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", text_of(page), flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [(page.parent / line).resolve() for line in lines if line and not line.startswith(":")]


def without_code(text: str) -> str:
    """Markdown without fenced blocks and code in backticks, where brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL))


def slug(heading: str) -> str:
    """The name that a code host gives to a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def headings(page: Path) -> set[str]:
    """The targets inside a page."""
    outside = re.sub(r"^( *)```.*?^\1```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    return {slug(line) for line in re.findall(r"^#{1,3} (.*)$", outside, flags=re.MULTILINE)}


def broken(page: Path) -> Iterator[str]:
    """Links of a page to files that do not exist, and to headings that do not."""
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{page.relative_to(DOCS)}: {link}: there is no such file"
        elif heading and heading not in headings(target):
            yield f"{page.relative_to(DOCS)}: {link}: there is no such heading"


def described() -> set[str]:
    """The names that the pages of the reference describe, as they are imported."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference/api").glob("*.md"))
    return set(re.findall(r"^\.\. auto(?:class|function|module):: (\S+)$", text, flags=re.MULTILINE))


def settings() -> dict[str, Any]:
    """The names of docs/conf.py."""
    return runpy.run_path(str(DOCS / "conf.py"))


def test_every_page_is_in_one_table_of_contents() -> None:
    listed = Counter(entry for page in sources() for entry in entries(page))
    names = {page.with_suffix("") for page in sources()}
    assert set(listed) == names - {DOCS / "index"}
    assert [entry for entry, count in listed.items() if count > 1] == []
    reached, waiting = set(), [DOCS / "index"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        file = next(one for one in (page.with_suffix(".md"), page.with_suffix(".ipynb")) if one.exists())
        waiting += [entry for entry in entries(file) if entry not in reached]
    assert reached == names


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert [one for page in sources() for one in broken(page)] == []


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "DOCS", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One `x`, two\n[a](#one-x-two) [b](#none) [c](none.md) [d](page.md#one-x-two) `[e](none.md)`\n")
    assert [one.split(": ")[1] for one in broken(page)] == ["#none", "none.md"]


def test_links_out_of_the_site_lead_to_the_repository() -> None:
    conf = settings()
    rewritten, home = conf["to_the_repository"], conf["HOME"]
    text = "[a](../../README.md) [b](../../src/taskveil/client/families.py) [c](../guides/tables.md) [d](nginx.conf#x)"
    assert rewritten("operate/collector", text) == (
        f"[a]({home}/blob/main/README.md) [b]({home}/blob/main/src/taskveil/client/families.py) "
        "[c](../guides/tables.md) [d](nginx.conf#x)"
    )
    for page in sources():
        done = rewritten(str(page.relative_to(DOCS).with_suffix("")), without_code(text_of(page)))
        outside = [link for link in re.findall(r"\]\(([^)#\s]+)\)", done) if "://" not in link]
        assert all((page.parent / link).resolve().is_relative_to(DOCS) for link in outside), page


def test_the_reference_describes_every_public_name() -> None:
    names = described()
    missing = [name for name in tv.__all__ if name != "__version__" and f"taskveil.{name}" not in names]
    assert missing == []
    assert "`__version__`" in (DOCS / "reference/api/errors.md").read_text(encoding="utf-8")
    index = (DOCS / "reference/api/index.md").read_text(encoding="utf-8").split()
    assert [name for name in names if f"~{name}" not in index] == []


def test_the_reference_describes_what_public_functions_return() -> None:
    found = {name.rpartition(".")[2] for name in described()}
    functions = [getattr(tv, name) for name in tv.__all__ if inspect.isfunction(getattr(tv, name))]
    assert len(functions) >= 6
    for function in functions:
        returned = re.findall(r"[A-Z]\w+", str(inspect.signature(function).return_annotation))
        assert set(returned) <= found, function.__name__


def test_the_first_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names = pages.run_code(DOCS / "index.md")
    assert "more than 54.6 times as likely" in capsys.readouterr().out
    assert names["veil"].guarantee.epsilon <= 4


def test_the_price_in_people_is_what_its_code_prints(capsys: pytest.CaptureFixture[str]) -> None:
    pages.run_code(DOCS / "guides/when-not.md")
    printed = capsys.readouterr().out
    assert printed.count("\n") == 6
    assert f"```\n\n{printed}" in (DOCS / "guides/when-not.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_short_and_have_no_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    assert 15 <= len(cells) <= 30
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert "torch" not in "".join(line for cell in code for line in cell["source"])
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


def test_all_pages_name_one_size_of_the_browser_client() -> None:
    """`js/build.mjs` refuses a bundle above its limit, which is kept just above its size."""
    (limit,) = re.findall(
        r"^const LIMIT = (\d+)_\d+;", (ROOT / "js/build.mjs").read_text(encoding="utf-8"), re.MULTILINE
    )
    documents = [ROOT / "README.md", ROOT / "js/README.md", *sources()]
    said = [
        size for page in documents for size in re.findall(r"\b(\d+) KB (?:of JavaScript|\(gzipped\))", text_of(page))
    ]
    assert said == [limit] * 3


def test_there_are_five_notebooks() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05"]


def test_make_docs_takes_warnings_as_errors_and_is_part_of_test_all() -> None:
    rules = dict(
        re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {"-W", "-n", "--keep-going", "docs/_build/html"} <= set(rules["docs"].split())
    assert "docs" in rules["test-all"].split()
    assert "nb_execution_mode" not in rules["docs"]
    assert settings()["nb_execution_mode"] == "cache"


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """The site from the sources in a folder, without running notebooks."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q"]
    command += ["-D", "nb_execution_mode=off", str(folder), str(site)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb")
    done = build(DOCS, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in sources():
        assert (tmp_path / "site" / page.relative_to(DOCS)).with_suffix(".html").exists()
    assert (tmp_path / "site/search.html").exists()
    reference = "".join(page.read_text() for page in (tmp_path / "site/reference/api").glob("*.html"))
    targets = set(re.findall(r'id="(?:module-)?(taskveil\.[\w.]+)"', reference))
    assert described() <= targets
    assert {"taskveil.Veil.privatize", "taskveil.Client.report", "taskveil.Schema.of"} <= targets
    assert "Sentences about all rows: what is assumed" in reference
    # What stands before a colon in the sentence of an attribute is no type.
    assert not re.search(r"<dt[^>]*>Type<", (tmp_path / "site/reference/api/estimates.html").read_text())


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    pytest.importorskip("myst_nb")
    copy = shutil.copytree(DOCS, tmp_path / "repository/docs", ignore=shutil.ignore_patterns("_build"))
    shutil.copy(ROOT / "pyproject.toml", copy.parent)
    page = copy / "concepts/index.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[a](nowhere.md) [b](#nowhere)\n", encoding="utf-8")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    assert done.stderr.count("WARNING") == 2, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("nbconvert")
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "notebook", "--execute"]
    command += ["--output-dir", str(tmp_path), str(path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / path.name).read_text(encoding="utf-8"))["cells"]
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")
