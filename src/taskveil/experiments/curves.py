"""Rows of an experiment as curves: loss against ε, honest and as published."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

from taskveil import style
from taskveil.experiments.report import ResultRow


def curve(
    ax: Axes,
    rows: Iterable[ResultRow],
    design: str,
    *,
    as_published: bool,
    inverse: bool = False,
    band: bool = False,
    color: str | None = None,
    label: str | None = None,
) -> None:
    """Loss against ε (or 1/ε) of one design; dashed when computed as published; `band` shades the honest interval."""
    points = sorted((r for r in rows if r.design == design and r.as_published == as_published), key=lambda r: r.epsilon)
    if not points:
        return
    x = [1 / r.epsilon if inverse else r.epsilon for r in points]
    color = color or style.COLORS.get(design)
    (line,) = ax.plot(
        x,
        [r.loss for r in points],
        color=color,
        marker=None if as_published else style.MARKERS.get(design, "d"),
        # auto usually lies on the curve of what it chose: dots on top keep both visible.
        linestyle="--" if as_published else ":" if design == "auto" else "-",
        zorder=3 if design == "auto" else 2,
        label=label or (as_published_label(design) if as_published else style.LABELS.get(design, design)),
    )
    if band and not as_published:
        ax.fill_between(
            x, [r.low for r in points], [r.high for r in points], color=line.get_color(), alpha=0.12, linewidth=0
        )


def as_published_label(design: str) -> str:
    """The name of a design computed the paper's way, which is not ours to claim."""
    return style.LABELS.get(design, design).removesuffix(" (ours)") + ", as published"
