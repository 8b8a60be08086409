"""Losses that have a name: squared error, cross-entropy and zero-one, and the linear form that codebooks need.

Labels are checked once, as each loss wants them. Messages about labels never quote a label.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, cast

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.errors import TaskError

if TYPE_CHECKING:
    from torch import Tensor


class LinearInTruth(ABC):
    """A loss = score(answer, truth) + left_out(truth), with a score that is linear in the truth (N, S).

    Answers (K, S) are written as mean truths. So the best answer to a report is the mean truth given the report, and a
    device needs to know nothing of its record but the expected truth.
    """

    @property
    def learned_by(self) -> Learnable:
        """The loss that predictors of the truth are trained on: this one, where it has gradients."""
        return cast("Learnable", self)

    def linear_form(self, truth: Floats, outputs: Callable[[], Floats]) -> tuple[Self, Floats]:  # noqa: ARG002
        """A loss that is linear in its truth, and that truth (N, S): this is one."""
        return self, truth

    @abstractmethod
    def outputs(self, answers: Floats) -> Floats:
        """Answers (K, S) → the outputs (K, m) of a model that mean the same."""

    @abstractmethod
    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss up to a term of the truth alone."""

    @abstractmethod
    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the truth itself."""
        return self.paired_scores(truth, truth)

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the term of the truth alone; zero where the score is the loss."""
        return np.zeros(len(truth))

    def different(self, outputs: int) -> float:  # noqa: ARG002 - any number of them
        """How many answers differ in their cost, for a truth of so many `outputs`: without limit, unless said."""
        return math.inf

    def labels_apart(self, count: int) -> Floats | None:  # noqa: ARG002 - values have no classes
        """(count, count): one answer for each class; None where there are no classes."""
        return None

    def softened(self, answers: Floats) -> Floats:
        """Answers whose cost is finite for every truth: the same, where all are."""
        return answers

    def cautious(self, answers: Floats, truth: Floats) -> Floats:  # noqa: ARG002 - no answer is impossible
        """Answers (K, S) that cost little for every truth, also for truths that no volunteer (N, S) has."""
        return answers

    def latent_range(self, predicted: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest prediction (S,) that a device may make, given those of volunteers (N, S): twice their
        range."""
        low, high = predicted.min(axis=0), predicted.max(axis=0)
        reach = 0.5 * (high - low) + 1e-9
        return low - reach, high + reach

    @abstractmethod
    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k + offsets falls as the score of a prediction
        k · step rises."""


class Answering(Protocol):
    """What a loss needs to know of a model: the number of outputs, and the names of its classes in order, if any."""

    classes: Array | None

    @property
    def outputs(self) -> int:
        """How many outputs."""


def finite_numbers(values: Array, model: Answering, loss: str) -> Floats:
    """Any array of N rows → finite numbers (N, outputs), or a TaskError that names the `loss` they are for."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise TaskError(f"labels for {loss} must be numbers, got an array of {values.dtype}.") from None
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.shape[1:] != (model.outputs,) or not np.isfinite(numbers).all():
        raise TaskError(f"labels for {loss} must be finite with {model.outputs} per record, got {values.shape}.")
    return numbers


def class_numbers(values: Array, model: Answering, loss: str) -> Integers:
    """Class names or numbers of N records → class numbers (N,), or a TaskError that names the `loss` they are for."""
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise TaskError(f"{loss} needs one class per record, got labels of shape {values.shape}.")
    if model.classes is not None:
        known = np.isin(values, model.classes)
        if not known.all():
            raise TaskError(
                f"{_first(~known)} has a label that is none of the model's classes {model.classes.tolist()}: "
                "check which model and labels belong together."
            )
        order = np.argsort(model.classes)
        return np.asarray(order[np.searchsorted(model.classes, values, sorter=order)])
    if values.dtype.kind not in "iufb" or not (values == np.floor(values.astype(np.float64))).all():
        raise TaskError(f"labels for {loss} must be class numbers 0, 1, 2, …")
    outside = (values < 0) | (values >= model.outputs)
    if outside.any():
        raise TaskError(
            f"{_first(outside)} has a label outside the model's classes 0 … {model.outputs - 1}: "
            "number the classes from 0, or check which model and labels belong together."
        )
    return values.astype(np.int64)


def _first(wrong: Array) -> str:
    """The number of the first wrong record, without quoting it."""
    return f"record {int(np.flatnonzero(wrong)[0])} of {len(wrong)}"


@dataclass(frozen=True)
class SquaredError(LinearInTruth):
    """The mean over outputs of (output − truth)².

    With `one_unit` all outputs have the same unit, and networks learn those that vary most with most care; else every
    output counts by its own spread.
    """

    one_unit: bool = False

    name: ClassVar[str] = "mse"
    logits: ClassVar[bool | None] = False
    """Whether outputs must be logits (True) or values (False); None takes both."""
    needs_labels: ClassVar[bool] = False

    def labels(self, values: Array, model: Answering) -> Floats:
        """Any array of N rows → finite numbers (N, outputs), or TaskError."""
        return finite_numbers(values, model, self.name)

    def truth(self, labels: Array, model: Answering) -> Floats:  # noqa: ARG002 - labels are values already
        """Checked labels (N, outputs) are the truth."""
        return np.asarray(labels, dtype=np.float64)

    def own_truth(self, outputs: Floats) -> Floats:
        """Outputs (N, m): without labels the truth is the model's own output."""
        return outputs

    def answers(self, outputs: Floats) -> Floats:
        """Outputs are values already."""
        return outputs

    def outputs(self, answers: Floats) -> Floats:
        """Answers are outputs already."""
        return answers

    def losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(N, m), (N, m) → (N,)."""
        return np.asarray(((outputs - truth) ** 2).mean(axis=1))

    def pairwise_losses(self, outputs: Floats, truth: Floats) -> Floats:
        """(k, m), (N, m) → (N, k): every answer for every record."""
        return np.asarray(squared_distances(truth, outputs) / outputs.shape[1])

    def best_constant(self, truth: Floats, outputs: Callable[[], Floats]) -> Floats:  # noqa: ARG002 - a formula
        """The outputs (m,) of least mean loss: the mean."""
        return np.asarray(truth.mean(axis=0))

    # What codebooks ask.

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss up to a term of the truth alone."""
        return np.asarray(((answers**2).sum(axis=1) - 2.0 * truth @ answers.T) / answers.shape[1])

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return np.asarray((answers**2 - 2.0 * truth * answers).mean(axis=1))

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the term of the truth alone, loss = score + left_out."""
        return np.asarray((truth**2).mean(axis=1))

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k + offsets falls as the score of a prediction
        k · step rises."""
        points = np.rint(answers / step).astype(np.int64)
        # What is the same for all answers ranks none of them: from the middle, numbers stay small.
        middle = (points.min(axis=0) + points.max(axis=0)) // 2
        return 2 * (points - middle), -((points - middle) * (points + middle)).sum(axis=1)

    # What training asks.

    def standard(self, truth: Floats) -> tuple[Floats, Floats]:
        """Shift and scale (S,): networks learn outputs · scale + shift, so that all start alike."""
        spread = truth.std(axis=0) + 1e-9
        return truth.mean(axis=0), np.full_like(spread, np.sqrt((spread**2).mean())) if self.one_unit else spread

    def slopes(self, outputs: Array, truth: Array) -> Array:
        """The derivative of each loss by its outputs: (…, m), (…, m) → (…, m)."""
        return np.asarray((outputs - truth) * (2.0 / outputs.shape[-1]), dtype=outputs.dtype)

    # The same for tensors.

    def tensor_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` of tensors: (…, m), (…, m) → (…)."""
        return (outputs - truth).square().mean(-1)

    def replica_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` in every replica: (R, B, m), (B, m) → (R, B)."""
        return self.tensor_losses(outputs, truth)

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:  # noqa: ARG002 - the loss decides
        """The mean loss of giving `outputs` (B, m) where the outputs `wanted` (B, m) were best."""
        return (outputs - wanted).square().mean()

    def frame(self, truth: Floats, outputs: Callable[[], Floats]) -> tuple[Floats, Floats, Floats]:
        """Where learned outputs start (m,), how far they move (m,), and the matrix (m, m) that takes out what the loss
        does not see."""
        return self.best_constant(truth, outputs), positive(truth.std(axis=0)), np.eye(truth.shape[1])


def squared_distances(a: Floats, b: Floats) -> Floats:
    """‖aᵢ − bⱼ‖² for rows of a (N, m) and b (k, m) → (N, k), about a's mean: values far from zero keep their digits."""
    center = a.mean(axis=0)
    a, b = a - center, b - center
    squares = np.einsum("ij,ij->i", a, a)[:, None] + np.einsum("ij,ij->i", b, b)
    return np.asarray(np.maximum(squares - 2.0 * a @ b.T, 0.0))


def positive(spread: Floats) -> Floats:
    """How far values move, and 1 where they do not: safe to divide by."""
    return np.where(spread > 0, spread, 1.0)


LEAST_PROBABILITY = 1e-9
"""The least that an answer may give to a class."""

_SCORE_STEP = 2.0**-20  # of a logarithm, in whole-number scores


@dataclass(frozen=True)
class CrossEntropy(LinearInTruth):
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
        """Logits → class probabilities: without labels the truth is the model's own answer."""
        return self.answers(outputs)

    def answers(self, outputs: Floats) -> Floats:
        """Logits → class probabilities."""
        weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def outputs(self, answers: Floats) -> Floats:
        """Class probabilities → logits."""
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

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss."""
        return np.asarray(-truth @ np.log(np.maximum(answers, LEAST_PROBABILITY)).T)

    def labels_apart(self, count: int) -> Floats | None:
        """(count, count): one answer for each class, the best one where that class is the likeliest."""
        return np.asarray(np.full((count, count), 0.1 / count) + 0.9 * np.eye(count))

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return np.asarray(-(truth * np.log(np.maximum(answers, LEAST_PROBABILITY))).sum(axis=1))

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the truth itself: its entropy."""
        return np.asarray(-(truth * np.log(np.maximum(truth, 1e-300))).sum(axis=1))

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

    Outputs, labels and answers are those of cross-entropy. It is also learned by cross-entropy, because the classes'
    probabilities name the most probable class, and a count of errors has no gradient. Without labels the truth is the
    class that the model itself gives.
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
        return self.paired_scores(truth, truth)

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


Learnable = SquaredError | CrossEntropy
"""Losses that predictors are trained on: they have gradients, and their best answer is the mean truth."""
