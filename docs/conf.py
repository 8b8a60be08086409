"""Settings of the documentation site: `make docs` builds it into docs/_build.

The pages are Markdown files that a code host shows too. So links between them are ordinary links to files. Links to
files outside docs/ become links to the repository.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import taskveil

ROOT = Path(__file__).parents[1]
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]

project = author = "taskveil"
version = release = taskveil.__version__
copyright = "the authors of taskveil. Apache-2.0"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

# Markdown: headings are targets of links, as on a code host; pictures may have a width.
myst_heading_anchors = 3
myst_enable_extensions = ["html_image"]
suppress_warnings = ["myst.header"]  # tables of results begin at the level that a reader expects beside them

# Notebooks run when they have changed; an error in one is an error of the build.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference: docstrings have Markdown's backticks, which mean code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autosummary_generate = False
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures; links of pages are checked

html_theme = "pydata_sphinx_theme"
html_title = "taskveil"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is; without it the theme logs an error
html_theme_options = {
    "github_url": HOME,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

OUTSIDE = re.compile(r"\]\((?:\.\./)+((?!docs/)(?:[\w.-]+/)*[\w.-]+\.\w+|examples)\)")


def to_the_repository(page: str, text: str) -> str:
    """A page whose links to files outside docs/ lead to the repository."""
    folder = (ROOT / "docs" / page).parent

    def linked(found: re.Match[str]) -> str:
        path = (folder / found[0][2:-1]).resolve()
        inside = path.is_relative_to(ROOT / "docs")
        return found[0] if inside else f"]({HOME}/blob/main/{path.relative_to(ROOT).as_posix()})"

    return OUTSIDE.sub(linked, text)


def setup(app: Any) -> None:
    """Rewrite links as pages and docstrings are read, and defaults that are made anew for every object."""

    def read(_: Any, page: str, source: list[str]) -> None:
        source[0] = to_the_repository(page, source[0])

    def document(*arguments: Any) -> None:
        lines = arguments[-1]
        lines[:] = [re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line) for line in lines]

    def whole(_: Any, what: str, *arguments: Any) -> None:
        lines = arguments[-1]
        if what in ("attribute", "data", "property"):
            lines[:0] = ["..", ""]  # a comment: else napoleon reads what stands before a colon as a type

    def call(*arguments: Any) -> tuple[str, str | None] | None:
        signature, returned = arguments[-2:]
        return signature and (signature.replace("<factory>", "..."), returned)  # else types are not read as Python

    app.connect("source-read", read)
    app.connect("autodoc-process-signature", call)
    app.connect("autodoc-process-docstring", document)
    app.connect("autodoc-process-docstring", whole, priority=400)  # before napoleon
