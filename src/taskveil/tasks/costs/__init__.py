"""What a wrong answer costs: one object per loss.

A loss knows five things, with one row per record each:

- `outputs` (N, m): the outputs of a model, values or logits;
- `answers` (N, S): the same as values or class probabilities;
- `labels`: the labels of the records, checked and in the loss's own form;
- `truth` (N, S): the target of answers, made from labels or else from the model's own answers;
- `losses` (N,): the cost of the answers.

Codebooks need a loss that is linear in the truth (`LinearInTruth`), up to a term of the truth alone: loss = score +
left_out(truth) with
score = (|a|² − 2 t·a)/S for squared error, −t·ln a for cross-entropy and 1 − t·(the class of a) for zero-one. So only
the mean truth given a report matters, and it names the best answer. `linear_form` brings any loss to that form: a loss
of your own over a list of answers (`Anchored`), several losses as their sum (`WeightedCost`).

Tensors are used through their methods only: importing this package does not import torch.
"""

from __future__ import annotations

from typing import Any, Literal

from taskveil.errors import TaskError
from taskveil.tasks.costs.named import CrossEntropy, Learnable, LinearInTruth, SquaredError, ZeroOne
from taskveil.tasks.costs.own_loss import Anchored, OwnLoss
from taskveil.tasks.costs.weighted import WeightedCost

__all__ = [
    "Anchored",
    "Cost",
    "CrossEntropy",
    "Learnable",
    "LinearInTruth",
    "LossName",
    "OwnLoss",
    "SquaredError",
    "WeightedCost",
    "ZeroOne",
    "as_cost",
]

LossName = Literal["mse", "cross_entropy", "zero_one"]

Cost = Learnable | ZeroOne | OwnLoss
"""What a model is judged by."""

_NAMED: dict[str, Learnable | ZeroOne] = {cost.name: cost for cost in (SquaredError(), CrossEntropy(), ZeroOne())}


def as_cost(loss: Any) -> Cost:
    """The object for a loss given by name or as a callable, or TaskError."""
    if callable(loss):
        return OwnLoss(loss)
    if not isinstance(loss, str) or loss not in _NAMED:
        names = ", ".join(f'"{name}"' for name in _NAMED)
        raise TaskError(f"loss must be {names} or a callable, got {loss!r}.")
    return _NAMED[loss]
