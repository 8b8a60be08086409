"""The demo: a clinic's cell measurements, estimated privately, with what today's tools would give beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from taskveil.arrays import Floats
from taskveil.designs.designing import design
from taskveil.experiments.report import ResultRow
from taskveil.progress import Progress
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.tasks import LinearTask
from taskveil.veil import Veil

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS: tuple[str, ...] = (
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


def run(picture: Path, *, progress: bool | Progress | None = False) -> tuple[list[ResultRow], Veil, float]:
    """Rows of the table, one veil to show (ε = 2), and the loss of sending nothing at all."""
    volunteers, users, task = problem()
    rows = []
    points = [(method, epsilon) for method in METHODS for epsilon in EPSILONS]
    with Progress.of(progress) as bar:
        bar.begin("designing", len(points))
        shown = design(volunteers, task, epsilon=2.0, progress=False)
        for method, epsilon in points:
            with bar.part(f"{method}, ε = {epsilon:g}", 1) as part:
                loss = design(volunteers, task, epsilon=epsilon, method=method, progress=part).loss(users)
            rows.append(
                ResultRow(experiment="demo", design=method, as_published=False, epsilon=epsilon, loss=loss.mean,
                    low=loss.low, high=loss.high)
            )  # fmt: skip
    nothing = float(task.losses(np.broadcast_to(volunteers.mean(axis=0), users.shape), users).mean())
    drawn = [
        Point(method=row.design, epsilon=row.epsilon, seed=0, loss=row.loss, low=row.low, high=row.high) for row in rows
    ]
    Frontier(points=tuple(drawn), clear=0.0, constant=nothing).plot(picture)
    return rows, shown, nothing
