"""The statistics of a survey as functionals of people's rows, with their weights in the sum of squared errors.

A statistic that is a mean over all people (a share, a cell of a cross-table) is its own functional. A ratio (the mean
of those who have a value, or of a group) has the functional of the delta method: for a mean μ over the part G of all
people, 1[G] (x − μ)/P[G], whose variance over N people is the ratio's to first order.

Keys name the statistics:

    ("mean", field)   ("share", field, value)   ("missing", field)   ("histogram", field, number of the bin)
    ("above", field, number of the bin)   of a histogram: the share of people in this bin and those above
    ("by", by, value of by, …one of the first three)   ("pair", first, second, value of first, value of second)
    ("word", field)   of an open vocabulary: the share of one word that few people have
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Bools, Floats
from taskveil.errors import DataError
from taskveil.tasks.survey import SurveyTask, kind_of
from taskveil.veil.decoders import SurveyDecoder
from taskveil.veil.surveys import OTHER, Rows, questions_of, survey_encoder

Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """What a question measures: keys, functionals (rows, t), and weights (t,) of squared errors in natural units."""

    keys: tuple[Key, ...]
    functionals: Floats
    weights: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class _Digit:
    """A digit of a question: the place of each row among its values; numbers (rows,), NaN where they are missing."""

    name: str
    values: tuple[Any, ...]
    number: Floats | None
    places: Any
    binned: bool
    weight: float
    spread: float | None
    """The standard deviation of its values over their range, where it is known better than from rounded values."""

    def has(self, value: int) -> Bools:
        """(rows,): which rows have this value."""
        return np.asarray(self.places == value)


def statistics(
    task: SurveyTask, question: Rows, shares: Floats | None = None, spreads: Mapping[str, float] | None = None
) -> Statistics:
    """The statistics that a survey asks for and the question measures.

    Args:
        task: the survey.
        question: one of its questions.
        shares: of people (rows,), at which ratios are linearised; by default the question's prior.
        spreads: by number or date the standard deviation of people's values over the range of the field, which the
            error of a mean is divided by. Others are those of the question's levels: larger, as rounding to few levels
            spreads values, so that weights of two designs would differ.
    """
    if not question.levels:
        weight = np.array([task.weight(question.fields[0]) ** 2])
        return Statistics(keys=(("word", question.fields[0]),), functionals=np.zeros((1, 1)), weights=weight)
    p = question.prior if shares is None else shares
    digits = [
        _digit(task, name, values, places, binned, (spreads or {}).get(name))
        for name, values, places, binned in zip(
            question.fields, question.levels, question.values, question.binned, strict=True
        )
    ]
    everybody = np.ones(len(p), dtype=bool)
    found: dict[Key, tuple[Floats, float]] = {}
    for one in digits:
        if one.name in (*task.fields, *task.by) or one.binned:
            found |= {key: (row, weight) for key, row, weight in _of_field(one, everybody, p)}
        if one.binned and (edges := task.edges(one.name)) is not None:
            found |= _above(one, edges, p)
    for first in digits:
        for second in digits:
            if first is second:
                continue
            if first.name in task.by and second.name in task.fields and not (second.binned and second.number is None):
                found |= _by_group(first, second, p)
            if any((first.name, second.name) == tuple(pair) for pair in task.pairs):
                found |= _cells(first, second)
    return Statistics(
        keys=tuple(found),
        functionals=np.array([row for row, _ in found.values()]).T.reshape(len(p), -1),
        weights=np.array([weight for _, weight in found.values()]),
    )


def _digit(
    task: SurveyTask, name: str, values: tuple[Any, ...], places: Any, binned: bool, spread: float | None
) -> _Digit:
    number = None
    if kind_of(task.schema[name]) != "share" and not binned:
        number = np.array([np.nan if value is None else value for value in values])[places]
    return _Digit(
        name=name, values=values, number=number, places=places, binned=binned, weight=task.weight(name), spread=spread
    )


def _of_field(one: _Digit, part: Bools, p: Floats) -> Iterator[tuple[Key, Floats, float]]:
    """Keys, functionals (rows,) and weights of a field among the people of some rows."""
    inside = float(p[part].sum())
    if one.number is not None:
        there = part & ~np.isnan(one.number)
        number, share = np.nan_to_num(one.number), float(p[there].sum())
        mean = float(p[there] @ number[there]) / share
        present = ~np.isnan(one.number)
        middle = float(p[present] @ number[present]) / float(p[present].sum())
        spread = float(np.sqrt(p[present] @ (number[present] - middle) ** 2 / p[present].sum()))
        if one.spread is not None:  # both bounds of a number are among its levels
            spread = one.spread * float(np.ptp(number[present]))
        weight = (inside * one.weight / max(spread, 1e-300)) ** 2
        yield ("mean", one.name), np.where(there, number - mean, 0.0) / share, weight
    for value, label in enumerate(one.values):
        if label is not None and one.number is not None:
            continue
        mine = part & one.has(value)
        # Over everybody the functional is the share itself.
        row = mine.astype(float) if part.all() else part * (mine - float(p[mine].sum()) / inside) / inside
        key = ("missing", one.name) if label is None else ("share", one.name, label)
        weight = (inside * one.weight) ** 2
        if one.binned and label is not None:  # errors of histograms are those of the shares above
            key, weight = ("histogram", one.name, value), 0.0
        yield key, row, weight


def _above(one: _Digit, edges: Floats, p: Floats) -> dict[Key, tuple[Floats, float]]:
    """The shares above the inner edges (bins + 1,), each weighted by the part of the range it stands for.

    It counts more where both sides have people: of a share near 0 or 1, little is left to learn.
    """
    bins, width = len(edges) - 1, (edges[2:] - edges[:-2]) / (2.0 * (edges[-1] - edges[0]))
    rows = [np.asarray((one.places >= value) & (one.places < bins), dtype=float) for value in range(1, bins)]
    above = np.array(rows) @ p / float(p[one.places < bins].sum())
    parts = width * (1.0 / bins + 4.0 * above * (1.0 - above))
    weights = one.weight**2 * parts * (width.sum() / parts.sum())
    keys = (("above", one.name, value) for value in range(1, bins))
    return dict(zip(keys, zip(rows, weights.tolist(), strict=True), strict=True))


def _by_group(by: _Digit, one: _Digit, p: Floats) -> dict[Key, tuple[Floats, float]]:
    found: dict[Key, tuple[Floats, float]] = {}
    for value, label in enumerate(by.values):
        for key, row, weight in _of_field(one, by.has(value), p):
            found["by", by.name, label, *key] = row, weight
    return found


def _cells(first: _Digit, second: _Digit) -> dict[Key, tuple[Floats, float]]:
    weight = (first.weight * second.weight) ** 2
    return {
        ("pair", first.name, second.name, one, other): ((first.has(i) & second.has(j)).astype(float), weight)
        for i, one in enumerate(first.values)
        for j, other in enumerate(second.values)
    }


def checked_survey(parts: Mapping[str, Any]) -> SurveyTask:
    """The task of the parts of a release, brought to its schema, after all checks; an error says what does not fit.

    Otherwise a forged part could make the server read reports as something else. So the encoder, the region and the
    levels are those that follow from the task and the fields, and every statistic is measured by a question.
    """
    task, decoder, encoder, mechanism = (parts[name] for name in ("task", "decoder", "encoder", "mechanism"))
    if not isinstance(task, SurveyTask) or not isinstance(decoder, SurveyDecoder):
        raise DataError("a survey has the task and the decoder of a survey.")
    if any(parts[name] is not None for name in ("answering", "outputs", "bounds")):
        raise DataError("a survey has no answers for one person.")
    task = task.on(parts["schema"])
    questions = questions_of(task, encoder, mechanism, decoder)
    expected, region = survey_encoder(task, encoder.low, encoder.high)
    same = all(
        np.array_equal(getattr(expected, part), getattr(encoder, part)) for part in ("weights", "offset", "step")
    )
    same = same and region.step == mechanism.region.step and np.array_equal(region.high, mechanism.region.high)
    if not same or mechanism.region.low.any() or decoder.width != encoder.width:
        raise DataError("the encoder is not that of the survey's fields.")
    found: set[Key] = set()
    for one in questions:
        said = statistics(task, one)
        if one.levels:
            tried = said.functionals[:, :1] if one.uniform else said.functionals
            for some in one.parts(tried.shape[1]):
                one.scores(tried[:, some])  # refuses blocks and tables that do not measure them
        found |= set(said.keys)
    if lost := [key for key in asked_for(task) if key not in found]:
        raise DataError(f"no question measures {lost[0]!r}.")
    return task


def asked_for(task: SurveyTask) -> Iterator[Key]:
    """The keys of statistics that a survey asks for; of each kind one for each field, group or pair."""
    for name in dict.fromkeys((*task.fields, *task.by)):
        one = task.schema[name]
        if one.side is not None:
            yield "word", name
        elif kind_of(one) != "share" and name in task.fields:
            yield "mean", name
        elif kind_of(one) == "share":
            yield "share", name, OTHER if one.exclusive else True
        if one.missing:
            yield "missing", name
    yield from (("histogram", one.name, 0) for one in task.histograms)
    for by in task.by:
        bins = task.edges(by) if kind_of(task.schema[by]) != "share" else None
        first = float(bins[0]) if bins is not None else OTHER if task.schema[by].exclusive else True
        for name in task.fields:
            one = task.schema[name]
            if name != by and one.side is None:
                of = ("mean", name) if kind_of(one) != "share" else ("share", name, OTHER if one.exclusive else True)
                yield "by", by, first, *of
    for pair in task.pairs:
        firsts = []
        for name in pair:
            one, bins = task.schema[name], task.edges(name)
            share = kind_of(one) == "share"
            firsts.append((OTHER if one.exclusive else True) if share or bins is None else float(bins[0]))
        yield "pair", *pair, *firsts
