"""The design of a survey: which questions devices answer, how often each, and by which channel.

**Questions.** Every field alone, every `by` with every other field, every pair, and every histogram. A number alone is
reported at a few levels by the unbiased channel of least variance (`channels`), which no response over the same levels
beats. Everything else is one category whose values are the choices of one level of each digit, reported by cyclic
blocks (`blocks`): numbers have as many levels there as cost least, with both bounds always among them.

**How often.** A statistic s that question q measures with variance V_qs for one report has the variance 1/Σ_q
(p_q/V_qs) over the number of people, if reports are pooled by their precision. The weighted sum over statistics is
convex in the chances p. The update p_q ∝ p_q · √(−∂/∂p_q) lowers it in every step (Yu 2010, for A-optimal designs);
where every statistic has one question it gives p_q ∝ √cost at once. A question that others make superfluous is left
out.

**Splitting the budget.** A report about d fields with ε/d for each is one ε-LDP channel on the product of their values.
So questions are also joined: two become one with the product of their rows if that costs less, which happens at large
ε. A test compares designs with the best split of ε at several ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np

from taskveil.arrays import NUMBERS_AT_A_TIME, Floats, Integers
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import BlockGroup, LevelGroup, LevelResponse, PlaneGroup, Response
from taskveil.client.regions import BoxRegion
from taskveil.designs.means.blocks import (
    ANYWHERE,
    best_width,
    flat_blocks,
    searched_blocks,
    shares_of,
    subset_variances,
)
from taskveil.designs.means.channels import (
    LARGEST,
    LevelReports,
    best_channel,
    response_channel,
    whole_numbers,
)
from taskveil.designs.means.design import (
    ALONE,
    APART,
    DRAWS,
    FINE,
    LEAST,
    MOST_SEARCHED,
    best_levels,
    is_plain,
)
from taskveil.designs.problem import Problem
from taskveil.designs.selection import SLACK, one_thread
from taskveil.errors import DataError, TaskError
from taskveil.tasks.survey import SurveyTask, kind_of
from taskveil.veil import Veil
from taskveil.veil.decoders import SurveyDecoder
from taskveil.veil.statistics import Key, Statistics, statistics
from taskveil.veil.surveys import (
    GRID_BITS,
    BlockQuestion,
    Rows,
    bin_levels,
    doubled,
    exact_scores,
    latents_of,
    natural_levels,
    plane_hits,
    survey_encoder,
)
from taskveil.veil.volunteers import FEWEST

MOST_ROWS = NUMBERS_AT_A_TIME // 16
"""Rows of a question: with sixteen base blocks, its outputs are few enough to be scored one by one."""

Digits = tuple[tuple[int, bool], ...]
"""Latents of a question, and whether each is binned."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DraftQuestion:
    """A question in the making: its digits at levels `scales`, what it measures and with which variance (t,) of one
    report; a `channel` between the levels of a number, or else blocks of `width` rows."""

    digits: Digits
    scales: tuple[Integers, ...]
    rows: Rows
    measures: Statistics
    variances: Floats
    channel: LevelReports | None = None
    width: int = 1
    prime: int | None = None
    """Of the plane of an open vocabulary; `width` is then that of the blocks of lines."""

    @property
    def cost(self) -> float:
        """The weighted sum of the variances."""
        return float(self.measures.weights @ self.variances)


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """Questions with the shares of reports (Q,) that answer them, and the weighted sum of variances."""

    asked: tuple[DraftQuestion, ...]
    chances: Floats
    cost: float

    @property
    def variances(self) -> dict[Key, float]:
        """By statistic the variance of the estimate times the number of people."""
        found: dict[Key, float] = {}
        for one, chance in zip(self.asked, self.chances, strict=True):
            for key, variance in zip(one.measures.keys, one.variances.tolist(), strict=True):
                found[key] = found.get(key, 0.0) + float(chance) / max(variance, 1e-300)
        return {key: 1.0 / precision for key, precision in found.items()}


@one_thread()
def design_survey(problem: Problem, epsilon: float, name: str) -> Veil:
    """The veil of least weighted squared error of all statistics for the volunteers, unbiased for everybody."""
    task, box = problem.task, problem.domain.bounding_box
    if not isinstance(task, SurveyTask):
        raise TaskError(f"this design serves a SurveyTask, got {type(task).__name__}.")
    sample = SurveySample.of(task, box.low, box.high, problem.X, epsilon)
    planned = sample.planned()
    veil = _veil(problem, sample, planned, epsilon, name, 0)
    if veil.size.client_bytes > problem.on_device.max_bytes and any(one.channel for one in planned.asked):
        planned = replace(sample, most_listed=0).planned()  # blocks take less space than the tables of histograms
    for halvings in range(5):  # fewer base blocks cost a little more, and take less space
        if veil.size.client_bytes <= problem.on_device.max_bytes:
            break
        veil = _veil(problem, sample, planned, epsilon, name, halvings)
    return veil


def spreads_of(problem: Problem) -> dict[str, float]:
    """By number and date the standard deviation of the volunteers' values over the range of the field, which errors of
    means are divided by."""
    task, box = problem.task, problem.domain.bounding_box
    if not isinstance(task, SurveyTask):
        raise TaskError(f"a SurveyTask has spreads, got {type(task).__name__}.")
    return SurveySample.of(task, box.low, box.high, problem.X, LEAST).spreads


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveySample:
    """Volunteers as digits k (N, d) on the grid, for a survey with this encoder and budget."""

    task: SurveyTask
    encoder: LinearEncoder
    region: BoxRegion
    k: Integers
    epsilon: float
    most_listed: int = MOST_SEARCHED
    """Bins of a histogram whose channel is searched for among all channels, and not among blocks."""

    @classmethod
    def of(cls, task: SurveyTask, low: Floats, high: Floats, X: Floats, epsilon: float) -> SurveySample:
        """From records X (N, n) between `low` and `high`."""
        encoder, region = survey_encoder(task, low, high)
        k = region.enforce(encoder(X))
        return cls(task=task, encoder=encoder, region=region, k=k, epsilon=min(max(epsilon, LEAST), LARGEST))

    @property
    def latents(self) -> tuple[str, ...]:
        """The field of each latent."""
        return latents_of(self.task)

    @cached_property
    def spreads(self) -> dict[str, float]:
        """By number and date the standard deviation of the values that people have, over the range of the field.

        As in every prior, a small share of people may be anywhere, and there are four digits of a binary number.
        """
        found, top = dict[str, float](), 1 << GRID_BITS
        for place, name in enumerate(self.latents):
            there = self.k[self.k[:, place] <= top, place] / top
            if self._is_number(place) and len(there) >= FEWEST:
                square = (1.0 - ANYWHERE) * there.var() + ANYWHERE * (1.0 / 12.0 + (there.mean() - 0.5) ** 2)
                mantissa, exponent = math.frexp(square)
                found[name] = math.sqrt(math.ldexp(round(16.0 * mantissa) / 16.0, exponent))
        return found

    def planned(self) -> Planned:
        """The questions of least cost."""
        asked = {frozenset(digits): digits for digits in self._wanted()}
        planned = _spread([self.made(digits) for digits in asked.values()])
        planned = _without_superfluous(planned)
        return self._joined(planned) if self.epsilon >= APART else planned

    def _wanted(self) -> Iterator[Digits]:
        """The digits of every question that the task asks for, some of them twice."""
        task, names = self.task, self.latents
        place = {name: names.index(name) for name in names}

        def value(name: str) -> tuple[int, bool]:
            """A digit whose levels are values."""
            return place[name], kind_of(task.schema[name]) != "share"

        for name in dict.fromkeys((*task.fields, *task.by)):
            yield (((place[name], False),) if name in task.fields else (value(name),))
        for one in task.histograms:
            yield ((place[one.name], True),)
        for by, name in product(task.by, task.fields):
            if by != name and task.schema[name].side is None:
                yield value(by), (place[name], False)
        for pair in task.pairs:
            yield value(pair.first), value(pair.second)

    def made(self, digits: Digits) -> DraftQuestion:
        """The question about some digits, with the levels of least cost."""
        first = self.task.schema[self.latents[digits[0][0]]]
        if first.side is not None:
            return self._plane(digits, first.side)
        numbers = [place for place, binned in digits if self._is_number(place) and not binned]
        fewest = [len(self._levels(place, binned, 2)) for place, binned in digits]
        if math.prod(fewest) > MOST_ROWS:
            names = " and ".join(repr(self.latents[place]) for place, _ in digits)
            raise TaskError(
                f"{names}: a question has at most {MOST_ROWS:,} values or cells, got {math.prod(fewest):,}. List fewer "
                "values of a category, or describe an open vocabulary by tv.Words."
            )
        if len(digits) == 1 and numbers:
            return min((self._listed(digits, most) for most in self._counts()), key=lambda one: one.cost)
        if not numbers:
            blocks = self._blocks(digits, ALONE)
            if digits[0][1] and len(digits) == 1 and blocks.rows.rows <= self.most_listed:
                listed = self._listed(digits, ALONE)
                return listed if listed.cost < (1.0 - SLACK) * blocks.cost else blocks
            return blocks
        fitting = [one for most in range(2, ALONE + 1) if (one := self._blocks(digits, most)).rows.rows <= MOST_ROWS]
        return min(fitting or [self._blocks(digits, 2)], key=lambda one: one.cost)

    def _counts(self) -> list[int]:
        """How many levels a number alone may have."""
        return [ALONE, *(most for most in FINE if is_plain(most, self.epsilon))]

    def _is_number(self, place: int) -> bool:
        return kind_of(self.task.schema[self.latents[place]]) != "share"

    def _levels(self, place: int, binned: bool, most: int) -> Integers:
        """The levels of a digit in grid steps; of a number, at most so many between its bounds."""
        name, top = self.latents[place], int(self.region.high[place])
        if binned:
            try:
                return bin_levels(self.task, name, self.encoder)
            except DataError as error:
                raise TaskError(f"histograms: {error}") from None
        if not self._is_number(place):
            return np.arange(0, top + 1, 1 << GRID_BITS)
        there = self.k[self.k[:, place] <= 1 << GRID_BITS, place]
        if len(there) == 0:
            there = np.array([0, 1 << GRID_BITS])
        found = best_levels(there, 0, 1 << GRID_BITS, most)
        return np.append(found, top) if top > 1 << GRID_BITS else found

    def _rows(self, digits: Digits, most: int) -> tuple[tuple[Integers, ...], Rows]:
        scales = tuple(self._levels(place, binned, most) for place, binned in digits)
        names = tuple(self.latents[place] for place, _ in digits)
        flags = tuple(binned for _, binned in digits)
        values = tuple(
            natural_levels(self.task, name, steps, binned, self.encoder)
            for name, steps, binned in zip(names, scales, flags, strict=True)
        )
        prior = shares_of(self.k[:, [place for place, _ in digits]], scales, flags)
        return scales, Rows(fields=names, levels=values, binned=flags, prior=prior)

    def _listed(self, digits: Digits, most: int) -> DraftQuestion:
        """A number alone, or its bins, by the best channel between its levels."""
        scales, rows = self._rows(digits, most)
        measures = statistics(self.task, rows, spreads=self.spreads)
        counted = measures.weights > 0
        middle = rows.prior @ measures.functionals[:, counted]
        points = (measures.functionals[:, counted] - middle) * np.sqrt(measures.weights[counted])
        if is_plain(rows.rows, self.epsilon):
            channel = response_channel(points, rows.prior, self.epsilon)
        else:
            channel = best_channel(points, rows.prior, self.epsilon)
        table = whole_numbers(channel, self.epsilon)
        scores = exact_scores(table, measures.functionals, rows.prior)
        squares = rows.prior @ (table / table[0].sum()) @ scores**2
        variances = squares - (rows.prior @ measures.functionals) ** 2
        return DraftQuestion(
            digits=digits, scales=scales, rows=rows, measures=measures, variances=variances, channel=channel
        )

    def _blocks(self, digits: Digits, most: int) -> DraftQuestion:
        """Some digits as one category, by blocks of the size of least cost."""
        scales, rows = self._rows(digits, most)
        measures = statistics(self.task, rows, spreads=self.spreads)
        width = best_width(measures.functionals, measures.weights, rows.prior, self.epsilon)
        each = subset_variances(measures.functionals, rows.prior, self.epsilon, width)
        return DraftQuestion(digits=digits, scales=scales, rows=rows, measures=measures, variances=each, width=width)

    def _plane(self, digits: Digits, prime: int) -> DraftQuestion:
        """An open vocabulary, by the blocks of lines that are best for a word that few people have."""
        name, odds = self.latents[digits[0][0]], np.exp(self.epsilon)
        w = np.arange(1.0, prime)
        total = w * odds + prime - w
        has, others = plane_hits(prime, w, 1.0 / total, (odds - 1.0) / total)
        each = others * (1.0 - others) / (has - others) ** 2
        rows = Rows(fields=(name,), levels=(), binned=(), prior=np.ones(1))
        return DraftQuestion(
            digits=digits,
            scales=(),
            rows=rows,
            measures=statistics(self.task, rows),
            variances=np.array([each.min()]),
            width=int(each.argmin()) + 1,
            prime=prime,
        )

    def _joined(self, planned: Planned) -> Planned:
        """The same statistics by fewer questions with more digits each, as long as that costs less. Questions of like
        cost gain most, so those are tried that are neighbours in the order of their cost."""
        while 1 < len(planned.asked) <= MOST_SEARCHED:
            order = sorted(planned.asked, key=lambda one: one.cost)
            better = planned
            for place, (one, other) in enumerate(pairwise(order)):
                joint = self._joint(one, other)
                if joint is not None:
                    trial = _spread([*order[:place], joint, *order[place + 2 :]])
                    better = min(better, trial, key=lambda found: found.cost)
            if better.cost > (1.0 - SLACK) * planned.cost:
                return planned
            planned = better
        return planned

    def _joint(self, one: DraftQuestion, other: DraftQuestion) -> DraftQuestion | None:
        """One question about the digits of both; None where it would have too many rows, or a field twice."""
        if one.prime or other.prime:
            return None
        digits = tuple(dict.fromkeys((*one.digits, *other.digits)))
        fewest = [len(self._levels(place, binned, 2)) for place, binned in digits]
        if len({place for place, _ in digits}) < len(digits) or np.prod(fewest, dtype=float) > MOST_ROWS:
            return None
        return self.made(digits)


def _spread(asked: Sequence[DraftQuestion]) -> Planned:
    """The questions with the chances of least cost."""
    keys = list(dict.fromkeys(key for one in asked for key in one.measures.keys))
    number = {key: place for place, key in enumerate(keys)}
    precision, weights = np.zeros((len(asked), len(keys))), np.zeros(len(keys))
    for row, one in zip(precision, asked, strict=True):
        places = [number[key] for key in one.measures.keys]
        row[places] = 1.0 / np.maximum(one.variances, 1e-12 * max(float(one.variances.max()), 1e-300))
        weights[places] = np.maximum(weights[places], one.measures.weights)
    chances = np.full(len(asked), 1.0 / len(asked))
    for _ in range(400):
        slopes = precision @ (weights / (chances @ precision) ** 2)
        there = chances * np.sqrt(slopes)
        there /= there.sum()
        if np.abs(there - chances).max() < 1e-9:
            break
        chances = there
    return Planned(asked=tuple(asked), chances=chances, cost=float((weights / (chances @ precision)).sum()))


def _without_superfluous(planned: Planned) -> Planned:
    """The plan without questions whose statistics others measure well enough: the rarest first."""
    while len(planned.asked) > 1:
        for place in np.argsort(planned.chances).tolist():
            others = [one for number, one in enumerate(planned.asked) if number != place]
            known = {key for one in others for key in one.measures.keys}
            if not set(planned.asked[place].measures.keys) <= known:
                continue
            trial = _spread(others)
            if trial.cost <= planned.cost * (1.0 + 0.1 * SLACK):
                planned = trial
                break
        else:
            return planned
    return planned


def _veil(problem: Problem, sample: SurveySample, planned: Planned, epsilon: float, name: str, halvings: int) -> Veil:
    """Whole numbers for devices, and priors for the server."""
    chances = np.maximum(1, np.rint(DRAWS * planned.chances)).astype(np.int64).tolist()
    groups = [_group(one, chance, epsilon, halvings) for one, chance in zip(planned.asked, chances, strict=True)]
    decoder = SurveyDecoder(priors=tuple(one.rows.prior for one in planned.asked), width=problem.X.shape[1])
    mechanism = LevelResponse(region=sample.region, groups=tuple(groups))
    return Veil(encoder=sample.encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=name)


def _group(one: DraftQuestion, chance: int, epsilon: float, halvings: int) -> LevelGroup | BlockGroup | PlaneGroup:
    if one.prime is not None:
        first = one.digits[0][0]
        response = Response.calibrated(size=one.prime, favoured=one.width, epsilon=epsilon)
        return PlaneGroup(places=np.array([first, first + 1]), prime=one.prime, response=response, chance=chance)
    about: Mapping[str, Any] = {
        "places": np.array([place for place, _ in one.digits]),
        "counts": np.array([len(levels) for levels in one.scales]),
        "levels": np.concatenate(one.scales),
        "chance": chance,
    }
    if one.channel is not None:
        table = whole_numbers(one.channel, epsilon)
        if one.rows.binned[0]:
            levels = doubled(one.scales[0], 1 << GRID_BITS)
            about = {**about, "levels": levels, "counts": np.array([len(levels)])}
            table = np.repeat(table, 2, axis=0)[: len(levels)]
        return LevelGroup(table=table, **about)
    response = Response.calibrated(size=one.rows.rows, favoured=one.width, epsilon=epsilon)
    flat = BlockGroup(
        binned=np.array(one.rows.binned),
        blocks=np.array(flat_blocks(one.rows.rows, one.width, halvings)),
        response=response,
        **about,
    )
    if one.width == 1 or not _ordered(one.rows):
        return flat
    # Where levels have an order, blocks for just these statistics may be better than blocks that serve all alike.
    costs = (np.abs(np.fft.fft(one.measures.functionals, axis=0)) ** 2) @ one.measures.weights
    other = replace(flat, blocks=searched_blocks(costs, one.width, halvings))
    return min(flat, other, key=lambda group: exact_cost(group, one))


def _ordered(rows: Rows) -> bool:
    return any(isinstance(level, float) for levels in rows.levels for level in levels)


def exact_cost(group: BlockGroup, one: DraftQuestion) -> float:
    """The weighted variances of one report of a group of blocks."""
    question = BlockQuestion(
        **{name: getattr(one.rows, name) for name in ("fields", "levels", "binned", "prior")},
        group=0,
        start=0,
        outputs=group.outputs,
        part=group,
        chance=1.0,
    )
    try:
        return float(one.measures.weights @ question.variances(one.measures.functionals, one.rows.prior))
    except DataError:  # blocks that do not tell all rows apart
        return math.inf
