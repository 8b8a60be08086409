"""Figures draw designs of any name."""

from __future__ import annotations

from pathlib import Path

from taskveil import style
from taskveil.experiments.report import ResultRow, curve


def rows(design: str) -> list[ResultRow]:
    return [
        ResultRow(experiment="e", design=design, as_published=p, epsilon=e, loss=1 / e, low=0.9 / e, high=1.1 / e)
        for p in (True, False)
        for e in (4.0, 1.0)
    ]


def test_own_designs_are_drawn_under_their_own_name(tmp_path: Path) -> None:
    fig, (ax,) = style.figure()
    for design in ("codebook", "mine"):
        for as_published in (True, False):
            curve(ax, rows(design), design, as_published=as_published, band=True)
    curve(ax, rows("mine"), "nobody", as_published=False)
    labels = [line.get_label() for line in ax.lines]
    assert labels == ["codebook, as published", "codebook (ours)", "mine, as published", "mine"]
    assert list(ax.lines[0].get_xdata()) == [1.0, 4.0]
    assert len(ax.collections) == 2  # bands of what is not as published
    assert style.save(fig, tmp_path / "a" / "p.png").read_bytes().startswith(b"\x89PNG")
