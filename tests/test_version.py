"""One version, written in `taskveil/__init__.py`; everything else that names one is compared with it.

Python and npm spell versions that are no release yet differently. Of what both allow, three forms are used:

    a release      X.Y.Z          X.Y.Z
    a candidate    X.Y.ZrcN       X.Y.Z-rc.N
    before that    X.Y.Z.devN     X.Y.Z-dev.N

Alphas and betas are left out, because npm sorts them before -dev and Python after .dev.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import taskveil as tv

ROOT = Path(__file__).parents[1]
_FORM = re.compile(r"(?P<release>\d+\.\d+\.\d+)(?:\.?(?P<kind>dev|rc)(?P<number>\d+))?")


def npm_version(python: str) -> str:
    """The npm spelling of a Python version."""
    found = _FORM.fullmatch(python)
    if found is None:
        raise ValueError(f"{python} is none of X.Y.Z, X.Y.ZrcN, X.Y.Z.devN")
    before = f"-{found['kind']}.{found['number']}" if found["kind"] else ""
    return found["release"] + before


@pytest.mark.parametrize(
    ("python", "npm"), [("0.2.0", "0.2.0"), ("1.10.3.dev12", "1.10.3-dev.12"), ("0.2.0rc1", "0.2.0-rc.1")]
)
def test_the_rule(python: str, npm: str) -> None:
    assert npm_version(python) == npm


@pytest.mark.parametrize("python", ["0.2", "0.2.0a1", "0.2.0.post1", "0.2.0.dev", "v0.2.0"])
def test_other_forms_are_not_used(python: str) -> None:
    with pytest.raises(ValueError, match="none of"):
        npm_version(python)


def test_the_browser_client_has_the_same_version() -> None:
    package = json.loads((ROOT / "js/package.json").read_text())
    lock = json.loads((ROOT / "js/package-lock.json").read_text())
    assert package["version"] == lock["version"] == lock["packages"][""]["version"] == npm_version(tv.__version__)


def test_the_citation_has_the_same_version() -> None:
    stated = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert stated == [tv.__version__]
