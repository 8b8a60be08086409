"""What the documents say is where they say it: files exist, and functions are in the files named beside them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
HOMES = (ROOT, ROOT / "src/taskveil")
"""Paths in documents start at one of these."""


def files_named(text: str) -> list[str]:
    """Paths in backticks that end in .py, .ts or .md."""
    return re.findall(r"`([\w./-]+\.(?:py|ts|md))`", text)


def folders_named(text: str) -> list[str]:
    """Paths in backticks that end in a slash."""
    return re.findall(r"`([\w./-]+/)`", text)


def found(path: str) -> Path | None:
    return next((home / path for home in HOMES if (home / path).exists()), None)


def defined(file: Path) -> set[str]:
    """Functions, classes and methods of a file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ts":
        return set(re.findall(r"(?:function|class) (\w+)", text))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)}


def answers() -> list[tuple[str, str, str]]:
    """The rows of 'Where is…': question, file, what to look for."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("## Where is…")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+) \|$", section, flags=re.MULTILINE)
    return [(row[0], row[1], row[2]) for row in rows]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_file_that_is_named_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    missing = [path for path in files_named(text) + folders_named(text) if found(path) is None]
    # A release has two folders of its own, which are no folders of the repository.
    assert [path for path in missing if path != "server/"] == []


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "js/README.md"], ids=lambda d: str(d.relative_to(ROOT))
)
def test_every_link_leads_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
    missing = [link for link in targets if "://" not in link and not (document.parent / link).exists()]
    assert missing == []


def test_the_check_sees_names() -> None:
    assert len(files_named((ROOT / "docs/guarantee.md").read_text(encoding="utf-8"))) > 20
    assert files_named("`client/nowhere.py`, `a.md` and `tests/x-y.ts`") == [
        "client/nowhere.py",
        "a.md",
        "tests/x-y.ts",
    ]
    assert found("client/nowhere.py") is None


def test_twenty_questions_have_an_answer() -> None:
    assert len(answers()) >= 20


@pytest.mark.parametrize(("question", "file", "says"), answers(), ids=[question for question, _, _ in answers()])
def test_the_function_is_in_the_file(question: str, file: str, says: str) -> None:
    place = found(file)
    assert place is not None, file
    named = re.match(r"(?:beside )?`(\w+)`", says)
    assert named, f"{question}: name a function first"
    assert named[1] in defined(place), f"{question}: {file} has no {named[1]}"


def test_the_picture_names_rooms_that_exist() -> None:
    picture = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    labels = " ".join(re.findall(r'class="where[^"]*"[^>]*>([^<]*)<', picture))
    named = re.findall(r"[a-z]+(?:\.py|/)", labels)
    assert {"designs/", "tasks/", "client/", "release/", "veil.py", "wire.py"} <= set(named)
    assert [name for name in named if found(name) is None] == []
