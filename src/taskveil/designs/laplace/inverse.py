"""A right inverse of the task: x̂ = A(t) with f(A(t)) = t for the answers t that designs ask for.

One network serves all budgets and seeds, because what it must do depends on the task alone; so the model is evaluated
on one mini-batch per step, however many designs there are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from taskveil.designs.laplace.batches import Records
from taskveil.designs.laplace.objective import Objective
from taskveil.progress import SILENT, Progress

STEPS, WARM_UP = 400, 200
"""Of learning through the model, and of least squares before."""


class Inverse(nn.Module):
    """Wanted answers (B, outputs) → records (B, n): two hidden layers of ReLUs."""

    middle: Tensor
    reach: Tensor
    centring: Tensor
    center: Tensor
    spread: Tensor

    def __init__(self, wanted: Tensor, X: Records, objective: Objective, hidden: int) -> None:
        super().__init__()
        spread = X.std()
        self.register_buffer("middle", X.mean())
        self.register_buffer("reach", spread.clamp_min(1e-3 * float(spread.max()) + 1e-12))
        centred = wanted @ objective.centring
        self.register_buffer("centring", objective.centring)
        self.register_buffer("center", centred.mean(0))
        self.register_buffer("spread", centred.std(0).clamp_min(1e-6))
        sizes = [wanted.shape[1], hidden, hidden, X.width]
        self.layers = nn.ModuleList([nn.Linear(i, o) for i, o in pairwise(sizes)])

    def forward(self, wanted: Tensor) -> Tensor:
        """Wanted answers (B, outputs) → records (B, n)."""
        x: Tensor = (wanted @ self.centring - self.center) / self.spread
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        result: Tensor = self.middle + self.reach * self.layers[-1](x)
        return result


def fit_inverse(
    asked: Callable[[int], tuple[Tensor, Tensor]],
    X: Records,
    objective: Objective,
    *,
    hidden: int = 64,
    steps: int = STEPS,
    warm_up: int = WARM_UP,
    batch: int = 256,
    rate: float = 3e-3,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Inverse:
    """First E[x | wanted answer] by least squares, then f(A(t)) = t through the model.

    `asked(size)` draws answers that the designs ask for, (size, outputs), and the records behind them, (size, n). Every
    step advances `progress` by one.
    """
    model = objective.differentiable
    with torch.random.fork_rng(devices=[X.device] if X.device.type == "cuda" else []):
        torch.manual_seed(seed)
        inverse = Inverse(asked(4096)[0], X, objective, hidden).to(X.device)
    optimiser = torch.optim.Adam(inverse.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, warm_up + steps, pct_start=0.1)
    for step in range(warm_up + steps):
        progress.advance("inverting the task")
        wanted, records = asked(batch)
        estimates = inverse(wanted)
        if step < warm_up:
            total = ((estimates - records) / inverse.reach).square().mean()
        else:
            total = objective.mismatch(model(estimates), wanted)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(total)
        optimiser.step()
        schedule.step()
    return inverse.requires_grad_(False)
