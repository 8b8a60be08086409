"""Several losses at once: their weighted sum, with the truths of all side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.tasks.costs.named import LinearInTruth, SquaredError

_MAX_STEPS, _MAX_SCORE = (
    2.0**22,
    2.0**50,
)  # of a latent in steps; of a score in whole numbers, which doubles add exactly


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedPart:
    """One loss among several: its weight, and how its truth (N, s) is written, (truth − middle) · unit."""

    cost: LinearInTruth
    weight: float
    middle: Floats
    unit: float

    @classmethod
    def of(cls, cost: LinearInTruth, weight: float, truth: Floats) -> WeightedPart:
        """The unit makes the truth's variance what knowing it would spare: then errors in predictions of different
        parts compare as what they cost does."""
        middle = truth.mean(axis=0)
        variance = float(truth.var(axis=0).sum())
        spared = weight * float((cost.scores(middle[None], truth)[:, 0] - cost.least_scores(truth)).mean())
        unit = float(np.sqrt(spared / variance)) if spared > 0 and variance > 0 else 1.0
        return cls(cost=cost, weight=weight, middle=middle, unit=unit)

    def write(self, truth: Floats) -> Floats:
        """(N, s) in the loss's own form → as all parts are written."""
        return (truth - self.middle) * self.unit

    def read(self, written: Floats) -> Floats:
        """The way back."""
        return written / self.unit + self.middle


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedCost(LinearInTruth):
    """Σ weightᵢ · lossᵢ. Truth and answers (N, S) hold the columns of all parts, each in its unit."""

    parts: tuple[WeightedPart, ...]

    @classmethod
    def of(cls, forms: Sequence[tuple[LinearInTruth, float, Floats]]) -> tuple[WeightedCost, Floats]:
        """The sum of losses given with weights and truths (N, sᵢ), and its own truth (N, S)."""
        parts = tuple(WeightedPart.of(cost, weight, truth) for cost, weight, truth in forms)
        written = [part.write(truth) for part, (_, _, truth) in zip(parts, forms, strict=True)]
        return cls(parts=parts), np.hstack(written)

    def _split(self, *written: Floats) -> list[tuple[WeightedPart, list[Floats]]]:
        """For every part its own columns of the arrays (N, S), in its own form."""
        ends = np.cumsum([len(part.middle) for part in self.parts])[:-1]
        columns = zip(*(np.split(array, ends, axis=1) for array in written), strict=True)
        return [(part, [part.read(own) for own in mine]) for part, mine in zip(self.parts, columns, strict=True)]

    def _rewritten(self, change: Callable[..., Floats], *written: Floats) -> Floats:
        """What `change` makes of every part's own columns, side by side again."""
        return np.hstack([part.write(change(part.cost, *own)) for part, own in self._split(*written)])

    @property
    def learned_by(self) -> SquaredError:
        """The loss that predictors of the truth are trained on: whatever the truth, its mean has the least of it."""
        return SquaredError(one_unit=True)

    def outputs(self, answers: Floats) -> Floats:
        """Answers (K, S) → the outputs (K, m) of all models that say so, side by side."""
        return np.hstack([part.cost.outputs(own) for part, (own,) in self._split(answers)])

    def scores(self, answers: Floats, truth: Floats) -> Floats:
        """(K, S), expected truth (N, S) → (N, K): the expected loss up to a term of the truth alone."""
        return np.asarray(sum(part.weight * part.cost.scores(*own) for part, own in self._split(answers, truth)))

    def paired_scores(self, answers: Floats, truth: Floats) -> Floats:
        """(N, S), (N, S) → (N,): the score of each answer for its own record."""
        return np.asarray(sum(part.weight * part.cost.paired_scores(*own) for part, own in self._split(answers, truth)))

    def least_scores(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the score of the best answer, the best of every part."""
        return np.asarray(sum(part.weight * part.cost.least_scores(own) for part, (own,) in self._split(truth)))

    def left_out(self, truth: Floats) -> Floats:
        """(N, S) → (N,): the term of the truth alone, loss = score + left_out."""
        return np.asarray(sum(part.weight * part.cost.left_out(own) for part, (own,) in self._split(truth)))

    def softened(self, answers: Floats) -> Floats:
        """Answers that are finite in cost whatever the truth."""
        return self._rewritten(lambda cost, own: cost.softened(own), answers)

    def cautious(self, answers: Floats, truth: Floats) -> Floats:
        """Answers that cost little whatever the truth."""
        return self._rewritten(lambda cost, own, known: cost.cautious(own, known), answers, truth)

    def latent_range(self, predicted: Floats) -> tuple[Floats, Floats]:
        """The lowest and highest prediction (S,) a device may make."""
        ranges = [[part.write(end) for end in part.cost.latent_range(own)] for part, (own,) in self._split(predicted)]
        low, high = (np.concatenate(ends) for ends in zip(*ranges, strict=True))
        return low, high

    def whole_scores(self, answers: Floats, step: float) -> tuple[Integers, Integers]:
        """Vectors (K, S) and offsets (K,) in whole numbers: vectors · k + offsets falls as the score of a prediction
        k · step rises."""
        width = answers.shape[1]
        # A score is linear: its values at zero and at one step in every direction are all there is to know.
        offsets = self.scores(answers, np.zeros((1, width)))[0]
        vectors = step * (self.scores(answers, np.eye(width)) - offsets).T
        # A term that is equal for all answers does not change their order.
        vectors, offsets = vectors - vectors.mean(axis=0), offsets - offsets.mean()
        unit = float((np.abs(vectors).sum(axis=1) * _MAX_STEPS + np.abs(offsets)).max()) / _MAX_SCORE or 1.0
        return np.rint(-vectors / unit).astype(np.int64), np.rint(-offsets / unit).astype(np.int64)
