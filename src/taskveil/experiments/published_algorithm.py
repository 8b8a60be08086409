"""The paper's Algorithm 1 and its two baselines as published, all (ε, latent dimension, seed) in one batch.

**This is no design to use.** The noise scale is Δ₁/(√2 ε) and Δ₁ is measured on the records being evaluated, so
nothing is promised to anyone (docs/theory/corrections.md). It is kept to show that we understand the published numbers.

Algorithm 1 alternates: draw noise for all records from the current Δ₁; take some Adam steps on encoder and decoder with
that noise held fixed and an ℓ2 penalty η on the encoder (else it would outgrow the noise); recompute Δ₁; again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from taskveil.designs.laplace.gradient import Objective
from taskveil.designs.laplace.replicas import Networks, Replicas, standard_laplace
from taskveil.designs.selection import one_thread
from taskveil.designs.sensitivity import sign_vectors
from taskveil.errors import TaskError
from taskveil.progress import SILENT, Progress

PUBLISHED: tuple[str, ...] = ("task_aware", "task_agnostic", "privacy_agnostic")
"""The paper's designs."""

MOST_SIGNS = 12
"""Up to this many latents all sign vectors are tried at once; beyond, all pairs of records."""

_NUMBERS_AT_ONCE = 2**23  # inputs of the model at a time, when its answers are judged


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the paper states or leaves open. hidden: units of the one hidden layer of encoder and decoder, None for
    linear maps. penalty: η. epochs: draws of noise; steps: Adam steps for each. batch: records a step, None for all.
    quiet_steps: how long the privacy-agnostic encoder learns without noise."""

    hidden: int | None = None
    penalty: float = 0.2
    epochs: int = 2000
    steps: int = 15
    rate: float = 1e-3
    batch: int | None = None
    quiet_steps: int = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedDesign:
    """Encoders (None: the record itself) and decoders of all replicas."""

    replicas: Replicas
    encoder: Networks | None
    decoder: Networks

    def encode(self, X: Tensor) -> Tensor:
        """(B, n) → (R, B, Z)."""
        if self.encoder is None:
            return X.expand(len(self.replicas), *X.shape)
        latents: Tensor = self.encoder(X) * self.replicas.mask
        return latents

    def scale(self, latents: Tensor) -> Tensor:
        """Their Laplace scale (R, 1, 1), from the very records that are evaluated."""
        # The identity has one diameter for all replicas, and too many latents to compute it R times.
        diameters = l1_diameters(latents[:1] if self.encoder is None else latents)
        return (diameters / (math.sqrt(2.0) * self.replicas.epsilon))[:, None, None]

    @one_thread()
    @torch.no_grad()
    def losses(self, X: Tensor, objective: Objective, *, draws: int = 100, seed: int = 0) -> Tensor:
        """(draws, R): the mean loss over the records X of `objective` for each draw of the noise."""
        generator = torch.Generator(X.device).manual_seed(seed)
        rows = torch.arange(len(X), device=X.device)
        latents = self.encode(X)
        scale = self.scale(latents)
        found = []
        for _ in range(draws):
            reports = latents + scale * standard_laplace(latents.shape, generator)
            estimates = torch.split(self.decoder(reports), max(1, _NUMBERS_AT_ONCE // X.numel()))
            answers = torch.cat([apply_task(objective.differentiable, part) for part in estimates])
            found.append(objective.costs(answers, rows).mean(1) / objective.scale)
        return torch.stack(found)


@one_thread()
def train(
    X: Tensor,
    objective: Objective,
    replicas: Replicas,
    recipe: Recipe,
    *,
    method: str = "task_aware",
    seed: int = 0,
    progress: Progress = SILENT,
) -> PublishedDesign:
    """Algorithm 1 (task_aware), or the decoder alone on a frozen encoder: identity, or one learned without noise."""
    if method not in PUBLISHED:
        raise TaskError(f"the paper has no {method!r}, only {', '.join(PUBLISHED)}.")
    n, c = X.shape[1], recipe
    middle = [] if c.hidden is None else [c.hidden]
    identity = method == "task_agnostic"
    encoder = None if identity else Networks([n, *middle, replicas.width], replicas.seed, salt=1)
    decoder = Networks([n if identity else replicas.width, *middle, n], replicas.seed, salt=2)
    made = PublishedDesign(replicas=replicas, encoder=encoder, decoder=decoder)
    model = objective.differentiable
    generator = torch.Generator(X.device).manual_seed(seed)
    rows = torch.arange(len(X), device=X.device)
    encoder_parameters = [] if encoder is None else list(encoder.parameters())

    def step(optimiser: torch.optim.Optimizer, reports: Tensor, idx: Tensor, penalty: float) -> None:
        total = objective.costs(apply_task(model, decoder(reports)), idx).mean(1).sum() / objective.scale
        if penalty:
            total = total + penalty * torch.stack([p.square().sum() for p in encoder_parameters]).sum()
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(total)
        optimiser.step()

    def batches() -> list[Tensor]:
        if c.batch is None:
            return [rows] * c.steps
        return list(torch.split(torch.randperm(len(X), generator=generator, device=X.device), c.batch))

    def adam(parameters: list[torch.nn.Parameter]) -> torch.optim.Adam:
        return torch.optim.Adam(parameters, c.rate, amsgrad=True, fused=True)

    if method == "privacy_agnostic":
        optimiser, done = adam([*encoder_parameters, *decoder.parameters()]), 0
        while done < c.quiet_steps:
            for idx in batches():
                step(optimiser, made.encode(X[idx]), idx, 0.0)
                done += 1
    frozen = method != "task_aware"
    optimiser = adam([*decoder.parameters()] if frozen else [*encoder_parameters, *decoder.parameters()])
    with torch.no_grad():
        latents = made.encode(X)
        scale = made.scale(latents)
    progress.begin(f"as published: {method}", c.epochs)
    for _ in range(c.epochs):
        noise = scale * standard_laplace(latents.shape, generator)
        for idx in batches():
            part = slice(None) if c.batch is None else idx  # a slice copies nothing
            phi = latents[:, part] if frozen else made.encode(X[part])
            step(optimiser, phi + noise[:, part], idx, 0.0 if frozen else c.penalty)
        if not frozen:
            with torch.no_grad():
                latents = made.encode(X)
                scale = made.scale(latents)
    for networks in (encoder, decoder):
        if networks is not None:
            networks.requires_grad_(False)
    return made


def l1_diameters(latents: Tensor) -> Tensor:
    """max ‖a − b‖₁ over pairs of records, per replica: (R, N, Z) → (R,)."""
    if latents.shape[-1] <= MOST_SIGNS:
        signs = torch.as_tensor(sign_vectors(latents.shape[-1]), dtype=latents.dtype, device=latents.device)
        low, high = torch.aminmax(latents @ signs.T, dim=1)
        return (high - low).amax(-1)
    return torch.stack(
        [torch.stack([torch.cdist(c, p, p=1).max() for c in torch.split(p, 1024)]).max() for p in latents]
    )


def apply_task(model: nn.Module, estimates: Tensor) -> Tensor:
    """The frozen task on all replicas' estimates at once: (R, B, n) → (R, B, out)."""
    replicas, records, width = estimates.shape
    answers: Tensor = model(estimates.reshape(replicas * records, width))
    return answers.view(replicas, records, -1)
