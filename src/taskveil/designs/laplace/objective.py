"""A task's loss for torch: for every replica and record at once, with labels prepared once."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.errors import TaskError
from taskveil.tasks import Task
from taskveil.tasks.costs import Cost
from taskveil.tasks.models.modules import module_device, side_by_side


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """One task's columns among all outputs, the loss that judges them, and the truth it compares with, one row a
    record."""

    columns: slice
    weight: float
    cost: Cost
    truth: Tensor

    def costs(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """(R, B, all outputs) → (R, B): the weighted loss of every record in every replica."""
        return self.weight * self.cost.replica_losses(outputs[..., self.columns], self.truth[rows])

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:
        """The loss of answering `outputs` where `wanted` was the best answer, both (B, all outputs)."""
        mine, best = outputs[:, self.columns], wanted[:, self.columns]
        return self.weight * self.cost.mismatch(mine, best, spread[self.columns])


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """The task's loss divided by that of the best constant answer `centre` (outputs,); `spread` (outputs,) is how far
    answers move; `centring` (outputs, outputs) takes out what the loss does not see (a shift of all logits)."""

    pieces: tuple[Piece, ...]
    centre: Tensor
    spread: Tensor
    centring: Tensor
    scale: float
    model: nn.Module | None

    @classmethod
    def of(cls, task: Task, X: Floats, y: Any, device: str) -> Objective:
        """Labels checked and moved to `device`; a copy of the model in single precision beside them."""
        task.labels(y, len(X))
        count = task.outputs
        centre, spread, centring = np.empty(count), np.empty(count), np.zeros((count, count))
        pieces, start = [], 0
        for part, weight, labels in task.parted(y):
            own = slice(start, start + part.outputs)
            truth = part.truth(X, labels)
            centre[own], spread[own], centring[own, own] = part.cost.frame(truth, partial(part.predict, X))
            rows = torch.as_tensor(truth)
            rows = (rows.float() if rows.is_floating_point() else rows).to(device)
            pieces.append(Piece(columns=own, weight=weight * part.scale, cost=part.cost, truth=rows))
            start = own.stop
        found = cls(
            pieces=tuple(pieces),
            centre=_tensor(centre, device),
            spread=_tensor(spread, device),
            centring=_tensor(centring, device),
            scale=1.0,
            model=_on_device(task, device),
        )
        constant = float(found.costs(found.centre.expand(1, len(X), -1), torch.arange(len(X), device=device)).mean())
        object.__setattr__(found, "scale", 1.0 / constant if constant > 0 and np.isfinite(constant) else 1.0)
        return found

    def costs(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """(R, B, outputs), record numbers (B,) → (R, B)."""
        total = sum((piece.costs(outputs, rows) for piece in self.pieces), start=torch.zeros((), device=outputs.device))
        return total * self.scale

    def mismatch(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """The mean loss of answering `outputs` where `wanted` was best, both (B, outputs)."""
        total = sum((piece.mismatch(outputs, wanted, self.spread) for piece in self.pieces), start=torch.zeros(()))
        return total * self.scale

    @property
    def differentiable(self) -> nn.Module:
        """The model; for a black box, a TaskError that says what to use instead."""
        if self.model is None:
            raise TaskError(
                "this design learns through the model's gradients, which a black box does not give: "
                'pass a torch module or an ONNX file, or use method="codebook".'
            )
        return self.model


def check_device(device: str) -> None:
    """`device` exists here, or TaskError."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise TaskError(f'device must be "cpu" or "cuda", got {device!r}.') from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise TaskError('device="cuda" was asked for, but torch finds no CUDA device here: use device="cpu".')
    if kind not in ("cpu", "cuda"):
        raise TaskError(f'device must be "cpu" or "cuda", got {device!r}.')


def _tensor(values: Floats, device: str) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)


def _on_device(task: Task, device: str) -> nn.Module | None:
    module = side_by_side([part.torch_module for part, _, _ in task.parted()])
    if module is None:
        return None
    where = module_device(module)
    if where.type not in ("cpu", torch.device(device).type):
        raise TaskError(
            f'the model is on {where}, the design on {device}: use model.to("{device}") or device="{where.type}".'
        )
    return copy.deepcopy(module).to(device=device, dtype=torch.float32)
