"""Codewords for a model: inputs at which the frozen model gives the wanted answers.

The cost of answering o where the truth is t is linear in t, up to a term of t alone: (|o|² − 2 t·o)/S for squared
error, −t·ln q for cross-entropy with q the answer's class probabilities. So the best answer to a report is the mean
truth given it, and what remains is to find an input that makes the model say so: by gradient descent in the input
space, or by search.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from scipy.special import softmax

from taskveil.arrays import Floats
from taskveil.tasks import ModelTask
from taskveil.tasks.models.frozen import module_device, module_dtype

LEAST = 1e-9  # the least probability an answer may give to a class
_STEPS, _RATE, _STARTS, _ENOUGH = 200, 0.1, 2, 1e-4


def answers(task: ModelTask, X: Floats) -> Floats:
    """What the model answers (N, S): values, or class probabilities for cross-entropy."""
    outputs = task.predict(X)
    return np.asarray(softmax(outputs, axis=1)) if task.loss == "cross_entropy" else outputs


def costs(given: Floats, truth: Floats, *, classes: bool) -> Floats:
    """(N, K): the expected cost of each answer `given` (K, S) where the expected truth is `truth` (N, S)."""
    if classes:
        return np.asarray(-truth @ np.log(np.maximum(given, LEAST)).T)
    return np.asarray(((given**2).sum(axis=1) - 2.0 * truth @ given.T) / given.shape[1])


def own_cost(truth: Floats, *, classes: bool) -> Floats:
    """(N,): the least cost at this expected truth, to be subtracted to get a divergence."""
    if classes:
        return np.asarray(-(truth * np.log(np.maximum(truth, 1e-300))).sum(axis=1))
    return np.asarray(-(truth**2).mean(axis=1))


def realise(task: ModelTask, wanted: Floats, X: Floats, rng: np.random.Generator, device: str = "cpu") -> Floats:
    """Inputs (K, n) inside the volunteers' range whose answers come closest to `wanted` (K, S)."""
    if task.torch_module is None:
        return _by_search(task, wanted, X, rng)
    return _by_gradient(copy.deepcopy(task.torch_module).to(device), task, wanted, X)


def _divergence(given: Floats, wanted: Floats, *, classes: bool) -> Floats:
    """(K, C): what is lost by answering `given` (C, S) where `wanted` (K, S) is best."""
    return costs(given, wanted, classes=classes) - own_cost(wanted, classes=classes)[:, None]


def _by_gradient(module: torch.nn.Module, task: ModelTask, wanted: Floats, X: Floats) -> Floats:
    """Adam in the input space, in units of each attribute's spread, from the records that come closest."""
    classes = task.loss == "cross_entropy"
    gap = _divergence(answers(task, X), wanted, classes=classes)
    nearest = np.argsort(gap, axis=1)[:, :_STARTS]
    best, least = X[nearest[:, 0]].copy(), gap[np.arange(len(wanted)), nearest[:, 0]]
    # Good enough: a ten-thousandth of how much the wanted answers differ among themselves.
    enough = _ENOUGH * float(_divergence(wanted.mean(axis=0, keepdims=True), wanted, classes=classes).mean())
    dtype, device = module_dtype(module), module_device(module)

    def tensor(values: Floats) -> torch.Tensor:
        return torch.as_tensor(values, dtype=dtype, device=device)

    low, high, unit = tensor(X.min(axis=0)), tensor(X.max(axis=0)), tensor(X.std(axis=0) + 1e-3 * X.std())
    for start in range(nearest.shape[1]):
        open_ = np.flatnonzero(least > enough)
        if len(open_) == 0:
            break
        point = tensor(X[nearest[open_, start]])
        goal = tensor(wanted[open_])
        floor = tensor(own_cost(wanted[open_], classes=classes))
        moved = torch.zeros_like(point, requires_grad=True)
        optimizer = torch.optim.Adam([moved], lr=_RATE)
        for step in range(_STEPS):
            optimizer.param_groups[0]["lr"] = _RATE * (1 - step / _STEPS) ** 2
            inside = (point + unit * moved).clamp(low, high)
            outputs = module(inside).reshape(len(open_), -1)
            cross = -(goal * outputs.log_softmax(-1)).sum(1) - floor
            excess = cross if classes else (outputs - goal).square().mean(1)
            found = excess.detach().double().cpu().numpy()
            better = found < least[open_]
            best[open_[better]] = inside.detach().double().cpu().numpy()[better]
            least[open_[better]] = found[better]
            if (least[open_] <= enough).all():
                break
            optimizer.zero_grad(set_to_none=True)
            excess.sum().backward()
            optimizer.step()
            with torch.no_grad():
                moved.copy_(((point + unit * moved).clamp(low, high) - point) / unit)
    return best


def _by_search(
    task: ModelTask,
    wanted: Floats,
    X: Floats,
    rng: np.random.Generator,
    rounds: int = 6,
    tries: int = 24,
    parents: int = 8,
) -> Floats:
    """For models without gradients: convex combinations of the best inputs so far with each other and with records."""
    classes = task.loss == "cross_entropy"
    gap = _divergence(answers(task, X), wanted, classes=classes)
    order = np.argsort(gap, axis=1)[:, :parents]
    pool, score = X[order], np.take_along_axis(gap, order, axis=1)  # (K, parents, n), (K, parents)
    count, parents = order.shape
    for _ in range(rounds):
        one, other = rng.integers(parents, size=(2, count, tries))
        share = rng.random((count, tries, 1))
        anyone = X[rng.integers(len(X), size=(count, tries))]
        second = np.where(
            rng.random((count, tries, 1)) < 0.5, anyone, np.take_along_axis(pool, other[..., None], axis=1)
        )
        child = share * np.take_along_axis(pool, one[..., None], axis=1) + (1 - share) * second
        given = answers(task, child.reshape(count * tries, -1)).reshape(count, tries, -1)
        fresh = np.stack([_divergence(given[k], wanted[k : k + 1], classes=classes)[0] for k in range(count)])
        pool, score = np.concatenate([pool, child], axis=1), np.concatenate([score, fresh], axis=1)
        keep = np.argsort(score, axis=1)[:, :parents]
        pool, score = np.take_along_axis(pool, keep[..., None], axis=1), np.take_along_axis(score, keep, axis=1)
    return np.asarray(pool[:, 0])
