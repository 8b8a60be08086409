"""What notebooks show: small tables as HTML, pictures as axes, tables of pandas, and a bar; also in a real kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from nbclient import NotebookClient

import taskveil as tv
from taskveil import notebooks, style
from taskveil.errors import DataError, MissingExtraError
from taskveil.sweeps.frontier import Frontier, Point

EVIL = "<script>alert('&')</script>"
CONTROL = "a\u202eb\x1b[2J"
X = np.random.default_rng(0).normal(size=(240, 2))
TASK = tv.LinearTask([[1.0, 1.0]])
YEAR = tv.OverTime(lifetime=4.0, rounds=52)
WIDE = tv.Schema({f"{EVIL} {place}": tv.Category([EVIL, "b"]) for place in range(500)})


class Reader(HTMLParser):
    """Reads HTML, and fails where an end tag does not fit; keeps tags, rows and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(shown: str) -> Reader:
    reader = Reader()
    reader.feed(shown)
    reader.close()
    assert reader.open == []
    assert set(reader.tags) <= {"div", "p", "strong", "em", "table", "tr", "th", "td"}
    assert not any(word in style for style in reader.styles for word in ("color", "background"))
    return reader


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """One of everything that a notebook shows."""
    answers = tv.design(X, TASK, epsilon=2.0, method="task_aware")
    means = tv.design(X, tv.MeanTask(), epsilon=2.0)
    table = pd.DataFrame({f"{EVIL}$": X[:, 0], "plan": np.where(X[:, 1] > 0, "a$b$", "c")})
    survey = tv.design(table, tv.SurveyTask(), epsilon=4.0)
    family = tv.Family({"answers": (answers, 0.9), "means": (means, 0.1)})
    frontier = tv.sweep(X, TASK, epsilons=[1, 4], methods=["task_aware", "constant"])
    evil = Point.of(EVIL, 1.0, 0, np.full(72, 0.5))
    cost = tv.Cost(epsilon=0.5, times=3)
    return {
        "Veil": answers,
        "Guarantee": answers.guarantee,
        "Schema": survey.schema,
        "Family": family,
        "Cost": cost,
        "Total": tv.compose([cost]),
        "Frontier": frontier,
        "Frontier of others": Frontier(points=(*frontier.points, evil), clear=0.0, constant=2.0),
        "Budget": frontier.epsilon_for(kept=0.01),
        "Budget of none": frontier.epsilon_for(kept=1.0),
        "Segments": tv.sweep_segments(
            np.tile(X, (3, 1)) + np.linspace(0, 0.1, 720)[:, None], TASK, segment=[EVIL, "s$"] * 360, epsilons=[1.0],
            methods=["task_aware"],
        ),
        "Plan": tv.plan(survey.schema, tv.SurveyTask(), people=1000, epsilons=[1.0, 2.0]),
        "Estimate": tv.estimate(means, means.privatize(X)),
        "SurveyEstimate": tv.estimate(survey, survey.privatize(table)),
        "Audit": tv.audit(means, trials=2000, finalists=1, structural=False),
        "FamilyAudit": tv.audit(family, trials=2000, finalists=1, structural=False),
        "Central": means.central(reports=10_000, delta=1e-7),
        "Series": tv.estimate(means, {name: means.privatize(X) for name in ("w1", "w2", "w3")}),
        "Over time": tv.sweep(X, TASK, epsilons=[YEAR], methods=["task_aware"]).over_time(YEAR),
        "Dossier": tv.dossier(survey, rounds=52, title=f"{EVIL}$", purpose=EVIL),
    }  # fmt: skip


SHOWN = (
    *("Veil", "Guarantee", "Schema", "Family", "Cost", "Total", "Frontier", "Frontier of others", "Budget"),
    *("Budget of none", "Segments", "Plan", "Estimate", "SurveyEstimate", "Audit", "FamilyAudit"),
    *("Central", "Series", "Over time", "Dossier"),
)
DRAWN = (
    *("Frontier", "Frontier of others", "Segments", "Plan", "Estimate", "SurveyEstimate", "Audit", "Series"),
    "Over time",
)
LISTED = (*DRAWN, "FamilyAudit")


@pytest.mark.parametrize("name", SHOWN)
def test_results_are_small_tables_of_escaped_text(results: dict[str, Any], name: str) -> None:
    shown = results[name]._repr_html_()
    reader = read(shown)
    assert reader.tags.count("table") == 1
    assert len(shown) < 12_000
    assert "script" not in reader.tags
    assert shown.startswith('<div class="tex2jax_ignore mathjax_ignore">')  # names with a $ are no formulas


@pytest.mark.parametrize("name", SHOWN)
def test_a_terminal_shows_a_few_lines(results: dict[str, Any], name: str) -> None:
    assert len(repr(results[name])) < 800


@pytest.mark.parametrize("name", ["Veil", "Guarantee", "Family", "Cost"])
def test_the_guarantee_is_one_sentence(results: dict[str, Any], name: str) -> None:
    what = results[name]
    promise = what.guarantee if hasattr(what, "guarantee") else what
    words = " ".join(read(what._repr_html_()).texts)
    assert f"(ε = {promise.epsilon:g})." in words
    assert words.count("no report becomes more than") == 1
    assert "This holds for one report per person" not in words  # that is said by `statement`


def test_names_from_data_are_text(results: dict[str, Any]) -> None:
    for name in ("Schema", "Frontier of others", "Segments", "Plan", "SurveyEstimate"):
        shown = results[name]._repr_html_()
        assert "<script" not in shown
        assert any(EVIL in text for text in read(shown).texts), name
    assert all(
        letter not in notebooks.summary(CONTROL, [CONTROL], head=[CONTROL], rows=[[CONTROL]]) for letter in "\u202e\x1b"
    )


def test_a_wide_schema_shows_its_first_fields_and_how_many_more() -> None:
    shown = WIDE._repr_html_()
    assert len(shown) < 15_000
    assert "… and 480 more" in read(shown).texts
    assert f"{EVIL} 0" in read(shown).texts
    assert f"{EVIL} 20" not in read(shown).texts


def test_many_columns_and_long_texts_are_cut() -> None:
    shown = notebooks.summary("t", head=["h"] * 200, rows=[["x" * 10_000] * 200])
    assert len(shown) < 8_000
    assert read(shown).texts.count("… 191 more") == 2
    assert read(notebooks.summary("t", rows=[("part",), ("a", "b")])).tags.count("em") == 1


@pytest.fixture
def untouched() -> Iterator[None]:
    """Nothing may change what pyplot holds, or which backend it uses."""
    before = matplotlib.get_backend()
    assert pyplot.get_fignums() == []
    yield
    assert pyplot.get_fignums() == []
    assert matplotlib.get_backend() == before


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.usefixtures("untouched")
def test_a_plot_is_axes_or_a_file(results: dict[str, Any], name: str, tmp_path: Path) -> None:
    what = results[name]
    ax = what.plot()
    assert isinstance(ax, Axes)
    assert not ax.findobj(lambda one: isinstance(one, Text) and one.get_parse_math())  # names are no formulas
    mine = Figure().add_subplot()
    assert what.plot(ax=mine) is mine
    assert mine.has_data() or mine.child_axes
    assert what.plot(tmp_path / "new" / "p.png").read_bytes().startswith(b"\x89PNG")
    assert what.plot(str(tmp_path / "p.pdf")).read_bytes().startswith(b"%PDF")
    with pytest.raises(DataError, match="not both"):
        what.plot(tmp_path / "p.png", ax=mine)


def test_axes_have_numbers_and_no_source_of_formulas() -> None:
    points = tuple(Point.of("m", e, 0, np.full(50, 10.0**5 / e)) for e in (1.0, 1000.0))
    ax = Frontier(points=points, clear=0.0, constant=0.0).plot()
    labels = [label.get_text() for label in ax.get_yticklabels(which="both")]
    assert any(label[:1].isdigit() for label in labels)
    assert not any("$" in label for label in labels)


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_share_a_figure(results: dict[str, Any], name: str, tmp_path: Path) -> None:
    """A layout that finds no room warns, and warnings are errors here."""
    fig = Figure(figsize=(14, 8), layout="constrained")
    for ax in fig.subplots(1, 2):
        results[name].plot(ax=ax)
    fig.savefig(tmp_path / "both.png")


def test_no_backend_is_needed(tmp_path: Path) -> None:
    program = (
        "import sys, taskveil as tv\nfrom taskveil.sweeps.frontier import Frontier\n"
        f"frontier = Frontier.from_json({str(tmp_path / 'f.json')!r})\n"
        f"frontier.plot(); frontier.plot({str(tmp_path / 'f.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    points = tuple(Point.of("m", e, 0, np.linspace(0, 1 / e, 50)) for e in (1.0, 2.0))
    Frontier(points=points, clear=0.0, constant=1.0).to_json(tmp_path / "f.json")
    there = {**os.environ, "MPLBACKEND": "module://no_such_backend"}
    subprocess.run([sys.executable, "-c", program], check=True, env=there)


def test_a_notebook_shows_the_picture_and_a_failed_one_leaves_nothing(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "in_notebook", lambda: True)
    results["Frontier"].plot()
    assert pyplot.get_fignums() == []  # a notebook whose backend shows no figures
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    ax = results["Frontier"].plot()
    assert [pyplot.figure(number) for number in pyplot.get_fignums()] == [ax.figure]
    pyplot.close(ax.figure)
    with pytest.raises(DataError, match="nothing to draw"):
        style.plotted(lambda ax: (_ for _ in ()).throw(DataError("nothing to draw")), None, None)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("name", LISTED)
def test_tables_of_pandas_have_the_rows_of_the_tables(results: dict[str, Any], name: str) -> None:
    found = results[name].to_pandas()
    assert isinstance(found, pd.DataFrame)
    assert len(found) > 0
    what = results[name]
    other = {"Plan": lambda: what.to_dicts(), "Series": lambda: what.records(), "Over time": lambda: what.points}
    assert len(found) == len(other[name]() if name in other else what.rows())


def test_a_missing_pandas_is_named(results: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for name in LISTED:
        with pytest.raises(MissingExtraError, match=r"^to_pandas needs pandas: pip install pandas$"):
            results[name].to_pandas()


CELLS = (
    "from taskveil import progress\nimport time\nprogress.BAR_AFTER_SECONDS = 0.1\n"
    "with progress.Progress() as bar:\n"
    "    bar.begin('counting <b>', 4)\n    for _ in range(4):\n        time.sleep(0.2)\n        bar.advance()\n",
    "import numpy as np, taskveil as tv\nX = np.random.default_rng(0).normal(size=(200, 2))\n"
    "veil = tv.design(X, tv.MeanTask(), epsilon=2.0, progress=False)\nveil",
    "ax = tv.estimate(veil, veil.privatize(X)).plot()",
    "from matplotlib import pyplot\nprint(pyplot.get_fignums())",
)


def test_in_a_kernel_a_bar_moves_and_goes_and_results_are_shown() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    bars: list[str] = []

    class Watching(NotebookClient):
        def process_message(self, msg: dict[str, Any], *args: Any) -> Any:
            if msg["msg_type"] == "update_display_data":
                bars.append(msg["content"]["data"]["text/html"])
            return super().process_message(msg, *args)

    Watching(notebook, timeout=120).execute()
    assert any('value="0.500"' in bar and "counting &lt;b&gt; 50%" in bar for bar in bars)
    (bar,), (veil,), (picture,), (open_figures,) = (cell.outputs for cell in notebook.cells)
    assert bar["data"]["text/html"] == ""  # gone
    assert "Whatever a person's record contains" in "".join(read(veil["data"]["text/html"]).texts)
    assert "image/png" in picture["data"]
    assert open_figures["text"] == "[]\n"
