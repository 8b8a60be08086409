"""A task's loss as torch sees it: for every replica and record at once, with labels prepared once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.errors import TaskError
from taskveil.tasks import LinearTask, ModelTask, MultiTask, Task
from taskveil.tasks.models.frozen import module_device, side_by_side


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """One task's outputs start … stop and what they are judged against, (N, outputs) or a callable's labels."""

    start: int
    stop: int
    weight: float
    loss: str | Callable[[Any, Any], Any]
    target: Tensor

    def costs(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """(R, B, all outputs) → (R, B): the weighted loss of every record in every replica."""
        mine, target = outputs[..., self.start : self.stop], self.target[rows]
        if self.loss == "mse":
            return self.weight * (mine - target).square().mean(-1)
        if self.loss == "cross_entropy":
            return self.weight * (mine.logsumexp(-1) * target.sum(-1) - (mine * target).sum(-1))
        replicas, records = mine.shape[:2]
        repeated = target.expand(replicas, *target.shape).flatten(0, 1)
        found: Tensor = self.loss(mine.flatten(0, 1), repeated)  # type: ignore[operator]
        return self.weight * found.view(replicas, records)

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:
        """What is lost by answering `outputs` where `wanted` was the best answer, both (B, all outputs)."""
        mine, best = outputs[:, self.start : self.stop], wanted[:, self.start : self.stop]
        if self.loss == "cross_entropy":
            p = best.softmax(-1)
            return self.weight * (p * (best.log_softmax(-1) - mine.log_softmax(-1))).sum(-1).mean()
        if self.loss == "mse":
            return self.weight * (mine - best).square().mean()
        return self.weight * ((mine - best) / spread[self.start : self.stop]).square().mean()


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
        pieces, centre, spread, blocks = [], [], [], []
        start = 0
        tasks = task.parts if isinstance(task, MultiTask) else ((task, 1.0),)
        task.labels(y, len(X))
        given = (y or (None,) * len(tasks)) if isinstance(task, MultiTask) else (y,)
        for (part, weight), values in zip(tasks, given, strict=True):
            stop = start + part.outputs
            target, middle, width, block = _prepared(part, X, values)
            # A linear task's loss is a sum over its outputs, a model's mse their mean.
            factor = weight * part.outputs if isinstance(part, LinearTask) else weight
            loss = "mse" if isinstance(part, LinearTask) else part.loss
            tensor = torch.as_tensor(target)
            tensor = (tensor.float() if tensor.is_floating_point() else tensor).to(device)
            pieces.append(Piece(start=start, stop=stop, weight=factor, loss=loss, target=tensor))
            centre.append(middle)
            spread.append(width)
            blocks.append(block)
            start = stop
        centring = np.zeros((start, start))
        for piece, block in zip(pieces, blocks, strict=True):
            centring[piece.start : piece.stop, piece.start : piece.stop] = block
        found = cls(
            pieces=tuple(pieces),
            centre=_tensor(np.concatenate(centre), device),
            spread=_tensor(np.concatenate(spread), device),
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
        """What is lost on average by answering `outputs` where `wanted` was best, both (B, outputs)."""
        total = sum((piece.mismatch(outputs, wanted, self.spread) for piece in self.pieces), start=torch.zeros(()))
        return total * self.scale

    @property
    def differentiable(self) -> nn.Module:
        """The model, or a TaskError that names the way out for black boxes."""
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


def _prepared(part: LinearTask | ModelTask, X: Floats, y: Any) -> tuple[Any, Floats, Floats, Floats]:
    """Targets, and of the answers: best constant, spread, and the matrix that centres them."""
    count = part.outputs
    if isinstance(part, LinearTask):
        target = part.predict(X)
        return target, target.mean(axis=0), _positive(target.std(axis=0)), np.eye(count)
    if callable(part.loss):
        answers = part.predict(X)
        return part.labels(y, len(X)), answers.mean(axis=0), _positive(answers.std(axis=0)), np.eye(count)
    target = part.targets(X, y)
    if part.loss == "cross_entropy":
        counts = target.sum(axis=0) + 1.0
        return target, np.log(counts / counts.sum()), np.ones(count), np.eye(count) - 1.0 / count
    return target, target.mean(axis=0), _positive(target.std(axis=0)), np.eye(count)


def _positive(spread: Floats) -> Floats:
    return np.where(spread > 0, spread, 1.0)


def _tensor(values: Floats, device: str) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)


def _on_device(task: Task, device: str) -> nn.Module | None:
    module = side_by_side([task]) if isinstance(task, LinearTask | ModelTask) else task.torch_module
    if module is None:
        return None
    where = module_device(module)
    if where.type not in ("cpu", torch.device(device).type):
        raise TaskError(
            f'the model is on {where}, the design on {device}: use model.to("{device}") or device="{where.type}".'
        )
    return copy.deepcopy(module).to(device=device, dtype=torch.float32)
