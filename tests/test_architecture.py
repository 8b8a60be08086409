"""Which package may import which, no cycles, no file that is too long. The tests read the imports and run none."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import taskveil
from test_words import house

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "taskveil"
MOST_LINES = 600

SHARED = ["errors", "arrays", "progress", "notebooks", "style"]
"""Modules that many packages import. They import only those before them."""

ON_DEVICES = ["errors", "arrays", "client"]
"""All code that ships to devices. Each part may import those before it."""

ORDER = ["client", "records", "tasks", "veil", "designs", "peers"]
"""Packages of which each may import those before it."""


def up_to(package: str) -> set[str]:
    """The shared modules, this package and those before it."""
    return {*SHARED, *ORDER[: ORDER.index(package) + 1]}


MAY_IMPORT = {
    **{module: set(SHARED[: place + 1]) for place, module in enumerate(SHARED)},
    **{package: up_to(package) for package in ORDER},
    "client": set(ON_DEVICES),
    "datasets": {*SHARED, "datasets"},
    "estimates": {*up_to("veil"), "estimates"},
    "auditing": {*up_to("veil"), "auditing"},
    "jobs": {*up_to("veil"), "estimates", "jobs"},
    "collector": {*up_to("veil"), "estimates", "jobs", "collector"},
    "sklearn": {*up_to("designs"), "sklearn"},
    "sweeps": {*up_to("peers"), "estimates", "jobs", "sweeps"},
    "experiments": {*up_to("peers"), "sweeps", "auditing", "experiments"},
    "signoff": {*up_to("veil"), "estimates", "sweeps", "auditing", "signoff"},
    "cli": {
        *up_to("peers"),
        *("sweeps", "estimates", "collector", "auditing", "jobs", "experiments", "datasets", "signoff", "cli"),
    },
    "__init__": {*up_to("designs"), "sklearn", "sweeps", "estimates", "auditing", "datasets", "signoff"},
    "__main__": {"cli"},
}

TABLE = "taskveil.designs.designing"
"""The table from method names to designers: the only module of `designs/` that may import `peers/`."""

MOST_AT_THE_TOP = 10
"""Modules that may lie directly in `src/taskveil`."""

HEAVY = {
    *("scipy", "sklearn", "torch", "onnx", "onnxruntime", "matplotlib", "pooch", "safetensors", "pyarrow", "pandas"),
    *("polars", "typer", "rich", "cryptography", "dp_accounting", "threadpoolctl", "fastapi", "pydantic", "uvicorn"),
    *("psycopg", "ray", "xgboost", "lightgbm", "IPython"),
}
"""Optional packages: what an import inside a function may be for."""


@dataclass(frozen=True)
class Import:
    """`name` as imported by a module; `local`: inside a function; `typing`: for type checkers only."""

    name: str
    local: bool
    typing: bool


def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports_of(source: str) -> Iterator[Import]:
    """Every import statement of a module, wherever it stands."""

    def walk(node: ast.AST, local: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, local, typing) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    yield Import(whole if whole in MODULES else str(child.module), local, typing)
            inside = local or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typed = typing or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
            yield from walk(child, inside, typed)

    yield from walk(ast.parse(source), False, False)


IMPORTS = {name: list(imports_of(path.read_text(encoding="utf-8"))) for name, path in MODULES.items()}


def package_of(module: str) -> str:
    """The part of the tree that a module lies in: a package, or a module at the top."""
    return module.split(".")[1] if "." in module else "__init__"


def ours(name: str) -> bool:
    return name.split(".")[0] == "taskveil"


def test_every_package_imports_only_what_it_may() -> None:
    wrong = [
        f"{module} imports {found.name}"
        for module, entries in IMPORTS.items()
        for found in entries
        if ours(found.name) and package_of(found.name) not in MAY_IMPORT[package_of(module)]
        if (module, package_of(found.name)) != (TABLE, "peers")
        if found.name != "taskveil"  # for `__version__`
    ]
    assert wrong == []
    assert {package_of(module) for module in MODULES} <= set(MAY_IMPORT), "a new package needs a row in MAY_IMPORT"


PREDICTABLE = re.compile(r"np\.random|import random|from random|pickl")


def test_neither_devices_nor_servers_use_predictable_numbers_or_pickles() -> None:
    wrong = [
        module
        for module, path in MODULES.items()
        if package_of(module) in {*ON_DEVICES, "collector"} and PREDICTABLE.search(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []
    assert all(map(PREDICTABLE.search, ("import random", "rng = np.random.default_rng()", "import pickle")))


def test_devices_get_numpy_and_the_standard_library() -> None:
    import sys

    allowed = {*sys.stdlib_module_names, "numpy", "taskveil"}
    wrong = [
        f"{module} imports {found.name}"
        for module, entries in IMPORTS.items()
        if package_of(module) in ON_DEVICES
        for found in entries
        # Signatures are checked by `cryptography`, if a device was told to check them and has it.
        if found.name.split(".")[0] not in allowed and not (found.local and found.name.startswith("cryptography"))
    ]
    assert wrong == []


def test_the_collectors_store_knows_nothing_of_http() -> None:
    home = "taskveil.collector"

    def part(name: str) -> str:
        return name.removeprefix(f"{home}.").split(".")[0]

    used = {
        (part(module), part(found.name))
        for module, entries in IMPORTS.items()
        for found in entries
        if module.startswith(f"{home}.") and found.name.startswith(f"{home}.") and part(module) != part(found.name)
    }
    assert {target for source, target in used if source == "store"} <= {"journal"}
    assert {source for source, target in used if target == "api"} == {"serving"}
    stores = [module for module in MODULES if module.startswith(f"{home}.store")]
    outside = {found.name.split(".")[0] for module in stores for found in IMPORTS[module]}
    assert not outside & {"fastapi", "starlette", "uvicorn", "pydantic"}


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The members of some cycle, or []."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def packages(module: str) -> list[str]:
    """The packages that a module lies in, without the outermost."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(2, len(parts))]


def test_there_is_no_cycle() -> None:
    """Imports inside functions and for type checkers are counted too, and the packages that an import runs first."""
    graph = {
        module: {
            target
            for found in entries
            if found.name in MODULES
            for target in (found.name, *packages(found.name))
            if not f"{module}.".startswith(f"{target}.")  # its own packages have begun before it
        }
        for module, entries in IMPORTS.items()
        if module != "taskveil"  # it imports each public name on first use
    }
    for targets in graph.values():
        targets.discard("taskveil")
    assert cycle(graph) == []


def heavy_packages(module: str, seen: set[str] | None = None) -> set[str]:
    """The optional packages that importing a module loads."""
    seen = set() if seen is None else seen
    if module in seen:
        return set()
    seen.add(module)
    found = set()
    for entry in IMPORTS.get(module, ()):
        if not (entry.local or entry.typing):
            top = entry.name.split(".")[0]
            found |= {top} & HEAVY if top != "taskveil" else heavy_packages(entry.name, seen)
    return found


def test_imports_inside_functions_are_for_heavy_packages() -> None:
    wrong = []
    for module, entries in IMPORTS.items():
        if package_of(module) == "cli":  # a command loads what it needs when it is called
            continue
        for found in entries:
            if found.local and ours(found.name) and not heavy_packages(found.name) - heavy_packages(module):
                wrong.append(f"{module} imports {found.name}, which loads nothing heavy that is not loaded already")
            if found.local and not ours(found.name) and found.name.split(".")[0] not in HEAVY:
                wrong.append(f"{module} imports {found.name} inside a function")
    assert wrong == []


def test_no_module_bears_the_name_of_a_public_function() -> None:
    public = set(taskveil.__all__) - {"datasets"} | {"estimate"}  # tv.datasets is the module itself
    assert [name for name in MODULES if name.count(".") == 1 and name.split(".")[1] in public] == []


def class_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """The modules that define a class of each name."""
    found: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return found


def test_no_two_classes_share_a_name() -> None:
    sources = {module: path.read_text(encoding="utf-8") for module, path in MODULES.items()}
    assert {name: homes for name, homes in class_names(sources).items() if len(homes) > 1} == {}
    assert class_names({"a": "class Part: ...", "b": "class Part: ..."}) == {"Part": ["a", "b"]}


def test_servers_ask_no_mechanism_and_no_field_for_its_type() -> None:
    """A new mechanism or field type is a new class, and no other module has to know it."""
    own, client = house(), SOURCES / "client"
    mechanisms = own.classes_of((client / "mechanisms").glob("*.py"))
    fields = own.classes_of([client / "fields.py"], derived=True)
    assert {"Laplace", "PlaneGroup"} <= set(mechanisms)
    assert {"Number", "Words"} <= set(fields)
    wrong = {
        module: asked
        for module, path in MODULES.items()
        if package_of(module) != "client"
        if (asked := own.asks_for(path.read_text(encoding="utf-8"), {*mechanisms, *fields}))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(veil.mechanism, Laplace)",
        "isinstance(group, LevelGroup | Laplace)",
        "isinstance(group(1), (int, Laplace))",
        "match one:\n    case Laplace(region=r):\n        pass",
        "type(one.mechanism) is Laplace",
    ],
)
def test_questions_for_a_type_are_seen(source: str) -> None:
    assert house().asks_for(source, {"Laplace"}) == 1
    assert house().asks_for(source, {"Codebook"}) == 0


def test_few_modules_lie_at_the_top() -> None:
    assert len(list(SOURCES.glob("*.py"))) <= MOST_AT_THE_TOP


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in listed.stdout.split()] or [p for q in patterns for p in ROOT.rglob(q)]


def test_no_file_is_too_long_to_read() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked("*.py", "*.ts", "*.mjs", "*.js")
        if path.exists() and (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("from taskveil.designs import moments", ["designs"]),
        ("def f():\n    from taskveil.auditing.bound import at_least", ["auditing"]),
        ("if TYPE_CHECKING:\n    import taskveil.jobs.commands", ["jobs"]),
        ("import numpy as np\nfrom taskveil.arrays import Floats", ["arrays"]),
    ],
)
def test_the_reader_sees_imports_wherever_they_stand(source: str, caught: list[str]) -> None:
    assert [package_of(found.name) for found in imports_of(source) if ours(found.name)] == caught


def test_cycles_are_seen() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not cycle({"a": {"b", "c"}, "b": {"c"}})
