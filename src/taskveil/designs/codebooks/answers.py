"""Codewords for a task: inputs at which the frozen model gives the wanted answers.

The best answer to a report is the mean truth given it (see `tasks.costs`). What remains is to find an input that makes
the model say so: by gradient descent in the input space, or by search.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from taskveil.arrays import Floats
from taskveil.designs.threads import one_thread
from taskveil.tasks import ModelTask, Task
from taskveil.tasks.costs import Learnable, OwnLoss
from taskveil.tasks.models.modules import module_device, module_dtype

_STEPS, _RATE, _STARTS, _ENOUGH = 200, 0.1, 2, 1e-4
_ROUNDS, _TRIES, _PARENTS = 6, 24, 8
_CANDIDATES = 256  # about so many volunteers' records are tried where nothing better is known


def answered_with(
    task: Task,
    outputs: Floats,
    X: Floats,
    y: Any,
    given_reports: Callable[[Floats], Floats],
    *,
    rng: np.random.Generator,
    device: str = "cpu",
) -> Floats:
    """Records (K, n) whose answers serve as well as `outputs` (K, m), as nearly as can be found: for one model with a
    loss that has a name, inputs that make it say so; for several tasks, and for a loss of one's own, the best of the
    volunteers' records and their mean.

    Args:
        task: what answers.
        outputs: the answers to be given.
        X, y: the volunteers' records (N, n) and their labels.
        given_reports: from numbers of the volunteers (N, C) to their sums over those whom each answer is for (K, C).
        rng: for models without gradients, which are searched.
        device: where torch computes.
    """
    if isinstance(task, ModelTask) and not isinstance(task.cost, OwnLoss):
        return realise(task, task.cost.learned_by, task.cost.answers(outputs), X, rng=rng, device=device)
    candidates = np.vstack([X[:: max(1, len(X) // _CANDIDATES)], X.mean(axis=0)])
    return np.asarray(candidates[given_reports(task.pairwise_losses(candidates, X, y)).argmin(axis=1)])


def realise(
    task: ModelTask, cost: Learnable, wanted: Floats, X: Floats, *, rng: np.random.Generator, device: str = "cpu"
) -> Floats:
    """Inputs (K, n) inside the volunteers' range whose answers come closest to `wanted` (K, S).

    Args:
        task: the model.
        cost: its loss, which says how close an answer is.
        wanted: the answers to be given.
        X: the volunteers' records (N, n), where the search starts.
        rng: for models without gradients, which are searched.
        device: where torch computes.
    """
    with one_thread():
        if task.torch_module is None:
            return _by_search(task, cost, wanted, X, rng)
        return _by_gradient(copy.deepcopy(task.torch_module).to(device), cost, wanted, X, task.answers(X))


def divergence(cost: Learnable, given: Floats, wanted: Floats) -> Floats:
    """(K, C): what is lost by answering `given` (C, S) where `wanted` (K, S) is best."""
    return np.asarray(cost.scores(given, wanted) - cost.least_scores(wanted)[:, None])


def _by_gradient(module: torch.nn.Module, cost: Learnable, wanted: Floats, X: Floats, said: Floats) -> Floats:
    """Adam in the input space, in steps of each attribute's spread, from the records whose answers `said` (N, S) come
    closest."""
    gap = divergence(cost, said, wanted)
    nearest = np.argsort(gap, axis=1)[:, :_STARTS]
    best, least = X[nearest[:, 0]].copy(), gap[np.arange(len(wanted)), nearest[:, 0]]
    # Good enough: a ten-thousandth of how much the wanted answers differ among themselves.
    enough = _ENOUGH * float(divergence(cost, wanted.mean(axis=0, keepdims=True), wanted).mean())
    dtype, device = module_dtype(module), module_device(module)

    def tensor(values: Floats) -> torch.Tensor:
        return torch.as_tensor(values, dtype=dtype, device=device)

    low, high, spread = tensor(X.min(axis=0)), tensor(X.max(axis=0)), tensor(X.std(axis=0) + 1e-3 * X.std())
    for start in range(nearest.shape[1]):
        open_ = np.flatnonzero(least > enough)
        if len(open_) == 0:
            break
        point = tensor(X[nearest[open_, start]])
        goal = tensor(wanted[open_])
        floor = tensor(cost.least_scores(wanted[open_]) + cost.left_out(wanted[open_]))  # the loss of the goal itself
        moved = torch.zeros_like(point, requires_grad=True)
        optimizer = torch.optim.Adam([moved], lr=_RATE)
        for step in range(_STEPS):
            optimizer.param_groups[0]["lr"] = _RATE * (1 - step / _STEPS) ** 2
            inside = (point + spread * moved).clamp(low, high)
            excess = cost.tensor_losses(module(inside).reshape(len(open_), -1), goal) - floor
            found = excess.detach().double().cpu().numpy()
            better = found < least[open_]
            best[open_[better]] = inside.detach().double().cpu().numpy()[better]
            least[open_[better]] = found[better]
            if (least[open_] <= enough).all():
                break
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(excess.sum())
            optimizer.step()
            with torch.no_grad():
                moved.copy_(((point + spread * moved).clamp(low, high) - point) / spread)
    return best


def _by_search(task: ModelTask, cost: Learnable, wanted: Floats, X: Floats, rng: np.random.Generator) -> Floats:
    """For models without gradients: convex combinations of the best inputs so far with each other and with records."""
    gap = divergence(cost, task.answers(X), wanted)
    order = np.argsort(gap, axis=1)[:, :_PARENTS]
    pool, score = X[order], np.take_along_axis(gap, order, axis=1)  # (K, parents, n), (K, parents)
    count, parents = order.shape
    for _ in range(_ROUNDS):
        one, other = rng.integers(parents, size=(2, count, _TRIES))
        share = rng.random((count, _TRIES, 1))
        anyone = X[rng.integers(len(X), size=(count, _TRIES))]
        second = np.where(
            rng.random((count, _TRIES, 1)) < 0.5, anyone, np.take_along_axis(pool, other[..., None], axis=1)
        )
        child = share * np.take_along_axis(pool, one[..., None], axis=1) + (1 - share) * second
        given = task.answers(child.reshape(count * _TRIES, -1)).reshape(count, _TRIES, -1)
        fresh = np.stack([divergence(cost, given[k], wanted[k : k + 1])[0] for k in range(count)])
        pool, score = np.concatenate([pool, child], axis=1), np.concatenate([score, fresh], axis=1)
        keep = np.argsort(score, axis=1)[:, :parents]
        pool, score = np.take_along_axis(pool, keep[..., None], axis=1), np.take_along_axis(score, keep, axis=1)
    return np.asarray(pool[:, 0])
