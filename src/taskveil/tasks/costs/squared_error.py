"""Squared error: answers are values, the best of them the mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.tasks.costs.labels import Answering, finite_numbers

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SquaredError:
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
        """What the model itself says, where there are no labels."""
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

    def linear_form(self, truth: Floats, outputs: Callable[[], Floats]) -> tuple[SquaredError, Floats]:  # noqa: ARG002
        """A loss that is linear in its truth, and that truth (N, S): this is one."""
        return self, truth

    @property
    def learned_by(self) -> SquaredError:
        """The loss that predictors of the truth are trained on."""
        return self

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss up to a term of the truth alone."""
        return np.asarray(((answers**2).sum(axis=1) - 2.0 * truth @ answers.T) / answers.shape[1])

    def different(self, outputs: int) -> float:  # noqa: ARG002 - any number of them
        """How many answers there are that differ in what they cost: no end of them."""
        return math.inf

    def labels_apart(self, count: int) -> Floats | None:  # noqa: ARG002 - values have no classes
        """Values have no classes to tell apart."""
        return None

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return np.asarray((answers**2 - 2.0 * truth * answers).mean(axis=1))

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the truth itself."""
        return np.asarray(-(truth**2).mean(axis=1))

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the term of the truth alone, loss = score + left_out."""
        return np.asarray((truth**2).mean(axis=1))

    def softened(self, answers: Floats) -> Floats:
        """Answers that are finite in cost whatever the truth: all values are."""
        return answers

    def cautious(self, answers: Floats, truth: Floats) -> Floats:  # noqa: ARG002 - the truth excludes no value
        """Answers that cost little whatever the truth: no value is impossible."""
        return answers

    def latent_range(self, predicted: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest prediction (S,) a device may make: twice the volunteers' range."""
        low, high = predicted.min(axis=0), predicted.max(axis=0)
        reach = 0.5 * (high - low) + 1e-9
        return low - reach, high + reach

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

    def tensor_answers(self, outputs: Tensor) -> Tensor:
        """`answers` of tensors."""
        return outputs

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
