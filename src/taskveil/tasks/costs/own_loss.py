"""A loss of your own, and any loss over a list of answers.

A loss of your own is not linear in its labels. But with A answers to choose from, its costs are a vector of A numbers,
and the loss of giving one of them is linear in that vector. So codebooks serve it like any other loss: the device
predicts the vector, and the best answer to a report is the one of least mean cost given the report. The loss needs no
gradient, and neither does the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.errors import TaskError
from taskveil.tasks.costs.named import Answering, LinearInTruth, SquaredError, positive

if TYPE_CHECKING:
    from torch import Tensor

ANCHORS = 48
"""Answers on the list, at most. Twice as many outputs of the model are tried."""

_LEAST_GAIN = 1e-3  # as a share of what the list saves: an answer that saves less is left out
_MAX_JUDGED = 600  # records that answers are tried on
_DRAWN = (1.0, 0.6, 0.3, 0.1, 0.0)  # distances of tried answers from the mean output: private answers are cautious
_CLEAR = (1.0, 0.6, 0.3, 0.1)  # the share of a report that depends on its record; the rest is like anybody's


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchored(LinearInTruth):
    """The cost of one of the answers `anchors` (A, m). The truth (N, A) is what each of them costs a record; answers
    (K, A) are mean costs, the least of which names an anchor."""

    anchors: Floats

    @classmethod
    def among(cls, costs: Callable[[Floats, Any], Floats], outputs: Floats, labels: Array) -> tuple[Anchored, Floats]:
        """The list that serves N records best, and their truth (N, A).

        Args:
            costs: of every answer (k, m) for every record → (N, k).
            outputs: what the model says of some records (N', m), the answers to choose from.
            labels: of N records, one row each.
        """
        candidates = drawn_together(outputs[:: max(1, len(outputs) // (2 * ANCHORS))])
        chosen = _most_useful(costs(candidates, labels[:: max(1, len(labels) // _MAX_JUDGED)]))
        return cls(anchors=candidates[chosen]), costs(candidates[chosen], labels)

    @property
    def learned_by(self) -> SquaredError:
        """The loss that predictors of the truth are trained on."""
        return SquaredError(one_unit=True)

    def outputs(self, answers: Floats) -> Floats:
        """Answers (K, A) → the model's outputs (K, m) that say so: the anchors they name."""
        return np.asarray(self.anchors[answers.argmin(axis=1)])

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, A), expected truth (N, A) → (N, K): the expected cost."""
        return np.asarray(truth[:, answers.argmin(axis=1)])

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, A), (N, A) → (N,): the score of each answer for its own record."""
        return np.asarray(np.take_along_axis(truth, answers.argmin(axis=1)[:, None], axis=1)[:, 0])

    def different(self, outputs: int) -> float:
        """How many answers there are that differ in what they cost: the anchors."""
        return outputs

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:  # noqa: ARG002 - any step will do
        """Vectors (K, A) and offsets (K,) in whole numbers: vectors · k falls as the predicted cost of the anchor
        rises."""
        vectors = -np.eye(answers.shape[1], dtype=np.int64)[answers.argmin(axis=1)]
        return vectors, np.zeros(len(answers), dtype=np.int64)


def drawn_together(outputs: Floats) -> Floats:
    """(k, m): the outputs (N, m), and the same drawn towards their mean, each once."""
    middle = outputs.mean(axis=0)
    return np.unique(np.vstack([middle + share * (outputs - middle) for share in _DRAWN]), axis=0)


def _most_useful(costs: Floats) -> list[int]:
    """Candidates, the best constant one first, then whichever spares most, until none spares much; costs (N, k).

    They must serve reports of every clarity: behind a noisy one a record's costs are mixed with everybody's.
    """
    anybody = costs.mean(axis=0)
    seen = np.concatenate([clear * costs + (1.0 - clear) * anybody for clear in _CLEAR])
    chosen = [int(anybody.argmin())]
    least, start = seen[:, chosen[0]], float(seen[:, chosen[0]].mean())
    while len(chosen) < min(ANCHORS, costs.shape[1]):
        means = np.minimum(least[:, None], seen).mean(axis=0)
        best = int(means.argmin())
        if float(least.mean()) - means[best] <= _LEAST_GAIN * (start - means[best]):
            break
        chosen.append(best)
        least = np.minimum(least, seen[:, best])
    return chosen


@dataclass(frozen=True)
class OwnLoss:
    """A callable: function(outputs (N, m), labels (N, …)) → (N,). Its labels are its truth.

    It is called with numpy arrays, and with torch tensors where these do not suit it.
    """

    function: Callable[[Any, Any], Any]
    name: ClassVar[str] = "a loss of your own"
    logits: ClassVar[bool | None] = None
    needs_labels: ClassVar[bool] = True

    def labels(self, values: Array, model: Answering) -> Array:  # noqa: ARG002 - only the callable knows
        """Labels of N records, as they are, in memory that torch can take too."""
        return np.array(values, order="C")

    def truth(self, labels: Array, model: Answering) -> Array:  # noqa: ARG002 - only the callable knows
        """Labels of N records, as they are."""
        return labels

    def own_truth(self, outputs: Floats) -> Array:  # noqa: ARG002 - what it would be, only the callable knows
        """Nothing: a TaskError."""
        raise TaskError(f"labels are missing: {self.name} needs y.")

    def answers(self, outputs: Floats) -> Floats:
        """Outputs, as they are."""
        return outputs

    def losses(self, outputs: Floats, truth: Array) -> Floats:
        """(N, m), labels of N records → (N,); TaskError unless the callable gives one finite number per record."""
        if truth.dtype.kind not in "biuf":
            raise TaskError(f"labels for {self.name} must be numbers, got {truth.dtype}.")
        try:
            with np.errstate(all="ignore"):  # what is not finite is said below
                found = _numbers(self.function(outputs, truth))
            refusal = None
        except (AttributeError, TypeError) as error:
            found, refusal = None, error
        if found is None or found.shape != (len(outputs),):
            found = self._of_tensors(outputs, truth, refusal, found)
        if found.shape != (len(outputs),) or not np.isfinite(found).all():
            raise TaskError(f"your loss must give one finite number per record, got shape {found.shape}.")
        return found

    def _of_tensors(self, outputs: Floats, truth: Array, refusal: Exception | None, found: Floats | None) -> Floats:
        """What the callable gives for torch tensors; what it gave for arrays where torch is not installed, or a
        TaskError that says what to type if it gave nothing."""
        try:
            import torch
        except ModuleNotFoundError:
            if found is not None:
                return found
            raise TaskError(
                f"your loss does not take numpy arrays ({refusal}). Write it for numpy, or if it is written for torch: "
                "pip install 'taskveil[torch]'"
            ) from refusal
        try:
            return _numbers(self.function(torch.from_numpy(outputs), torch.as_tensor(truth)))
        except Exception as error:  # whatever somebody else's function raises; both refusals are shown
            raise error from refusal

    def pairwise_losses(self, outputs: Floats, truth: Array) -> Floats:
        """(k, m), labels of N records → (N, k): every answer for every record."""
        return np.stack([self.losses(np.repeat(row[None], len(truth), axis=0), truth) for row in outputs], axis=1)

    def best_constant(self, truth: Array, outputs: Callable[[], Floats]) -> Floats:
        """Of the model's `outputs()` (k, m) on some records, as they are and drawn towards their mean, those (m,) of
        least mean loss: what codebooks choose from too."""
        candidates = drawn_together(outputs())
        return np.asarray(candidates[self.pairwise_losses(candidates, truth).mean(axis=0).argmin()])

    def linear_form(self, truth: Array, outputs: Callable[[], Floats]) -> tuple[Anchored, Floats]:
        """A loss that is linear in its truth, and that truth (N, S): over a list of answers there is one."""
        return Anchored.among(self.pairwise_losses, outputs(), truth)

    def replica_losses(self, outputs: Tensor, truth: Tensor) -> Tensor:
        """`losses` in every replica: (R, B, m), labels of B records → (R, B)."""
        replicas, records = outputs.shape[:2]
        repeated = truth.expand(replicas, *truth.shape).flatten(0, 1)
        try:
            found: Tensor = self.function(outputs.flatten(0, 1), repeated)
            return found.view(replicas, records)
        except (AttributeError, RuntimeError, TypeError) as error:
            raise TaskError(
                f"your loss does not take torch tensors with gradients ({error}), and this design learns through them: "
                'write it with methods that tensors have, or use method="codebook".'
            ) from error

    def mismatch(self, outputs: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:
        """How far `outputs` (B, m) are from those `wanted` (B, m), squared, measured in the outputs' spread (m,)."""
        return ((outputs - wanted) / spread).square().mean()

    def frame(self, truth: Array, outputs: Callable[[], Floats]) -> tuple[Floats, Floats, Floats]:  # noqa: ARG002
        """Where learned outputs start (m,), how far they move (m,), and the matrix (m, m) that takes out what the loss
        does not see: as the model's own outputs."""
        values = outputs()
        return values.mean(axis=0), positive(values.std(axis=0)), np.eye(values.shape[1])


def _numbers(found: Any) -> Floats:
    """What a callable returned, a tensor or anything like an array, in double precision."""
    return np.asarray(found.detach().cpu() if hasattr(found, "detach") else found, dtype=np.float64)
