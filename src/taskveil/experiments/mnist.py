"""Handwritten digits: a small convolutional network, 6,000 digits for design and 1,000 for test.

Loss: cross-entropy. As published, encoder and decoder are linear, Z = 3, batches of 64. The published task-agnostic
curve (losses of 180 to 4,000) falls with 1/ε as ours does, but its height says how large the paper's own network's
answers become far outside the pictures: ours lie 10 to 18 times lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from taskveil.experiments import models
from taskveil.experiments.data import mnist, order
from taskveil.experiments.published_algorithm import Recipe
from taskveil.experiments.report import ResultRow
from taskveil.experiments.runs import Way
from taskveil.tasks import ModelTask

RECIPE = Recipe(penalty=0.2, epochs=8, batch=64)
"""The paper names neither for the digits. η = 0.2, as for the houses, gives its curve; 0.001 ends near 4 at ε = 5, and
more epochs change little."""

RECIPES = models.Recipes(task_aware=RECIPE, baselines=RECIPE, draws=10)
ACCELERATED = True
SECONDS = {
    "published-task_aware": 40.0, "published-task_agnostic": 60.0, "published-privacy_agnostic": 40.0,
    "auto": 600.0, "codebook": 60.0, "task_aware": 50.0, "task_agnostic": 30.0, "privacy_agnostic": 30.0,
    "codebook_record": 240.0, "codebook_small": 240.0, "references": 20.0,
}  # fmt: skip
"""About what each way takes for one seed: learned ones on a graphics card, codebooks on one core."""


class Image(nn.Module):
    """Pixels (N, 784) → pictures (N, 1, 28, 28)."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, 784) → (N, 1, 28, 28)."""
        return x.view(-1, 1, 28, 28)


def network() -> nn.Sequential:
    """16 and 32 channels of 5×5, pooling, linear."""
    return nn.Sequential(
        Image(),
        nn.Conv2d(1, 16, 5, 1, 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, 1, 2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 10),
    )


def problem(split: int | None = None) -> models.Experiment:
    """Design and test records with labels, and the network trained on the design records; the paper's split, or the
    random one of that number of the same digits, with a network of its own."""
    X, y, X_test, y_test = mnist()
    if split is not None:
        pictures, digits, mixed = (
            np.vstack([X, X_test]),
            np.concatenate([y, y_test]),
            order(len(X) + len(X_test), split),
        )
        X, X_test = np.split(pictures[mixed], [len(X)])
        y, y_test = np.split(digits[mixed], [len(y)])
    with models.network_seed(split):
        model = models.trained(network(), X, y, "cross_entropy", epochs=6, batch=64)
    task = ModelTask(model, loss="cross_entropy")
    task.check_width(784)
    return models.Experiment(name="mnist", X=X, y=y, X_test=X_test, y_test=y_test, task=task, smaller=(3.0,))


def ways(seeds: int, split: int | None, device: str) -> list[Way]:
    """What makes rows. Without CUDA one seed for all but codebook and task-aware, which would take hours; one seed of
    auto, and none on random splits, since it learns Laplace noise again for every fold."""
    most = {"auto": 1 if split is None else 0}
    if not device.startswith("cuda"):
        most |= {name: 1 for name in SECONDS if name not in ("auto", "codebook", "task_aware")}
    return models.ways(SECONDS, seeds, split, most)


def rows(way: str, seeds: Sequence[int], split: int | None = None, **options: Any) -> list[ResultRow]:
    """The rows of one way, on the paper's split or on the random one of that number."""
    return models.rows(problem(split), RECIPES, way, seeds, **options)


def plot(rows: list[ResultRow], path: Path) -> None:
    """All designs."""
    models.plot(rows, path)
