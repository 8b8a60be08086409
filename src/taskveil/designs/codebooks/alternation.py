"""Lloyd's alternation for answers: favour what should cost least, then move answers to the mean truth given reports.

The loss of an answer is linear in the truth (see `tasks.costs`), so a device needs to know one thing about its record:
the expected truth. It favours the m answers of least predicted cost; the best answer to a report is the mean truth
given the report under the exact channel.
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
from taskveil.tasks.costs import LinearInTruth

LARGEST_EPSILON = 28.0
"""Beyond, a wrong report is rarer than 10^-9: more budget buys nothing."""

LISTED = 512
"""The most codewords that are listed."""

SMOOTHING = 8.0
"""Pseudo-records that draw a codeword's answer towards the mean *prediction* given its report: they keep codewords of
few records calibrated."""

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
