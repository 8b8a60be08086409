"""The published baselines for models: a head and an inverse, learned on latents that stay as they are.

`task_agnostic`     latents are the record itself
`privacy_agnostic`  latents come from an encoder that was learned without noise

This module needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from taskveil.arrays import Floats
from taskveil.client.latent_encoders import Encoder, LinearEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import L1Region
from taskveil.designs.domain import cloud_region, image_region
from taskveil.designs.laplace.gradient import LearnedAnswers, LearningSettings, LightEncoder, Reports
from taskveil.designs.laplace.learned import Cells, Parts, TrainingSet, design_models, hidden_encoder
from taskveil.designs.laplace.replicas import Grid, Records
from taskveil.designs.problem import Problem
from taskveil.errors import TaskError
from taskveil.peers.baselines import USUAL_DIM
from taskveil.veil import Veil


def design_baselines(
    problem: Problem,
    *,
    epsilons: Sequence[float],
    seeds: Sequence[int],
    method: str,
    settings: LearningSettings | None = None,
) -> dict[tuple[float, int], Veil]:
    """A veil for every (ε, seed), by "task_agnostic" or "privacy_agnostic"; see `design_models`."""

    def parts(data: TrainingSet, cells: Cells, latent_dim: int | None) -> tuple[Parts, LearnedAnswers]:
        if method == "task_agnostic":
            return _on_frozen_latents(data, cells, dict.fromkeys(seeds, _scaled_record(data)))
        return _on_frozen_latents(data, cells, _noiseless_encoders(data, seeds, latent_dim))

    if method not in ("task_agnostic", "privacy_agnostic"):
        raise TaskError(f"no learned baseline is named {method!r}.")
    stages = 2 if method == "privacy_agnostic" else 1
    return design_models(
        problem, epsilons=epsilons, seeds=seeds, settings=settings, method=method, parts=parts, stages=stages
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Unclipped(Reports):
    """Reports of an encoder in training whose latents have no bounds."""

    def latents(self, rows: Tensor) -> Tensor:
        """(B,) record numbers → latents (R, B, Z) without noise."""
        assert self.encoder is not None  # noqa: S101 - in training
        return self.encoder(self.u[rows]) * self.replicas.mask  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fixed(Reports):
    """Reports of latents (N, Z) that are the same for all replicas, or (N, R, Z)."""

    fixed: Records

    def latents(self, rows: Tensor) -> Tensor:
        """(B,) record numbers → latents (R, B, Z) without noise."""
        latents = self.fixed[rows]
        return latents.expand(len(self.replicas), -1, -1) if latents.dim() == 2 else latents.transpose(0, 1)

    def take(self, chosen: Tensor) -> Reports:
        """Reports of some replicas."""
        fixed = self.fixed
        if fixed.values.dim() == 3:
            fixed = Records(fixed.values[:, chosen.to(fixed.values.device)], fixed.device)
        return replace(super().take(chosen), fixed=fixed)  # type: ignore[call-arg]


def _scaled_record(data: TrainingSet) -> Encoder:
    """The record itself, every attribute by its range, centred on the volunteers' mean."""
    box = data.problem.domain.bounding_box
    extent = box.high - box.low
    weights = np.diag(np.divide(1.0, extent, out=np.zeros_like(extent), where=extent > 0))
    return LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=-weights @ data.mean)


def _noiseless_encoders(data: TrainingSet, seeds: Sequence[int], latent_dim: int | None) -> dict[int, Encoder]:
    """One encoder per seed, learned without noise; latents are centred on the volunteers' mean."""
    count = min(latent_dim or USUAL_DIM, data.problem.X.shape[1])
    # Without noise the budget does not matter.
    grid = Grid(cells=tuple((1.0, seed) for seed in seeds), latent_dims=(count,), folds=data.settings.folds)
    replicas = grid.replicas(data.device)
    encoder = LightEncoder(data.problem.X.shape[1], replicas, data.settings.encoder_hidden)
    reports = _Unclipped(
        u=data.u,
        replicas=replicas,
        noise=torch.zeros(len(replicas), 1, 1, device=data.device),
        gain=torch.ones(len(replicas), 1, count, device=data.device),
        encoder=encoder,
    )
    data.learn(reports, grid, seed=seeds[0], title="learning encoders without noise")
    ones = np.ones(count)
    return {seed: hidden_encoder(data, encoder, place, ones, center=True) for place, seed in enumerate(seeds)}


def _on_frozen_latents(data: TrainingSet, cells: Cells, encoders: dict[int, Encoder]) -> tuple[Parts, LearnedAnswers]:
    """Head and noise for encoders (of each seed, all of one latent dimension) that stay as they are."""
    parts: Parts = [
        (encoders[seed], Laplace.calibrated(region=_image(data, encoders[seed]), epsilon=epsilon))
        for epsilon, seed in cells
    ]
    grid = Grid(cells=cells, latent_dims=(parts[0][1].latent_dim,), folds=data.settings.folds)
    replicas = grid.replicas(data.device)
    shared = len({id(encoder) for encoder, _ in parts}) == 1
    latents = [mechanism.bound(encoder(data.problem.X)) for encoder, mechanism in (parts[:1] if shared else parts)]
    per_replica = grid.of_cells(torch.arange(len(cells))).numpy()
    fixed = Records.of(latents[0] if shared else np.stack(latents, axis=1)[:, per_replica], data.device)
    scales = torch.tensor([m.scale * m.region.step for _, m in parts], dtype=torch.float32, device=data.device)
    noise = grid.of_cells(scales)[:, None, None]
    variance = fixed.std().square().view(-1, 1, fixed.width).expand(len(replicas), -1, -1)
    gain = (variance + 2 * noise**2).clamp_min(1e-20).rsqrt()
    reports = _Fixed(u=data.u, replicas=replicas, noise=noise, gain=gain, encoder=None, fixed=fixed)
    return parts, data.learn(reports, grid, seed=cells[0][1], title="learning decoders")


def _image(data: TrainingSet, encoder: Encoder) -> L1Region:
    """What latents are bounded to: the image of the domain, or of the volunteers where the encoder is not linear."""
    if isinstance(encoder, LinearEncoder):
        return image_region(data.problem.domain, encoder, *_as_floats(encoder))
    return cloud_region(encoder(data.problem.X))


def _as_floats(encoder: LinearEncoder) -> tuple[Floats, Floats]:
    """The map a linear integer encoder computes, in the record's own units."""
    origin = encoder(encoder.low[None, :])[0]
    extent = encoder.high - encoder.low
    per_level = encoder.weights * encoder.step[:, None] * 2.0**20
    weights = np.divide(per_level, extent, out=np.zeros_like(per_level), where=extent > 0)
    return weights, origin - weights @ encoder.low
