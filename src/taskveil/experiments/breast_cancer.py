"""Diagnosis from 30 cell measurements: a 30-45-2 ReLU network on 569 people, the first 398 for design.

Loss: cross-entropy. As published, encoder and decoder have one hidden layer of 30 logistic units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from taskveil.experiments import models
from taskveil.experiments.data import breast_cancer, order
from taskveil.experiments.published_algorithm import Recipe
from taskveil.experiments.report import ResultRow
from taskveil.experiments.runs import Way
from taskveil.tasks import ModelTask

RECIPE = Recipe(hidden=30, penalty=0.001, epochs=2000, steps=15)
SHORTER = replace(RECIPE, epochs=500)
"""For the baselines and the figure over Z: 2,000 epochs change little and take an hour."""

DIMS = (3, 15, 30)
RECIPES = models.Recipes(task_aware=RECIPE, baselines=SHORTER, over_dims=SHORTER, dims=DIMS)
ACCELERATED = False  # one core is enough, and cards are left to MNIST; which is faster was not measured
SECONDS = {
    "published-task_aware": 50.0, "published-task_agnostic": 20.0, "published-privacy_agnostic": 75.0,
    "published-dims": 175.0, "auto": 100.0, "codebook": 15.0, "task_aware": 10.0, "task_agnostic": 10.0,
    "privacy_agnostic": 10.0, "codebook_record": 20.0, "codebook_small": 60.0, "references": 2.0,
}  # fmt: skip
"""About what each way takes on one core for one seed."""


def problem(split: int | None = None) -> models.Experiment:
    """Design and test records with labels, and the network trained on the design records; the paper's split, or the
    random one of that number with a network of its own."""
    X, y = breast_cancer()
    mixed = order(len(X), split)
    X, y = X[mixed], y[mixed]
    count = int(0.7 * len(X))
    with models.network_seed(split):
        network = nn.Sequential(nn.Linear(30, 45), nn.ReLU(), nn.Linear(45, 2))
        models.trained(network, X[:count], y[:count], "cross_entropy", epochs=1000)
    task = ModelTask(network, loss="cross_entropy")
    return models.Experiment(
        name="breast-cancer",
        X=X[:count],
        y=y[:count],
        X_test=X[count:],
        y_test=y[count:],
        task=task,
        smaller=(1.0, 2.0, 3.0),
    )


def ways(seeds: int, split: int | None, _device: str) -> list[Way]:
    """What makes rows; two seeds for the figure over Z."""
    return models.ways(SECONDS, seeds, split, {"published-dims": 2})


def rows(way: str, seeds: Sequence[int], split: int | None = None, **options: Any) -> list[ResultRow]:
    """The rows of one way, on the paper's split or on the random one of that number."""
    return models.rows(problem(split), RECIPES, way, seeds, **options)


def plot(rows: list[ResultRow], path: Path) -> None:
    """All designs, and the figure over Z."""
    models.plot(rows, path, latent_dims=DIMS)
