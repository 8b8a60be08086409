"""Print how large the package is: lines, files, constants, arguments, branches and words that readers must learn.

python benchmarks/house.py [--root FOLDER]
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

WORDS = re.compile(
    r"\b(whoever|whomever|whosoever|by lot|holes?|tilt(?:s|ed|ing)?|strangers?|settl(?:e|es|ed|ing)|told|"
    r"volunteers['’] word|say together|says together|rooms?|museum|sceptics?)\b",
    re.IGNORECASE,
)
"""Private words: a reader who learnt English at school would have to ask what they mean here."""
WITHOUT = ("experiments", "peers")
NO_SCHEMA = re.compile(r"\b(?:schema|fields)\b is (?:not )?None")


def asks_for(source: str, classes: Collection[str]) -> int:
    """How often a module asks whether something is of one of these classes, with isinstance, match or type()."""
    asked: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) | ast.MatchClass(cls=kinds):
                asked.append(kinds)
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[*kinds]):
                asked += kinds
    named = [{one.id for one in ast.walk(each) if isinstance(one, ast.Name)} for each in asked]
    return sum(not names.isdisjoint(classes) for names in named)


def classes_of(paths: Iterable[Path], *, derived: bool = False) -> list[str]:
    """The names of the classes that files define; if `derived`, of those with a base class of the package."""
    found = [node for path in paths for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    return [node.name for node in found if not derived or set(map(ast.unparse, node.bases)) - {"NamedTuple"}]


def number(node: ast.expr) -> bool:
    """Whether an expression is made of numbers alone."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return number(operand)
        case ast.BinOp(left=left, right=right):
            return number(left) and number(right)
    return False


def constants(path: Path) -> list[str]:
    """Names of a module's numeric constants."""
    found = []
    for node in ast.parse(path.read_text()).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=True)
                found += [one.id for one, each in pairs if isinstance(one, ast.Name) and number(each)]
            elif isinstance(target, ast.Name) and value is not None and number(value):
                found.append(target.id)
    return found


def entered(root: Path) -> int:
    """Files of the package in which a function is called by a small `tv.design` for a model."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import taskveil as tv

    X = np.random.default_rng(0).normal(size=(200, 4))
    y = (X[:, 0] > 0).astype(int)
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    design = tv.design
    files: set[str] = set()

    def watch(frame: object, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code  # type: ignore[attr-defined]
            if str(root) in code.co_filename and code.co_name != "<module>":
                files.add(code.co_filename)

    sys.setprofile(watch)
    try:
        design(X, task, y=y, epsilon=2.0)
    finally:
        sys.setprofile(None)
    return len(files)


def private_words(root: Path) -> list[tuple[Path, int, str]]:
    """File, line and word of each private word in the package, the collector's pages, the documents and README."""
    source = root / "src" / "taskveil"
    texts = [
        *sorted(source.rglob("*.py")),
        *sorted((source / "collector" / "pages").rglob("*.*")),
        *sorted((root / "docs").rglob("*.md")),
        root / "README.md",
    ]
    return [
        (path, place, match.group())
        for path in texts
        for place, line in enumerate(path.read_text(errors="ignore").splitlines(), 1)
        for match in WORDS.finditer(line)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--words", action="store_true", help="print each line with a private word")
    parser.add_argument("--constants", action="store_true", help="print each numeric constant")
    chosen = parser.parse_args()
    root = chosen.root.resolve()
    source = root / "src" / "taskveil"
    sys.path.insert(0, str(root / "src"))
    import taskveil as tv

    every = sorted(source.rglob("*.py"))
    ours = [path for path in every if path.relative_to(source).parts[0] not in WITHOUT]
    outside = [path.read_text() for path in every if path.relative_to(source).parts[0] != "client"]
    mechanisms = classes_of((source / "client" / "mechanisms").glob("*.py"))
    fields = classes_of((source / "client").glob("fields.py"), derived=True)
    lines = Counter(path.relative_to(source).parts[0] for path in ours for _ in path.read_text().splitlines())
    numeric = [(path, name) for path in ours for name in constants(path)]
    words = private_words(root)
    keywords = {name: len(inspect.signature(getattr(tv, name)).parameters) - 2 for name in ("design", "sweep")}
    if chosen.words:
        print("\n".join(f"{path.relative_to(root)}:{place}: {word}" for path, place, word in words))
    if chosen.constants:
        print("\n".join(f"{path.relative_to(root)}: {name}" for path, name in numeric))
    rows = {
        "lines without experiments/ and peers/": sum(lines.values()),
        "files": len(every),
        "files entered by tv.design": entered(source),
        "modules at the top": len(list(source.glob("*.py"))),
        "keyword arguments of tv.design": keywords["design"],
        "keyword arguments of tv.sweep": keywords["sweep"],
        "branches on a mechanism's type outside client/": sum(asks_for(text, mechanisms) for text in outside),
        "branches on a field's type outside client/": sum(asks_for(text, fields) for text in outside),
        "'schema is None' and the like": sum(len(NO_SCHEMA.findall(path.read_text())) for path in every),
        "numeric module constants": len(numeric),
        "private words": len(words),
        "words in README": len((root / "README.md").read_text().split()),
    }
    for name, value in rows.items():
        print(f"{name:50} {value:7,}")
    print("lines by package: " + ", ".join(f"{name} {count:,}" for name, count in lines.most_common()))


if __name__ == "__main__":
    main()
