"""`help()` of each name of the reference has an example, and every example runs and prints what it says."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskveil as tv
from taskveil.auditing import Audit
from taskveil.client import Client
from taskveil.designs.sensitivity import l1_diameter
from taskveil.estimates.result import Estimate
from taskveil.sweeps.frontier import Frontier

PAGES = Path(__file__).parents[1] / "docs/reference/api"
METHODS = {
    tv.Veil: "encode privatize receive decode predict loss save load release_id guarantee",
    tv.Schema: "of",
    tv.Family: "of_budgets",
    Client: "load report",
    Frontier: "epsilon_for table plot to_pandas to_json to_html",
    Estimate: "forged table plot to_pandas",
    Audit: "plot to_pandas",
}
"""What people call on what the public names make."""


def offered() -> Iterator[tuple[str, Any]]:
    """Each public name, and each class that public functions return, with what it stands for."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md")))
    described = re.findall(r"^\.\. auto(?:class|function):: (\S+)$", text, flags=re.MULTILINE)
    yield from ((name, getattr(tv, name)) for name in tv.__all__ if name != "__version__")
    others = [name for name in described if name.removeprefix("taskveil.") not in tv.__all__]
    yield from ((name, pkgutil.resolve_name(name)) for name in others)
    yield from ((f"{kind.__name__}.{name}", getattr(kind, name)) for kind in METHODS for name in METHODS[kind].split())
    yield "l1_diameter", l1_diameter


@pytest.mark.parametrize(("name", "what"), [pytest.param(*one, id=one[0]) for one in offered()])
def test_the_example_runs(name: str, what: Any) -> None:
    described = inspect.getdoc(what)
    found = doctest.DocTestParser().get_doctest(described or "", {}, name, None, None)
    assert found.examples, f"help({name}) has no example"
    said: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(found, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_an_example_that_prints_something_else_is_found() -> None:
    class Wrong:
        """Three.

        Example:
            >>> 1 + 1
            3
        """

    with pytest.raises(AssertionError, match="Expected"):
        test_the_example_runs("Wrong", Wrong)
    with pytest.raises(AssertionError, match="no example"):
        test_the_example_runs("int", int.__add__)
