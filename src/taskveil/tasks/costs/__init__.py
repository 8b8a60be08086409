"""What a wrong answer costs: one object per loss, which answers for itself whatever others ask of it.

Five things are kept apart, one row per record each:

- `outputs` (N, m): what a model gives, values or logits;
- `answers` (N, S): what the outputs say, values or class probabilities;
- `labels`: what is known about the records, checked and in the loss's own form;
- `truth` (N, S): what answers are judged against, made from labels or else from the model's own answers;
- `losses` (N,): what it costs.

Codebooks need a loss that is linear in the truth, up to a term of the truth alone: loss = score + left_out(truth) with
score = (|a|² − 2 t·a)/S for squared error and −t·ln a for cross-entropy. So the best answer to a report is the mean
truth given it. A loss of one's own has no such form.

Tensors are used through their methods only: importing this package does not import torch.
"""

from __future__ import annotations

from typing import Any, Literal

from taskveil.errors import TaskError
from taskveil.tasks.costs.cross_entropy import CrossEntropy
from taskveil.tasks.costs.own_loss import OwnLoss
from taskveil.tasks.costs.squared_error import SquaredError

__all__ = ["Cost", "CrossEntropy", "LinearInTruth", "LossName", "OwnLoss", "SquaredError", "as_cost"]

LossName = Literal["mse", "cross_entropy"]

LinearInTruth = SquaredError | CrossEntropy
"""What codebooks can serve."""

Cost = LinearInTruth | OwnLoss

_NAMED: dict[str, LinearInTruth] = {cost.name: cost for cost in (SquaredError(), CrossEntropy())}


def as_cost(loss: Any) -> Cost:
    """The object for a loss given by name or as a callable, or TaskError."""
    if callable(loss):
        return OwnLoss(loss)
    if not isinstance(loss, str) or loss not in _NAMED:
        names = ", ".join(f'"{name}"' for name in _NAMED)
        raise TaskError(f"loss must be {names} or a callable, got {loss!r}.")
    return _NAMED[loss]
