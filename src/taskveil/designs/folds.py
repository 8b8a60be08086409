"""Parts of the volunteers that take turns in being held out: what looks like a copy stays with its original.

A record that stands in the table ten times would otherwise be judged by designs that have seen it.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers

MANY_PEOPLE = 20
"""So many different records at least, or they are categories, which people share without being copies."""


def folds_of(person: Integers, folds: int, rng: np.random.Generator) -> Integers:
    """The part, from 0 to `folds` − 1, of every record (N,), at random: all records of one `person` (N,) in the same.
    Parts are as good as equal, counted in people."""
    return np.asarray((rng.permutation(int(person.max()) + 1) % folds)[person])


def people(X: Floats) -> Integers:
    """Whose record each of X (N, n) is: numbers (N,) from 0 in the order of appearance, the same for copies.

    Identical records are copies of one person's where some attribute alone tells nine in ten of the different records
    apart, as measured values do, or where every record stands there twice as often as some whole number, or three times
    …: a table that was put together several times, rounded or not. Otherwise, where people share the values of every
    attribute, being identical is natural: two who gave the same few answers are two.
    """
    alone = np.arange(len(X))
    number: dict[bytes, int] = {}
    person = np.array([number.setdefault(row.tobytes(), len(number)) for row in X + 0.0])  # + 0: minus zero is zero
    if not MANY_PEOPLE <= len(number) < len(X):
        return alone
    _, first, times = np.unique(person, return_index=True, return_counts=True)
    if np.gcd.reduce(times) > 1:  # by chance, once in 2^20 tables
        return person
    telling = max(len(np.unique(column)) for column in X[first].T)
    return person if telling >= 0.9 * len(number) else alone
