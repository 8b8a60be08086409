"""Losses of classifiers: cross-entropy, and zero-one loss for designs for accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.tasks.costs.labels import Answering, class_numbers

if TYPE_CHECKING:
    from torch import Tensor

LEAST_PROBABILITY = 1e-9
"""The least that an answer may give to a class."""

_SCORE_STEP = 2.0**-20  # of a logarithm, in whole-number scores


@dataclass(frozen=True)
class CrossEntropy:
    """−Σ truth · ln softmax(outputs): the truth gives every class its probability."""

    name: ClassVar[str] = "cross_entropy"
    logits: ClassVar[bool | None] = True
    needs_labels: ClassVar[bool] = False

    def labels(self, values: Array, model: Answering) -> Integers:
        """Class names or numbers of N records → class numbers (N,), or TaskError."""
        return class_numbers(values, model, self.name)

    def truth(self, labels: Array, model: Answering) -> Floats:
        """Class numbers (N,) → all probability on that class (N, classes)."""
        return np.asarray(np.eye(model.outputs)[labels])

    def own_truth(self, outputs: Floats) -> Floats:
        """Logits → class probabilities: what the model itself says, where there are no labels."""
        return self.answers(outputs)

    def answers(self, outputs: Floats) -> Floats:
        """Logits → class probabilities."""
        weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def outputs(self, answers: Floats) -> Floats:
        """Class probabilities → logits that say so."""
        return np.asarray(np.log(np.maximum(answers, LEAST_PROBABILITY)))

    def losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(N, m), (N, m) → (N,)."""
        return np.asarray(-(truth * _log_softmax(outputs)).sum(axis=1))

    def pairwise_losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(k, m), (N, m) → (N, k): every answer for every record."""
        return np.asarray(-truth @ _log_softmax(outputs).T)

    def best_constant(self, truth: Floats, outputs: Callable[[], Floats]) -> Floats:  # noqa: ARG002 - a formula
        """The logits (m,) of least mean loss: of the classes' shares, counting one more record that may be of any class
        alike, so that none is impossible."""
        shares = truth.mean(axis=0, keepdims=True) if len(truth) else np.full((1, truth.shape[1]), 1.0 / truth.shape[1])
        return np.asarray(np.log(self.cautious(shares, truth)[0]))

    # What codebooks ask.

    def linear_form(self, truth: Floats, outputs: Callable[[], Floats]) -> tuple[CrossEntropy, Floats]:  # noqa: ARG002
        """A loss that is linear in its truth, and that truth (N, S): this is one."""
        return self, truth

    @property
    def learned_by(self) -> CrossEntropy:
        """The loss that predictors of the truth are trained on."""
        return self

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss."""
        return np.asarray(-truth @ np.log(np.maximum(answers, LEAST_PROBABILITY)).T)

    def different(self, outputs: int) -> float:  # noqa: ARG002 - any number of them
        """How many answers there are that differ in what they cost: no end of them."""
        return math.inf

    def labels_apart(self, count: int) -> Floats | None:
        """(count, count): one answer for each class, favoured by whoever predicts that class to be the likeliest."""
        return np.asarray(np.full((count, count), 0.1 / count) + 0.9 * np.eye(count))

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return np.asarray(-(truth * np.log(np.maximum(answers, LEAST_PROBABILITY))).sum(axis=1))

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the truth itself: its entropy."""
        return np.asarray(-(truth * np.log(np.maximum(truth, 1e-300))).sum(axis=1))

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): nothing, the score is the loss."""
        return np.zeros(len(truth))

    def softened(self, answers: Floats) -> Floats:
        """Answers that are finite in cost whatever the truth: drawn a tenth of the way to their mean."""
        return np.asarray(0.9 * answers + 0.1 * answers.mean(axis=0))

    def cautious(self, answers: Floats, truth: Floats) -> Floats:
        """Answers (K, S), mean truths of some of the volunteers, that leave no class impossible: one volunteer more, of
        any class alike, could have met any of the answers, so every one of them counts its share of it."""
        count, classes = truth.shape
        return np.asarray((count * answers + 1.0 / classes) / (count + 1.0))

    def latent_range(self, predicted: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest prediction (S,) a device may make: any probability."""
        return np.zeros(predicted.shape[1]), np.ones(predicted.shape[1])

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:  # noqa: ARG002 - no offsets
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k + offsets falls as the score of a prediction
        k · step rises."""
        vectors = np.rint(np.log(np.maximum(answers, LEAST_PROBABILITY)) / _SCORE_STEP).astype(np.int64)
        return vectors, np.zeros(len(answers), dtype=np.int64)

    # What training asks.

    def standard(self, truth: Floats) -> tuple[Floats, Floats]:
        """Shift and scale (S,): networks learn outputs · scale + shift. They start at the constant prediction."""
        return self.best_constant(truth, lambda: truth), np.ones(truth.shape[1])

    def slopes(self, outputs: Array, truth: Array) -> Array:
        """The derivative of each loss by its outputs: (…, m), (…, m) → (…, m)."""
        weights = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray(weights * truth.sum(axis=-1, keepdims=True) - truth)

    # The same for tensors.

    def tensor_answers(self, outputs: Tensor) -> Tensor:
        """`answers` of tensors."""
        return outputs.softmax(-1)

    def tensor_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` of tensors: (…, m), (…, m) → (…)."""
        return -(truth * outputs.log_softmax(-1)).sum(-1)

    def replica_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` in every replica: (R, B, m), (B, m) → (R, B), without a second array as large as the outputs."""
        return outputs.logsumexp(-1) * truth.sum(-1) - (outputs * truth).sum(-1)

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:  # noqa: ARG002 - the loss decides
        """The mean loss of giving `outputs` (B, m) where the outputs `wanted` (B, m) were best, above theirs."""
        return (wanted.softmax(-1) * (wanted.log_softmax(-1) - outputs.log_softmax(-1))).sum(-1).mean()

    def frame(self, truth: Floats, outputs: Callable[[], Floats]) -> tuple[Floats, Floats, Floats]:
        """Where learned outputs start (m,), how far they move (m,), and the matrix (m, m) that takes out what the loss
        does not see: a shift of all logits."""
        count = truth.shape[1]
        return self.best_constant(truth, outputs), np.ones(count), np.eye(count) - 1.0 / count


def _log_softmax(outputs: Floats) -> Floats:
    """Logits (N, classes) → log-probabilities; scipy's, which this module does without to stay light."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class ZeroOne(CrossEntropy):
    """The probability that the class of the highest output is wrong; of equal outputs the first counts.

    Outputs, labels and answers are those of cross-entropy, and it is learned by cross-entropy: whoever knows the
    classes' probabilities knows the most probable one, and a count of errors has no gradient. Without labels the truth
    is the class that the model itself gives.
    """

    name: ClassVar[str] = "zero_one"

    @property
    def learned_by(self) -> CrossEntropy:
        """The loss that predictors of the truth are trained on."""
        return CrossEntropy()

    def own_truth(self, outputs: Floats) -> Floats:
        """Logits (N, m) → all probability on the class of the highest."""
        return np.asarray(np.eye(outputs.shape[1])[outputs.argmax(axis=1)])

    def losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(N, m), (N, m) → (N,)."""
        given = np.take_along_axis(truth, outputs.argmax(axis=1)[:, None], axis=1)[:, 0]
        return np.asarray(truth.sum(axis=1) - given)

    def pairwise_losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(k, m), (N, m) → (N, k): every answer for every record."""
        return self.scores(outputs, truth)

    # What codebooks ask.

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss, which only the answers' highest classes matter
        to."""
        return np.asarray(truth.sum(axis=1)[:, None] - truth[:, answers.argmax(axis=1)])

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return self.losses(answers, truth)

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the most probable class."""
        return np.asarray(truth.sum(axis=1) - truth.max(axis=1))

    def different(self, outputs: int) -> float:
        """How many answers there are that differ in what they cost: one for each class."""
        return outputs

    def softened(self, answers: Floats) -> Floats:
        """Answers that are finite in cost whatever the truth: all are, and softer ones might name another class."""
        return answers

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:  # noqa: ARG002 - any step will do
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k is the predicted probability of the answer's
        class."""
        vectors = np.eye(answers.shape[1], dtype=np.int64)[answers.argmax(axis=1)]
        return vectors, np.zeros(len(answers), dtype=np.int64)
