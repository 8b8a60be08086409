"""k-ary randomised response on what the model predicts: its label, or the quantile bin of its prediction.

The server answers with the mean truth given the report, by the exact channel and the predictions of volunteers by
models that did not see them: Bayes' rule with counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import NamedEncoder
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.designs.codebooks.alternation import LARGEST_EPSILON
from taskveil.designs.domain import box_region
from taskveil.designs.problem import Problem, Unseeded
from taskveil.peers.own_model import has_outputs, held_out_answers, model_encoder, model_of
from taskveil.tasks import ModelTask, Task
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder

BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
PER_BIN = 5
"""Volunteers that a bin has at least: fewer bins where there are not enough."""


@dataclass(frozen=True, kw_only=True)
class LabelResponse(Unseeded):
    """Randomised response on the label that the model predicts, answered with the classes' shares given the report."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None for classifiers."""
        if isinstance(task, ModelTask) and task.cost.logits:
            return None
        return f"{self.name} randomises the label that a classifier predicts; this task has none."

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        task = model_of(problem)
        classes = task.outputs
        encoder = model_encoder(problem, "class probabilities", classes, task.answers)
        region = box_region(np.zeros(classes), np.ones(classes))
        unit, none = np.eye(classes, dtype=np.int64), np.zeros(classes, dtype=np.int64)
        for seed in seeds:
            label = held_out_answers(problem, seed).argmax(axis=1)
            for epsilon in epsilons:
                stage = Stage(vectors=unit, offsets=none, shifts=0 * unit, response=_response(classes, epsilon))
                yield epsilon, seed, _veil(problem, self.name, encoder, region, stage, label)


@dataclass(frozen=True, kw_only=True)
class BinnedResponse(Unseeded):
    """Randomised response on the quantile bin of the model's prediction (of the second of two classes' probability),
    answered with the mean truth given the report; the number of bins is that of least loss for the volunteers."""

    name: str

    def why_not(self, task: Task) -> str | None:
        """Why it cannot serve the task; None if predictions are one number, to be put into bins."""
        if isinstance(task, ModelTask) and task.cost.logits is not None and has_outputs(task, 1 + task.cost.logits):
            return None
        return f"{self.name} puts one predicted number into bins: it serves models of one output, or of two classes."

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed."""
        task = model_of(problem)
        says = "probability of the second class" if task.cost.logits else "prediction"
        encoder = model_encoder(problem, says, 1, lambda X: task.answers(X)[:, -1:])
        counts = [bins for bins in BINS if bins * PER_BIN <= len(problem.X)] or BINS[:1]
        for seed in seeds:
            predicted = held_out_answers(problem, seed)[:, -1:]
            region = box_region(predicted.min(axis=0), predicted.max(axis=0))
            k = region.enforce(predicted)
            for epsilon in epsilons:
                stages = (_bins(k, _response(count, epsilon)) for count in counts)
                best = min(stages, key=lambda stage: _design_loss(problem, stage, k))
                yield epsilon, seed, _veil(problem, self.name, encoder, region, best, best.favoured(k)[:, 0])


def _response(size: int, epsilon: float) -> Response:
    return Response.calibrated(size=size, favoured=1, epsilon=min(epsilon, LARGEST_EPSILON))


def _bins(k: Integers, response: Response) -> Stage:
    """The bins between the quantiles of the latents k (N, 1): score_j − score_{j−1} = k − edge_j, so that the highest
    score is that of the bin k lies in."""
    edges = np.floor(np.quantile(k[:, 0], np.arange(1, response.size) / response.size)).astype(np.int64)
    offsets = -np.concatenate([[0], np.cumsum(edges)])
    numbers = np.arange(response.size)[:, None]
    return Stage(vectors=numbers, offsets=offsets, shifts=0 * numbers, response=response)


def given_reports(favoured: Integers, values: Floats, prior: Floats, response: Response) -> Floats:
    """The mean of the volunteers' values (N, S) given every report (K, S), by the exact channel.

    Args:
        favoured: what each volunteer would report without noise (N,).
        values: what is asked for (N, S).
        prior: counts as one volunteer more in every cell (S,), so that nothing is impossible.
        response: the channel.
    """
    members = np.eye(response.size)[favoured]
    channel = response.base + response.extra * np.eye(response.size)
    mass = channel @ (members.sum(axis=0) + 1.0)
    return np.asarray(channel @ (members.T @ values + prior) / mass[:, None])


def _outputs(problem: Problem, response: Response, favoured: Integers) -> Floats:
    """The answers (K, m) to the reports, in the form of the model's outputs: the mean truth given the report, where the
    volunteers (N,) are `favoured`."""
    task, X = model_of(problem), problem.X
    truth = task.truth(X, problem.y)
    constant = task.cost.best_constant(truth, lambda: task.predict(X))
    answers = given_reports(favoured, truth, task.cost.answers(constant[None])[0], response)
    return np.log(answers) if task.cost.logits else answers


def _design_loss(problem: Problem, stage: Stage, k: Integers) -> float:
    """The expected loss on the volunteers with latents k (N, 1), by the predictions that the answers are made from."""
    response, favoured = stage.response, stage.favoured(k)
    outputs = _outputs(problem, response, favoured[:, 0])
    losses = model_of(problem).pairwise_output_losses(outputs, problem.X, problem.y)
    told = np.take_along_axis(losses, favoured, axis=1).sum(axis=1)
    return float((response.extra * told + response.base * losses.sum(axis=1)).mean())


def _veil(
    problem: Problem, method: str, encoder: NamedEncoder, region: BoxRegion, stage: Stage, favoured: Integers
) -> Veil:
    """The veil whose answers are the mean truth, and whose estimates the mean record, given the report; the volunteers
    (N,) are `favoured`."""
    X, response = problem.X, stage.response
    sizes = np.array([response.size])
    return Veil(
        encoder=encoder,
        mechanism=Codebook(region=region, stages=(stage,)),
        decoder=CodewordDecoder(codewords=given_reports(favoured, X, X.mean(axis=0), response), sizes=sizes),
        answering=CodewordDecoder(codewords=_outputs(problem, response, favoured), sizes=sizes),
        task=problem.task,
        method=method,
    )
