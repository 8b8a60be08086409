"""Diagnosis from 30 cell measurements: a 30-45-2 ReLU network on 569 people, the first 398 for design.

Loss: cross-entropy. As published, encoder and decoder have one hidden layer of 30 logistic units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from taskveil.designs.published import Recipe
from taskveil.experiments import models
from taskveil.experiments.data import breast_cancer
from taskveil.experiments.report import Row
from taskveil.task import ModelTask

RECIPE = Recipe(hidden=30, penalty=0.001, epochs=500, steps=15)
BASELINES = Recipe(hidden=30, penalty=0.001, epochs=150, steps=15)
DIMS = (3, 15, 30)


def problem() -> models.Experiment:
    X, y = breast_cancer()
    count = int(0.7 * len(X))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(30, 45), nn.ReLU(), nn.Linear(45, 2))
        models.trained(network, X[:count], y[:count], "cross_entropy", epochs=1000)
    task = ModelTask(network, loss="cross_entropy")
    return models.Experiment(
        name="breast-cancer", X=X[:count], y=y[:count], X_test=X[count:], y_test=y[count:], task=task
    )


def run(plot_folder: Path | None = None, seeds: int = 5, *, device: str = "cpu", progress: bool = False) -> list[Row]:
    """All rows; writes breast_cancer.png into `plot_folder`."""
    experiment = problem()
    options: dict[str, Any] = {"device": device, "progress": progress}
    rows = models.published_rows(experiment, RECIPE, seeds=seeds, **options)
    for method in models.METHODS[1:]:
        rows += models.published_rows(experiment, BASELINES, method=method, seeds=seeds, **options)
    others = [z for z in DIMS if z != models.PUBLISHED_DIM]
    rows += models.published_rows(experiment, RECIPE, latent_dims=others, seeds=min(seeds, 2), **options)
    rows += models.honest_rows(experiment, seeds=seeds, **options)
    if plot_folder is not None:
        models.plot(experiment, rows, plot_folder / "breast_cancer.png", latent_dims=DIMS)
    return rows
