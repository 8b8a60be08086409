"""The paper's theory figure: closed forms for records that fill a ball, and veils that really add the noise.

n = 4, λ₁ = 4, λ₂ = λ₃ = λ₄ = 0, 1 or 2, covariance I. Loss depends on r/ε alone; the simulation uses
the eight records ±2eᵢ, whose covariance is exactly I, in the ball of radius 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from taskveil import style
from taskveil.arrays import Floats
from taskveil.designs.domain import Ball
from taskveil.designs.laplace.closed_form import analytic, ball_loss
from taskveil.designs.moments import LinearProblem
from taskveil.errors import TaskError
from taskveil.experiments.report import ResultRow
from taskveil.experiments.runs import Way
from taskveil.peers import baselines
from taskveil.tasks import LinearTask
from taskveil.veil import Veil
from taskveil.veil.losses import Loss

SETTINGS = (0.0, 1.0, 2.0)
RADIUS = 2.0
RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
Z = 2
DESIGNS = {
    "task_aware": analytic,
    "task_agnostic": baselines.task_agnostic,
    "privacy_agnostic": baselines.privacy_agnostic,
}
LATENT_DIMS = {"task_aware": None, "task_agnostic": None, "privacy_agnostic": Z}
DRAWS = 25_000
ACCELERATED = False


def ways(_seeds: int, split: int | None, _device: str) -> list[Way]:
    """One, on no split: records are drawn from a formula, and there is nothing to learn or to seed."""
    return [Way("all")] if split is None else []


def rows(*_: object, **__: object) -> list[ResultRow]:
    """Closed forms (`as_published`) and simulations with real noise."""
    found = []
    for rest in SETTINGS:
        eigenvalues = np.array([4.0, rest, rest, rest])
        for name in DESIGNS:
            for ratio in RATIOS:
                epsilon = RADIUS / ratio
                closed = closed_form(name, eigenvalues, ratio)
                simulated = Loss.of(simulate(name, eigenvalues, epsilon), exact=False)
                label = f"theory λ=4,{rest:g},{rest:g},{rest:g}"
                about: dict[str, Any] = {"experiment": label, "design": name, "epsilon": epsilon, "seeds": 0}
                found += [
                    ResultRow(**about, as_published=True, loss=closed, low=closed, high=closed),
                    ResultRow(**about, as_published=False, loss=simulated.mean, low=simulated.low, high=simulated.high),
                ]
    return found


def closed_form(name: str, eigenvalues: Floats, ratio: float) -> float:
    """The loss at r/ε = `ratio` when L = I and the records fill a centred ball."""
    v, n = 8 * ratio**2, len(eigenvalues)
    match name:
        case "task_aware":
            return ball_loss(eigenvalues, ratio, 1.0)
        case "task_agnostic":
            return float(n * v / (1 + n * v) * eigenvalues.sum())
        case "privacy_agnostic":
            return float(Z * v / (1 + Z * v) * eigenvalues[:Z].sum() + eigenvalues[Z:].sum())
        case _:
            raise TaskError(f"there is no closed form for {name!r}, only for {', '.join(DESIGNS)}.")


def simulate(name: str, eigenvalues: Floats, epsilon: float) -> Floats:
    """Task losses of real private reports, one per draw."""
    records = RADIUS * np.vstack([np.eye(4), -np.eye(4)])
    task = LinearTask(np.diag(np.sqrt(eigenvalues)))
    veil = _veil(name, records, task, epsilon)
    drawn = np.tile(records, (DRAWS // len(records), 1))
    return task.losses(veil.decode(veil.privatize(drawn)), drawn)


def _veil(name: str, records: Floats, task: LinearTask, epsilon: float) -> Veil:
    """Δ₁ of the identity on the ball is 2r√n, as the closed form of the task-agnostic design assumes."""
    problem = LinearProblem(X=records, task=task, domain=Ball(RADIUS, dim=4), latent_dim=LATENT_DIMS[name])
    return DESIGNS[name](problem, epsilon)


def plot(rows: list[ResultRow], path: Path) -> None:
    """Lines: closed forms; marks: simulations."""
    fig, axes = style.figure(3, width=4.6)
    for ax, label in zip(axes, dict.fromkeys(row.experiment for row in rows), strict=True):
        for name in DESIGNS:
            mine = [row for row in rows if row.experiment == label and row.design == name]
            closed = sorted((RADIUS / r.epsilon, r.loss) for r in mine if r.as_published)
            drawn = [(RADIUS / r.epsilon, r.loss) for r in mine if not r.as_published]
            ax.plot(*zip(*closed, strict=True), color=style.COLORS[name], label=style.LABELS[name])
            ax.plot(*zip(*drawn, strict=True), style.MARKERS[name], color=style.COLORS[name], linestyle="none")
        ax.set(xscale="log", xlabel="r/ε", ylabel="task loss", title=label)
    axes[0].legend(title="lines: closed form, marks: simulated", fontsize=8, title_fontsize=8)
    style.save(fig, path)
