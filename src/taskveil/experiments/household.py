"""Mean estimation of hourly household power: the paper's figure, and the honest numbers beside it.

Loss: mean over 24 hours of kᵢ² (x̂ᵢ − xᵢ)², k = 2 from hour 9 to 20, else 1. First 70% of the days for design, the
rest for test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from taskveil import style
from taskveil.arrays import Floats
from taskveil.designs.designing import design
from taskveil.designs.laplace.closed_form import water_filling
from taskveil.designs.moments import Moments
from taskveil.designs.sensitivity import l1_diameter
from taskveil.errors import TaskError
from taskveil.experiments.data import household, order
from taskveil.experiments.report import ResultRow, curve, has_hidden_layer, published, published_points
from taskveil.experiments.runs import Way
from taskveil.peers.limits import any_data_limit, gaussian_limit
from taskveil.progress import Progress
from taskveil.tasks import LinearTask
from taskveil.veil.decoders import least_squares_decoder
from taskveil.veil.losses import Loss

EPSILONS = (1.0, 1.5, 3.0, 5.0, 10.0, 50.0)
METHODS: tuple[str, ...] = (
    "auto",
    "codebook",
    "task_aware",
    "task_agnostic",
    "privacy_agnostic",
    "matrix_factorization",
)
SEEDED = ("auto", "codebook")
SERIES: dict[str, str] = {
    "task_aware": "task_aware",
    "task_agnostic": "task_agnostic",
    "privacy_agnostic": "privacy_agnostic_Z3",
}
DAYTIME = slice(8, 20)
HOURLY_EPSILON = 5.0
ACCELERATED = False
SECONDS = 30.0
"""About what a searched design takes for all budgets."""

BLOCK = 30
"""Days follow each other, and those of a month are alike: so many neighbours count together in every interval."""


def problem(split: int | None = None) -> tuple[Floats, Floats, LinearTask]:
    """Design days (991, 24), test days (426, 24) and the task; the paper's split, or the random one of that number."""
    days = household()
    days = days[order(len(days), split)]
    weights = np.ones(24)
    weights[DAYTIME] = 2.0
    count = int(0.7 * len(days))
    return days[:count], days[count:], LinearTask(np.diag(weights) / np.sqrt(24))


def ways(seeds: int, split: int | None, _device: str) -> list[Way]:
    """What makes rows; one seed on a random split, and there only what holds at the true ε and the constant."""
    count = seeds if split is None else 1
    honest = [
        way
        for method in METHODS
        for way in Way.apart(method, count if method in SEEDED else 1, SECONDS if method in SEEDED else 1.0)
    ]
    return [Way("published"), *honest, Way("limits")] if split is None else [*honest, Way("constant")]


def rows(
    way: str,
    seeds: Sequence[int],
    split: int | None = None,
    *,
    progress: bool | Progress | None = False,
    **_: object,
) -> list[ResultRow]:
    """The rows of one way; a method's are the mean over `seeds`."""
    train, test, task = problem(split)
    match way:
        case "published":
            k2 = _k2(task)
            return [
                _row(method, epsilon, True, _loss(_published_way(method, epsilon, train, test, task) @ k2))
                for method in SERIES
                for epsilon in EPSILONS
            ]
        case "limits":
            gaussian = [_row("limit", epsilon, False, _limit(train, test, task, epsilon)) for epsilon in EPSILONS]
            any_data = [
                _row("limit_any_data", epsilon, False, _any_data_limit(test, task, epsilon)) for epsilon in EPSILONS
            ]
            return [*gaussian, *any_data, *_constant_rows(train, test, task)]
        case "constant":
            return _constant_rows(train, test, task)
        case _:
            return _honest_rows(way, train, test, task, seeds, progress)


def _honest_rows(
    method: str,
    train: Floats,
    test: Floats,
    task: LinearTask,
    seeds: Sequence[int],
    progress: bool | Progress | None,
) -> list[ResultRow]:
    """True ε, enforced for every input; mean over `seeds`."""
    found = []
    with Progress.of(progress) as bar:
        bar.begin("household", len(EPSILONS))
        for epsilon in EPSILONS:
            with bar.part(f"household, {method}, ε = {epsilon:g}", 1) as part:
                veils = [
                    design(train, task, epsilon=epsilon, method=method, seed=seed, progress=part) for seed in seeds
                ]
            losses = np.mean([veil.losses(test) for veil in veils], axis=0)
            row = _row(method, epsilon, False, _loss(losses), len(seeds))
            network = any(has_hidden_layer(veil.encoder) for veil in veils)
            found.append(replace(row, network=network, losses=losses.tolist()))
    return found


def _constant_rows(train: Floats, test: Floats, task: LinearTask) -> list[ResultRow]:
    guess = _loss(task.constant_losses(train, None, test, None))
    return [_row("constant", epsilon, False, guess) for epsilon in EPSILONS]


def _k2(task: LinearTask) -> Floats:
    return np.asarray(np.diag(task.K) ** 2)


def _loss(per_day: Floats) -> Loss:
    """The mean over test days (426,); the interval is for other days like these, not for other seeds."""
    return Loss.of(per_day, exact=False, block=BLOCK)


def _limit(train: Floats, test: Floats, task: LinearTask, epsilon: float) -> Loss:
    """No ε-LDP report can do better than this, were the test days Gaussian around the design days' mean."""
    outputs = task.predict(test - train.mean(axis=0))
    loss = gaussian_limit(np.linalg.eigvalsh(outputs.T @ outputs / len(test)), epsilon)
    return Loss(mean=loss, low=loss, high=loss, exact=True)


def _any_data_limit(test: Floats, task: LinearTask, epsilon: float) -> Loss:
    """No ε-LDP report can do better than this on the test days as they are, even if the server knew their mean."""
    outputs = task.predict(test - test.mean(axis=0))
    loss = any_data_limit(np.linalg.eigvalsh(outputs.T @ outputs / len(test)), epsilon)
    return Loss(mean=loss, low=loss, high=loss, exact=True)


def _hourly(method: str) -> Floats:
    """(24,): the same reports, judged by each hour alone."""
    train, test, task = problem()
    veil = design(train, task, epsilon=HOURLY_EPSILON, method=method, progress=False)
    hours = (replace(veil, task=LinearTask(np.eye(24)[hour : hour + 1])) for hour in range(24))
    return np.array([hour.loss(test).mean for hour in hours])


def _row(method: str, epsilon: float, as_published: bool, loss: Loss, seeds: int = 0) -> ResultRow:
    series = next((series for name, series in SERIES.items() if name == method), None)
    known = published_points("household", series) if series else {}
    return ResultRow(
        experiment="household",
        design=method,
        as_published=as_published,
        epsilon=epsilon,
        loss=loss.mean,
        low=loss.low,
        high=loss.high,
        published=known[epsilon][0] if epsilon in known else None,
        seeds=seeds,
    )


def _published_way(method: str, epsilon: float, train: Floats, test: Floats, task: LinearTask) -> Floats:
    """Expected squared error per day and hour (N, 24), computed as the published numbers were.

    Δ₁ is measured on the evaluated split and Δ₁/ε taken for the *standard deviation* of the noise, so this holds for
    √2·ε and for those days only; see docs/theory/guarantee.md. The expectation replaces the paper's single draw.
    """
    moments = Moments.of(train, task)
    if method == "task_aware":
        radius = float(np.linalg.norm((train - moments.mean) @ moments.inverse.T, axis=1).max())
        squared = water_filling(moments.eigenvalues, 8 * radius**2 / epsilon**2)
        encoder = np.sqrt(squared)[:, None] * moments.principal_map[: len(squared)]
    elif method == "task_agnostic":
        encoder = np.eye(24)
    elif method == "privacy_agnostic":
        encoder = moments.principal_map[:3]
    else:
        raise TaskError(f"the paper has no {method!r} on household, only {', '.join(SERIES)}.")
    variance = (l1_diameter(test @ encoder.T) / epsilon) ** 2
    decoder = least_squares_decoder((train - moments.mean) @ encoder.T, train, variance)
    estimates = decoder((test - moments.mean) @ encoder.T)
    return np.asarray((estimates - test) ** 2 + variance * (decoder.weights**2).sum(axis=1))


def plot(rows: list[ResultRow], path: Path) -> None:
    """Loss against 1/ε, and the error of each hour at one budget."""
    fig, (left, right) = style.figure(2, height=5.0)
    train, test, task = problem()
    budgets = np.geomspace(min(EPSILONS), max(EPSILONS), 24)
    bound = [_limit(train, test, task, epsilon).mean for epsilon in budgets]
    left.fill_between(1 / budgets, bound, color="grey", alpha=0.2, label="no report gets here, were days Gaussian")
    for method in SEEDED:
        curve(left, rows, method, as_published=False, inverse=True)
    right.plot(np.arange(1, 25), _hourly("codebook"), color=style.COLORS["codebook"], marker=style.MARKERS["codebook"],
               label=style.LABELS["codebook"])  # fmt: skip
    for method, series in SERIES.items():
        curve(left, rows, method, as_published=True, inverse=True)
        curve(left, rows, method, as_published=False, inverse=True)
        points = published_points("household", series)
        left.errorbar(
            [1 / e for e in points],
            [loss for loss, _ in points.values()],
            [ci for _, ci in points.values()],
            fmt="*",
            color=style.COLORS[method],
            alpha=0.55,
            label=style.LABELS[method].removesuffix(" (ours)") + ", published points",
        )
        hours = np.arange(1, 25)
        right.plot(hours, _hourly(method), color=style.COLORS[method], marker=style.MARKERS[method],
                   label=style.LABELS[method])  # fmt: skip
        known = published("household")["hourly_mse_epsilon5"][series]
        right.plot(hours, [point["mse"] for point in known], "*", color=style.COLORS[method], alpha=0.45)
    left.set(xlabel="1/ε", ylabel="task loss", title="Household power: loss against 1/ε")
    right.set(xlabel="hour", ylabel="expected squared error", title=f"Error per hour at ε = {HOURLY_EPSILON:g}")
    left.set_ylim(0, 0.037)
    left.legend(fontsize=6, ncols=2, loc="lower right")
    right.legend(fontsize=7, title="lines: ours, honest; stars: published", title_fontsize=7)
    style.save(fig, path)
