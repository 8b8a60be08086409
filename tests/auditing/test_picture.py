"""The table and the picture say in words what was done."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

import taskveil as tv
from auditing import exhibits, sound
from taskveil.auditing import Audit
from taskveil.cli.designing import audit_table


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """Draws an audit and returns the figure."""
    figures: list[Figure] = []
    save = Figure.savefig

    def kept(self: Figure, *args: object, **options: object) -> None:
        figures.append(self)
        save(self, *args, **options)

    monkeypatch.setattr(Figure, "savefig", kept)

    def picture(audit: Audit) -> Figure:
        audit.plot(tmp_path / "new" / "a.png")
        assert (tmp_path / "new" / "a.png").stat().st_size > 10_000
        return figures[-1]

    return picture


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("make", [exhibits.laplace_veil, sound.codebook_for])
def test_inputs_and_event_are_named_in_words(make: object, epsilon: float, shown: object) -> None:
    found = tv.audit(make(epsilon), trials=20_000, finalists=1, structural=False)
    figure = shown(found)
    words = " ".join(text.get_text() for text in figure.findobj(Text))
    for name in found.sketch.inputs:
        assert f"“{name}”" in words
    assert found.findings[0].pair == " / ".join(found.sketch.inputs)
    assert f"the event: {found.sketch.event}" in words
    assert found.sketch.event.startswith("a report ")
    assert "1e6" not in words  # no multiplier in a corner, whose unit nobody knows
    assert "2,981 times" in words if epsilon == 8 else "2.72 times" in words


def test_the_scale_shows_the_rare_reports_that_count(shown: object) -> None:
    """At ε = 8 the event has a few in ten thousand reports of one input: a linear scale would hide them."""
    found = tv.audit(sound.codebook_for(8.0), trials=100_000, finalists=1, structural=False)
    top = shown(found).axes[0].child_axes[0]
    assert top.get_yscale() == "log"
    assert top.get_ylim()[0] < min(np.exp(-8.0), 1e-3) < top.get_ylim()[1]


@pytest.mark.parametrize("what", [exhibits.nan_passed_through, exhibits.no_clipping, exhibits.laplace(exhibits.WIDE)])
def test_pictures_of_all_sorts(what: object, shown: object) -> None:
    found = tv.audit(what, epsilon=1.0, records=np.array([[-1.0], [1.0]]), trials=5000, structural=False)
    assert shown(found) is not None


def test_the_table_tells_held_from_not_applicable() -> None:
    found = tv.audit(exhibits.nan_refused, epsilon=1.0, records=np.array([[-1.0], [1.0]]), trials=1000)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(audit_table(found))
    text = console.export_text()
    assert {check.outcome for check in found.checks} == {"held", "broken", "not applicable"}
    for check in found.checks:
        line = next(line for line in text.splitlines() if check.name in line)
        assert check.outcome in line
