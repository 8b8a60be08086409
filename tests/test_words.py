"""Private words, which a reader would have to learn, are rare in the package, the documents and README."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def house() -> Any:
    """The benchmark of the package's size, as a module."""
    # By its path: benchmarks/ in the path of all tests would hide packages such as Ray.
    spec = importlib.util.spec_from_file_location("house", ROOT / "benchmarks/house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_private_words_are_rare() -> None:
    found = house().private_words(ROOT)
    assert len(found) <= 40, "\n".join(f"{path.relative_to(ROOT)}:{line}: {word}" for path, line, word in found)


def test_readme_has_none() -> None:
    assert [word for path, _, word in house().private_words(ROOT) if path.name == "README.md"] == []


def test_words_are_found_in_any_spelling() -> None:
    found = house().WORDS.findall("Whoever tilts the room; a hole. Wholesale, mushrooms and retold stories are fine.")
    assert found == ["Whoever", "tilts", "room", "hole"]
