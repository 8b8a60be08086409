"""Parts of the volunteers that take turns in being held out: what looks like a copy stays with its original.

A record that stands in the table ten times would otherwise be judged by designs that have seen it.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers

MANY_KINDS = 20
"""So many different records at least, or they are categories, which people share without being copies."""


def folds_of(X: Floats, folds: int, rng: np.random.Generator) -> Integers:
    """The part, from 0 to `folds` − 1, of every record (N,): at random, as good as equal in size, copies together."""
    return np.asarray((rng.permutation(len(X)) % folds)[originals(X)])


def originals(X: Floats) -> Integers:
    """For every record (N,) the number of the first one that it is a copy of: its own where it is none.

    Identical records are copies where one attribute tells (nine in ten of) the different records apart, as measured
    values do. Where every attribute is shared by different records, being identical is natural: two people who gave
    the same few answers are two people.
    """
    first: dict[bytes, int] = {}
    numbers = np.array([first.setdefault(row.tobytes(), place) for place, row in enumerate(X + 0.0)])  # −0 is 0
    kinds = X[list(first.values())]
    alone = np.arange(len(X))
    if not MANY_KINDS <= len(kinds) < len(X):
        return alone
    telling = max(len(np.unique(column)) for column in kinds.T)
    return numbers if telling >= 0.9 * len(kinds) else alone
