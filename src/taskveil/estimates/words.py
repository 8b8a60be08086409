"""Shares of the words of a large vocabulary, for candidates that the caller names, decoded in bulk.

A word is a point (v₁, v₂) of a plane over the residues mod p. A report names a form (α, β) and a residue s, and its
block contains a word if α v₁ + β v₂ lies among the w residues from s on. Forms are an exact 2-design, so a block
contains a word with one chance for people who have it and with one other chance for all others: the number of blocks
that contain it is binomial, and its limits are those of a share.

All forms u·(1, a) have the direction a and, divided by u, the residue of v₁ + a v₂ (of v₂ for the direction (0, 1)).
So every report adds 1 to w of the p residues of its direction, and a word sums p + 1 directions: N·w + words·(p + 1)
steps instead of N·words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from taskveil.arrays import Integers
from taskveil.errors import DataError
from taskveil.estimates.labels import Label
from taskveil.estimates.measured import Rule
from taskveil.estimates.picture import MOST_ROWS
from taskveil.estimates.rows import Row
from taskveil.estimates.scores import Tally
from taskveil.veil import Veil
from taskveil.veil.surveys import Question


def contained(prime: int, favoured: int, outputs: Integers, counts: Integers, points: Integers) -> Integers:
    """How many of the blocks of reports contain each of some points (n, 2).

    `outputs` (K,) are different outputs of a plane mod `prime` and `counts` (K,) how often each came; a block has
    `favoured` residues.
    """
    form, first = np.divmod(outputs, prime)
    alpha, beta = np.divmod(form + 1, prime)
    inverse = _inverses(prime)
    unit = inverse[np.where(alpha > 0, alpha, beta)]
    direction = np.where(alpha > 0, beta * unit % prime, prime)
    table = np.zeros((prime + 1) * prime)
    rows = max(len(table) // favoured, 1)  # each count over a table that is no larger than what is counted
    for some in (slice(start, start + rows) for start in range(0, len(outputs), rows)):
        residues = (first[some, None] + np.arange(favoured)) * unit[some, None] % prime
        residues += direction[some, None] * prime
        table += np.bincount(residues.ravel(), np.repeat(counts[some], favoured), len(table))
    sums, by_direction = np.zeros(len(points)), table.reshape(prime + 1, prime)
    residue = points[:, 0].copy()
    for one in range(prime):
        sums += by_direction[one, residue]
        residue += points[:, 1]
        residue[residue >= prime] -= prime
    return np.asarray(np.rint(sums + by_direction[prime, points[:, 1]]), dtype=np.int64)


def _inverses(prime: int) -> Integers:
    """(p,): the inverse of every residue mod p; 0 for 0."""
    found = np.zeros(prime, dtype=np.int64)
    found[1:2] = 1
    for one in range(2, prime):
        found[one] = prime - (prime // one) * found[prime % one] % prime
    return found


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
    blocks = contained(question.part.prime, question.part.response.favoured, outputs, counts, points[first])  # type: ignore[union-attr]
    distinct, place = np.unique(blocks, return_inverse=True)
    values = np.array([0.0, 1.0])
    limits = np.array([rule.limits(np.array([count - one, one]), values) for one in distinct.tolist()])[place]
    mean = (blocks / max(count, 1) - outside) / (inside - outside)
    low, high = (limits.T - outside) / (inside - outside)
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
