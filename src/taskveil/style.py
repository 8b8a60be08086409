"""The look shared by all figures."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, LogFormatterMathtext

_LOOKS = {
    "codebook": ("codebook (ours)", "#d35400", "D"),
    "auto": ("auto (ours)", "#111111", "."),
    "task_aware": ("task-aware Laplace (ours)", "#1f5fbf", "o"),
    "task_agnostic": ("task-agnostic", "#c0392b", "x"),
    "privacy_agnostic": ("privacy-agnostic", "#2e8b57", "^"),
    "matrix_factorization": ("matrix factorisation", "#8e6bbf", "s"),
}
LABELS = {method: label for method, (label, _, _) in _LOOKS.items()}
COLORS = {method: color for method, (_, color, _) in _LOOKS.items()}
MARKERS = {method: marker for method, (_, _, marker) in _LOOKS.items()}


def figure(columns: int = 1, *, height: float = 4.2, width: float = 6.0) -> tuple[Figure, list[Axes]]:
    """Axes side by side, each of this size in inches."""
    fig, axes = plt.subplots(1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained")
    for ax in axes[0]:
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return fig, list(axes[0])


def save(fig: Figure, path: Path) -> Path:
    """Write the figure as PNG, making the folder; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_to(fig, path)
    return path


def save_to(fig: Figure, target: Path | BinaryIO, *, dpi: int = 130) -> None:
    """Write the figure as PNG of `dpi` dots an inch into a `target` file or buffer.

    Names of columns are text, also with a $.
    """
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):  # it writes $10^6$
            axis.set_major_formatter(LogFormatter())
            axis.set_minor_formatter(LogFormatter())
    for text in fig.findobj(Text):
        text.set_parse_math(False)
    with plt.rc_context({"text.parse_math": False}):
        fig.savefig(target, dpi=dpi, format="png")
    plt.close(fig)
