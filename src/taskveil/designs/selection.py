"""The choice between designs: one comparison, record by record, and two rules.

All candidates are judged on the same volunteers, each by a design that was made without the volunteer's fold.

1. A report is worth sending only if its design beats the constant prediction: the mean of the paired differences is
   above zero at the 5% level of a one-sided Student test.
2. Of the designs whose held-out loss is within 1% of the lowest, the smallest on the device is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from taskveil.arrays import Floats, Integers
from taskveil.losses import Considered
from taskveil.veil import Veil

LEVEL = 0.05
"""How often noise may look like a design that is worth sending."""

SLACK = 0.01
"""Of the lowest loss: designs that lose less than this against each other count as equally good."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One design that may be chosen: what it is, what it costs volunteers who had no part in it (N,), what it takes on
    a device, and how to make it from all volunteers."""

    method: str
    encoder: str
    losses: Floats
    bytes: int
    operations: int
    make: Callable[[], Veil]

    @property
    def loss(self) -> float:
        """The mean held-out loss."""
        return float(self.losses.mean())


def lead(one: Floats, other: Floats, person: Integers) -> tuple[float, float, int]:
    """By how much the losses (N,) of one are below those of the other on average, the standard error of that, and of
    how many people: the records of one `person` (N,) count as one."""
    gap = other - one
    mean = float(gap.mean())
    sums = np.bincount(person, weights=gap - mean)
    count = len(np.unique(person))
    if count < 2:
        return mean, math.inf, count
    return mean, math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(gap), count


def beats(one: Floats, other: Floats, person: Integers) -> bool:
    """Whether the losses (N,) of one are below those of the other at the 5% level, one-sided and paired."""
    mean, error, count = lead(one, other, person)
    return mean > 0 and count > 1 and mean > error * float(student.ppf(1.0 - LEVEL, count - 1))


def choose(
    candidates: Sequence[Candidate], person: Integers, constant: Candidate | None = None
) -> tuple[Candidate, tuple[Considered, ...]]:
    """The candidate that the two rules take, and all that were considered, the chosen one first.

    Args:
        candidates: at least one, unless there is a constant.
        person: whose record each volunteer's is (N,).
        constant: the constant prediction, taken where no candidate beats it; without it, one of the others is taken.
    """
    worth = [each for each in candidates if constant is None or beats(each.losses, constant.losses, person)]
    chosen = smallest(worth) if worth else constant
    if chosen is None:
        raise ValueError("there is nothing to choose from.")
    every = [*candidates, *([] if constant is None else [constant])]
    entries = []
    for each in every:
        _, error, _ = lead(chosen.losses, each.losses, person)
        entries.append(
            Considered(
                method=each.method,
                encoder=each.encoder,
                held_out_loss=each.loss,
                standard_error=0.0 if each is chosen else error,
                bytes=each.bytes,
                operations=each.operations,
            )
        )
    order = sorted(range(len(every)), key=lambda place: (every[place] is not chosen, entries[place].held_out_loss))
    return chosen, tuple(entries[place] for place in order)


def smallest(candidates: Sequence[Candidate]) -> Candidate:
    """The smallest on the device of those within 1% of the lowest loss."""
    lowest = min(each.loss for each in candidates)
    near = [each for each in candidates if each.loss <= lowest + SLACK * abs(lowest)]
    return min(near, key=lambda each: (each.bytes, each.operations, each.loss))
