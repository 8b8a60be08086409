"""Randomised response with m favoured outputs of K: the channel inside every codebook.

**Guarantee.** For any two favoured sets of m outputs and any output k: P[k | F] ≤ (a/b) · P[k | F'] ≤ e^ε · P[k | F'].

**Why.** (1) U is uniform on the integers below T = m·a + (K − m)·b, exactly, by rejection from the operating system's
bits. (2) U < m(a − b) picks a favoured output, a − b values of U for each; the other K·b values pick every output
alike, b values for each. (3) So a favoured output has probability a/T and any other b/T; T does not depend on the
input, because every favoured set has exactly m members. (4) The ratio of two probabilities of the same output is at
most a/b. (5) a ≤ e^ε·b is certified in whole numbers: a lower bound of e^ε from its Taylor series, every term rounded
down.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client import entropy
from taskveil.client.promise import exact_log_ratio, floor_exp_times, log_ratio
from taskveil.errors import MechanismError

MOST_BITS = 1500
"""Of the odds a/b, and of the number of codewords of a lattice: e^1000 has 1443 bits."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """ε-LDP for every favoured set, ε = ln(a/b)."""

    size: int
    favoured: int
    a: int
    b: int

    def __post_init__(self) -> None:
        if not 1 <= self.favoured < self.size:
            raise MechanismError(
                f"a response needs 1 ≤ favoured < size, got {self.favoured} of {self.size}: "
                "use more codewords or fewer favoured ones."
            )
        if not 1 <= self.b <= self.a:
            raise MechanismError(f"a response needs integers a ≥ b ≥ 1, got a = {self.a}, b = {self.b}.")
        if self.b > 2**64 or self.a > self.b << MOST_BITS:
            raise MechanismError(f"a response needs b ≤ 2^64 and a/b ≤ 2^{MOST_BITS} to be certified.")

    @classmethod
    def calibrated(cls, *, size: int, favoured: int, epsilon: float) -> Response:
        """The largest a/b ≤ e^epsilon with about 40 bits of precision."""
        if not (math.isfinite(epsilon) and 0 < epsilon <= 1000):
            raise MechanismError(f"the epsilon of a response must lie between 0 and 1000, got {epsilon}.")
        b = 1 << max(0, 40 - int(epsilon * math.log2(math.e)))
        a = floor_exp_times(epsilon, b)
        if a == b:  # an ε of exactly 0, which no release may state
            raise MechanismError(f"an epsilon of {epsilon:g} is too small for this arithmetic: use 1e-12 or more.")
        return cls(size=size, favoured=favoured, a=a, b=b)

    @property
    def total(self) -> int:
        """T, the number of equally likely draws."""
        return self.favoured * self.a + (self.size - self.favoured) * self.b

    @cached_property
    def epsilon(self) -> float:
        """The least double certified to be at least ln(a/b)."""
        return log_ratio(self.a, self.b)

    @property
    def exact_epsilon(self) -> Decimal:
        """ln(a/b) in sixty digits, by other arithmetic than `epsilon`."""
        return exact_log_ratio(self.a, self.b)

    def log_chances(self, favoured: Bools) -> Floats:
        """ln(a/T) for outputs that are favoured, ln(b/T) for the others."""
        return np.where(favoured, math.log(self.a), math.log(self.b)) - math.log(self.total)

    @property
    def extra(self) -> float:
        """(a − b)/T: how much likelier a favoured output is than any other."""
        return (self.a - self.b) / self.total

    @property
    def base(self) -> float:
        """b/T: the probability of an output that is not favoured."""
        return self.b / self.total

    @property
    def blanket(self) -> float:
        """K·b/T: the part of a draw that does not depend on the favoured set."""
        return self.size * self.b / self.total

    def __call__(self, favoured: Integers) -> Integers:
        """Favoured sets (N, m) → outputs (N,). Rows must hold m distinct integers below `size`."""
        surplus = self.a - self.b
        favoured_draws = self.favoured * surplus
        if self.total > 2**63:
            return np.array([self.respond(row) for row in favoured.tolist()], dtype=np.int64)
        u = entropy.uniform_below(self.total, len(favoured))
        which = np.minimum(u // max(surplus, 1), self.favoured - 1)
        chosen = favoured[np.arange(len(favoured)), which]
        return np.where(u < favoured_draws, chosen, (u - favoured_draws) // self.b)

    def respond(self, favoured: list[int]) -> int:
        """One output for one favoured set; integers of any size."""
        u, surplus = entropy.wide_uniform_below(self.total), self.a - self.b
        favoured_draws = self.favoured * surplus
        return favoured[u // surplus] if u < favoured_draws else (u - favoured_draws) // self.b


def top(scores: Floats, count: int) -> Integers:
    """The `count` outputs of highest score (N, count): exactly that many distinct ones, for any scores (N, K).

    Scores are overwritten. Ties go to the lower index; NaN counts as the lowest score.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(scores.sum())  # one pass over all; false too if the sum overflows, which is harmless
    if count > 8 or not finite:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    best, rows = np.empty((len(scores), count), dtype=np.int64), np.arange(len(scores))
    for place in range(count):
        if place:
            scores[rows, best[:, place - 1]] = -np.inf  # chosen: lower than all other scores
        best[:, place] = scores.argmax(axis=1)
    return best
