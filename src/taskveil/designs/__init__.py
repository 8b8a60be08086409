"""How encoder, mechanism and decoder are found together. `design` is the front door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from taskveil.designs import baselines, linear
from taskveil.designs.choose import Design, choose
from taskveil.designs.codebook import codebook
from taskveil.domain import Domain, fit_domain
from taskveil.errors import BudgetError, DataError, TaskError
from taskveil.records import as_epsilon, as_volunteers, column_names
from taskveil.task import LinearTask, ModelTask, MultiTask, Task, check_task
from taskveil.veil import Veil

Floats = NDArray[np.float64]
Method = Literal["auto", "task_aware", "codebook", "task_agnostic", "privacy_agnostic", "matrix_factorization"]


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
        method: "auto" judges "codebook" and "task_aware" on held-out volunteers and keeps the better; the others are
            what they are compared with.
        latent_dim: at most this many numbers in a report; by default as many as pay off.
        domain: where records may lie; by default the volunteers' cloud. Whatever lies outside is brought inside.
        seed: of the search for a design (the same seed on the same machine gives the same); reports are never seeded.
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
        veil = _linear(records, linear_task, budget, method, latent_dim, where, seed)
    elif isinstance(task, ModelTask | MultiTask):
        veil = _learned(records, task, y, budget, method, latent_dim, where, seed, progress, device)
    return replace(veil, task=task, columns=columns)


def _linear(
    X: Floats, task: LinearTask, epsilon: float, method: Method, latent_dim: int | None, domain: Domain, seed: int
) -> Veil:
    match method:
        case "auto":
            designs: dict[str, Design] = {
                "codebook": lambda X, _: codebook(X, task, epsilon, domain, latent_dim, seed),
                "task_aware": lambda X, _: linear.task_aware(X, task, epsilon, domain, latent_dim),
            }
            return choose(X, None, task, designs, seed)
        case "codebook":
            return codebook(X, task, epsilon, domain, latent_dim, seed)
        case "task_agnostic":
            return baselines.task_agnostic(X, task, epsilon, domain)
        case "privacy_agnostic":
            return baselines.privacy_agnostic(X, task, epsilon, domain, latent_dim)
        case "matrix_factorization":
            return baselines.matrix_factorization(X, task, epsilon, domain, latent_dim)
        case _:
            return linear.task_aware(X, task, epsilon, domain, latent_dim)


def _learned(
    X: Floats,
    task: ModelTask | MultiTask,
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
    from taskveil.designs.model_codebook import model_codebook
    from taskveil.designs.objective import check_device

    check_device(device)
    task.labels(y, len(X))
    if method == "matrix_factorization":
        raise TaskError("matrix_factorization is a design for linear tasks; a model has no matrix to factorise.")
    if np.ptp(X, axis=0).max() == 0:
        raise DataError("all volunteers' records are identical: there is nothing to report.")

    def by_gradient(X: Floats, y: Any, how: Any = "task_aware") -> Veil:
        found = design_models(
            X,
            task,
            y,
            epsilons=[epsilon],
            seeds=[seed],
            domain=domain,
            method=how,
            latent_dim=latent_dim,
            device=device,
            progress=progress,
        )
        return found[epsilon, seed]

    def by_codebook(X: Floats, y: Any) -> Veil:
        if isinstance(task, MultiTask):
            raise TaskError('codebooks serve one model or linear tasks; use method="task_aware" for several models.')
        return model_codebook(X, task, epsilon, domain, y, seed, device)

    match method:
        case "codebook":
            return by_codebook(X, y)
        case "auto":
            designs: dict[str, Design] = {"codebook": by_codebook, "task_aware": by_gradient}
            if isinstance(task, MultiTask) or callable(task.loss):
                del designs["codebook"]
            if isinstance(task, ModelTask) and task.torch_module is None:
                del designs["task_aware"]  # needs gradients of the model
            return choose(X, y, task, designs, seed)
        case _:
            return by_gradient(X, y, method)
