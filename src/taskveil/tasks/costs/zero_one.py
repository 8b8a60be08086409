"""Zero-one loss: an answer is a class, right or wrong; designs for it are designs for accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.tasks.costs.cross_entropy import CrossEntropy


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
