"""House prices: a 6-9-1 ReLU network on 414 records, the first 289 for design.

Loss: squared error of the predicted price. Linear encoder and decoder as published; ours is light but not linear.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from taskveil.experiments import models
from taskveil.experiments.data import order, real_estate
from taskveil.experiments.published_algorithm import Recipe
from taskveil.experiments.report import Row
from taskveil.progress import Progress
from taskveil.tasks import ModelTask

RECIPE = Recipe(penalty=0.2, epochs=2000, steps=15)
BASELINES = Recipe(penalty=0.2, epochs=600, steps=15)
STARTS = 3
"""Algorithm 1 finds poor optima at ε = 10 (+20% on average): a seed keeps the best of three starts by design loss."""

DIMS = (1, 3, 6)


def problem(split: int | None = None) -> models.Experiment:
    """Design and test records with labels, and the network trained on the design records; the paper's split, or the
    random one of that number with a network of its own."""
    X, y = real_estate()
    mixed = order(len(X), split)
    X, y = X[mixed], y[mixed]
    count = int(0.7 * len(X))
    with models.network_seed(split):
        network = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 1))
        models.trained(network, X[:count], y[:count], "mse", epochs=2000)
    task = ModelTask(network, loss="mse")
    return models.Experiment(
        name="real-estate", X=X[:count], y=y[:count], X_test=X[count:], y_test=y[count:], task=task
    )


def run(seeds: int = 5, *, device: str = "cpu", progress: bool | Progress | None = False) -> list[Row]:
    """All rows, means over `seeds`; two seeds for the figure over Z."""
    return models.all_rows(
        problem(), RECIPE, baselines=BASELINES, over_dims=RECIPE, dims=DIMS, seeds=seeds, starts=STARTS,
        device=device, progress=progress,
    )  # fmt: skip


def split_rows(split: int, **options: Any) -> list[Row]:
    """What holds at the true ε on the random split of that number, one seed, and the two reference lines."""
    return models.split_rows(problem(split), **options)


def plot(rows: list[Row], path: Path) -> None:
    """All designs, and the figure over Z."""
    models.plot(rows, path, latent_dims=DIMS)
