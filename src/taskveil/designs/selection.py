"""The choice between designs: the folds, one comparison record by record, and two rules.

All candidates are judged on the same volunteers, each by a design that was made without the volunteer's fold. Copies of
a record are in the same fold: a record that occurs ten times would otherwise be judged by designs that have seen it.

1. A report is worth sending only if its design beats the constant prediction: the mean of the paired differences is
   above zero at the 5% level of a one-sided Student test.
2. Of the designs whose held-out loss is within 1% of the lowest, the smallest on the device is taken. One whose ε may
   fail with a probability δ is among them only if its held-out loss is below that of all designs with δ = 0.

Designs are made and judged in one thread (`one_thread`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from taskveil.arrays import Floats, Integers
from taskveil.veil import Veil
from taskveil.veil.loss_intervals import LEVEL
from taskveil.veil.losses import Considered

SLACK = 0.01
"""A fraction of the lowest loss: designs within it count as equally good."""

ROUNDING = 1e-9
"""A fraction of the losses: a smaller lead may consist of rounding errors, which all point in one direction."""


FEWEST_DISTINCT = 10
"""Fewer different records are categories: with ten, an even count of each has a chance of 1 in 1,000."""

SEEN = 1000
"""Volunteers that fix a detail of a design, such as the number of codewords; more would hardly change it."""

MANIFEST = 4 * 1024
"""Bytes of a client folder beside the encoder and the codewords: mostly the manifest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """One design that may be chosen: its method and encoder, the held-out losses (N,) of the volunteers, NaN for those
    who did not judge it, its size on a device, a function that makes it from all volunteers, and its δ."""

    method: str
    encoder: str
    losses: Floats
    bytes: int
    operations: int
    make: Callable[[], Veil]
    delta: float = 0.0


def lead(one: Floats, other: Floats, person: Integers) -> tuple[float, float, int]:
    """The mean by which the losses (N,) of one are below those of the other, its standard error, and the number of
    people: the records of one `person` (N,) count as one."""
    count = len(np.unique(person))
    if count < 2 or not (np.isfinite(one).all() and np.isfinite(other).all()):
        return 0.0, math.inf, count
    gap = other - one
    mean = float(gap.mean())
    sums = np.bincount(person, weights=gap - mean)
    return mean, math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(gap), count


def beats(one: Floats, other: Floats, person: Integers) -> bool:
    """Whether the losses (N,) of one are below those of the other at the 5% level, one-sided and paired. Differences in
    the last digits do not count."""
    mean, error, count = lead(one, other, person)
    if math.isinf(error) or mean <= ROUNDING * float(np.abs(other).mean()):
        return False
    return mean > error * float(student.ppf(1.0 - LEVEL, count - 1))


def choose(
    candidates: Sequence[Candidate], person: Integers, constant: Candidate | None = None
) -> tuple[Candidate, tuple[Considered, ...]]:
    """The candidate that the two rules choose, and all candidates, the chosen one first.

    Args:
        candidates: at least one, unless there is a constant.
        person: whose record each volunteer's is (N,).
        constant: the constant prediction, taken where no candidate beats it; without it, one of the others is taken.
    """
    every = [*candidates, *([] if constant is None else [constant])]
    # All are compared on the volunteers whom all were judged on. A loss may be infinite, and is then the largest.
    judged = ~np.isnan(np.stack([each.losses for each in every])).any(axis=0)
    losses = [each.losses[judged] for each in every]
    person = person[judged]
    means = [float(found.mean()) if judged.any() else math.nan for found in losses]
    worth = [place for place in range(len(candidates)) if constant is None or beats(losses[place], losses[-1], person)]
    pure = min((means[place] for place in worth if not every[place].delta), default=math.inf)
    worth = [place for place in worth if not every[place].delta or means[place] < pure]
    chosen = smallest(every, means, worth) if worth else len(every) - 1
    entries = [
        Considered(
            method=each.method,
            encoder=each.encoder,
            held_out_loss=mean,
            standard_error=0.0 if place == chosen else lead(losses[chosen], losses[place], person)[1],
            bytes=each.bytes,
            operations=each.operations,
        )
        for place, (each, mean) in enumerate(zip(every, means, strict=True))
    ]
    order = sorted(range(len(every)), key=lambda place: (place != chosen, means[place]))
    return every[chosen], tuple(entries[place] for place in order)


def smallest(every: Sequence[Candidate], means: Sequence[float], places: Sequence[int]) -> int:
    """Of the candidates at these places, the place of the smallest on the device within 1% of the lowest loss."""
    lowest = min(means[place] for place in places)
    near = [place for place in places if not means[place] > lowest + SLACK * abs(lowest)]
    return min(near, key=lambda place: (every[place].bytes, every[place].operations, means[place]))


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


def bytes_of(part: Any) -> int:
    """The bytes that the numbers of a part, and of the parts in it, take in a release."""
    if isinstance(part, np.ndarray):
        return int(part.nbytes)
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return sum(bytes_of(getattr(part, field.name)) for field in fields(part)) if is_dataclass(part) else 0


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS, OpenMP and torch use one thread inside; afterwards, also after an error, they have the caller's number.

    Designs make thousands of tiny products. Waking several threads for each is no faster on an idle machine, and beside
    other work the threads wait for each other: at least eight times slower.

    The setting holds for the whole process, so a generator must not yield inside: its caller would be slowed down
    between two items, and keep one thread if it never asked for the next. As a decorator it wraps a whole function.
    """
    torch = sys.modules.get("torch")  # code that uses it has imported it; importing it is slow
    threads = None if torch is None else torch.get_num_threads()  # before the limit, which torch's OpenMP follows
    with threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)
