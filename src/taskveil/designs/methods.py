"""Designs for many budgets and seeds: what they can share is computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.choosing import choose
from taskveil.designs.codebooks.linear import codebook
from taskveil.designs.domain import Domain
from taskveil.designs.laplace import baselines, closed_form
from taskveil.errors import DataError, TaskError
from taskveil.tasks import LinearTask, ModelTask, MultiTask, Task, as_linear
from taskveil.veil import Veil

Method = Literal["auto", "task_aware", "codebook", "task_agnostic", "privacy_agnostic", "matrix_factorization"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What does not change between budgets and seeds; see `design`."""

    domain: Domain
    latent_dim: int | None = None
    device: str = "cpu"
    progress: bool = False


def design_many(
    X: Floats,
    task: Task,
    y: Any,
    *,
    epsilons: Sequence[float],
    seeds: Sequence[int],
    method: Method,
    options: Options,
) -> Iterator[tuple[float, int, Veil]]:
    """A veil for every (ε, seed), in no particular order, each as soon as it is there. Records and budgets are taken
    as checked (`design`, `sweep`)."""
    linear_task = as_linear(task)
    if linear_task is not None:
        for seed in seeds:
            for epsilon, veil in _linear(X, linear_task, epsilons, method, seed, options):
                yield epsilon, seed, replace(veil, task=task)
    elif isinstance(task, ModelTask | MultiTask):
        yield from _learned(X, task, y, epsilons, seeds, method, options)


def _linear(
    X: Floats, task: LinearTask, epsilons: Sequence[float], method: str, seed: int, o: Options
) -> Iterator[tuple[float, Veil]]:
    if method == "auto":

        def make(method: str, X: Floats, _: Any, epsilons: Sequence[float]) -> Iterator[tuple[float, Veil]]:
            return _linear(X, task, epsilons, method, seed, o)

        yield from choose(X, None, task, ("codebook", "task_aware"), epsilons, make, seed)
        return
    for epsilon in epsilons:
        match method:
            case "codebook":
                veil = codebook(X, task, epsilon, o.domain, o.latent_dim, seed)
            case "task_agnostic":
                veil = baselines.task_agnostic(X, task, epsilon, o.domain)
            case "privacy_agnostic":
                veil = baselines.privacy_agnostic(X, task, epsilon, o.domain, o.latent_dim)
            case "matrix_factorization":
                veil = baselines.matrix_factorization(X, task, epsilon, o.domain, o.latent_dim)
            case _:
                veil = closed_form.task_aware(X, task, epsilon, o.domain, o.latent_dim)
        yield epsilon, veil


def _learned(
    X: Floats,
    task: ModelTask | MultiTask,
    y: Any,
    epsilons: Sequence[float],
    seeds: Sequence[int],
    method: str,
    o: Options,
) -> Iterator[tuple[float, int, Veil]]:
    from taskveil.designs.codebooks.model import model_codebooks
    from taskveil.designs.learned.objective import check_device
    from taskveil.designs.learned.veils import Method as GradientMethod
    from taskveil.designs.learned.veils import design_models

    check_device(o.device)
    task.labels(y, len(X))
    if method == "matrix_factorization":
        raise TaskError("matrix_factorization is a design for linear tasks; a model has no matrix to factorise.")
    if np.ptp(X, axis=0).max() == 0:
        raise DataError("all volunteers' records are identical: there is nothing to report.")
    by_gradient = next((name for name in get_args(GradientMethod) if name == method), None)
    if by_gradient is not None:
        veils = design_models(
            X, task, y, epsilons=epsilons, seeds=seeds, domain=o.domain, method=by_gradient, latent_dim=o.latent_dim,
            device=o.device, progress=o.progress,
        )  # fmt: skip
        yield from ((epsilon, seed, veil) for (epsilon, seed), veil in veils.items())
        return
    for seed in seeds:
        if method == "codebook":
            if isinstance(task, MultiTask):
                raise TaskError(
                    'codebooks serve one model or linear tasks; use method="task_aware" for several models.'
                )
            for epsilon, veil in model_codebooks(
                X, task, y=y, epsilons=epsilons, domain=o.domain, seed=seed, device=o.device
            ):
                yield epsilon, seed, veil
            continue

        def make(
            method: str, X: Floats, y: Any, epsilons: Sequence[float], seed: int = seed
        ) -> Iterator[tuple[float, Veil]]:
            return ((epsilon, veil) for epsilon, _, veil in _learned(X, task, y, epsilons, [seed], method, o))

        for epsilon, veil in choose(X, y, task, _candidates(task), epsilons, make, seed):
            yield epsilon, seed, veil


def _candidates(task: ModelTask | MultiTask) -> list[str]:
    """The designs that fit: codebooks need one model and a loss they know, gradients a model that has them."""
    if isinstance(task, MultiTask) or callable(task.loss):
        return ["task_aware"]
    return ["codebook"] if task.torch_module is None else ["codebook", "task_aware"]
