"""How encoder, mechanism and decoder are found together. `design` is the front door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from taskveil.designs import baselines, linear
from taskveil.domain import Domain, fit_domain
from taskveil.errors import BudgetError, DataError, TaskError
from taskveil.records import as_epsilon, as_volunteers, column_names
from taskveil.task import LinearTask, MultiTask, Task, check_task
from taskveil.veil import Veil

Method = Literal["auto", "task_aware", "task_agnostic", "privacy_agnostic", "matrix_factorization"]


def design(
    X: Any,
    task: Task,
    *,
    epsilon: float,
    y: Any = None,
    delta: float = 0.0,
    method: Method = "auto",
    latent_dim: int | None = None,
    domain: Domain | None = None,
    seed: int = 0,
    progress: bool = False,
    device: str = "cpu",
) -> Veil:
    """Design a veil: encoder and randomiser for the device, decoder for the server.

    Args:
        X: volunteers' records (N, n): array, pandas, polars or Arrow table of finite numbers.
        task: what the data is for.
        epsilon: the budget of one report. Smaller is more private.
        y: the volunteers' labels for a task that is a model; without them the model's own answers are the truth.
        delta: must be 0 here; every design so far is purely ε-LDP.
        method: "task_aware" is the default behind "auto"; the others are what it is compared with.
        latent_dim: at most this many numbers in a report; by default as many as pay off.
        domain: where records may lie; by default the volunteers' cloud. Whatever lies outside is brought inside.
        seed: for designs that learn; the same seed on the same machine gives the same design.
        progress: show how far learning is.
        device: "cpu" or "cuda", where learning happens. Devices and servers need neither.

    Returns:
        A veil whose `guarantee` holds for every user and every input.
    """
    columns = column_names(X)
    records = as_volunteers(X)
    budget = as_epsilon(epsilon)
    if delta != 0.0:
        raise BudgetError(f"these designs are purely ε-LDP and need delta=0, got {delta}.")
    check_task(task).check_width(records.shape[1])
    if latent_dim is not None and not 1 <= latent_dim <= records.shape[1]:
        raise TaskError(f"latent_dim must lie between 1 and {records.shape[1]}, got {latent_dim}.")
    if method not in get_args(Method):
        raise TaskError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    where = fit_domain(domain, records)
    stacked = task.stacked() if isinstance(task, MultiTask) else None
    linear_task = stacked or (task if isinstance(task, LinearTask) else None)
    if linear_task is not None:
        veil = _linear(records, linear_task, budget, method, latent_dim, where)
    else:
        veil = _learned(records, task, y, budget, method, latent_dim, where, seed, progress, device)
    return replace(veil, task=task, columns=columns)


def _linear(X: Any, task: LinearTask, epsilon: float, method: Method, latent_dim: int | None, domain: Domain) -> Veil:
    match method:
        case "task_agnostic":
            return baselines.task_agnostic(X, task, epsilon, domain)
        case "privacy_agnostic":
            return baselines.privacy_agnostic(X, task, epsilon, domain, latent_dim)
        case "matrix_factorization":
            return baselines.matrix_factorization(X, task, epsilon, domain, latent_dim)
        case _:
            return linear.task_aware(X, task, epsilon, domain, latent_dim)


def _learned(
    X: Any,
    task: Task,
    y: Any,
    epsilon: float,
    method: Method,
    latent_dim: int | None,
    domain: Domain,
    seed: int,
    progress: bool,
    device: str,
) -> Veil:
    from taskveil.designs.learned import design_models

    if method == "matrix_factorization":
        raise TaskError("matrix_factorization is a design for linear tasks; a model has no matrix to factorise.")
    if np.ptp(X, axis=0).max() == 0:
        raise DataError("all volunteers' records are identical: there is nothing to report.")
    found = design_models(
        X,
        task,
        y,
        epsilons=[epsilon],
        seeds=[seed],
        domain=domain,
        method="task_aware" if method == "auto" else method,
        latent_dim=latent_dim,
        device=device,
        progress=progress,
    )
    return found[epsilon, seed]
