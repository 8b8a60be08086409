"""From learned networks to veils: integer encoder, enforced region, calibrated noise, a decoder in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from taskveil.arrays import Floats
from taskveil.client.encoders import Encoder, HiddenEncoder, LinearEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.decoders import Layer, NetworkDecoder
from taskveil.designs.domain import Domain
from taskveil.designs.laplace.build import box_region, cloud_region, image_region
from taskveil.designs.learned.batches import Records
from taskveil.designs.learned.gradient import Answers, LightEncoder, Reports, Settings, folds, invert, learn
from taskveil.designs.learned.inverse import Inverse
from taskveil.designs.learned.objective import Objective, check_device
from taskveil.designs.learned.replicas import Replicas
from taskveil.tasks import Task
from taskveil.veil import Veil

Method = Literal["task_aware", "task_agnostic", "privacy_agnostic"]

BASELINE_DIM = 3
MOST_CHECKED = 2000
"""Volunteers' records the model is tried on before learning starts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """The volunteers' records as training sees them: u = (x − mean) · gain, in single precision on `device`."""

    X: Floats
    domain: Domain
    mean: Floats
    gain: Floats
    u: Records
    x: Records
    objective: Objective
    settings: Settings
    seeds: tuple[int, ...]
    progress: bool

    @property
    def device(self) -> str:
        return str(self.u.device)


def design_models(
    X: Floats,
    task: Task,
    y: Any,
    *,
    epsilons: Sequence[float],
    seeds: Sequence[int],
    domain: Domain,
    method: Method = "task_aware",
    latent_dim: int | None = None,
    device: str = "cpu",
    progress: bool = False,
    settings: Settings | None = None,
) -> dict[tuple[float, int], Veil]:
    """A veil for every (ε, seed), all learned at once. Everything wrong with the input is said before learning."""
    check_device(device)
    task.check_width(X.shape[1])
    task.predict(X[:: max(1, len(X) // MOST_CHECKED)])  # raises where the model answers NaN
    objective = Objective.of(task, X, y, device)
    _ = objective.differentiable
    box = domain.bounding_box
    extent = box.high - box.low
    spread = np.divide(X.std(axis=0), extent, out=np.zeros_like(extent), where=extent > 0)
    # Attributes that hardly move within their range are not blown up beyond ten times the liveliest one.
    scale = extent * np.maximum(spread, 0.1 * float(spread.max()))
    gain = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    mean = X.mean(axis=0)
    problem = Problem(
        X=X,
        domain=domain,
        mean=mean,
        gain=gain,
        u=Records.of((X - mean) * gain, device),
        x=Records.of(X, device),
        objective=objective,
        settings=settings or Settings.for_size(len(X)),
        seeds=tuple(seeds),
        progress=progress,
    )
    grid = [(epsilon, seed) for epsilon in epsilons for seed in seeds]
    if method == "task_aware":
        parts, answers = _task_aware(problem, grid, latent_dim)
    else:
        encoders = _agnostic_encoders(problem, method, latent_dim)
        parts, answers = _on_frozen_latents(problem, grid, encoders)
    inverse = invert(answers, problem.x, seed=seeds[0], progress=progress)
    decoders = [_decoder(answers, inverse, place, parts[place][0].latent_dim) for place in range(len(grid))]
    return {
        cell: Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method=method)
        for cell, (encoder, mechanism), decoder in zip(grid, parts, decoders, strict=True)
    }


Parts = list[tuple[Encoder, Laplace]]


def _task_aware(p: Problem, grid: list[tuple[float, int]], latent_dim: int | None) -> tuple[Parts, Answers]:
    most = min(p.X.shape[1], latent_dim or p.X.shape[1])
    dims = sorted({min(d, most) for d in p.settings.latent_dims})
    tags = p.settings.folds + 1
    replicas = Replicas.of([(e, z, s) for e, s in grid for z in dims for _ in range(tags)], p.device)
    noise = 2 / replicas.epsilon
    unit = (replicas.latent_dim.float() ** -2 + 2 * noise**2).rsqrt()[:, None, None] * replicas.mask
    encoder = LightEncoder(p.X.shape[1], replicas, p.settings.encoder_hidden)
    source = Reports(p.u, replicas, noise[:, None, None], unit, encoder)
    held = folds(replicas.seed.tolist(), tags, len(p.X), p.device)
    answers = learn(
        source, p.objective, len(grid), len(dims), held, p.settings, seed=p.seeds[0], progress=p.progress,
        title="learning encoders",
    )  # fmt: skip
    shares = encoder.shares(answers.reports.replicas.mask)
    parts: Parts = []
    for place, (epsilon, _) in enumerate(grid):
        count = int(answers.reports.replicas.latent_dim[place])
        share = _numbers(shares[place, 0, :count])
        share = share / share.sum()
        mechanism = Laplace.calibrated(region=box_region(-share, share), epsilon=epsilon)
        parts.append((_hidden_encoder(p, encoder, place, share), mechanism))
    return parts, answers


def _agnostic_encoders(p: Problem, method: Method, latent_dim: int | None) -> dict[int, Encoder]:
    """One encoder per seed, made without a thought for the noise; latents are centred on the volunteers' mean."""
    box = p.domain.bounding_box
    if method == "task_agnostic":
        extent = box.high - box.low
        weights = np.diag(np.divide(1.0, extent, out=np.zeros_like(extent), where=extent > 0))
        linear = LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=-weights @ p.mean)
        return dict.fromkeys(p.seeds, linear)
    count = min(latent_dim or BASELINE_DIM, p.X.shape[1])
    tags = p.settings.folds + 1
    replicas = Replicas.of([(1.0, count, s) for s in p.seeds for _ in range(tags)], p.device)
    encoder = LightEncoder(p.X.shape[1], replicas, p.settings.encoder_hidden)
    silent = torch.zeros(len(replicas), 1, 1, device=p.device)
    source = Reports(p.u, replicas, silent, torch.ones(len(replicas), 1, count, device=p.device), encoder, False)
    held = folds(replicas.seed.tolist(), tags, len(p.X), p.device)
    learn(
        source, p.objective, len(p.seeds), 1, held, p.settings, seed=p.seeds[0], progress=p.progress,
        title="learning encoders without noise",
    )  # fmt: skip
    ones = np.ones(count)
    return {seed: _hidden_encoder(p, encoder, place, ones, center=True) for place, seed in enumerate(p.seeds)}


def _on_frozen_latents(
    p: Problem, grid: list[tuple[float, int]], encoders: dict[int, Encoder]
) -> tuple[Parts, Answers]:
    """Head and noise for encoders that stay as they are."""
    parts: Parts = []
    for epsilon, seed in grid:
        encoder = encoders[seed]
        if isinstance(encoder, LinearEncoder):
            weights, offset = _as_floats(encoder)
            region = image_region(p.domain, encoder, weights, offset)
        else:
            region = cloud_region(encoder(p.X))
        parts.append((encoder, Laplace.calibrated(region=region, epsilon=epsilon)))
    tags = p.settings.folds + 1
    dims = [mechanism.latent_dim for _, mechanism in parts]
    replicas = Replicas.of([(e, z, s) for (e, s), z in zip(grid, dims, strict=True) for _ in range(tags)], p.device)
    shared = len({id(encoder) for encoder, _ in parts}) == 1
    latents = [mechanism.bound(encoder(p.X)) for encoder, mechanism in (parts[:1] if shared else parts)]
    fixed = Records.of(latents[0] if shared else np.stack(latents, axis=1).repeat(tags, axis=1), p.device)
    scales = torch.tensor([m.scale * m.region.step for _, m in parts], dtype=torch.float32, device=p.device)
    noise = scales.repeat_interleave(tags)[:, None, None]
    variance = fixed.std().square().view(-1, 1, fixed.width).expand(len(replicas), -1, -1)
    unit = (variance + 2 * noise**2).clamp_min(1e-20).rsqrt()
    source = Reports(p.u, replicas, noise, unit, fixed=fixed)
    held = folds(replicas.seed.tolist(), tags, len(p.X), p.device)
    answers = learn(
        source, p.objective, len(grid), 1, held, p.settings, seed=p.seeds[0], progress=p.progress,
        title="learning decoders",
    )  # fmt: skip
    return parts, answers


def _numbers(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().cpu(), dtype=np.float64)


def _hidden_encoder(
    p: Problem, encoder: LightEncoder, place: int, share: Floats, *, center: bool = False
) -> HiddenEncoder:
    """φ = share · g(x), with the scaling of the inputs folded into the weights."""
    count = len(share)
    first, second = (_numbers(w[place]) for w in encoder.hidden.weights)
    first_bias, second_bias = (_numbers(b[place, 0]) for b in encoder.hidden.biases)
    skip, skip_bias = _numbers(encoder.linear.weights[0][place]), _numbers(encoder.linear.biases[0][place, 0])
    first = p.gain[:, None] * first
    skip = p.gain[:, None] * skip[:, :count] * share
    box = p.domain.bounding_box

    def built(offset: Floats) -> HiddenEncoder:
        return HiddenEncoder.of(
            low=box.low,
            high=box.high,
            hidden_weights=first.T,
            hidden_offset=first_bias - p.mean @ first,
            weights=(second[:, :count] * share).T,
            offset=offset,
            skip=skip.T,
        )

    offset = share * (second_bias + skip_bias)[:count] - p.mean @ skip
    found = built(offset)
    return built(offset - found(p.X).mean(axis=0)) if center else found


def _as_floats(encoder: LinearEncoder) -> tuple[Floats, Floats]:
    """The map a linear integer encoder computes, in the record's own units."""
    origin = encoder(encoder.low[None, :])[0]
    extent = encoder.high - encoder.low
    per_level = encoder.weights * encoder.step[:, None] * 2.0**20
    weights = np.divide(per_level, extent, out=np.zeros_like(per_level), where=extent > 0)
    return weights, origin - weights @ encoder.low


def _decoder(answers: Answers, inverse: Inverse, place: int, latents: int) -> NetworkDecoder:
    """Head and inverse as one network; the affine maps between them merge into one layer."""
    net, objective = answers.head.net, answers.objective
    unit = _numbers(answers.reports.unit[place, 0, :latents])
    first, second = (_numbers(w[place]) for w in net.weights)
    first_bias, second_bias = (_numbers(b[place, 0]) for b in net.biases)
    spread, centre, centring = (_numbers(t) for t in (objective.spread, objective.centre, objective.centring))
    to_inverse = centring / _numbers(inverse.spread)
    shift = -_numbers(inverse.center) / _numbers(inverse.spread)
    weights = [_numbers(layer.weight) for layer in inverse.layers]  # type: ignore[arg-type]
    biases = [_numbers(layer.bias) for layer in inverse.layers]  # type: ignore[arg-type]
    middle, reach = _numbers(inverse.middle), _numbers(inverse.reach)
    answer_weights = (second * spread) @ to_inverse
    answer_bias = (centre + spread * second_bias) @ to_inverse + shift
    return NetworkDecoder(
        layers=(
            Layer(weights=(unit[:, None] * first[:latents]).T, offset=first_bias, activation="tanh"),
            Layer(
                weights=weights[0] @ answer_weights.T, offset=weights[0] @ answer_bias + biases[0], activation="relu"
            ),
            Layer(weights=weights[1], offset=biases[1], activation="relu"),
            Layer(weights=reach[:, None] * weights[2], offset=middle + reach * biases[2], activation="none"),
        )
    )
