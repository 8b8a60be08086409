"""The look shared by all figures."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {
    "codebook": "#d35400",
    "auto": "#111111",
    "task_aware": "#1f5fbf",
    "task_agnostic": "#c0392b",
    "privacy_agnostic": "#2e8b57",
    "matrix_factorization": "#8e6bbf",
}
LABELS = {
    "codebook": "codebook (ours)",
    "auto": "auto (ours)",
    "task_aware": "task-aware Laplace (ours)",
    "task_agnostic": "task-agnostic",
    "privacy_agnostic": "privacy-agnostic",
    "matrix_factorization": "matrix factorisation",
}
MARKERS = {
    "codebook": "D",
    "auto": ".",
    "task_aware": "o",
    "task_agnostic": "x",
    "privacy_agnostic": "^",
    "matrix_factorization": "s",
}


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
    """As PNG of `dpi` dots an inch, into a `target` file or buffer."""
    fig.savefig(target, dpi=dpi, format="png")
    plt.close(fig)
