"""What the three experiments with learned tasks share: task networks, rows as published, honest rows, the picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from taskveil import style
from taskveil.arrays import Floats
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.laplace.gradient import Objective
from taskveil.designs.laplace.replicas import Replicas
from taskveil.designs.problem import OnDevice, Problem
from taskveil.experiments.published_algorithm import PUBLISHED, Recipe, train
from taskveil.experiments.report import (
    ResultRow,
    as_published_label,
    curve,
    has_hidden_layer,
    published,
    published_points,
)
from taskveil.experiments.runs import Way
from taskveil.progress import Progress
from taskveil.tasks import LossName, ModelTask
from taskveil.veil.losses import Loss

HONEST: tuple[str, ...] = ("auto", "codebook", *PUBLISHED)
VARIANTS: dict[str, tuple[Literal["direct", "record"], OnDevice]] = {
    "codebook_record": ("record", OnDevice()),
    "codebook_small": ("direct", OnDevice(share_model=True, max_bytes=200 * 1024)),
}
"""Codebooks whose estimated record is fed into the model, as in the paper, and whose devices run the task's own
architecture, in at most 200 KB."""

SEARCHED = ("auto", "codebook", *VARIANTS)
"""Ways whose seeds have nothing in common."""

BANDS = ("codebook", "task_aware")  # more of them on one picture hide each other
PUBLISHED_DIM = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Design and test records with labels, and the task: a network trained on the design records."""

    name: str
    X: Floats
    y: NDArray[Any]
    X_test: Floats
    y_test: NDArray[Any]
    task: ModelTask
    smaller: tuple[float, ...] = ()
    """Budgets below the published ones, where codebooks are still worth something."""

    @property
    def key(self) -> str:
        """Its name among the published results."""
        return self.name.replace("-", "_")

    @property
    def epsilons(self) -> list[float]:
        """The published budgets."""
        return list(published_points(self.key, "task_aware_Z3"))


@contextmanager
def network_seed(split: int | None) -> Iterator[None]:
    """What is drawn inside is a split's own: first weights and batches of its network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0 if split is None else 1 + split)
        yield


def trained(
    network: nn.Module, X: Floats, y: NDArray[Any], loss: LossName, *, epochs: int, batch: int | None = None
) -> nn.Module:
    """`network`, trained by Adam on the design records; its first weights come from torch's seed."""
    cost = nn.MSELoss() if loss == "mse" else nn.CrossEntropyLoss()
    inputs = torch.as_tensor(X, dtype=torch.float32)
    labels = torch.as_tensor(y, dtype=torch.float32 if loss == "mse" else torch.int64)
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(epochs):
        order = torch.randperm(len(inputs)) if batch else torch.arange(len(inputs))
        for rows in torch.split(order, batch or len(order)):
            optimiser.zero_grad()
            torch.autograd.backward(cost(network(inputs[rows]), labels[rows]))
            optimiser.step()
    return network.eval()


@dataclass(frozen=True, kw_only=True)
class Recipes:
    """How the rows as published are computed: task-aware (every seed the best of so many `starts`), the baselines, and
    task-aware with the other latent dimensions of `dims`; with so many `draws` of the noise."""

    task_aware: Recipe
    baselines: Recipe
    over_dims: Recipe | None = None
    dims: tuple[int, ...] = ()
    starts: int = 1
    draws: int = 100


def ways(sizes: Mapping[str, float], seeds: int, split: int | None, most: Mapping[str, int]) -> list[Way]:
    """What makes rows; on a random split only what is honest, and one seed.

    Seeds of a learned design are replicas in one training and stay together. Codebooks are searched seed by seed.

    Args:
        sizes: about the seconds that each way takes for one seed, in the order of its rows.
        seeds: for designs that depend on one.
        split: a random one, or None for the paper's.
        most: seeds of ways that have fewer.
    """
    found: list[Way] = []
    for name, size in sizes.items():
        count = min(seeds, most.get(name, seeds))
        if split is not None:
            count = min(count, int(name in HONEST))
        if name == "references":
            found.append(Way(name, size=size))
        elif name in SEARCHED:
            found += Way.apart(name, count, size)
        elif count:
            found.append(Way(name, tuple(range(count)), count * size))
    return found


def rows(
    experiment: Experiment,
    recipes: Recipes,
    way: str,
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    progress: bool | Progress | None = False,
) -> list[ResultRow]:
    """The rows of one way."""
    if way == "references":
        return reference_rows(experiment)
    name = way.removeprefix("published-")
    if name == way:
        return honest_rows(experiment, way, seeds, device=device, progress=progress)
    options: dict[str, Any] = {
        "seeds": len(seeds), "draws": recipes.draws, "device": device, "progress": progress,
    }  # fmt: skip
    if name == "dims":
        others = [z for z in recipes.dims if z != PUBLISHED_DIM]
        return published_rows(experiment, recipes.over_dims or recipes.task_aware, latent_dims=others, **options)
    if name == "task_aware":
        return published_rows(experiment, recipes.task_aware, starts=recipes.starts, **options)
    return published_rows(experiment, recipes.baselines, method=name, **options)


def honest_rows(
    experiment: Experiment,
    way: str,
    seeds: Sequence[int],
    *,
    device: str = "cpu",
    progress: bool | Progress | None = False,
) -> list[ResultRow]:
    """True ε, enforced for every input; mean over seeds of the expected loss on the test records. `way` is the name of
    a method or one of `VARIANTS`, which are codebooks with other options."""
    answering, on_device = VARIANTS.get(way, ("direct", OnDevice()))
    task = experiment.task if answering == "direct" else replace(experiment.task, answering=answering)
    posed = Problem.of(experiment.X, task, y=experiment.y, on_device=on_device, torch_device=device)
    designer = designer_of("codebook" if way in VARIANTS else way)
    budgets = [*(experiment.smaller if designer.name == "codebook" else ()), *experiment.epsilons]
    found: dict[float, list[tuple[Floats, bool]]] = {epsilon: [] for epsilon in budgets}
    with Progress.of(progress) as bar:
        bar.begin(experiment.name, 1)
        with bar.part(f"{experiment.name}, {way}", 1) as part:
            posed = replace(posed, progress=part)
            for epsilon, _, veil in design_many(designer, posed, epsilons=budgets, seeds=seeds):
                losses = veil.losses(experiment.X_test, experiment.y_test)
                found[epsilon].append((losses, has_hidden_layer(veil.encoder)))
    rows = []
    for epsilon, made in found.items():
        mean = np.mean([losses for losses, _ in made], axis=0)
        loss = Loss.of(mean, exact=False)
        bounded = (loss.mean, loss.low, loss.high)
        row = _row(experiment, way, epsilon, bounded, series=_series(way), seeds=len(seeds))
        rows.append(replace(row, network=any(network for _, network in made), losses=mean.tolist()))
    return rows


def reference_rows(experiment: Experiment) -> list[ResultRow]:
    """The best constant answer, and the task on the records themselves."""
    test = experiment.X_test, experiment.y_test
    losses = {
        "constant": experiment.task.constant_loss(experiment.X, experiment.y, *test),
        "no_privacy": float(experiment.task.losses(experiment.X_test, *test).mean()),
    }
    budgets = (*experiment.smaller, *experiment.epsilons)
    return [_row(experiment, name, e, (loss, loss, loss)) for name, loss in losses.items() for e in budgets]


def published_rows(
    experiment: Experiment,
    recipe: Recipe,
    *,
    method: str = "task_aware",
    latent_dims: Sequence[int] = (PUBLISHED_DIM,),
    seeds: int,
    starts: int = 1,
    draws: int = 100,
    device: str = "cpu",
    progress: bool | Progress | None = False,
) -> list[ResultRow]:
    """Computed as the published numbers were: their noise scale, Δ₁ of the test records themselves.

    The mean is over seeds and draws; low and high hold 95% of the single draws, which is what the published points are.
    With several `starts` a seed keeps the one of least loss on the design records, and rows named single_start give the
    mean over all starts beside it.
    """
    X, X_test = (torch.as_tensor(a, dtype=torch.float32, device=device) for a in (experiment.X, experiment.X_test))
    design = Objective.of(experiment.task, experiment.X, experiment.y, device)
    test = Objective.of(experiment.task, experiment.X_test, experiment.y_test, device)
    dims = [experiment.X.shape[1]] if method == "task_agnostic" else list(latent_dims)
    cells = [(e, z, s) for e in experiment.epsilons for z in dims for s in range(seeds * starts)]
    with Progress.of(progress) as bar:
        made = train(X, design, Replicas.of(cells, device), recipe, method=method, progress=bar)
    losses = made.losses(X_test, test, draws=draws).cpu().numpy()
    losses = losses.reshape(len(losses), -1, seeds, starts)
    best = losses[..., 0]
    if starts > 1:
        fitted = made.losses(X, design, draws=20).mean(0).cpu().numpy().reshape(-1, seeds, starts)
        best = np.take_along_axis(losses, fitted.argmin(axis=-1)[None, ..., None], axis=-1)[..., 0]
    rows = []
    for place, (epsilon, z) in enumerate((e, z) for e in experiment.epsilons for z in dims):
        name = method if z == PUBLISHED_DIM or method == "task_agnostic" else f"{method}_Z{z}"
        series = _series(method, z)
        variants = {name: best[:, place]}
        if starts > 1:
            variants[f"{name}_single_start"] = losses[:, place].reshape(len(losses), -1)
        for design_name, values in variants.items():
            spread = (values.mean(), *np.quantile(values, [0.025, 0.975]))
            row = _row(experiment, design_name, epsilon, spread, series=series, seeds=seeds, as_published=True)
            rows.append(replace(row, network=made.encoder is not None and recipe.hidden is not None))
    return rows


def _series(method: str, latent_dim: int = PUBLISHED_DIM) -> str:
    return method if method == "task_agnostic" else f"{method}_Z{latent_dim}"


def _row(
    experiment: Experiment,
    design: str,
    epsilon: float,
    losses: Sequence[float] | Floats,
    *,
    series: str = "",
    seeds: int = 0,
    as_published: bool = False,
) -> ResultRow:
    """`losses` are mean, low and high; `series` names the published curve to compare with, if there is one."""
    known = published_points(experiment.key, series).get(epsilon) if series in published(experiment.key) else None
    loss, low, high = map(float, losses)
    return ResultRow(
        experiment=experiment.name,
        design=design,
        as_published=as_published,
        epsilon=epsilon,
        loss=loss,
        low=low,
        high=high,
        published=known[0] if known else None,
        seeds=seeds,
    )


def plot(rows: list[ResultRow], path: Path, *, latent_dims: Sequence[int] = ()) -> None:
    """Loss against ε of all designs beside the published points and, with `latent_dims`, the figure over Z."""
    name = rows[0].experiment
    key, budgets = name.replace("-", "_"), sorted({row.epsilon for row in rows})
    line = {row.design: row.loss for row in rows if row.design in ("constant", "no_privacy")}
    fig, axes = style.figure(2 if latent_dims else 1)
    top = 1.6 * line["constant"]
    for method in HONEST:
        for as_published in (True, False):
            mine = [row.loss for row in rows if row.design == method and row.as_published == as_published]
            hidden = (
                f"{as_published_label(method)} (off the chart: {min(mine):.0f} at best)"
                if mine and min(mine) > top
                else None
            )
            curve(axes[0], rows, method, as_published=as_published, band=method in BANDS, label=hidden)
        if method in PUBLISHED:
            _stars(axes[0], key, _series(method), style.COLORS[method])
    axes[0].axhline(line["no_privacy"], color="grey", linestyle="-.", linewidth=1, label="no privacy")
    axes[0].axhline(line["constant"], color="grey", linestyle=":", label="constant answer")
    axes[0].set(
        xscale="log", xlabel="ε", ylabel="task loss", ylim=(0, top),
        title=f"{name}: lines ours (dashed: as published), stars published",
    )  # fmt: skip
    for z, color in zip(latent_dims, ("#7fb3d5", style.COLORS["task_aware"], "#154360"), strict=False):
        design = "task_aware" if z == PUBLISHED_DIM else f"task_aware_Z{z}"
        curve(axes[1], rows, design, as_published=True, color=color, label=f"Z = {z}, as published")
        _stars(axes[1], key, f"task_aware_Z{z}", color)
    if latent_dims:
        axes[1].set(xscale="log", xlabel="ε", ylabel="task loss", title="Latent dimension Z (stars: published)")
    for ax in axes:
        shown = budgets if ax is axes[0] else list(published_points(key, f"task_aware_Z{PUBLISHED_DIM}"))
        ax.set_xticks(shown, [f"{e:g}" for e in shown])
        ax.minorticks_off()
        ax.legend(fontsize=6, ncols=2, loc="upper right", framealpha=0.85)
    style.save(fig, path)


def _stars(ax: Any, key: str, series: str, color: str) -> None:
    points = published_points(key, series)
    ax.plot(list(points), [loss for loss, _ in points.values()], "*", color=color, alpha=0.6)
