"""Which statistics the questions of a survey measure, and how each follows from the scores of their outputs.

A statistic is a ratio E[f]/E[g] over people, of functions f and g of a question's row: g = 1 for shares of all people,
"has a value" for means, "is in the group" for statistics by group. The outputs o of question q have unbiased scores
f_q(o), g_q(o). If several questions measure the same statistic ρ, then c_q (f_q − ρ g_q) has mean zero for reports of
each of them, whatever c_q > 0 is, and so it has for all their reports together. So limits for one sample hold for the
pooled one, with values c_q f_q and weights c_q g_q. The best c_q is 1/variance of f_q − ρ g_q for one report; it is
taken from the shares that the release expects, before any count is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.values import DAY
from taskveil.estimates.labels import Label
from taskveil.tasks.survey import SurveyTask
from taskveil.veil import Veil
from taskveil.veil.surveys import OTHER, Question

NOT_LISTED = "not listed"
"""What people are shown for a value of a category that the release does not list."""


class QuestionPart(NamedTuple):
    """f and g of one question, by row (rows,); g is None where it is 1 for everybody."""

    question: int
    value: Floats
    weight: Floats | None


class Statistic(NamedTuple):
    """A ratio E[f]/E[g], with the parts that measure it, one a question."""

    kind: str
    label: Label
    parts: tuple[QuestionPart, ...]


class Digit(NamedTuple):
    """A field in a question: the level of every row (rows,), the levels' values, and whether these are bins."""

    question: int
    name: str
    places: Integers
    levels: tuple[Any, ...]
    binned: bool

    @property
    def ordered(self) -> bool:
        """Whether its levels are numbers whose mean is that of the people."""
        return not self.binned and any(type(level) is float for level in self.levels)

    @property
    def missing(self) -> Bools:
        """(rows,): whether the value is missing."""
        return self.has(None)

    def has(self, value: Any) -> Bools:
        """(rows,): whether the level is this value."""
        marks = [level is value or (level == value and type(level) is type(value)) for level in self.levels]
        return np.array(marks, dtype=bool)[self.places]

    @property
    def numbers(self) -> Floats:
        """(rows,): the value, 0 where it is missing."""
        return np.array([0.0 if level is None else float(level) for level in self.levels])[self.places]

    @property
    def values(self) -> tuple[Any, ...]:
        """Its values; missing is none of them."""
        return tuple(level for level in self.levels if level is not None)


def digits_of(questions: Sequence[Question]) -> list[Digit]:
    """Every field of every question that has rows."""
    found = []
    for place, question in enumerate(questions):
        if question.levels:  # a large vocabulary has no rows
            parts = zip(question.fields, question.values, question.levels, question.binned, strict=True)
            found += [Digit(place, name, values, levels, binned) for name, values, levels, binned in parts]
    return found


def statistics(veil: Veil, questions: Sequence[Question]) -> list[Statistic]:
    """Everything that these questions measure, in the order of the records: means, shares, missing values, by group,
    cross-tables, histograms."""
    task, digits = veil.task, digits_of(questions)
    assert isinstance(task, SurveyTask)  # noqa: S101 - surveys have one
    of = {name: [one for one in digits if one.name == name] for name in dict.fromkeys(one.name for one in digits)}
    together = {
        (one.name, other.name): [(a, b) for a in of[one.name] for b in of[other.name] if a.question == b.question]
        for one in digits
        for other in digits
        if one.question == other.question and one.name != other.name
    }
    found = [one for name in of for one in _alone(veil, name, of[name])]
    for by in task.by:
        for name in of:
            found += _by(veil, by, name, together.get((by, name), []))
    for first, second in task.pairs:
        found += _cells(veil, (first, second), together.get((first, second), []))
    return found


def _alone(veil: Veil, name: str, digits: Sequence[Digit]) -> Iterator[Statistic]:
    """The statistics of one field."""
    numbers = [one for one in digits if one.ordered]
    shares = [one for one in digits if not one.ordered and not one.binned]
    bins = [one for one in digits if one.binned]
    if numbers:
        parts = tuple(QuestionPart(one.question, one.numbers, _present(one)) for one in numbers)
        yield Statistic("means", _mean_label(veil, name, ("means", name)), parts)
    for value in dict.fromkeys(value for one in shares for value in one.values):
        parts = tuple(QuestionPart(one.question, one.has(value).astype(float), None) for one in shares)
        yield Statistic("shares", _share_label(titled(veil, name, value), ("shares", name, value), value), parts)
    missing = [one for one in digits if one.missing.any()]
    if missing:
        parts = tuple(QuestionPart(one.question, one.missing.astype(float), None) for one in missing)
        yield Statistic("missing", _share_label(f"{name} is missing", ("missing", name)), parts)
    if bins:
        yield from _histogram(veil, name, bins)


def _histogram(veil: Veil, name: str, bins: Sequence[Digit]) -> Iterator[Statistic]:
    """The share of every bin, and that of all values below each inner edge, among people who have a value."""
    values, edges = bins[0].values, veil.task.edges(name).tolist()  # type: ignore[union-attr]

    def parts(wanted: Sequence[Any]) -> tuple[QuestionPart, ...]:
        chosen = [np.any([one.has(value) for value in wanted], axis=0).astype(float) for one in bins]
        return tuple(QuestionPart(one.question, value, _present(one)) for one, value in zip(bins, chosen, strict=True))

    for value, end in zip(values, edges[1:], strict=True):
        label = _share_label(titled(veil, name, value, binned=True), ("histograms", name, value, end))
        yield Statistic("histograms", label, parts([value]))
        yield Statistic("bands", label._replace(repeats=True, key=("bands", name, value, end)), parts([value]))
    for place, edge in enumerate(values[1:], start=1):
        label = _share_label(f"{name} below {_edge(veil, name, edge)}", ("below", name, edge))
        yield Statistic("below", label._replace(repeats=True), parts(values[:place]))


def _by(veil: Veil, by: str, name: str, both: Sequence[tuple[Digit, Digit]]) -> Iterator[Statistic]:
    """The statistics of a field for every value of another one, `by`."""
    if not both:
        return
    for group in both[0][0].values:
        where = titled(veil, by, group, binned=both[0][0].binned)
        inside = [(one.has(group), other) for one, other in both]
        key = ("by", by, group, name)
        numbers = [(one, other) for one, other in inside if other.ordered]
        if numbers:
            parts = tuple(
                QuestionPart(other.question, np.where(one, other.numbers, 0.0), (one & ~other.missing).astype(float))
                for one, other in numbers
            )
            label = _mean_label(veil, name, key)
            yield Statistic("by", label._replace(name=f"{label.short}, {where}"), parts)
        others = [(one, other) for one, other in inside if not other.ordered]
        values = dict.fromkeys(value for _, other in others for value in (*other.values, *_missing(other)))
        for value in values:
            parts = tuple(
                QuestionPart(other.question, (one & other.has(value)).astype(float), one.astype(float))
                for one, other in others
            )
            what = f"{name} is missing" if value is None else titled(veil, name, value, binned=others[0][1].binned)
            yield Statistic("by", _share_label(f"{what}, {where}", (*key, value), value), parts)


def _cells(veil: Veil, names: tuple[str, str], both: Sequence[tuple[Digit, Digit]]) -> Iterator[Statistic]:
    """The share of people with every pair of values of two fields; missing is a value here."""
    both = [pair for pair in both if not pair[0].ordered and not pair[1].ordered]
    if not both:
        return
    first, second = both[0]
    for a in (*first.values, *_missing(first)):
        for b in (*second.values, *_missing(second)):
            parts = tuple(
                QuestionPart(one.question, (one.has(a) & other.has(b)).astype(float), None) for one, other in both
            )
            said = [
                f"{name} is missing" if value is None else titled(veil, name, value, binned=one.binned)
                for name, value, one in zip(names, (a, b), (first, second), strict=True)
            ]
            yield Statistic("pairs", _share_label(", ".join(said), ("pairs", *names, a, b)), parts)


def titled(veil: Veil, name: str, value: Any, *, binned: bool = False) -> str:
    """A field's value as text: plan=Basic, income from 20,000 to 40,000."""
    if value is OTHER:
        return f"{name} {NOT_LISTED}"
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if not binned:
        return f"{name}={value}"
    edges = veil.task.edges(name).tolist()  # type: ignore[union-attr]
    place = next((place for place, edge in enumerate(edges[1:], start=1) if edge > value), len(edges) - 1)
    if place == 1:
        return f"{name} below {_edge(veil, name, edges[1])}"
    if place == len(edges) - 1:
        return f"{name} from {_edge(veil, name, edges[-2])}"
    return f"{name} from {_edge(veil, name, edges[place - 1])} to {_edge(veil, name, edges[place])}"


def _edge(veil: Veil, name: str, edge: float) -> str:
    if veil.schema[name].reads_as[0] == "date":
        return str(np.datetime64(round(edge * DAY), "s").astype("datetime64[D]"))
    return f"{edge:,.10g}"


def _missing(digit: Digit) -> tuple[None, ...]:
    return (None,) if digit.missing.any() else ()


def _present(digit: Digit) -> Floats | None:
    return (~digit.missing).astype(float) if digit.missing.any() else None


def _mean_label(veil: Veil, name: str, key: tuple[Any, ...]) -> Label:
    one = veil.schema[name]
    low, high = one.box
    return Label(one.labels(name)[0], one.reads_as[0], one.unit, bounds=(low[0], high[0]), key=key)


def _share_label(name: str, key: tuple[Any, ...], value: Any = None) -> Label:
    """Of a flag, tables show the share of those who have it."""
    return Label(name, "share", repeats=value is False, bounds=(0.0, 1.0), key=key)
