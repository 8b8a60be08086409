"""Lloyd's alternation for answers: favour what should cost least, then move answers to the mean truth given reports.

The loss of an answer is linear in the truth (see `tasks.costs`), so a device needs to know one thing about its record:
the expected truth. It favours the m answers of least predicted cost; the best answer to a report is the mean truth
given the report under the exact channel.

How many codewords there are, and how many of them are favoured, is chosen by the predictions, without any label. The
loss is linear in the truth. So for predictions p that are honest about the truth, the expected loss of a code is its
loss if p itself were the truth. It can be computed without labels and without their noise. Codes are fitted to one half
of the predictions and judged on the other, and the other way round; of a ladder of sizes, neighbours are tried as long
as the loss falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Response
from taskveil.designs.selection import SEEN
from taskveil.tasks.costs import LinearInTruth

LARGEST_EPSILON = 28.0
"""Beyond, a wrong report is rarer than 10^-9: more budget buys nothing."""

LISTED = 512
"""The most codewords that are listed."""

SMOOTHING = 8.0
"""Pseudo-records that draw a codeword's answer towards the mean *prediction* given its report: they keep codewords of
few records calibrated."""

GROUPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""K/m: how many codewords there are for each that a record favours."""
FAVOURED = (1, 2, 4, 8)
"""m: how many codewords a record favours."""

STARTS = 6
"""Of the final alternation."""

_STEPS, _ENOUGH = 40, 1e-4


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The truth of every volunteer (N, S), what a device would predict of it (N, S), the loss of answers to it, and the
    most codewords that the device can store."""

    predicted: Floats
    truth: Floats
    cost: LinearInTruth
    most: int = LISTED

    def __getitem__(self, rows: Any) -> Sample:
        return replace(self, predicted=self.predicted[rows], truth=self.truth[rows])

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def columns(self) -> Floats:
        """(N, 2 S + 1): truth, prediction and one, of which every step of `alternate` takes sums."""
        return np.hstack([self.truth, self.predicted, np.ones((len(self), 1))])


@dataclass(frozen=True, kw_only=True)
class Code:
    """K codewords: a device favours those of the `aims` (K, S) that should cost least, and a report of codeword k is
    answered with `answers` (K, S). `value` is the mean score on the sample it was fitted to."""

    aims: Floats
    answers: Floats
    response: Response
    value: float

    def favoured(self, sample: Sample) -> NDArray[np.intp]:
        """(N, m): the codewords that each record favours."""
        return favour(sample.cost.scores(self.aims, sample.predicted), self.response.favoured)

    def without_copies(self) -> Code:
        """The same report with fewer codes: g codes that are always favoured together are one code, with the same
        chances in all. They are, if every codeword is there g times and a device favours a multiple of g."""
        m, rows = self.response.favoured, np.hstack([self.aims, self.answers])
        _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
        copies, keep = int(counts[0]), np.sort(first)
        if copies == 1 or (counts != copies).any() or m % copies or m // copies >= len(keep):
            return self
        response = replace(self.response, size=len(keep), favoured=m // copies)
        return replace(self, aims=self.aims[keep], answers=self.answers[keep], response=response)

    def losses(self, sample: Sample) -> Floats:
        """The exact expected loss of every record (N,)."""
        scores = sample.cost.scores(self.answers, sample.truth)
        of_favoured = np.take_along_axis(scores, self.favoured(sample), axis=1).sum(axis=1)
        expected = self.response.extra * of_favoured + self.response.base * scores.sum(axis=1)
        return np.asarray(expected + sample.cost.left_out(sample.truth))


def alternate(sample: Sample, response: Response, start: Floats) -> Code:
    """From a `start` (K, S), aims and answers in turn, until hardly anything changes."""
    code, last = answer(sample, response, start), math.inf
    for _ in range(_STEPS):
        if code.value > last - _ENOUGH * abs(last):
            break
        last = code.value
        code = answer(sample, response, code.answers)
    return Code(aims=code.answers, answers=code.answers, response=response, value=code.value)


def answer(sample: Sample, response: Response, aims: Floats) -> Code:
    """The best answers for devices that favour by these `aims` (K, S)."""
    outputs = sample.truth.shape[1]
    favoured = favour(sample.cost.scores(aims, sample.predicted), response.favoured)
    sums = given_reports(sample.columns, favoured, response)
    truth, predicted, mass = sums[:, :outputs], sums[:, outputs:-1], sums[:, -1:]
    # Where predictions are the constant prediction, so are the answers, to the last digit: `selection` relies on it.
    given = sample.cost.cautious(truth / mass, sample.truth)
    answers = (mass * given + SMOOTHING * predicted / mass) / (mass + SMOOTHING)
    value = float(sample.cost.paired_scores(answers, truth / mass) @ mass[:, 0] / len(sample))
    return Code(aims=aims, answers=answers, response=response, value=value)


def given_reports(columns: Floats, favoured: NDArray[np.intp], response: Response) -> Floats:
    """(K, C): sums over records of P[report k | record] times each column."""
    records, count = favoured.shape
    marks = csc_array(
        (np.ones(records * count), favoured.ravel(), np.arange(0, records * count + 1, count)),
        shape=(response.size, records),
    )
    return np.asarray(response.base * columns.sum(axis=0) + response.extra * (marks @ columns))


def favour(cost: Floats, count: int) -> NDArray[np.intp]:
    """(N, K) → (N, count): the codewords of least cost."""
    return cost.argmin(axis=1)[:, None] if count == 1 else np.argpartition(cost, count - 1, axis=1)[:, :count]


class SpreadOut:
    """k-means++ among the predictions, in the loss's own divergence, the best of four tries at each step. The first K
    are a start of K, so that one search serves codes of all sizes and for all budgets."""

    def __init__(self, sample: Sample, rng: np.random.Generator) -> None:
        self.predicted, self.cost, self.rng = sample.predicted, sample.cost, rng
        self.soft = self.cost.softened(self.predicted)
        self.floor = self.cost.least_scores(self.predicted)[:, None]
        self.chosen = [int(rng.integers(len(sample)))]
        self.least = self._gap(self.chosen)[:, 0]

    def __call__(self, size: int) -> Floats:
        """(size, S)."""
        while len(self.chosen) < size:
            total = self.least.sum()
            share = self.least / total if total > 0 else None
            tries = self.rng.choice(len(self.predicted), 4, p=share).tolist()
            after = np.minimum(self.least[:, None], self._gap(tries))
            best = int(after.sum(axis=0).argmin())
            self.chosen.append(tries[best])
            self.least = after[:, best]
        return np.asarray(self.soft[self.chosen[:size]])

    def _gap(self, rows: list[int]) -> Floats:
        return np.maximum(self.cost.scores(self.soft[rows], self.predicted) - self.floor, 0.0)


@dataclass(frozen=True, order=True)
class CodeShape:
    """`size` codewords, `favoured` of them favoured; by the likeliest label alone, or by predicted costs."""

    size: int
    favoured: int
    by_label: bool = False

    def fit(self, sample: Sample, epsilon: float, start: SpreadOut) -> Code:
        """A code of this shape for the sample, which begins at the first codewords of `start`."""
        response = Response.calibrated(size=self.size, favoured=self.favoured, epsilon=epsilon)
        labels = sample.cost.labels_apart(self.size) if self.by_label else None
        return alternate(sample, response, start(self.size)) if labels is None else answer(sample, response, labels)


class Halved:
    """The predictions of a sample in two halves, and where codes for each begin: the same for all budgets."""

    def __init__(self, sample: Sample, seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(sample))[:SEEN]
        halves = (sample[order[part::2]] for part in range(2))
        self.sample, self.halves = sample, [replace(half, truth=half.predicted) for half in halves]
        self.starts = [SpreadOut(half, np.random.default_rng(part)) for part, half in enumerate(self.halves)]


def choose_shape(halved: Halved, epsilon: float) -> CodeShape:
    """The shape of least loss for predictions like those of the sample; its truth is not looked at."""
    sample, judge = halved.sample, _Judge(halved, epsilon)
    records, outputs = sample.predicted.shape
    different, stored = sample.cost.different(outputs), max(2, sample.most)
    groups = [size for size in group_sizes(epsilon, records, outputs) if size <= max(2, min(different, stored))]
    # The label itself is a shape too; and what a response over labels alone would favour.
    if sample.cost.labels_apart(outputs) is not None and 1 < outputs <= stored:
        several = round(outputs / (1 + math.exp(epsilon)))
        for favoured in {1, several} & set(range(1, outputs)):
            judge(CodeShape(outputs, favoured, by_label=True))
    first = min(groups, key=lambda group: abs(group - max(outputs, math.exp(min(epsilon, 20.0) / 2))))
    group = judge.climb([CodeShape(size, 1) for size in groups], groups.index(first)).size
    most = min(records / 4, LISTED, different, stored)
    for size in _neighbours(groups, group):
        judge.climb([CodeShape(size * m, m) for m in FAVOURED if m == 1 or size * m <= most], 0)
    return min(judge.losses, key=lambda shape: (judge.losses[shape], shape))


def group_sizes(epsilon: float, records: int, outputs: int) -> list[int]:
    """K/m worth trying: from 2 up to what the budget can tell apart and the records can support. Up to as many groups
    as classes are allowed at any budget: the label itself must never be out of reach."""
    most = max(2.0, min(1.5 * math.exp(min(epsilon, 20.0)) + outputs, records / 8, LISTED))
    return sorted({g for g in (*GROUPS, outputs) if 2 <= g <= most})


def final_code(sample: Sample, shape: CodeShape, epsilon: float, seed: int, starts: int = STARTS) -> Code:
    """The code of that shape for the whole sample, the best of a few starts."""
    rng = np.random.default_rng(seed)
    begun = (SpreadOut(sample, rng) for _ in range(1 if shape.by_label else starts))
    return min((shape.fit(sample, epsilon, start) for start in begun), key=lambda code: code.value)


class _Judge:
    """Losses of shapes for predictions, each half judged by codes of the other."""

    def __init__(self, halved: Halved, epsilon: float) -> None:
        self.halved, self.epsilon = halved, epsilon
        self.losses: dict[CodeShape, float] = {}

    def __call__(self, shape: CodeShape) -> float:
        if shape not in self.losses:
            halves = self.halved.halves
            fitted = zip(halves, self.halved.starts, halves[::-1], strict=True)
            losses = (shape.fit(mine, self.epsilon, start).losses(other) for mine, start, other in fitted)
            self.losses[shape] = sum(float(found.sum()) for found in losses)
        return self.losses[shape]

    def climb(self, shapes: list[CodeShape], place: int) -> CodeShape:
        """The best of a ladder of shapes: from `place` on as long as the loss falls, first up, then down."""
        best = place
        for step in (1, -1):
            at = best
            while 0 <= at + step < len(shapes) and self(shapes[at + step]) < self(shapes[at]):
                at += step
            if at != best:
                best = at
                break
        self(shapes[best])
        return shapes[best]


def _neighbours(groups: list[int], group: int) -> list[int]:
    """The group and those next to it."""
    place = groups.index(group)
    return groups[max(0, place - 1) : place + 2]
