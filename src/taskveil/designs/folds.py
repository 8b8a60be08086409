"""Parts of the volunteers that take turns in being held out: what looks like a copy stays with its original.

A record that stands in the table ten times would otherwise be judged by designs that have seen it.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers

FEWEST_DISTINCT = 10
"""Fewer different records are categories: that all of ten occur an even number of times has a chance of 1 in 1,000."""


def folds_of(person: Integers, folds: int, rng: np.random.Generator) -> Integers:
    """The part, from 0 to `folds` − 1, of every record (N,), at random: all records of one `person` (N,) in the same.
    Parts are as good as equal, counted in people."""
    return np.asarray((rng.permutation(int(person.max()) + 1) % folds)[person])


def people(X: Floats) -> Integers:
    """Whose record each of X (N, n) is: numbers (N,) from 0 in the order of appearance, the same for copies.

    Identical records are copies of one person's in three cases: most of the different records occur once, so that
    records identify people; one attribute alone tells nine in ten of them apart, as measured values do; or all
    multiplicities have a common divisor, as in a table that was put together several times. Otherwise people share the
    values of every attribute, and two who gave the same few answers are two people.
    """
    number: dict[bytes, int] = {}
    person = np.array([number.setdefault(row.tobytes(), len(number)) for row in X + 0.0])  # + 0: minus zero is zero
    _, first, times = np.unique(person, return_index=True, return_counts=True)
    telling = max(len(np.unique(column)) for column in X[first].T)
    identified = (times == 1).sum() >= 0.5 * len(times) or telling >= 0.9 * len(times)
    copied = identified or np.gcd.reduce(times) > 1
    return person if copied and len(times) >= FEWEST_DISTINCT else np.arange(len(X))
