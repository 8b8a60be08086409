"""The demo: a clinic's cell measurements, estimated privately, with what today's tools would give beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from taskveil import style
from taskveil.arrays import Floats
from taskveil.designs import design
from taskveil.designs.methods import MethodName
from taskveil.experiments.curves import curve
from taskveil.experiments.report import Row
from taskveil.tasks import LinearTask
from taskveil.veil import Veil

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS: tuple[MethodName, ...] = (
    "auto",
    "codebook",
    "task_aware",
    "privacy_agnostic",
    "task_agnostic",
    "matrix_factorization",
)


def problem() -> tuple[Floats, Floats, LinearTask]:
    """398 volunteers and 171 later users with 30 measurements each; the ten 'worst' values count double."""
    data = load_breast_cancer().data
    scaled = (data - data.min(axis=0)) / np.ptp(data, axis=0)
    weights = np.ones(30)
    weights[20:] = 2.0
    count = int(0.7 * len(scaled))
    return scaled[:count], scaled[count:], LinearTask(np.diag(weights) / np.sqrt(30))


def run(picture: Path) -> tuple[list[Row], Veil, float]:
    """Rows of the table, one veil to show (ε = 2), and the loss of sending nothing at all."""
    volunteers, users, task = problem()
    rows = []
    shown = design(volunteers, task, epsilon=2.0)
    for method in METHODS:
        for epsilon in EPSILONS:
            loss = design(volunteers, task, epsilon=epsilon, method=method).loss(users)
            rows.append(
                Row(experiment="demo", design=method, as_published=False, epsilon=epsilon, loss=loss.mean,
                    low=loss.low, high=loss.high)
            )  # fmt: skip
    nothing = float(task.losses(np.broadcast_to(volunteers.mean(axis=0), users.shape), users).mean())
    _plot(rows, nothing, picture)
    return rows, shown, nothing


def _plot(rows: list[Row], nothing: float, path: Path) -> None:
    fig, (ax,) = style.figure(width=7.0, height=4.4)
    for method in METHODS:
        curve(ax, rows, method, as_published=False)
    hidden = [row for row in rows if row.design == "matrix_factorization"]
    ax.lines[-1].set_label(f"matrix factorisation (off the chart: {min(r.loss for r in hidden):.1f} at best)")
    ax.axhline(nothing, color="grey", linestyle=":", label="no reports at all")
    ax.set(
        xscale="log",
        ylim=(0, 1.5 * nothing),
        xlabel="privacy budget ε (smaller is more private)",
        ylabel="task loss (lower is better)",
        title="What a private report is worth: 30 cell measurements, weighted means",
    )
    ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="lower left")
    style.save(fig, path)
