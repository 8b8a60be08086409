"""The rows of a survey: means, shares and ratios from counts of reports, with limits, compared with the volunteers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import NUMBERS_AT_A_TIME, Floats, Integers
from taskveil.errors import DataError
from taskveil.estimates import drift
from taskveil.estimates.condensing import condensed
from taskveil.estimates.density import smooth_shares
from taskveil.estimates.measured import FEWEST_COMPARED, WITHOUT_VOLUNTEERS, Rule, moved_rows
from taskveil.estimates.result import SURVEYED
from taskveil.estimates.rows import Row
from taskveil.estimates.scores import Tally
from taskveil.estimates.survey_statistics import QuestionPart, Statistic, statistics, titled
from taskveil.estimates.words import word_rows
from taskveil.veil import Veil
from taskveil.veil.channels import channel_of
from taskveil.veil.surveys import OTHER, Question, columns_of, questions
from taskveil.veil.volunteers import missing_in

RARE = "There may be too few people for these means and shares, which stay unknown: {}."
UNEVEN = 1e12
"""How many times as wide as another one a bin may be, for doubles to tell how a density over the bins bends."""
COMPARED = ("means", "shares", "missing")
"""Kinds of rows that the volunteers' sums are compared with."""
Candidates = Mapping[str, Sequence[Any]]


class Scored(NamedTuple):
    """A statistic with values and weights (outputs,) of its questions, one after the other, and the questions."""

    statistic: Statistic
    values: Floats
    weights: Floats
    used: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey:
    """The questions of a release, and the counts of the outputs of each."""

    veil: Veil
    questions: tuple[Question, ...]
    tally: Tally

    @classmethod
    def of(cls, veil: Veil, tally: Tally) -> Survey:
        """The survey of a release with the reports of a tally."""
        return cls(veil=veil, questions=questions(veil), tally=tally)

    @cached_property
    def counts(self) -> tuple[Integers | None, ...]:
        """How often each output of each question came; None for a large vocabulary."""
        return tuple(
            self.tally.between(one.start, one.start + one.outputs) if one.levels else None for one in self.questions
        )

    def scored(self, one: Statistic) -> Scored | None:
        """Values and weights of a statistic, or None if no question measures it."""
        columns, used = [], []
        for part in one.parts:
            question, pooled = self.questions[part.question], len(one.parts) > 1
            try:
                found = self._scores(question, part)
                precision = self._precision(question, part) if pooled else 1.0
            except DataError:  # its few reports measure the mean and not every share
                continue
            columns.append(precision * found)
            used.append(part.question)
        if not used:
            return None
        values, weights = np.concatenate(columns, axis=1)
        return Scored(one, values, weights, tuple(used))

    def _scores(self, question: Question, part: QuestionPart) -> Floats:
        """(2, outputs): the scores of value and weight, without what the last digits of a double add."""
        if part.weight is None:
            return np.stack([_rounded(question.scores(part.value[:, None])[:, 0]), np.ones(question.outputs)])
        return np.stack([_rounded(one) for one in question.scores(np.stack([part.value, part.weight], axis=1)).T])

    def _precision(self, question: Question, part: QuestionPart) -> float:
        """1/variance of one report's f − ρ g, for people like those that the release expects."""
        weight = np.ones(question.rows) if part.weight is None else part.weight
        ratio = float(question.prior @ part.value) / max(float(question.prior @ weight), 1e-300)
        return 1.0 / max(question.variance(part.value - ratio * weight, question.prior), 1e-300)

    def likely(self, name: str, bins: Sequence[Statistic]) -> Floats | None:
        """(bins,): the smooth shares of the bins of a field among people who have a value, that fit the shares that its
        questions measure together. None without reports, or with fewer than three bins. More than 256 bins are
        fitted in so many groups of neighbours, with even densities within a group: that takes about a second. If
        doubles cannot tell how a density over the bins bends, the bins count as equally wide."""
        edges = np.asarray(self.veil.task.edges(name))  # type: ignore[union-attr]
        if np.diff(edges).max() > UNEVEN * np.diff(edges).min():
            edges = np.arange(len(edges), dtype=np.float64)
        groups = min(len(bins), math.isqrt(NUMBERS_AT_A_TIME))
        starts = np.linspace(0, len(bins), groups, endpoint=False).astype(int)
        known, fitting = np.zeros((len(starts), len(starts))), np.zeros(len(starts))
        for number, part in enumerate(bins[0].parts):
            question, counts = self.questions[part.question], self.counted([part.question])
            weight = np.ones(question.rows) if part.weight is None else part.weight
            inside = np.add.reduceat(np.stack([one.parts[number].value for one in bins]), starts, axis=0)
            try:
                scores = question.scores(np.vstack([inside, weight]).T)
            except DataError:  # its few reports measure the mean and not every share
                continue
            total = float(counts @ scores[:, -1])
            if not total > 0:
                continue
            shares = counts @ scores[:, :-1] / total
            away = scores[:, :-1] - scores[:, -1:] * shares
            # Few reports say little about a covariance: as many are added as there are bins, as the release expects.
            likely = counts + len(starts) * question.expected(question.prior)
            spread = (away.T * likely) @ away * (counts.sum() / likely.sum() / total**2)
            precision = np.linalg.pinv(spread, rcond=1e-10, hermitian=True)
            known, fitting = known + precision, fitting + precision @ shares
        if len(bins) < 3 or not known.any():
            return None
        shares = np.linalg.pinv(known, rcond=1e-10, hermitian=True) @ fitting
        shares += (1.0 - shares.sum()) / len(shares)
        found = smooth_shares(shares, known, edges[np.append(starts, -1)])
        width = np.diff(edges)
        sizes = np.diff(np.append(starts, len(bins)))
        return np.asarray(np.repeat(found / np.add.reduceat(width, starts), sizes) * width)

    def counted(self, used: Sequence[int]) -> Floats:
        """The counts (outputs,) of these questions, one after the other."""
        return np.concatenate([np.asarray(self.counts[place], dtype=np.float64) for place in used])


def surveyed(
    veil: Veil, tally: Tally, rule: Rule, candidates: Candidates | None = None
) -> tuple[dict[str, tuple[Row, ...]], drift.Drift, tuple[str, ...]]:
    """Rows by kind, the test whether people differ from the volunteers in means and shares, and sentences."""
    survey = Survey.of(veil, tally)
    asked, own = statistics(veil, survey.questions), _Volunteers(veil)
    bins = Counter(one.label.key[1] for one in asked if one.kind == "bands")
    groups: dict[str, list[Row]] = {}
    rare: dict[Any, None] = {}
    alone: list[Scored] = []
    for one in (found for each in asked if (found := survey.scored(each)) is not None):
        if one.statistic.kind in COMPARED:  # all others are forgotten: a large cross-table has many scores
            alone.append(one)
        label = one.statistic.label
        wanted = rule
        if one.statistic.kind == "bands":  # all bins of a histogram at once
            wanted = rule._replace(confidence=1.0 - (1.0 - rule.confidence) / bins[label.key[1]])
        row = _row(survey, one, wanted, own.of(label.key))
        if OTHER in label.key and label.key[0] in ("by", "pairs") and not row.low > 0:
            row = row._replace(label=label._replace(repeats=True))  # perhaps nobody
        groups.setdefault(one.statistic.kind, []).append(row)
        if math.isnan(row.mean) and OTHER not in label.key:
            rare[label.key[1:3] if label.key[0] == "by" else label.title] = None
    for name in bins:
        shown = [one for one in asked if one.kind == "histograms" and one.label.key[1] == name]
        if (likely := survey.likely(name, shown)) is not None:
            rows = [row for row in groups["histograms"] if row.label.key[1] == name]
            groups.setdefault("likely", []).extend(
                row._replace(mean=share, label=row.label._replace(repeats=True, key=("likely", *row.label.key[1:])))
                for row, share in zip(rows, likely.tolist(), strict=True)
            )
    shares, notes = word_rows(veil, survey.questions, tally, rule, candidates or {})
    groups.setdefault("shares", []).extend(shares)
    notes = (*channel_of(veil.mechanism, veil.decoder).notes, *notes)
    if rare:
        said = [titled(veil, *one, binned=type(one[1]) is float) if isinstance(one, tuple) else one for one in rare]
        notes += (RARE.format("; ".join(said)),)
    kept = {kind: tuple(groups[kind]) for kind in SURVEYED if groups.get(kind)}
    return kept, _moved(survey, alone, kept, own), notes


def _row(survey: Survey, one: Scored, rule: Rule, own: tuple[float, float]) -> Row:
    """The row of a statistic with limits; unbounded where too few people may have what it is about."""
    counts, label = survey.counted(one.used), one.statistic.label
    total, ratio = float(counts @ one.weights), any(part.weight is not None for part in one.statistic.parts)
    low, high = rule.limits(*condensed(counts, one.values, one.weights))  # type: ignore[arg-type]
    mean = float(counts @ one.values) / total if total > 0 else math.nan
    if ratio and not (np.isfinite(low) and np.isfinite(high)):
        mean = math.nan
    if ratio or label.kind != "share":  # a ratio has a little bias anyway: it lies where a mean can
        mean = float(np.clip(mean, *label.bounds))
    away = one.values - np.nan_to_num(mean) * one.weights
    # Forged reports may answer this question; those of other questions change nothing.
    forged = float(max(away.max(), 0.0) - min(away.min(), 0.0)) * survey.tally.count / total if total > 0 else math.inf
    forged = forged if math.isfinite(mean) else math.inf
    return Row(label, mean, low, high, own[0], math.sqrt(own[1]), forged, ratio=ratio)


def _rounded(values: Floats) -> Floats:
    scale = 2.0 ** int(np.frexp(np.abs(values).max(initial=0.0))[1]) or 1.0
    return np.asarray(np.round(values / scale, 12) * scale)


class _Volunteers:
    """Means and variances of the volunteers, of the statistics of single fields; of others nothing is kept."""

    def __init__(self, veil: Veil) -> None:
        self._schema, known = veil.schema, veil.volunteers
        self.count = 0 if known is None else known.count
        self._raw = None if known is None else known.cells.overall([])
        self._present = None if known is None else known.cells.overall(list(missing_in(veil.schema)))

    def of(self, key: tuple[Any, ...]) -> tuple[float, float]:
        """The mean and the variance over volunteers of a statistic, NaN where they are unknown."""
        unknown = math.nan, math.nan
        if self._raw is None or self._present is None or key[0] not in COMPARED:
            return unknown
        place, one = columns_of(self._schema, key[1]), self._schema[key[1]]
        if key[0] == "means":
            return float(self._present[0][place.start]), float(self._present[1][place.start])
        means = self._raw[0]
        if key[0] == "missing":
            share = float(means[place.stop - 1])
        elif not one.exclusive:
            absent = float(means[place.stop - 1]) if one.missing else 0.0
            true = float(means[place.start]) - float(one.expand([None])[0, 0]) * absent
            share = true if key[2] else 1.0 - absent - true
        elif key[2] is OTHER:
            share = 1.0 - float(means[place].sum())
        elif key[2] in one.words:
            share = float(means[place.start + list(one.words).index(key[2])])
        else:
            return unknown
        share = min(max(share, 0.0), 1.0)
        return share, share * (1.0 - share)

    def absent(self, name: str) -> float:
        """The share of volunteers without a value."""
        one, place = self._schema[name], columns_of(self._schema, name)
        return float(self._raw[0][place.stop - 1]) if one.missing and self._raw is not None else 0.0


def _moved(
    survey: Survey, every: Sequence[Scored], groups: dict[str, tuple[Row, ...]], own: _Volunteers
) -> drift.Drift:
    """Whether means and shares differ from the volunteers': distances from the volunteers' value, zero for people who
    have no value, with the covariance of their errors."""
    if not own.count:
        return WITHOUT_VOLUNTEERS
    if survey.tally.count < FEWEST_COMPARED:
        return drift.Drift(words=f"Fewer than {FEWEST_COMPARED} reports are not compared with the volunteers.")
    rows = {row.label: row for kind in COMPARED for row in groups.get(kind, ())}
    some = [
        one
        for one in every
        if (row := rows.get(one.statistic.label)) is not None
        and row.label.shown
        and np.isfinite([row.mean, row.volunteers, row.spread]).all()
        and survey.counted(one.used).sum() > 1
    ]
    if not some:
        return WITHOUT_VOLUNTEERS
    distance, variances, counts = np.zeros(len(some)), np.zeros(len(some)), np.zeros(len(some))
    scaled: list[dict[int, Floats]] = []
    for place, one in enumerate(some):
        row, found = rows[one.statistic.label], survey.counted(one.used)
        pooled = one.weights if all(part.weight is None for part in one.statistic.parts) else _plain(survey, one)
        away = (one.values - row.volunteers * one.weights) / float(found @ pooled)
        distance[place], counts[place] = found @ away, found.sum()
        there = 1.0 - own.absent(row.label.key[1]) if row.label.key[0] == "means" else 1.0
        variances[place] = row.spread**2 * there
        ends = np.cumsum([survey.questions[number].outputs for number in one.used])[:-1]
        scaled.append(dict(zip(one.used, np.split(away, ends), strict=True)))
    errors = np.zeros((len(some), len(some)))
    for number, count in enumerate(survey.counts):
        members = [place for place, parts in enumerate(scaled) if number in parts]
        if count is None or not members or not count.sum():
            continue
        values = np.stack([scaled[place][number] for place in members], axis=1)
        values = values - count @ values / count.sum()
        errors[np.ix_(members, members)] += (values.T * count) @ values
    compared = [rows[one.statistic.label] for one in some]
    # As they are, with the bounds of their values; means of a number that may be missing as distances.
    whole = [row.label.key[0] != "means" or not own.absent(row.label.key[1]) for row in compared]
    centre = np.array([row.volunteers if one else 0.0 for row, one in zip(compared, whole, strict=True)])
    bounds = np.array([row.label.bounds if one else (0.0, 0.0) for row, one in zip(compared, whole, strict=True)]).T
    z, simulated = drift.of_means(distance + centre, errors, counts, centre, variances, own.count, bounds)
    # A share that is 0 or 1 among volunteers can only change towards the inside.
    lowest = np.array([0.0 if row.label.kind == "share" and row.volunteers <= 0.0 else -math.inf for row in compared])
    highest = np.array([0.0 if row.label.kind == "share" and row.volunteers >= 1.0 else math.inf for row in compared])
    return moved_rows(np.clip(z, lowest, highest), np.clip(simulated, lowest, highest), compared)


def _plain(survey: Survey, one: Scored) -> Floats:
    """(outputs,): the precision of every question where the weights of a mean are those of people who have a value."""
    parts = {part.question: part for part in one.statistic.parts}
    each = [
        np.full(
            survey.questions[number].outputs,
            survey._precision(survey.questions[number], parts[number]) if len(one.statistic.parts) > 1 else 1.0,
        )
        for number in one.used
    ]
    return np.concatenate(each)
