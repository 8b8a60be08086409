"""Which predictor, how many codewords, how many of them favoured: by cross-validated loss, with a taste for the simple.

A choice among estimates is uncertain, and the more there are to choose from the luckier the luckiest looks. Whatever is
within half a standard error of the best (of their differences, record by record), and within half a percent, counts as
good; of the good ones the simplest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Response
from taskveil.designs.codebooks.alternation import LISTED, Code, Sample, alternate, answer, spread_out
from taskveil.designs.folds import folds_of
from taskveil.designs.predictors.predictor import CLEARLY, standard_error
from taskveil.designs.threads import one_thread

_GROUPS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_FAVOURED = (1, 2, 4, 8)
_REDRAWN = 200  # samples that tell how lucky the best is
_STARTS = 6  # of the final alternation

_ERRORS, _SHARE = 0.5, 0.005
"""What is behind the best by no more than so many standard errors, and by no more than this share, is as good."""


@dataclass(frozen=True, order=True)
class Shape:
    """`size` codewords, `favoured` of them favoured; by the likeliest label alone, or by predicted costs."""

    size: int
    favoured: int
    by_label: bool = False

    def fit(self, sample: Sample, epsilon: float, start: Floats) -> Code:
        """A code of this shape for the sample; the first codewords of `start` are where it begins."""
        response = Response.calibrated(size=self.size, favoured=self.favoured, epsilon=epsilon)
        labels = sample.cost.labels_apart(self.size) if self.by_label else None
        return alternate(sample, response, start) if labels is None else answer(sample, response, labels)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The place of the predictor among those that competed, the shape, and the held-out loss of every record (N,), with
    what the best of many owes to luck added to each."""

    place: int
    shape: Shape
    losses: Floats


@one_thread()
def choose(
    samples: Sequence[Sample], person: Integers, epsilon: float, seed: int, preferred: int | None = None
) -> Chosen:
    """The best of all predictors (`samples`, the same people in all) and shapes. All records of one `person` (N,) are
    held out together.

    Which predictor is the best hardly depends on the budget, so the one that predicts best without any noise is kept
    unless there is evidence against it at this budget: designs for neighbouring budgets then differ in nothing but the
    budget. The `preferred` one counts as that until another is clearly better.

    One split of a few hundred records says little, so small samples are split up to four times; of thousands, two
    halves say enough. Several favoured codewords are tried only near the best number of groups.
    """
    records, outputs = samples[0].truth.shape
    judge = _Judge(samples, person, epsilon, seed, preferred)
    different = samples[0].cost.different(outputs)
    groups = [size for size in group_sizes(epsilon, records, outputs) if size <= max(2, different)]
    singles = [Shape(size, 1) for size in groups]
    if samples[0].cost.labels_apart(outputs) is not None and outputs > 1:
        singles.append(Shape(outputs, 1, by_label=True))
        several = round(outputs / (1 + math.exp(epsilon)))  # what a response over labels alone would favour
        if 1 < several < outputs:
            singles.append(Shape(outputs, several, by_label=True))
    judge.judge((place, shape) for place in range(len(samples)) for shape in singles)
    first = min(judge.rank, key=judge.rank.__getitem__)
    leaders = sorted({first, *(place for place, _ in judge.best(2))})
    near = {place: judge.best_group(place) for place in leaders}
    most = min(records / 4, LISTED, different)
    judge.judge(
        (place, Shape(group * favoured, favoured))
        for place in leaders
        for group in _neighbours(groups, near[place])
        for favoured in _FAVOURED
        if group * favoured <= most
    )
    return judge.decision()


def group_sizes(epsilon: float, records: int, outputs: int) -> list[int]:
    """K/m worth trying: from 2 up to what the budget can tell apart and the records can support. Up to as many groups
    as classes are allowed at any budget: the label itself must never be out of reach."""
    most = max(2.0, min(1.5 * math.exp(min(epsilon, 20.0)) + outputs, records / 8, LISTED))
    return sorted({g for g in (*_GROUPS, outputs) if 2 <= g <= most})


@one_thread()
def final_code(sample: Sample, shape: Shape, epsilon: float, rng: np.random.Generator) -> Code:
    """The code of that shape for the whole sample, the best of a few starts."""
    if shape.by_label:
        return shape.fit(sample, epsilon, sample.predicted)
    starts = (spread_out(sample, shape.size, rng) for _ in range(_STARTS))
    return min((shape.fit(sample, epsilon, start) for start in starts), key=lambda code: code.value)


def is_skilled(sample: Sample) -> bool:
    """Whether predictions, as answers, are clearly better than one answer for everybody."""
    cost, truth = sample.cost, sample.truth
    constant = cost.cautious(truth.mean(axis=0, keepdims=True), truth)
    lead, error = _lead(_clear_losses(sample), cost.scores(constant, truth)[:, 0])
    return lead > CLEARLY * error


class _Judge:
    """Collects the held-out losses (N,) of (predictor, shape), all on the same parts."""

    def __init__(
        self, samples: Sequence[Sample], person: Integers, epsilon: float, seed: int, preferred: int | None
    ) -> None:
        self.samples, self.person, self.epsilon = samples, person, epsilon
        self.losses: dict[tuple[int, Shape], Floats] = {}
        rng, records = np.random.default_rng(seed), len(person)
        self.folds = 5 if records < 2000 else 2
        self.parts = [folds_of(person, self.folds, rng) for _ in range(max(1, min(4, 6000 // records)))]
        self.starts: dict[tuple[int, int, int], Floats] = {}
        clear = [_clear_losses(sample) for sample in samples]
        order = sorted(range(len(samples)), key=lambda place: float(clear[place].mean()))
        if preferred is not None:
            behind, error = _lead(clear[order[0]], clear[preferred])
            if behind <= CLEARLY * error:
                order = [preferred, *(place for place in order if place != preferred)]
        self.rank, self.preferred = {place: rank for rank, place in enumerate(order)}, preferred

    def judge(self, candidates: Iterable[tuple[int, Shape]]) -> None:
        """Adds the losses of those that are not known yet."""
        for place, shape in candidates:
            if (place, shape) not in self.losses and shape.size <= max(2, self.samples[place].most):
                self.losses[place, shape] = self._held_out(place, shape)

    def _held_out(self, place: int, shape: Shape) -> Floats:
        sample = self.samples[place]
        total = np.zeros(len(sample))
        for turn, part in enumerate(self.parts):
            for fold in range(self.folds):
                held = part == fold
                if not held.any() or held.all():
                    continue
                rest = sample[~held]
                start = self._start(place, turn, fold, rest, shape.size)
                total[held] += shape.fit(rest, self.epsilon, start).losses(sample[held])
        return total / len(self.parts)

    def _start(self, place: int, turn: int, fold: int, rest: Sample, size: int) -> Floats:
        """The same start for all shapes of one predictor and part, long enough for this one."""
        key = place, turn, fold
        if key not in self.starts or len(self.starts[key]) < size:
            rng = np.random.default_rng([turn, fold])
            self.starts[key] = spread_out(rest, min(LISTED, max(64, 2 * size)), rng)
        return self.starts[key]

    def best(self, count: int) -> list[tuple[int, Shape]]:
        """The best candidate of each of the `count` best predictors."""
        order = sorted(self.losses, key=lambda candidate: float(self.losses[candidate].mean()))
        first = {place: (place, shape) for place, shape in reversed(order)}
        return sorted(first.values(), key=order.index)[:count]

    def best_group(self, place: int) -> int:
        """K/m of the best candidate of a predictor that favours by costs."""
        mine = [shape for known, shape in self.losses if known == place and not shape.by_label]
        best = min(mine, key=lambda shape: float(self.losses[place, shape].mean()))
        return best.size // best.favoured

    def decision(self) -> Chosen:
        """The predictor that is best without any noise, unless another leads by a standard error here; with it, of the
        shapes that are as good as the best, the one of fewest codewords."""
        best = {place: self.losses[place, shape] for place, shape in self.best(len(self.samples))}
        first, *others = sorted(best, key=self.rank.__getitem__)
        place = first
        for rival in others:
            lead, error = _lead(best[rival], best[place])
            place = rival if lead > error * (CLEARLY if place == self.preferred else 1.0) else place
        least = float(best[place].mean())

        def good(losses: Floats) -> bool:
            lead, error = _lead(best[place], losses)
            return lead <= min(max(_ERRORS * error, 1e-3 * abs(least)), _SHARE * abs(least))

        shape = min(
            (shape for known, shape in self.losses if known == place and good(self.losses[place, shape])),
            key=lambda shape: (shape.size, float(self.losses[place, shape].mean())),
        )
        return Chosen(place=place, shape=shape, losses=self.losses[place, shape] + self._luck())

    def _luck(self) -> float:
        """By how much the least of all mean losses is likely to be too low: how much lower it is than on everybody, in
        samples drawn anew from the same people."""
        losses = np.stack(list(self.losses.values()), axis=1)
        count = int(self.person.max()) + 1
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1.0 / count), size=_REDRAWN)[:, self.person]
        means = drawn @ losses / drawn.sum(axis=1, keepdims=True)
        best = means.argmin(axis=1)
        return max(0.0, float((losses.mean(axis=0)[best] - means[np.arange(_REDRAWN), best]).mean()))


def _lead(one: Floats, other: Floats) -> tuple[float, float]:
    """By how much the losses (N,) of one are below those of the other on average, and the standard error of that."""
    gap = other - one
    return float(gap.mean()), standard_error(gap)


def _clear_losses(sample: Sample) -> Floats:
    """What predictions cost (N,) if they are the answers."""
    return sample.cost.paired_scores(sample.cost.softened(sample.predicted), sample.truth)


def _neighbours(groups: list[int], group: int) -> list[int]:
    """The group and those next to it."""
    place = groups.index(group)
    return groups[max(0, place - 1) : place + 2]
