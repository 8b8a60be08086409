"""The look shared by all figures, and how results are drawn: into a file, into given axes, or into new ones.

Figures are objects of matplotlib: no window opens, and pyplot, its backend and its list of figures stay as they are.
The one exception is a notebook that shows pyplot's figures below a cell and then closes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogFormatterMathtext
from matplotlib.transforms import ScaledTranslation

from taskveil.errors import DataError
from taskveil.progress import in_notebook

Draw = Callable[[Axes], tuple[float, float]]
"""A function that draws into axes, and returns width and height in inches of a figure for them alone."""

_LOOKS = {
    "codebook": ("codebook (ours)", "#d35400", "D"),
    "auto": ("auto (ours)", "#111111", "."),
    "task_aware": ("task-aware Laplace (ours)", "#1f5fbf", "o"),
    "gaussian": ("Gaussian, δ > 0 (ours)", "#148f9e", "v"),
    "task_agnostic": ("task-agnostic", "#c0392b", "x"),
    "privacy_agnostic": ("privacy-agnostic", "#2e8b57", "^"),
    "matrix_factorization": ("matrix factorisation", "#8e6bbf", "s"),
}
LABELS = {method: label for method, (label, _, _) in _LOOKS.items()}
COLORS = {method: color for method, (_, color, _) in _LOOKS.items()}
MARKERS = {method: marker for method, (_, _, marker) in _LOOKS.items()}


def figure(columns: int = 1, *, height: float = 4.2, width: float = 6.0) -> tuple[Figure, list[Axes]]:
    """Axes side by side, each of this size in inches."""
    fig = Figure(figsize=(width * columns, height), layout="constrained")
    return fig, [_plain(ax) for ax in fig.subplots(1, columns, squeeze=False)[0]]


def plotted(draw: Draw, path: str | Path | None, ax: Axes | None) -> Path | Axes:
    """The `path` of a file with the picture or, without one, the axes that hold it: `ax` or, without them, new ones.

    A notebook shows new ones below the cell. Elsewhere they are in a figure of their own, `ax.figure`.
    """
    if path is not None and ax is not None:
        raise DataError("a picture goes into a file or into axes: pass a path or ax=, not both.")
    shown = path is None and ax is None and _shows_figures()
    fig = _shown_figure() if shown else Figure(layout="constrained") if ax is None else None
    drawn = _plain(fig.add_subplot() if fig is not None else ax)  # type: ignore[arg-type]  # one of the two is there
    try:
        with matplotlib.rc_context({"text.parse_math": False}):
            size = draw(drawn)
        _as_text(drawn)
    except BaseException:
        if shown:
            _close(fig)
        raise
    if fig is not None:
        fig.set_size_inches(*size)
    return drawn if path is None or fig is None else save(fig, Path(path))


def legend_below(ax: Axes, *, columns: int, handles: Sequence[Artist] | None = None) -> None:
    """Put a legend below the axes, their ticks and their label; without `handles`, of all that has a label."""
    ticks, label = ax.get_xticklabels(), ax.xaxis.label
    turned = any(tick.get_rotation() for tick in ticks)
    longest = max((len(tick.get_text()) for tick in ticks), default=0)
    lines = label.get_text().count("\n") + 1
    points = 20 + (6 * longest if turned else 8) + 1.25 * float(label.get_fontsize()) * lines
    below = ax.transAxes + ScaledTranslation(0.0, -points / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        handles=ax.get_legend_handles_labels()[0] if handles is None else handles,
        loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below, ncols=columns, fontsize=8, frameon=False,
    )  # fmt: skip


def save(fig: Figure, path: Path) -> Path:
    """Write the figure as PNG, or as PDF or SVG where the path ends so, making the folder; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_to(fig, path)
    return path


def save_to(fig: Figure, target: Path | BinaryIO, *, dpi: int = 130) -> None:
    """Write the figure into a `target` file or buffer, with `dpi` dots an inch."""
    ending = target.suffix.lower() if isinstance(target, Path) else ""
    _as_text(fig)
    with matplotlib.rc_context({"text.parse_math": False}):
        fig.savefig(target, dpi=dpi, format=ending[1:] if ending in (".pdf", ".svg") else "png")


def _plain(ax: Axes) -> Axes:
    """The same axes, with a light grid and without a frame."""
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _as_text(artist: Artist) -> None:
    """Names of columns are text, also with a $."""
    for axis in artist.findobj(Axis):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):  # it writes $10^6$
            axis.set_major_formatter(LogFormatter())
            axis.set_minor_formatter(LogFormatter())
    for text in artist.findobj(Text):
        text.set_parse_math(False)


def _shows_figures() -> bool:
    """Whether a notebook shows pyplot's figures below a cell."""
    return in_notebook() and any(kind in matplotlib.get_backend().lower() for kind in ("inline", "ipympl", "nbagg"))


def _shown_figure() -> Figure:
    from matplotlib import pyplot

    return pyplot.figure(layout="constrained")


def _close(fig: Figure | None) -> None:
    from matplotlib import pyplot

    pyplot.close(fig)
