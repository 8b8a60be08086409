"""Pictures of estimates: as many lines as a person looks at, names that fit, the width of a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taskveil import style
from taskveil.errors import DataError
from taskveil.estimates import picture
from taskveil.estimates.labels import Label
from taskveil.estimates.rows import Row


def row(name: str, limits: list[float], assumes: str | None = None, own: float = 3.0) -> Row:
    """A row with limits in standard deviations, of 2, from the volunteers' mean."""
    mean, low, high = (own + 2 * limit for limit in limits)
    return Row(Label(name), mean, low, high, own, 2.0, 1.0, assumes)


def drawn(
    count: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: np.ndarray | None = None
) -> list:
    """The figure's axes, which are drawn to a file too."""
    kept, save = [], style.save
    monkeypatch.setattr(style, "save", lambda fig, path: (kept.append(fig), save(fig, path))[1])
    away = np.array([[0.1, -0.2, 0.4]] * count) if away is None else away
    rows = [
        row(f"{name} {place}", limits, "they are alike" if place > count // 2 else None)
        for place, limits in enumerate(away.tolist())
    ]

    def draw(ax: Any) -> tuple[float, float]:
        return picture.draw(ax, rows, title="1,000 reports, ε = 2", held="95% interval")

    path = style.plotted(draw, tmp_path / "e.png", None)
    assert isinstance(path, Path)
    assert path.read_bytes().startswith(b"\x89PNG")
    (fig,) = kept
    assert fig.get_figwidth() <= 6.0
    return [fig, *fig.axes]


def lines(ax: object) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]  # type: ignore[attr-defined]


def test_long_names_take_two_lines_and_keep_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "how often have you been asked about the weather in the garden of your neighbours since spring"
    _, ax = drawn(3, name, tmp_path, monkeypatch)
    assert [label[-8:] for label in lines(ax)] == [f"spring {i}" for i in range(3)]
    assert all(max(map(len, label.split("\n"))) <= 24 and label.count("\n") == 1 for label in lines(ax))


def test_of_many_means_those_that_differ_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = np.tile([0.0, -0.5, 0.5], (100, 1))
    away[[7, 93]] += 3.0
    away[50] = np.nan
    fig, ax = drawn(100, "x", tmp_path, monkeypatch, away)
    assert len(lines(ax)) == picture.MOST_ROWS
    assert {"x 7", "x 93"} <= set(lines(ax))
    assert "x 50" not in lines(ax)
    assert "40 of 99 rows" in ax.get_title().replace("\n", " ")
    assert fig.get_figheight() < 15


def test_a_single_mean_is_a_picture_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ax = drawn(1, "x", tmp_path, monkeypatch)
    assert lines(ax) == ["x 0"]


def test_a_name_is_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ax = drawn(2, r"$\frac{$ x", tmp_path, monkeypatch)
    assert lines(ax) == [r"$\frac{$ x 0", r"$\frac{$ x 1"]


def test_a_share_beyond_its_limits_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = np.array([[-0.3, -0.2, 0.4], [-0.3, -0.2, -0.2], [0.5, -0.2, 0.4]])  # unbiased means, limits cut at 0 and 1
    _, ax = drawn(3, "x", tmp_path, monkeypatch, away)
    assert len(lines(ax)) == 3


def test_assumed_rows_have_another_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ax = drawn(3, "x", tmp_path, monkeypatch)
    found = {part.get_label(): part.lines[0].get_color() for part in ax.containers}
    assert list(found) == ["people, measured, 95% interval", "people, assumed, 95% interval"]
    assert len(set(found.values())) == 2
    assert set(found) < {text.get_text() for text in ax.get_legend().get_texts()}


def test_without_the_volunteers_means_there_is_no_picture(tmp_path: Path) -> None:
    rows = [row("a", [0.0, -1.0, 1.0], own=np.nan)]
    with pytest.raises(DataError, match="no row has one"):
        style.plotted(lambda ax: picture.draw(ax, rows, title="", held=""), tmp_path / "p.png", None)
