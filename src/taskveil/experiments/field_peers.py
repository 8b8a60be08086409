"""The k-ary responses on *our* predictor: what of our lead is the predictor's, and what is the report's.

The simple methods run the user's model on the device. These peers send the same reports, the label or the quantile bin
of a prediction, but the prediction is that of an encoder of ours. They exist only in the comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.latent_encoders import Encoder
from taskveil.client.mechanisms import Response
from taskveil.designs.auto import folds
from taskveil.designs.codebooks.model import Predictor, evidence_of, predictors
from taskveil.designs.problem import Problem
from taskveil.peers.own_model import model_of
from taskveil.peers.responses import BINS, PER_BIN, given_reports

LABEL, BINNED = "label_response_ours", "binned_response_ours"
ON_OURS = (LABEL, BINNED)


def our_predictor(problem: Problem, seed: int) -> tuple[Encoder, Floats]:
    """An encoder of ours, (N, n) → (N, S), and its predictions (N, S) of the volunteers, each by a model that was
    fitted without it. Of all that may run on the device, the one of least out-of-fold loss.

    This is the only place where the comparison reads how designs make predictors.
    """
    cost, truth = problem.task.linear_form(problem.X, problem.y)
    fold, _ = folds(problem, seed)
    found = predictors(problem, evidence_of(problem, cost, truth, fold, seed), compared=True)

    def loss(each: Predictor) -> float:
        return float(cost.paired_scores(cost.softened(each.final.predicted), truth).mean())

    best = min(found, key=loss)
    return best.encoder, best.final.predicted


def measured(
    problem: Problem, epsilons: Sequence[float], X_test: Floats, y_test: Any, *, seed: int = 0
) -> Iterator[tuple[str, float, float, float | None]]:
    """(peer, ε, expected test loss, expected accuracy) of every peer that serves the task; the expectation is exact.

    Args:
        problem: the volunteers, the task, and what may run on devices.
        epsilons: the budgets.
        X_test: the records that judge (M, n).
        y_test: their labels (M,).
        seed: parts the volunteers.
    """
    task = model_of(problem)
    encoder, held_out = our_predictor(problem, seed)
    yield from responses(problem, held_out, encoder(X_test), epsilons, X_test, y_test, classes=bool(task.cost.logits))


def responses(
    problem: Problem,
    held_out: Floats,
    predicted: Floats,
    epsilons: Sequence[float],
    X_test: Floats,
    y_test: Any,
    *,
    classes: bool,
) -> Iterator[tuple[str, float, float, float | None]]:
    """The same for any predictor: out-of-fold predictions of the volunteers (N, S), and predictions of the records that
    judge (M, S), which are probabilities of `classes` or values."""

    def judged(response: Response, design: Integers, test: Integers) -> tuple[float, float | None]:
        outputs = _answers(problem, design, response)
        costs = _expected(model_of(problem).pairwise_output_losses(outputs, X_test, y_test), test, response)
        if not classes:
            return costs, None
        return costs, _expected(outputs.argmax(axis=1) == np.asarray(y_test)[:, None], test, response)

    for epsilon in epsilons:
        if classes:
            response = _response(held_out.shape[1], epsilon)
            yield LABEL, epsilon, *judged(response, held_out.argmax(axis=1), predicted.argmax(axis=1))
        if held_out.shape[1] == 1 + classes:
            size = min(_sizes(len(held_out)), key=lambda size: _design_loss(problem, held_out, size, epsilon))
            edges = _edges(held_out, size)
            yield BINNED, epsilon, *judged(_response(size, epsilon), _bin(held_out, edges), _bin(predicted, edges))


def _response(size: int, epsilon: float) -> Response:
    return Response.calibrated(size=size, favoured=1, epsilon=epsilon)


def _sizes(volunteers: int) -> Sequence[int]:
    return [bins for bins in BINS if bins * PER_BIN <= volunteers] or BINS[:1]


def _edges(predicted: Floats, size: int) -> Floats:
    """Between the quantile bins of the last output (N, S): the value, or the probability of the second class."""
    return np.quantile(predicted[:, -1], np.arange(1, size) / size)


def _bin(predicted: Floats, edges: Floats) -> Integers:
    return np.searchsorted(edges, predicted[:, -1]).astype(np.int64)


def _answers(problem: Problem, favoured: Integers, response: Response) -> Floats:
    """The answers (K, m) to the reports, in the form of the model's outputs: the mean truth given the report, by the
    exact channel, where volunteers would send `favoured` (N,) without noise."""
    task, X = model_of(problem), problem.X
    truth = task.truth(X, problem.y)
    constant = task.cost.best_constant(truth, lambda: task.predict(X))
    answers = given_reports(favoured, truth, task.cost.answers(constant[None])[0], response)
    return np.log(answers) if task.cost.logits else answers


def _design_loss(problem: Problem, held_out: Floats, size: int, epsilon: float) -> float:
    """The expected loss on the volunteers, by the predictions that the answers are made from."""
    response, favoured = _response(size, epsilon), _bin(held_out, _edges(held_out, size))
    outputs = _answers(problem, favoured, response)
    return _expected(model_of(problem).pairwise_output_losses(outputs, problem.X, problem.y), favoured, response)


def _expected(values: Any, favoured: Integers, response: Response) -> float:
    """The mean over records of the expectation over reports of values (N, K)."""
    chosen = np.take_along_axis(values, favoured[:, None], axis=1)[:, 0]
    return float((response.extra * chosen + response.base * values.sum(axis=1)).mean())
