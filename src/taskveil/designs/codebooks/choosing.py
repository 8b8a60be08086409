"""How many codewords, how many of them favoured: by what the predictor says, without any label.

The loss is linear in the truth. So for predictions p that are honest about the truth, the expected loss of a code is
its loss if p itself were the truth. It can be computed without labels and without their noise. Codes are fitted to one
half of the predictions and judged on the other, and the other way round; of a ladder of sizes, neighbours are tried as
long as the loss falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from taskveil.client.mechanisms import Response
from taskveil.designs.codebooks.alternation import LISTED, Code, Sample, SpreadOut, alternate, answer

GROUPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""K/m: how many codewords there are for each that a record favours."""
FAVOURED = (1, 2, 4, 8)
"""m: how many codewords a record favours."""

JUDGED = 1000
"""Predictions that choose a shape, at most; more would hardly choose better."""

STARTS = 6
"""Of the final alternation."""


@dataclass(frozen=True, order=True)
class Shape:
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
        order = np.random.default_rng(seed).permutation(len(sample))[:JUDGED]
        halves = (sample[order[part::2]] for part in range(2))
        self.sample, self.halves = sample, [replace(half, truth=half.predicted) for half in halves]
        self.starts = [SpreadOut(half, np.random.default_rng(part)) for part, half in enumerate(self.halves)]


def choose_shape(halved: Halved, epsilon: float) -> Shape:
    """The shape of least loss for predictions like those of the sample; its truth is not looked at."""
    sample, judge = halved.sample, _Judge(halved, epsilon)
    records, outputs = sample.predicted.shape
    different, stored = sample.cost.different(outputs), max(2, sample.most)
    groups = [size for size in group_sizes(epsilon, records, outputs) if size <= max(2, min(different, stored))]
    # The label itself is a shape too; and what a response over labels alone would favour.
    if sample.cost.labels_apart(outputs) is not None and 1 < outputs <= stored:
        several = round(outputs / (1 + math.exp(epsilon)))
        for favoured in {1, several} & set(range(1, outputs)):
            judge(Shape(outputs, favoured, by_label=True))
    first = min(groups, key=lambda group: abs(group - max(outputs, math.exp(min(epsilon, 20.0) / 2))))
    group = judge.climb([Shape(size, 1) for size in groups], groups.index(first)).size
    most = min(records / 4, LISTED, different, stored)
    for size in _neighbours(groups, group):
        judge.climb([Shape(size * m, m) for m in FAVOURED if m == 1 or size * m <= most], 0)
    return min(judge.losses, key=lambda shape: (judge.losses[shape], shape))


def group_sizes(epsilon: float, records: int, outputs: int) -> list[int]:
    """K/m worth trying: from 2 up to what the budget can tell apart and the records can support. Up to as many groups
    as classes are allowed at any budget: the label itself must never be out of reach."""
    most = max(2.0, min(1.5 * math.exp(min(epsilon, 20.0)) + outputs, records / 8, LISTED))
    return sorted({g for g in (*GROUPS, outputs) if 2 <= g <= most})


def final_code(sample: Sample, shape: Shape, epsilon: float, seed: int, starts: int = STARTS) -> Code:
    """The code of that shape for the whole sample, the best of a few starts."""
    rng = np.random.default_rng(seed)
    begun = (SpreadOut(sample, rng) for _ in range(1 if shape.by_label else starts))
    return min((shape.fit(sample, epsilon, start) for start in begun), key=lambda code: code.value)


class _Judge:
    """Losses of shapes for predictions, each half judged by codes of the other."""

    def __init__(self, halved: Halved, epsilon: float) -> None:
        self.halved, self.epsilon = halved, epsilon
        self.losses: dict[Shape, float] = {}

    def __call__(self, shape: Shape) -> float:
        if shape not in self.losses:
            halves = self.halved.halves
            fitted = zip(halves, self.halved.starts, halves[::-1], strict=True)
            losses = (shape.fit(mine, self.epsilon, start).losses(other) for mine, start, other in fitted)
            self.losses[shape] = sum(float(found.sum()) for found in losses)
        return self.losses[shape]

    def climb(self, shapes: list[Shape], place: int) -> Shape:
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
