"""How encoder, mechanism and decoder are found together. `design` is the front door."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

from taskveil.designs import baselines, linear
from taskveil.designs.choose import choose
from taskveil.designs.codebook import codebook
from taskveil.domain import Domain, fit_domain
from taskveil.errors import BudgetError, TaskError
from taskveil.records import as_epsilon, as_volunteers, column_names
from taskveil.task import LinearTask
from taskveil.veil import Veil

Method = Literal["auto", "task_aware", "codebook", "task_agnostic", "privacy_agnostic", "matrix_factorization"]


def design(
    X: Any,
    task: LinearTask,
    *,
    epsilon: float,
    delta: float = 0.0,
    method: Method = "auto",
    latent_dim: int | None = None,
    domain: Domain | None = None,
    seed: int = 0,
) -> Veil:
    """Design a veil: encoder and randomiser for the device, decoder for the server.

    Args:
        X: volunteers' records (N, n): array, pandas, polars or Arrow table of finite numbers.
        task: what the data is for.
        epsilon: the budget of one report. Smaller is more private.
        delta: must be 0 here; every design so far is purely ε-LDP.
        method: "auto" judges "codebook" and "task_aware" on held-out volunteers and keeps the better; the others are
            what they are compared with.
        latent_dim: at most this many numbers in a report; by default as many as pay off.
        domain: where records may lie; by default the volunteers' cloud. Whatever lies outside is brought inside.
        seed: of the search for a design; reports are never seeded.

    Returns:
        A veil whose `guarantee` holds for every user and every input.
    """
    columns = column_names(X)
    records = as_volunteers(X)
    budget = as_epsilon(epsilon)
    if delta != 0.0:
        raise BudgetError(f"these designs are purely ε-LDP and need delta=0, got {delta}.")
    if not isinstance(task, LinearTask):
        raise TaskError(f"task must be a LinearTask, got {type(task).__name__}.")
    task.check_width(records.shape[1])
    if latent_dim is not None and not 1 <= latent_dim <= records.shape[1]:
        raise TaskError(f"latent_dim must lie between 1 and {records.shape[1]}, got {latent_dim}.")
    where = fit_domain(domain, records)
    match method:
        case "auto":
            designs = {
                "codebook": lambda X, _: codebook(X, task, budget, where, latent_dim, seed),
                "task_aware": lambda X, _: linear.task_aware(X, task, budget, where, latent_dim),
            }
            veil = choose(records, None, designs, seed)
        case "task_aware":
            veil = linear.task_aware(records, task, budget, where, latent_dim)
        case "codebook":
            veil = codebook(records, task, budget, where, latent_dim, seed)
        case "task_agnostic":
            veil = baselines.task_agnostic(records, task, budget, where)
        case "privacy_agnostic":
            veil = baselines.privacy_agnostic(records, task, budget, where, latent_dim)
        case "matrix_factorization":
            veil = baselines.matrix_factorization(records, task, budget, where, latent_dim)
        case _:
            raise TaskError(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    return replace(veil, columns=columns)
