"""The look shared by all figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taskveil.experiments.report import Row

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
    fig, axes = plt.subplots(1, columns, figsize=(width * columns, height), squeeze=False, layout="constrained")
    for ax in axes[0]:
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return fig, list(axes[0])


def curve(
    ax: Axes,
    rows: Iterable[Row],
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
    color = color or COLORS.get(design)
    (line,) = ax.plot(
        x,
        [r.loss for r in points],
        color=color,
        marker=None if as_published else MARKERS.get(design, "d"),
        # auto usually lies on the curve of what it chose: dots on top keep both visible.
        linestyle="--" if as_published else ":" if design == "auto" else "-",
        zorder=3 if design == "auto" else 2,
        label=label or (as_published_label(design) if as_published else LABELS.get(design, design)),
    )
    if band and not as_published:
        ax.fill_between(
            x, [r.low for r in points], [r.high for r in points], color=line.get_color(), alpha=0.12, linewidth=0
        )


def as_published_label(design: str) -> str:
    """The name of a design computed the paper's way, which is not ours to claim."""
    return LABELS.get(design, design).removesuffix(" (ours)") + ", as published"


def save(fig: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_to(fig, path)
    return path


def save_to(fig: Figure, target: Path | BinaryIO) -> None:
    """As PNG, into a file or a buffer."""
    fig.savefig(target, dpi=130, format="png")
    plt.close(fig)
