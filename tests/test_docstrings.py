"""Every public name says what it promises, and what callers use most names every parameter.

The sources are read, not imported. Public is what has no leading underscore, in a file and a class without one.
Shapes of arrays cannot be checked here; a docstring that is there is where they belong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"
DOORS = ("taskveil", "taskveil.client", "taskveil.datasets")
"""What these offer is what callers use: every parameter of it is explained."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public names of a module without a docstring, as `Class.method`; the module itself is `""`."""
    if not ast.get_docstring(tree):
        yield ""
    yield from _undocumented(tree, "")


def _undocumented(parent: Documented, prefix: str) -> Iterator[str]:
    for node in _members(parent):
        if node.name.startswith("_"):
            continue  # dunder methods promise what Python says they do
        name = f"{prefix}{node.name}"
        if not ast.get_docstring(node) and not _is_repetition(node):
            yield name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node, f"{name}.")


def _members(parent: Documented) -> Iterator[Function | ast.ClassDef]:
    """Functions and classes of a body, also of those under `if` and `try`; not of other functions."""
    for node in parent.body:
        if isinstance(node, Function | ast.ClassDef):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [child for child in ast.walk(node) if isinstance(child, Function | ast.ClassDef)]
            yield from (child for child in inner if not any(child in ast.walk(o) for o in inner if o is not child))


def _is_repetition(node: Function | ast.ClassDef) -> bool:
    """Setters of a property and overloads of a function repeat what another definition documents."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"setter", "deleter", "overload"})


def unexplained(node: Function, described: str) -> list[str]:
    """Parameters that a docstring does not name; one parameter alone needs no name."""
    given = node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg) if a]
    names = [name for name in names if name not in ("self", "cls") and not name.startswith("_")]
    return [name for name in names if not re.search(rf"\b{name}\b", described)] if len(names) > 1 else []


def offered(door: str) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """What a package's `__all__` names: every function and class, wherever it is defined."""
    tree = parsed(door)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            for name in import_module(door).__all__:
                found = definition(door, name)
                if found is not None:
                    yield name, found


def definition(module: str, name: str) -> Function | ast.ClassDef | None:
    """The function or class that a module defines or imports under this name; None for anything else."""
    for node in ast.walk(parsed(module)):
        if isinstance(node, Function | ast.ClassDef) and node.name == name and not _is_repetition(node):
            return node
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("taskveil"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    if SOURCES.joinpath(*node.module.split("."), alias.name).is_dir():
                        return None  # a package is a door of its own
                    return definition(node.module, alias.name)
    return None


def explained_badly(door: str) -> Iterator[str]:
    """Functions and methods behind a door with parameters that nobody explains."""
    for name, node in offered(door):
        if isinstance(node, Function):
            missing = unexplained(node, ast.get_docstring(node) or "")
            yield from [f"{name}: {', '.join(missing)}"] if missing else []
            continue
        for method in _members(node):
            private = method.name.startswith("_") and method.name != "__init__"
            if isinstance(method, Function) and not private and not _is_repetition(method):
                described = ast.get_docstring(method) or ""
                if method.name == "__init__":  # a class may explain how it is made
                    described += ast.get_docstring(node) or ""
                missing = unexplained(method, described)
                yield from [f"{name}.{method.name}: {', '.join(missing)}"] if missing else []


@cache
def parsed(module: str) -> ast.Module:
    path = SOURCES.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def modules() -> list[Path]:
    """Files without a leading underscore, and packages."""
    found = sorted((SOURCES / "taskveil").rglob("*.py"))
    return [file for file in found if file.name == "__init__.py" or not file.name.startswith("_")]


def test_every_public_name_has_a_docstring() -> None:
    missing = [
        f"{file.relative_to(SOURCES)}: {name or 'the module itself'}"
        for file in modules()
        for name in undocumented(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not missing, f"{len(missing)} public names have no docstring:\n" + "\n".join(missing)


def test_every_parameter_that_callers_pass_is_explained() -> None:
    missing = [f"{door}.{entry}" for door in DOORS for entry in explained_badly(door)]
    assert not missing, f"{len(missing)} docstrings leave out parameters:\n" + "\n".join(missing)


def test_the_doors_lead_to_what_callers_use() -> None:
    names = {name for door in DOORS for name, _ in offered(door)}
    assert {"design", "sweep", "audit", "Veil", "LinearTask", "ModelTask", "MultiTask"} <= names
    assert {"Box", "Ball", "Points", "Client", "Ledger", "upload"} <= names


def test_the_check_itself_finds_what_is_missing() -> None:
    tree = ast.parse('''
class Public:
    """Says something."""
    def said(self): "It does."
    def unsaid(self): ...
    @property
    def attribute(self): ...
    def __init__(self, a, b): ...
    def _private(self): ...
class _Private:
    def unseen(self): ...
def function():
    def inside(): ...
if True:
    def branch():
        def inside(): ...
''')
    assert list(undocumented(tree)) == ["", "Public.unsaid", "Public.attribute", "function", "branch"]
    (function,) = ast.parse("def f(self, X, *, y, round='0', _hidden=1, **rest): ...").body
    assert isinstance(function, Function)
    assert unexplained(function, "The records X in a round.") == ["y", "rest"]
    (single,) = ast.parse("def f(self, X): ...").body
    assert isinstance(single, Function)
    assert unexplained(single, "") == []
