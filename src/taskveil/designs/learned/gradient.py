"""Learned designs for tasks that are models: ε-LDP for every input, all budgets and seeds in one batched program.

Device   φ = s · clip(g(x), −1, 1) with a light g (linear plus one hidden layer) and shares s on the simplex: Δ₁ = 2
         whatever arrives; the report is φ + Laplace(2/ε).
Stage 1  Encoder, shares and a small head (report → answer) minimise E[loss(head(report), y)] with fresh noise in every
         step; Δ₁ is fixed by construction, so scaling φ cannot cheat. The model is not evaluated: this costs the same
         for any task. Cross-validation folds ride along as replicas; they choose the latent dimension and when to stop.
Stage 2  `inverse`: the decoder is x̂ = A(head(report)) with f(A(t)) = t, learned through the frozen model.

The baselines use the same head and inverse on frozen latents: the record itself (task-agnostic), or an encoder trained
without noise (privacy-agnostic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.progress import track
from torch import Tensor, nn

from taskveil.designs.learned.batches import Records
from taskveil.designs.learned.inverse import Inverse, fit_inverse
from taskveil.designs.learned.objective import Objective
from taskveil.designs.learned.replicas import Networks, Replicas, keep, snapshot, standard_laplace

_NUMBERS_AT_ONCE = 2**25


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How stage 1 learns. None of it touches the guarantee."""

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

    @classmethod
    def for_size(cls, records: int) -> Settings:
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
        raw: Tensor = self.linear(u) + self.hidden(u)
        return raw

    def shares(self, mask: Tensor) -> Tensor:
        return (self.share + mask.log()).softmax(-1)


class Head(nn.Module):
    """R small networks report → answer, starting from the best constant: (R, B, Z) → (R, B, outputs)."""

    def __init__(self, replicas: Replicas, latents: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.net = Networks([latents, hidden, outputs], replicas.seed, activation=torch.tanh, salt=3)


@dataclass(eq=False)
class Reports:
    """Where reports come from while learning: an encoder in training, or latents that are already fixed.

    `noise` (R, 1, 1) is the Laplace scale, `unit` (R, 1, Z) brings reports to unit size for the head, `fixed` holds
    latents (N, Z) for all replicas alike or (N, R, Z).
    """

    u: Records
    replicas: Replicas
    noise: Tensor
    unit: Tensor
    encoder: LightEncoder | None = None
    clipped: bool = True
    fixed: Records | None = None

    def latents(self, rows: Tensor) -> Tensor:
        if self.encoder is None:
            if self.fixed is None:
                raise ValueError("reports need an encoder or fixed latents.")
            latents = self.fixed[rows]
            return latents.expand(len(self.replicas), -1, -1) if latents.dim() == 2 else latents.transpose(0, 1)
        raw: Tensor = self.encoder(self.u[rows])
        mask = self.replicas.mask
        if not self.clipped:
            return raw * mask
        return self.encoder.shares(mask) * nn.functional.hardtanh(raw)

    def draw(self, rows: Tensor, generator: torch.Generator, draws: int = 1) -> Tensor:
        """(B,) record numbers → reports (R, draws · B, Z), draw by draw."""
        phi = self.latents(rows).repeat(1, draws, 1)
        return phi + self.noise * standard_laplace(phi.shape, generator)


@dataclass(eq=False)
class Answers:
    """Stage 1's result: report → answer for every replica, in the order (ε, seed), and what was seen on the way."""

    reports: Reports
    head: Head
    objective: Objective
    held_out: Tensor

    def of(self, reports: Tensor) -> Tensor:
        return answer(self.head, reports, self.reports.unit, self.objective)


def answer(head: Head, reports: Tensor, unit: Tensor, objective: Objective) -> Tensor:
    """The head's answers, centred on the best constant."""
    answers: Tensor = objective.centre + objective.spread * head.net(reports * unit)
    return answers


def learn(
    source: Reports,
    objective: Objective,
    cells: int,
    dims: int,
    held: Tensor,
    settings: Settings,
    *,
    seed: int,
    progress: bool,
    title: str,
) -> Answers:
    """Train encoder (where there is one) and head of all replicas; keep, for each of `cells`, the best of `dims`
    dimensions at its best step, judged on held-out records. `held` (R, N) marks them; the last replica of every
    group of folds trains on everything and is the one kept."""
    c, device, count = settings, source.u.device, len(source.u)
    replicas = source.replicas
    head = Head(replicas, source.unit.shape[-1], c.head_hidden, len(objective.centre))
    modules = nn.ModuleList([head] if source.encoder is None else [source.encoder, head])
    decayed = [p for name, p in modules.named_parameters() if "weights" in name]
    others = [p for name, p in modules.named_parameters() if "weights" not in name]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": c.weight_decay}, {"params": others, "weight_decay": 0.0}],
        c.rate,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, c.rate, c.steps, pct_start=0.1)
    generator = torch.Generator(device).manual_seed(seed)
    tags = len(replicas) // (cells * dims)
    final = torch.arange(tags - 1, len(replicas), tags, device=device)
    curve: list[Tensor] = []
    kept: list[list[Tensor]] = []
    queue: list[Tensor] = []
    for step in track(range(1, c.steps + 1), title, disable=not progress):
        if not queue:
            order = torch.randperm(count, generator=generator, device=device)
            queue = [b for b in torch.split(order, c.batch) if len(b) == c.batch or count < c.batch]
        rows = queue.pop()
        w = (~held[:, rows]).float()
        losses = objective.costs(answer(head, source.draw(rows, generator), source.unit, objective), rows)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(((losses * w).sum(1) / w.sum(1).clamp_min(1)).sum())
        optimiser.step()
        schedule.step()
        if step % max(1, c.steps // c.checkpoints) == 0:
            curve.append(_held_out(source, head, objective, held, c.held_out_draws))
            kept.append(snapshot(modules, final))
    shape = (len(curve), cells, dims, tags)
    sizes = held.float().sum(1).view(shape[1:])[..., :-1].sum(-1)
    pooled = torch.stack(curve).view(shape)[..., :-1].sum(-1) / sizes
    best, at = pooled.min(0)
    z = best.argmin(1)
    pick = torch.arange(cells, device=device) * dims + z
    keep(modules, kept, at.gather(1, z[:, None])[:, 0], pick)
    chosen = final[pick]
    source = replace(
        source,
        replicas=replicas.take(chosen),
        noise=source.noise[chosen],
        unit=source.unit[chosen],
        fixed=None if source.fixed is None else _of_replicas(source.fixed, chosen),
    )
    return Answers(source, head, objective, best.amin(1))


def _of_replicas(fixed: Records, chosen: Tensor) -> Records:
    """The latents of some replicas."""
    if fixed.values.dim() == 2:
        return fixed
    return Records(fixed.values[:, chosen.to(fixed.values.device)], fixed.device)


@torch.no_grad()
def _held_out(source: Reports, head: Head, objective: Objective, held: Tensor, draws: int) -> Tensor:
    """(R,): loss summed over each replica's held-out records, mean over draws; the same noise at every checkpoint."""
    generator = torch.Generator(held.device).manual_seed(12345)
    total = torch.zeros(len(held), device=held.device)
    at_once = max(1, _NUMBERS_AT_ONCE // (len(held) * draws * max(64, source.unit.shape[-1])))
    for rows in torch.split(held.any(0).nonzero().squeeze(1), at_once):
        reports = source.draw(rows, generator, draws)
        losses = objective.costs(answer(head, reports, source.unit, objective), rows.repeat(draws))
        total += (losses.view(len(held), draws, -1).mean(1) * held[:, rows]).sum(1)
    return total


def folds(seeds: Sequence[int], tags: int, count: int, device: Any) -> Tensor:
    """(len(seeds), N): the records replica r must not learn from, for replicas that come as (fold 0, …, none)."""
    split = max(tags - 1, 5) if count >= 10 else tags - 1
    held = torch.zeros(len(seeds), count, dtype=torch.bool)
    for place, seed in enumerate(seeds):
        if place % tags < tags - 1:
            order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
            held[place] = order % split == place % tags
    return held.to(device)


def invert(answers: Answers, X: Records, *, seed: int, progress: bool = False, **options: Any) -> Inverse:
    """Stage 2 for what the heads of all replicas ask for."""
    generator = torch.Generator(X.device).manual_seed(seed)
    replicas = len(answers.reports.replicas)

    def asked(size: int) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            rows = torch.randint(len(X), (max(size // replicas, 1) + 1,), generator=generator, device=X.device)
            wanted = answers.of(answers.reports.draw(rows, generator)).flatten(0, 1)
            pick = torch.randperm(len(wanted), generator=generator, device=X.device)[:size]
            return wanted[pick], X[rows].repeat(replicas, 1)[pick]

    return fit_inverse(asked, X, answers.objective, seed=seed, progress=progress, **options)
