"""Learned designs for tasks that are models: private for every input, all budgets and seeds in one batched program.

Device   φ = s · clip(g(x), −1, 1) with a light g (linear plus one hidden layer) and shares s on the simplex: Δ₁ = 2
         for every input; the report is φ + Laplace(2/ε). With a δ, φ = g(x)/max(1, ‖g(x)‖) lies in a ball with
         Δ₂ = 2, all latents have the same share, and the noise is Gaussian.
Stage 1  Encoder, shares and a small head (report → answer) minimise E[loss(head(report), y)] with fresh noise in every
         step. The diameter is fixed by construction, so scaling φ gains nothing. The model is not evaluated: this costs
         the same for any task. Cross-validation folds are extra replicas; they choose the latent dimension and when to
         stop.
Stage 2  The decoder is x̂ = A(head(report)) with f(A(t)) = t, learned through the frozen model. One inverse A serves all
         budgets and seeds, because it depends on the task alone. So the model is evaluated on one mini-batch per step,
         however many designs there are.

The baselines of `peers/` use the same head and inverse on frozen latents.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.arrays import Floats
from taskveil.designs.laplace.replicas import Grid, Networks, Records, Replicas, keep, snapshot, standard_laplace
from taskveil.errors import TaskError
from taskveil.progress import SILENT, Progress
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
    """Returns if torch has this `device` here; otherwise a TaskError."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise TaskError(f'torch_device must be "cpu" or "cuda", got {device!r}.') from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise TaskError(
            'torch_device="cuda" was asked for, but torch finds no CUDA device here: use torch_device="cpu".'
        )
    if kind not in ("cpu", "cuda"):
        raise TaskError(f'torch_device must be "cpu" or "cuda", got {device!r}.')


def _tensor(values: Floats, device: str) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32, device=device)


def _on_device(task: Task, device: str) -> nn.Module | None:
    module = side_by_side([part.torch_module for part, _, _ in task.parted()])
    if module is None:
        return None
    where = module_device(module)
    if where.type not in ("cpu", torch.device(device).type):
        raise TaskError(
            f'the model is on {where}, the design on {device}: use model.to("{device}") or torch_device="{where.type}".'
        )
    return copy.deepcopy(module).to(device=device, dtype=torch.float32)


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
    steps: int = 400,
    warm_up: int = 200,
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


_NUMBERS_AT_ONCE = 2**25  # in memory while held-out losses are computed


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """How designs are learned. None of it touches the guarantee."""

    encoder_hidden: int = 16
    head_hidden: int = 16
    steps: int = 400
    batch: int = 128
    rate: float = 0.01
    weight_decay: float = 1.0
    checkpoints: int = 10
    folds: int = 5
    held_out_draws: int = 16
    latent_dims: tuple[int, ...] = (1, 2, 3)
    warm_up: int = 200
    """Steps of least squares before stage 2 learns through the model."""
    inverse_steps: int = 400
    """Steps of stage 2 through the model."""

    @classmethod
    def for_size(cls, records: int) -> LearningSettings:
        """More records carry a larger encoder and more steps, and need one held-out fifth instead of five folds."""
        if records < 2000:
            return cls(folds=max(2, min(5, records // 2)))
        return cls(encoder_hidden=64, head_hidden=32, steps=1000, batch=256, folds=1, latent_dims=(2, 3, 5, 8))


class LightEncoder(nn.Module):
    """R maps u → linear(u) + one hidden ReLU layer(u), (B, n) → (R, B, Z), with their shares of the budget."""

    def __init__(self, width: int, replicas: Replicas, hidden: int) -> None:
        super().__init__()
        self.linear = Networks([width, replicas.width], replicas.seed, salt=1)
        self.hidden = Networks([width, hidden, replicas.width], replicas.seed, activation=torch.relu, salt=2)
        self.share = nn.Parameter(torch.zeros(len(replicas), 1, replicas.width, device=replicas.epsilon.device))

    def forward(self, u: Tensor) -> Tensor:
        """(B, n) → (R, B, Z), before clipping."""
        raw: Tensor = self.linear(u) + self.hidden(u)
        return raw

    def shares(self, mask: Tensor) -> Tensor:
        """(R, 1, Z): the share of the budget of every latent; zero for padding."""
        return (self.share + mask.log()).softmax(-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reports:
    """Reports while designs learn, by an encoder in training.

    `noise` (R, 1, 1) is the scale of the noise, `gain` (R, 1, Z) brings reports to about size one for the head.
    """

    u: Records
    replicas: Replicas
    noise: Tensor
    gain: Tensor
    encoder: LightEncoder | None

    def latents(self, rows: Tensor) -> Tensor:
        """(B,) record numbers → latents (R, B, Z) without noise."""
        assert self.encoder is not None  # noqa: S101 - only reports of fixed latents have none
        return self.encoder.shares(self.replicas.mask) * nn.functional.hardtanh(self.encoder(self.u[rows]))

    def draw(self, rows: Tensor, generator: torch.Generator, draws: int = 1) -> Tensor:
        """(B,) record numbers → reports (R, draws · B, Z), draw by draw."""
        phi = self.latents(rows).repeat(1, draws, 1)
        return phi + self.noise * self.standard(phi.shape, generator)

    def standard(self, shape: Iterable[int], generator: torch.Generator) -> Tensor:
        """Draws of the noise of scale 1."""
        return standard_laplace(shape, generator)

    def take(self, chosen: Tensor) -> Reports:
        """Reports of some replicas. The caller cuts the encoder down (`replicas.keep`)."""
        return replace(self, replicas=self.replicas.take(chosen), noise=self.noise[chosen], gain=self.gain[chosen])


@dataclass(frozen=True, kw_only=True, eq=False)
class BallReports(Reports):
    """The same with latents in the ball of radius 1, and Gaussian noise."""

    def latents(self, rows: Tensor) -> Tensor:
        """(B,) record numbers → latents (R, B, Z) without noise."""
        assert self.encoder is not None  # noqa: S101 - in training
        raw = self.encoder(self.u[rows]) * self.replicas.mask
        bounded: Tensor = raw / raw.norm(dim=-1, keepdim=True).clamp_min(1.0)
        return bounded

    def standard(self, shape: Iterable[int], generator: torch.Generator) -> Tensor:
        """Draws of the noise of scale 1."""
        return torch.randn(tuple(shape), generator=generator, device=generator.device)


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedAnswers:
    """Report → answer for every replica, by R small networks: in training, and as stage 1's result, one replica a
    cell."""

    reports: Reports
    head: Networks
    objective: Objective

    def of(self, reports: Tensor) -> Tensor:
        """Reports (R, B, Z) → the heads' answers (R, B, outputs), centred on the best constant."""
        answers: Tensor = self.objective.centre + self.objective.spread * self.head(reports * self.reports.gain)
        return answers


def learn(
    reports: Reports,
    objective: Objective,
    grid: Grid,
    settings: LearningSettings,
    *,
    seed: int,
    progress: Progress,
    title: str,
) -> LearnedAnswers:
    """Train encoder (where there is one) and head of all replicas; keep, for each cell, the best latent dimension at
    its best step, judged on held-out records, as learned from everything.

    Args:
        reports: of all replicas of the grid.
        objective: what answers cost.
        grid: which replica is which.
        settings: how to learn.
        seed: of mini-batches and noise.
        progress: advanced by one with every step, under `title`.
    """
    sizes = [reports.gain.shape[-1], settings.head_hidden, len(objective.centre)]
    head = Networks(sizes, reports.replicas.seed, activation=torch.tanh, salt=3)
    training = LearnedAnswers(reports=reports, head=head, objective=objective)
    modules = nn.ModuleList([head] if reports.encoder is None else [reports.encoder, head])
    held = grid.held_out(len(reports.u), reports.u.device)
    final = grid.final(held.device)
    curve: list[Tensor] = []
    checkpoints: list[list[Tensor]] = []
    every = max(1, settings.steps // settings.checkpoints)
    for step in _steps(training, modules, held, settings, seed):
        progress.advance(title)
        if step % every == 0:
            curve.append(_held_out(training, held, settings.held_out_draws))
            checkpoints.append(snapshot(modules, final.flatten()))
    losses = grid.sum_over_folds(torch.stack(curve)) / grid.sum_over_folds(held.float().sum(1))
    least, best_step = losses.min(0)  # (cells, latent dimensions), over the checkpoints
    dim = least.argmin(1)
    cell = torch.arange(len(dim), device=dim.device)
    keep(modules, checkpoints, best_step[cell, dim], cell * final.shape[1] + dim)
    return replace(training, reports=reports.take(final[cell, dim]))


def _steps(
    training: LearnedAnswers, modules: nn.Module, held: Tensor, settings: LearningSettings, seed: int
) -> Iterator[int]:
    """Take one training step after the other on the records that are not held out (R, N); yields its number."""
    optimiser = _optimiser(modules, settings)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, settings.steps, pct_start=0.1)
    generator = torch.Generator(held.device).manual_seed(seed)
    batches = _batches(held.shape[1], settings.batch, generator)
    for step in range(1, settings.steps + 1):
        rows = next(batches)
        learned = (~held[:, rows]).float()
        losses = training.objective.costs(training.of(training.reports.draw(rows, generator)), rows)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(((losses * learned).sum(1) / learned.sum(1).clamp_min(1)).sum())
        optimiser.step()
        schedule.step()
        yield step


def _optimiser(modules: nn.Module, settings: LearningSettings) -> torch.optim.Optimizer:
    """AdamW that decays weights and nothing else."""
    decayed = [p for name, p in modules.named_parameters() if "weights" in name]
    others = [p for name, p in modules.named_parameters() if "weights" not in name]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, settings.rate, fused=True)


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Endless random mini-batches of one size, epoch after epoch; all records at once where there are fewer."""
    while True:
        order = torch.randperm(count, generator=generator, device=generator.device)
        yield from reversed([rows for rows in torch.split(order, size) if len(rows) == size or count < size])


@torch.no_grad()
def _held_out(training: LearnedAnswers, held: Tensor, draws: int) -> Tensor:
    """(R,): loss summed over each replica's held-out records, mean over draws; the same noise at every checkpoint."""
    generator = torch.Generator(held.device).manual_seed(12345)
    total = torch.zeros(len(held), device=held.device)
    width = training.reports.gain.shape[-1]
    at_once = max(1, _NUMBERS_AT_ONCE // (len(held) * draws * max(64, width)))
    for rows in torch.split(held.any(0).nonzero().squeeze(1), at_once):
        answers = training.of(training.reports.draw(rows, generator, draws))
        losses = training.objective.costs(answers, rows.repeat(draws))
        total += (losses.view(len(held), draws, -1).mean(1) * held[:, rows]).sum(1)
    return total


def invert(answers: LearnedAnswers, X: Records, *, seed: int, progress: Progress = SILENT, **options: Any) -> Inverse:
    """Stage 2: the inverse for the answers that the heads of all replicas give."""
    generator = torch.Generator(X.device).manual_seed(seed)
    replicas = len(answers.reports.replicas)

    def asked(size: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            rows = torch.randint(len(X), (max(size // replicas, 1) + 1,), generator=generator, device=X.device)
            wanted = answers.of(answers.reports.draw(rows, generator)).flatten(0, 1)
            pick = torch.randperm(len(wanted), generator=generator, device=X.device)[:size]
            return wanted[pick], X[rows].repeat(replicas, 1)[pick]

    return fit_inverse(asked, X, answers.objective, seed=seed, progress=progress, **options)
