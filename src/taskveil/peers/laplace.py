"""Laplace noise in the two places that come to mind first: on the model's prediction, and on every attribute.

`LearnedBaseline` is the published baselines' designer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.latent_encoders import LinearEncoder, NamedEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.designs.auto import LEARNING, LaplaceDesigner
from taskveil.designs.domain import box_region
from taskveil.designs.problem import Problem, Unseeded
from taskveil.errors import needs
from taskveil.peers.own_model import has_outputs, held_out_answers, model_encoder, model_of
from taskveil.tasks import ModelTask, Task, needs_unbiased
from taskveil.tasks.costs import SquaredError
from taskveil.veil import Veil
from taskveil.veil.decoders import Layer, NetworkDecoder, least_squares_decoder

TAILS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Shares of the volunteers' predictions that may be cut off at either end."""


@dataclass(frozen=True, kw_only=True)
class PredictionLaplace(Unseeded):
    """Laplace noise on the clipped prediction, answered by the best affine map of the report: it shrinks what is
    mostly noise. The clip is that of least loss for the volunteers."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None if the model predicts one number, judged by squared error."""
        if isinstance(task, ModelTask) and isinstance(task.cost, SquaredError) and has_outputs(task, 1):
            return None
        return f"{self.name} adds noise to one predicted number judged by mse; this task has another answer."

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        encoder = model_encoder(problem, "prediction", 1, model_of(problem).predict)
        for seed in seeds:
            predicted = held_out_answers(problem, seed)
            for epsilon in epsilons:
                clipped = (self._clipped(problem, encoder, predicted, tail, epsilon) for tail in TAILS)
                _, veil = min(clipped, key=lambda found: found[0])
                yield epsilon, seed, veil

    def _clipped(
        self, problem: Problem, encoder: NamedEncoder, predicted: Floats, tail: float, epsilon: float
    ) -> tuple[float, Veil]:
        """The volunteers' loss of clipping at these quantiles, by predictions (N, 1), and the veil that does."""
        task, X, y = model_of(problem), problem.X, problem.y
        low, high = np.quantile(predicted, [tail, 1.0 - tail], axis=0)
        mechanism = Laplace.calibrated(region=box_region(low, high), epsilon=epsilon)
        bounded = mechanism.bound(predicted)
        answering = least_squares_decoder(bounded, task.truth(X, y), mechanism.noise_variance)
        noise = mechanism.noise_variance * float((answering.weights**2).sum())
        veil = Veil(
            encoder=encoder,
            mechanism=mechanism,
            decoder=least_squares_decoder(bounded, X, mechanism.noise_variance),
            answering=answering,
            task=task,
            method=self.name,
        )
        return float(task.output_losses(answering(bounded), X, y).mean()) + noise, veil


@dataclass(frozen=True, kw_only=True)
class AttributeLaplace(Unseeded):
    """Laplace noise on every attribute over its range, an equal share of the budget for each; what arrives is brought
    back into the range, and the model answers for it."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for each task that answers for a record."""
        return needs_unbiased(task, self.name)

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        box = problem.domain.bounding_box
        span = box.high - box.low
        # Shares of the range, from 0 to 1: each varies as much as any other, so one scale of noise parts the budget
        # evenly. What never varies costs nothing and says nothing.
        scale = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
        encoder = LinearEncoder.of(low=box.low, high=box.high, weights=np.diag(scale), offset=-scale * box.low)
        region = box_region(np.zeros(len(span)), (span > 0).astype(np.float64))
        decoder = _into_range(box.low, span)
        for epsilon in epsilons:
            mechanism = Laplace.calibrated(region=region, epsilon=epsilon)
            veil = Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=self.name)
            yield from ((epsilon, seed, veil) for seed in seeds)


class LearnedBaseline(LaplaceDesigner):
    """A baseline that is learned on fixed latents where the task is a model."""

    def learned(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> dict[tuple[float, int], Veil]:
        """A veil for every (ε, seed) of a model."""
        with needs(LEARNING, extra="torch"):
            from taskveil.peers.learned import design_baselines

        return design_baselines(problem, epsilons=epsilons, seeds=seeds, method=self.name)


def _into_range(low: Floats, span: Floats) -> NetworkDecoder:
    """From noisy shares r (N, n) of ranges that start at `low` and are `span` wide: low + span · clip(r, 0, 1), where
    clip(r, 0, 1) = relu(r) − relu(r − 1)."""
    n = len(low)
    ends = np.concatenate([np.zeros(n), -np.ones(n)])
    clip = Layer(weights=np.tile(np.eye(n), (2, 1)), offset=ends, activation="relu")
    back = Layer(weights=np.hstack([np.diag(span), -np.diag(span)]), offset=low, activation="none")
    return NetworkDecoder(layers=(clip, back))
