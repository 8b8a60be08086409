"""What codebooks ask of a loss: to be linear in the truth, and to say what follows from that."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from taskveil.arrays import Floats, Integers
from taskveil.tasks.costs.cross_entropy import CrossEntropy
from taskveil.tasks.costs.squared_error import SquaredError

Learnable = SquaredError | CrossEntropy
"""What predictors are trained on: losses with gradients whose best answer is the mean truth."""


@runtime_checkable
class LinearInTruth(Protocol):
    """loss = score(answer, truth) + left_out(truth), with a score linear in the truth (N, S).

    Answers (K, S) are written as mean truths. So the best answer to a report is the mean truth given the report, and a
    device needs to know nothing of its record but the expected truth.
    """

    @property
    def learned_by(self) -> Learnable:
        """The loss that predictors of the truth are trained on."""
        ...

    def outputs(self, answers: Floats) -> Floats:
        """Answers (K, S) → the model's outputs (K, m) that say so."""
        ...

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss up to a term of the truth alone."""
        ...

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        ...

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the truth itself."""
        ...

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the term of the truth alone."""
        ...

    def different(self, outputs: int) -> float:
        """How many answers there are that differ in what they cost, for a truth of so many `outputs`."""
        ...

    def labels_apart(self, count: int) -> Floats | None:
        """(count, count): one answer for each class; None where there are no classes to tell apart."""
        ...

    def softened(self, answers: Floats) -> Floats:
        """Answers that are finite in cost whatever the truth."""
        ...

    def cautious(self, answers: Floats, truth: Floats) -> Floats:
        """Answers (K, S) that cost little whatever the truth, also where that of the volunteers (N, S) lacks some."""
        ...

    def latent_range(self, predicted: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest prediction (S,) a device may make, given those of volunteers (N, S)."""
        ...

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k + offsets falls as the score of a prediction
        k · step rises."""
        ...
