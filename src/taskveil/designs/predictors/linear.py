"""The least predictor that can be: linear, with ridge penalty, cross-fitted. On small tables often the best."""

from __future__ import annotations

import numpy as np
import torch

from taskveil.arrays import Floats
from taskveil.client.encoders import HiddenEncoder, LinearEncoder
from taskveil.designs.predictors.predictor import FOLDS, Evidence, Predictor
from taskveil.designs.threads import one_thread

PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01)
"""Tried from the heaviest on, each starting where the one before ended; in records' worth of evidence per weight."""

_JUDGES = 4000  # records that decide; more would hardly decide better
_CELLS = 2**21  # numbers a table may have until only every other penalty is tried
_STEPS = 60


@one_thread()
def fit_linear(evidence: Evidence) -> Predictor:
    """φ = weights · x + offset (its softmax for classes): one model per fold, all with the penalty of least pooled
    held-out loss; their mean is the device's encoder."""
    X, cost = evidence.X, evidence.cost
    center, spread = X.mean(axis=0), X.std(axis=0)
    scale = np.where(spread > 1e-9 * (np.abs(center) + spread.max()), spread, np.inf)  # constants say nothing
    inputs = torch.as_tensor((X - center) / scale)
    goal = torch.as_tensor(evidence.truth)
    shift, unit = cost.standard(goal)
    goal = (goal - shift) / unit
    keep = torch.as_tensor(evidence.fold)[None] != torch.arange(FOLDS)[:, None]
    weights = torch.zeros(FOLDS, X.shape[1], goal.shape[1], dtype=torch.float64, requires_grad=True)
    start = torch.zeros(FOLDS, 1, goal.shape[1], dtype=torch.float64, requires_grad=True)
    rows = torch.as_tensor(np.random.default_rng(evidence.seed).permutation(len(X))[:_JUDGES])
    best, chosen = np.inf, (weights.detach(), start.detach())
    for penalty in PENALTIES if inputs.numel() <= _CELLS else PENALTIES[::2]:
        _descend(inputs[rows], goal[rows], keep[:, rows], weights, start, penalty, evidence)
        with torch.no_grad():
            held = _held_out(inputs[rows], evidence.fold[rows.numpy()], weights, start)
            loss = float(cost.tensor_losses(held, goal[rows]).mean())
            if loss < best:
                best, chosen = loss, (weights.detach().clone(), start.detach().clone())
            elif loss > 1.02 * abs(best) + best - abs(best):
                break
    with torch.no_grad():
        answers = cost.tensor_answers(_held_out(inputs, evidence.fold, *chosen) * unit + shift)
        slopes = (chosen[0].mean(0) * unit).T.numpy() / scale
        offset = (chosen[1].mean(0)[0] * unit + shift).numpy() - slopes @ center
    encoder = affine_encoder(evidence.low, evidence.high, slopes, offset, softmax=bool(cost.logits))
    return Predictor(name="linear", encoder=encoder, held_out=answers.numpy())


def _descend(
    inputs: torch.Tensor,
    goal: torch.Tensor,
    keep: torch.Tensor,
    weights: torch.Tensor,
    start: torch.Tensor,
    penalty: float,
    evidence: Evidence,
) -> None:
    """Moves `weights` and `start` of all folds to the least penalised loss; every fold has its own sum."""
    optimizer = torch.optim.LBFGS(
        [weights, start], max_iter=_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-7
    )
    share = keep.double() / keep.sum(dim=1, keepdim=True)

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        losses = evidence.cost.tensor_losses(inputs @ weights + start, goal.expand(FOLDS, *goal.shape))
        value = (losses * share).sum() + penalty / len(inputs) * weights.square().sum()
        torch.autograd.backward(value)
        return value

    optimizer.step(objective)  # type: ignore[no-untyped-call]


def _held_out(inputs: torch.Tensor, fold: np.ndarray, weights: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """(N, S): for every record the model that does not see it."""
    found = torch.empty(len(inputs), weights.shape[2], dtype=torch.float64)
    for part in range(FOLDS):
        held = torch.as_tensor(fold == part)
        found[held] = inputs[held] @ weights[part] + start[part]
    return found


def affine_encoder(
    low: Floats, high: Floats, slopes: Floats, offset: Floats, *, softmax: bool
) -> LinearEncoder | HiddenEncoder:
    """slopes (S, n) · x + offset (S,), or the softmax of that, as a device runs it for records between low and high."""
    if not softmax:
        return LinearEncoder.of(low=low, high=high, weights=slopes, offset=offset)
    return HiddenEncoder.of(  # for its softmax: the one hidden unit is silent
        low=low,
        high=high,
        hidden_weights=np.zeros((1, len(low))),
        hidden_offset=np.zeros(1),
        weights=np.zeros((len(offset), 1)),
        skip=slopes,
        offset=offset,
        softmax=True,
    )
