"""From learned networks to veils: integer encoder, enforced region, calibrated noise, a decoder in plain numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from taskveil.arrays import Floats
from taskveil.client.latent_encoders import Encoder, HiddenEncoder
from taskveil.client.mechanisms import Gaussian, Laplace
from taskveil.designs.domain import box_region
from taskveil.designs.gaussian import in_unit_ball
from taskveil.designs.laplace.gradient import (
    BallReports,
    Inverse,
    LearnedAnswers,
    LearningSettings,
    LightEncoder,
    Objective,
    Reports,
    check_device,
    invert,
    learn,
)
from taskveil.designs.laplace.replicas import Grid, Records, Replicas
from taskveil.designs.problem import Problem
from taskveil.designs.selection import one_thread
from taskveil.veil import Veil
from taskveil.veil.decoders import Layer, NetworkDecoder

Cells = tuple[tuple[float, int], ...]
"""Every (ε, seed)."""
Parts = list[tuple[Encoder, Laplace | Gaussian]]
"""Encoder and mechanism of every cell."""
Learning = Callable[["TrainingSet", Cells, int | None], tuple[Parts, LearnedAnswers]]
"""Learns the parts and the answers of all cells, with so many latents at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSet:
    """The volunteers' records as training sees them: u = (x − mean) · gain, in single precision on `device`."""

    problem: Problem
    mean: Floats
    gain: Floats
    u: Records
    x: Records
    objective: Objective
    settings: LearningSettings

    @classmethod
    def of(cls, problem: Problem, settings: LearningSettings) -> TrainingSet:
        """The training set of a problem; errors in the model or the labels are raised here, before learning starts."""
        X, task, device = problem.X, problem.task, problem.torch_device
        check_device(device)
        task.check_width(X.shape[1])
        task.predict(X)  # raises where the model answers NaN
        objective = Objective.of(task, X, problem.y, device)
        _ = objective.differentiable
        box = problem.domain.bounding_box
        extent = box.high - box.low
        spread = np.divide(X.std(axis=0), extent, out=np.zeros_like(extent), where=extent > 0)
        # Attributes with little spread within their range are scaled up at most ten times as much as the widest one.
        scale = extent * np.maximum(spread, 0.1 * float(spread.max()))
        gain = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        mean = X.mean(axis=0)
        return cls(
            problem=problem,
            mean=mean,
            gain=gain,
            u=Records.of((X - mean) * gain, device),
            x=Records.of(X, device),
            objective=objective,
            settings=settings,
        )

    @property
    def device(self) -> str:
        """Where torch computes."""
        return str(self.u.device)

    def learn(self, reports: Reports, grid: Grid, *, seed: int, title: str) -> LearnedAnswers:
        """Stage 1 on these records."""
        return learn(
            reports, self.objective, grid, self.settings, seed=seed, progress=self.problem.progress, title=title
        )


@one_thread()
def design_models(
    problem: Problem,
    *,
    epsilons: Sequence[float],
    seeds: Sequence[int],
    settings: LearningSettings | None = None,
    method: str = "task_aware",
    parts: Learning | None = None,
    stages: int = 1,
) -> dict[tuple[float, int], Veil]:
    """A veil for every (ε, seed), all learned at once.

    Args:
        problem: the volunteers, a task with gradients, the torch device, and the progress bar.
        epsilons: budgets of one report.
        seeds: of the search for designs.
        settings: how to learn; by default by the number of volunteers.
        method: the name that the veils bear.
        parts: how encoders, noise and answers are learned; by default together, with the noise that they will meet.
        stages: how many trainings that takes.
    """
    data = TrainingSet.of(problem, settings or LearningSettings.for_size(len(problem.X)))
    cells = tuple((epsilon, seed) for epsilon in epsilons for seed in seeds)
    problem.progress.begin(
        "learning", stages * data.settings.steps + data.settings.warm_up + data.settings.inverse_steps
    )
    made, answers = (parts or _task_aware)(data, cells, problem.on_device.latent_dim)
    inverse = invert(
        answers,
        data.x,
        seed=seeds[0],
        progress=problem.progress,
        warm_up=data.settings.warm_up,
        steps=data.settings.inverse_steps,
    )
    decoders = [_decoder(answers, inverse, place, made[place][0].latent_dim) for place in range(len(cells))]
    return {
        cell: Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=method)
        for cell, (encoder, mechanism), decoder in zip(cells, made, decoders, strict=True)
    }


def _task_aware(data: TrainingSet, cells: Cells, latent_dim: int | None) -> tuple[Parts, LearnedAnswers]:
    """Encoder, shares of the budget and head learned together, with the noise they will meet."""
    grid, replicas, encoder = _in_training(data, cells, latent_dim)
    noise = 2 / replicas.epsilon
    gain = (replicas.latent_dim.float() ** -2 + 2 * noise**2).rsqrt()[:, None, None] * replicas.mask
    reports = Reports(u=data.u, replicas=replicas, noise=noise[:, None, None], gain=gain, encoder=encoder)
    answers = data.learn(reports, grid, seed=cells[0][1], title="learning encoders")
    shares = encoder.shares(answers.reports.replicas.mask)
    parts: Parts = []
    for place, (epsilon, _) in enumerate(cells):
        count = int(answers.reports.replicas.latent_dim[place])
        share = _numbers(shares[place, 0, :count])
        share = share / share.sum()
        mechanism = Laplace.calibrated(region=box_region(-share, share), epsilon=epsilon)
        parts.append((hidden_encoder(data, encoder, place, share), mechanism))
    return parts, answers


def with_gaussian_noise(data: TrainingSet, cells: Cells, latent_dim: int | None) -> tuple[Parts, LearnedAnswers]:
    """Encoder and head learned together, with Gaussian noise for latents in a ball and the problem's δ."""
    delta = data.problem.delta
    grid, replicas, encoder = _in_training(data, cells, latent_dim)
    variances = [in_unit_ball(1, epsilon, delta).noise_variance for epsilon, _ in cells]
    noise = grid.of_cells(torch.tensor(variances, dtype=torch.float32, device=data.device).sqrt())
    gain = (1 / replicas.latent_dim + noise**2).rsqrt()[:, None, None] * replicas.mask
    reports = BallReports(u=data.u, replicas=replicas, noise=noise[:, None, None], gain=gain, encoder=encoder)
    answers = data.learn(reports, grid, seed=cells[0][1], title="learning encoders")
    counts = answers.reports.replicas.latent_dim.tolist()
    parts: Parts = [
        (hidden_encoder(data, encoder, place, np.ones(count)), in_unit_ball(count, epsilon, delta))
        for place, (count, (epsilon, _)) in enumerate(zip(counts, cells, strict=True))
    ]
    return parts, answers


def _in_training(data: TrainingSet, cells: Cells, latent_dim: int | None) -> tuple[Grid, Replicas, LightEncoder]:
    """What is trained for all cells: every number of latents that is tried, at most `latent_dim`."""
    width, settings = data.problem.X.shape[1], data.settings
    most = min(width, latent_dim or width)
    dims = sorted({min(d, most) for d in settings.latent_dims})
    grid = Grid(cells=cells, latent_dims=tuple(dims), folds=settings.folds)
    replicas = grid.replicas(data.device)
    return grid, replicas, LightEncoder(width, replicas, settings.encoder_hidden)


def _numbers(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().cpu(), dtype=np.float64)


def hidden_encoder(
    data: TrainingSet, encoder: LightEncoder, place: int, share: Floats, *, center: bool = False
) -> HiddenEncoder:
    """φ = share · g(x), with the scaling of the inputs folded into the weights."""
    count = len(share)
    first, second = (_numbers(w[place]) for w in encoder.hidden.weights)
    first_bias, second_bias = (_numbers(b[place, 0]) for b in encoder.hidden.biases)
    skip, skip_bias = _numbers(encoder.linear.weights[0][place]), _numbers(encoder.linear.biases[0][place, 0])
    first = data.gain[:, None] * first
    skip = data.gain[:, None] * skip[:, :count] * share
    box = data.problem.domain.bounding_box

    def built(offset: Floats) -> HiddenEncoder:
        return HiddenEncoder.of(
            low=box.low,
            high=box.high,
            hidden_weights=first.T,
            hidden_offset=first_bias - data.mean @ first,
            weights=(second[:, :count] * share).T,
            offset=offset,
            skip=skip.T,
        )

    offset = share * (second_bias + skip_bias)[:count] - data.mean @ skip
    found = built(offset)
    return built(offset - found(data.problem.X).mean(axis=0)) if center else found


def _decoder(answers: LearnedAnswers, inverse: Inverse, place: int, latents: int) -> NetworkDecoder:
    """Head and inverse as one network; the affine maps between them merge into one layer."""
    net, objective = answers.head, answers.objective
    gain = _numbers(answers.reports.gain[place, 0, :latents])
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
            Layer(weights=(gain[:, None] * first[:latents]).T, offset=first_bias, activation="tanh"),
            Layer(
                weights=weights[0] @ answer_weights.T, offset=weights[0] @ answer_bias + biases[0], activation="relu"
            ),
            Layer(weights=weights[1], offset=biases[1], activation="relu"),
            Layer(weights=reach[:, None] * weights[2], offset=middle + reach * biases[2], activation="none"),
        )
    )
