"""Whether a model is linear, found by asking it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from taskveil.arrays import Floats
from taskveil.errors import TaskError

Lines = tuple[Floats, Floats]
"""Weights (m, n) and offset (m,): outputs = weights x + offset."""

_SIZES = 10.0 ** np.arange(-1, 10)
"""Of the records that are asked about. A model that bends does so somewhere: networks that were fitted to attributes of
thousands bend in thousands, and trees have their splits there."""
_EACH = 24  # records of every size
_CLEAR = 6.0  # logits that differ by no more are seen in probabilities of single precision
_SEEN = 1e-3  # so well
_TRIES, _FAR = 60, 1e9
_STEP = 2.0**10
"""How far weights are measured: the offset costs them digits within fewer steps."""


def probed_lines(
    model: Callable[[Floats], Floats], width: int, rounding: float, *, up_to_shift: bool = False
) -> Lines | None:
    """Weights and offset of a model that is linear to the last digits of its precision, at records of all sizes; None
    for any other, and for one that says the same of all.

    Args:
        model: records (N, n) → outputs (N, m); a TaskError of its own means that it is not linear.
        width: the number of attributes n.
        rounding: the relative error of one operation in the model's precision.
        up_to_shift: outputs count up to a number that is added to all those of a record: the first is made 0.
    """

    def asked(X: Floats) -> Floats:
        said = model(X)
        return said - said[:, :1] if up_to_shift else said

    points = spread_points(_EACH * len(_SIZES), width) * np.repeat(_SIZES, _EACH)[:, None]
    slack = (16.0 + 4.0 * np.sqrt(width)) * rounding
    try:
        start = asked(np.zeros((1, width)))[0]
        said, opposite = asked(points), asked(-points)
        # Most models are found out by a few records, whatever the number of attributes.
        if not (np.abs(said + opposite - 2.0 * start) <= slack * _sizes(said, opposite, start)).all():
            return None
        steps = _STEP * np.eye(width)
        weights = ((asked(steps) - asked(-steps)) / (2.0 * _STEP)).T
    except TaskError:
        return None
    size = np.abs(points) @ np.abs(weights).T + np.abs(start)
    if up_to_shift:
        size = size + size.max(axis=1, keepdims=True)
    straight = (np.abs(points @ weights.T + start - said) <= slack * size).all()
    return (weights, start) if straight and weights.any() else None


def probed_logits(model: Callable[[Floats], Floats], width: int) -> Lines | None:
    """Weights and offset of logits, the first of which is 0, for a model that answers with logarithms of probabilities
    in single precision; None where these are not linear, or say too little at zero. A model whose probabilities are
    near 0 or 1 says little about its logits, so this alone does not tell linear models from others.

    Args:
        model: records (N, n) → logarithms of probabilities (N, m); a TaskError of its own means that it is not linear.
        width: the number of attributes n.
    """

    def asked(X: Floats) -> Floats:
        said = model(X)
        return said - said[:, :1]

    sizes = np.repeat([0.1, 0.5, 1.0, 2.0, 4.0, 30.0, 1e3, 1e6], _EACH)
    try:
        start = asked(np.zeros((1, width)))[0]
        if np.ptp(start) > _CLEAR:
            return None
        steps = np.ones(width)  # so large that logits move by about one
        for _ in range(_TRIES):
            moved = np.abs(asked(np.diag(steps)) - start).max(axis=1)
            factor = np.where(moved > 2.0, 0.25, np.where((moved < 0.5) & (steps < _FAR), 4.0, 1.0))
            if (factor == 1.0).all():
                break
            steps *= factor
        weights = ((asked(np.diag(steps)) - asked(-np.diag(steps))) / (2.0 * steps[:, None])).T
        points = spread_points(len(sizes), width) * sizes[:, None] * steps / np.sqrt(width)
        said = asked(points)
    except TaskError:
        return None
    mine = points @ weights.T + start
    clear = np.ptp(mine, axis=1) <= _CLEAR
    straight = (np.abs(mine - said)[clear] <= _SEEN).all() and (np.abs(_chances(mine) - _chances(said)) <= _SEEN).all()
    return (weights, start) if straight and clear.any() and weights.any() else None


def _chances(logits: Floats) -> Floats:
    """Logits (N, m) → probabilities."""
    found = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def spread_points(count: int, width: int) -> Floats:
    """(count, width) numbers spread like normal ones, but by a formula: the audit wants no generator within a device's
    reach."""
    share = np.sin(np.arange(1, count * width + 1)) * 43758.5453 % 1.0
    return np.asarray(ndtri(np.clip(share, 1e-6, 1 - 1e-6)).reshape(count, width))


def _sizes(said: Floats, opposite: Floats, start: Floats) -> Floats:
    """(N, 1): how large the numbers are that were added up to answers: about the largest answer to a record of that
    size."""
    largest = np.maximum(np.abs(said), np.abs(opposite)).max(axis=1).reshape(-1, _EACH).max(axis=1)
    return np.asarray(np.repeat(largest, _EACH)[:, None] + np.abs(start).max())
