"""Codewords for a task: inputs at which the frozen model gives the wanted answers.

The best answer to a report is the mean truth given it (see `tasks.costs`). What remains is to find an input that makes
the model say so: by gradient descent in the input space, or by search.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.selection import one_thread
from taskveil.tasks import ModelTask, Task
from taskveil.tasks.costs import Learnable, OwnLoss

if TYPE_CHECKING:
    import torch

_STEPS, _RATE, _STARTS, _ENOUGH = 200, 0.1, 2, 1e-4
_MEMORY, _SQUARES, _TINY = 0.9, 0.999, 1e-8  # Adam's own
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
        device: where torch computes, for a model that is a torch module.
    """
    with one_thread():
        if not task.differentiable:
            return _by_search(task, cost, wanted, X, rng)
        if (form := task.frozen.layered) is not None:
            # Estimators give their gradients without torch: the same records, whether it is installed or not.
            return _by_gradient(lambda X: (form(X), lambda pull: form.pulled_back(X, pull)), cost, wanted, X)
        return _by_gradient(_of_module(copy.deepcopy(task.torch_module), device), cost, wanted, X)


def divergence(cost: Learnable, given: Floats, wanted: Floats) -> Floats:
    """(K, C): what is lost by answering `given` (C, S) where `wanted` (K, S) is best."""
    return np.asarray(cost.scores(given, wanted) - cost.least_scores(wanted)[:, None])


_Asked = Callable[[Floats], tuple[Floats, Callable[[Floats], Floats]]]
"""Records (K, n) → outputs (K, m), and how a pull on the outputs (K, m) pulls at the records (K, n)."""


def _of_module(module: torch.nn.Module | None, device: str) -> _Asked:
    """A torch module, asked in its own precision."""
    import torch

    from taskveil.tasks.models.modules import module_dtype

    assert module is not None  # noqa: S101 - differentiable, and not layered
    moved = module.to(device)
    dtype = module_dtype(moved)

    def asked(X: Floats) -> tuple[Floats, Callable[[Floats], Floats]]:
        records = torch.tensor(X, dtype=dtype, device=device, requires_grad=True)
        outputs = moved(records).reshape(len(X), -1)

        def pulled(pull: Floats) -> Floats:
            (found,) = torch.autograd.grad(outputs, records, torch.as_tensor(pull, dtype=outputs.dtype, device=device))
            return np.asarray(found.double().cpu())

        return np.asarray(outputs.detach().double().cpu()), pulled

    return asked


def _by_gradient(asked: _Asked, cost: Learnable, wanted: Floats, X: Floats) -> Floats:
    """Adam in the input space, in steps of each attribute's spread, from the records whose answers come closest."""
    gap = divergence(cost, cost.answers(asked(X)[0]), wanted)
    nearest = np.argsort(gap, axis=1)[:, :_STARTS]
    best, least = X[nearest[:, 0]].copy(), gap[np.arange(len(wanted)), nearest[:, 0]]
    # Good enough: a ten-thousandth of how much the wanted answers differ among themselves.
    enough = _ENOUGH * float(divergence(cost, wanted.mean(axis=0, keepdims=True), wanted).mean())
    low, high, spread = X.min(axis=0), X.max(axis=0), X.std(axis=0) + 1e-3 * X.std()
    for start in range(nearest.shape[1]):
        open_ = np.flatnonzero(least > enough)
        if len(open_) == 0:
            break
        goal = wanted[open_]
        floor = cost.least_scores(goal) + cost.left_out(goal)  # the loss of the goal itself
        inside = X[nearest[open_, start]]
        memory, squares = np.zeros_like(inside), np.zeros_like(inside)
        for step in range(_STEPS):
            outputs, pulled = asked(inside)
            found = cost.losses(outputs, goal) - floor
            better = found < least[open_]
            best[open_[better]] = inside[better]
            least[open_[better]] = found[better]
            if (least[open_] <= enough).all():
                break
            slope = spread * pulled(cost.slopes(outputs, goal))
            memory = _MEMORY * memory + (1 - _MEMORY) * slope
            squares = _SQUARES * squares + (1 - _SQUARES) * slope**2
            ahead = memory / (1 - _MEMORY ** (step + 1))
            size = np.sqrt(squares / (1 - _SQUARES ** (step + 1))) + _TINY
            rate = _RATE * (1 - step / _STEPS) ** 2
            inside = np.clip(inside - rate * spread * ahead / size, low, high)
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
