"""Shares of the words of a large vocabulary, for candidates that the caller names.

A word is a point of a plane, a report a block of lines (`Question.contained` counts the blocks that contain a point).
Forms are an exact 2-design, so a block contains a word with one chance for people who have it and with one other chance
for all others: the number of blocks that contain a word is binomial, and its limits are those of a share.

These are shares of points. Words that are no candidates add to the share of a candidate with the same point: 1/p² on
average over salts, which is in no limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import betaincinv

from taskveil.arrays import Floats, Integers
from taskveil.errors import DataError
from taskveil.estimates.labels import Label
from taskveil.estimates.measured import Rule
from taskveil.estimates.picture import MOST_ROWS
from taskveil.estimates.rows import Row
from taskveil.estimates.scores import Tally
from taskveil.veil import Veil
from taskveil.veil.surveys import Question


def word_rows(
    veil: Veil, questions: Sequence[Question], tally: Tally, rule: Rule, candidates: Mapping[str, Sequence[Any]]
) -> tuple[list[Row], tuple[str, ...]]:
    """Rows of the candidates of every field with a large vocabulary, the most frequent first, and sentences."""
    planes = {one.fields[0]: one for one in questions if not one.levels}
    if unknown := [name for name in candidates if name not in planes]:
        has = f"those that have one: {', '.join(planes)}" if planes else "and no field of this release has one"
        raise DataError(f"candidates are for fields with a large vocabulary, {has}; got {unknown[0]!r}.")
    rows: list[Row] = []
    notes = [
        f"{name} has a large vocabulary: pass candidates={{{name!r}: [...]}} for the shares of these."
        for name in planes
        if name not in candidates
    ]
    for name, words in candidates.items():
        if isinstance(words, str | bytes):
            raise DataError(f"the candidates of {name!r} are a list of words, got one word.")
        found, alike = _candidates(veil, planes[name], name, list(dict.fromkeys(words)), tally, rule)
        rows += found
        if alike:
            notes.append(f"{name}: {alike:,} rows stand for several candidates that devices do not tell apart.")
    return rows, tuple(notes)


def _candidates(
    veil: Veil, question: Question, name: str, words: Sequence[Any], tally: Tally, rule: Rule
) -> tuple[list[Row], int]:
    """A row for every point that candidates have, and how many of these are of several candidates."""
    points = np.asarray(veil.schema[name].expand(words), dtype=np.int64)
    if not len(points):
        return [], 0
    _, first, point, members = np.unique(points, axis=0, return_index=True, return_inverse=True, return_counts=True)
    outputs, counts = tally.listed_between(question.start, question.start + question.outputs)
    count, inside, outside = int(counts.sum()), *question.hits
    blocks = question.contained(np.repeat(outputs, counts), points[first])
    mean, low, high = (
        (one - outside) / (inside - outside) for one in (blocks / max(count, 1), *_limits(blocks, count, rule))
    )
    forged = tally.count / max(count, 1) / (inside - outside)
    named: list[list[str]] = [[] for _ in first]
    for word, number in zip(words, point.ravel().tolist(), strict=True):
        named[number].append(word)
    rows: list[Row] = []
    for number in np.argsort(-mean, kind="stable").tolist():
        key = ("shares", name, named[number][0] if len(named[number]) == 1 else tuple(named[number]))
        said = " or ".join(map(str, named[number]))
        label = Label(f"{name}={said}", "share", repeats=len(rows) >= MOST_ROWS, bounds=(0.0, 1.0), key=key)
        found = float(mean[number]), float(low[number]), float(high[number])
        rows.append(Row(label, *found, math.nan, math.nan, forged))
    return rows, int((members > 1).sum())


def _limits(hits: Integers, count: int, rule: Rule) -> tuple[Floats, Floats]:
    """Limits (n,) each of the chances of which `hits` (n,) came of `count`: Clopper and Pearson's, which the exact
    limits are for two scores; or those that hold at all times."""
    if not rule.anytime:
        miss = (1.0 - rule.confidence) / 2
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), count - hits + 1, miss), 0.0)
        high = np.where(hits < count, betaincinv(hits + 1, np.maximum(count - hits, 1), 1.0 - miss), 1.0)
        return low, high
    distinct, place = np.unique(hits, return_inverse=True)
    values = np.array([0.0, 1.0])
    found = np.array([rule.limits(np.array([count - one, one]), values) for one in distinct.tolist()])[place.ravel()]
    return found[:, 0], found[:, 1]
