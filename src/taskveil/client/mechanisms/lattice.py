"""The codebook mechanism for large budgets: one randomised response over a lattice of codewords too many to list.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε = ln(a/b).

**Why.** The record is mapped to *one* codeword number below `size` (any floats give one); `Response` with that one
favoured output is ε-LDP in whole numbers. Numbers and codewords correspond one to one, which is public.

**The lattice.** Every direction i has levels (points on a line) and whole-number lengths, about −log₂ of each level's
probability. The codewords are all choices of one level per direction with lengths that add up to at most `budget`.
There are many of them (e^40 and more), and they are well placed: frequent levels are short, so records near the centre
find a codeword close by. A small knapsack finds the nearest codeword exactly. Codewords are numbered 0 … size − 1 in
lexicographic order, by counting. (Laroia and Farvardin, 'A structured fixed-rate vector quantizer', 1993.)

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Array, Bools, Integers, blocks, own_arrays
from taskveil.client.mechanisms.base import NearestCodebook
from taskveil.client.mechanisms.response import MOST_BITS, Response
from taskveil.client.regions import MOST_LATENTS, BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError

MOST_CHOICES = 2**23
"""Of (budget + 1) · levels of all directions: 100 directions of 255 levels with a budget of 300 have fewer."""
MOST_STATES = 2**18
"""Of (budget + 1) · directions: the tables then stay within 100 MB."""

_FAR = np.int64(2**60)  # the cost of a choice that is not allowed
_ROWS_KEPT = 1 << 12  # of the ranking table; the whole table would not fit into memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """Levels and lengths of all directions, one after the other; counts (d,) says how many each direction has."""

    levels: Integers
    lengths: Integers
    counts: Integers
    budget: int

    def __post_init__(self) -> None:
        own_arrays(self)
        flat = self.counts.ndim == 1 and self.levels.shape == self.lengths.shape == (int(self.counts.sum()),)
        if not flat or len(self.counts) == 0 or (self.counts < 1).any() or (self.counts > 2**15).any():
            raise MechanismError("a lattice needs a length for every level and at least one level per direction.")
        if len(self.counts) * 2**50 >= _FAR:  # so that squared distances add up to less than this cost
            raise MechanismError(f"a lattice has fewer than {_FAR // 2**50} directions, got {len(self.counts)}.")
        far = (self.levels < -(2**24)).any() or (self.levels > 2**24).any()
        if far or (self.lengths < 0).any() or not 0 <= self.budget <= 2**15:
            raise MechanismError("lattice levels, lengths or budget are out of range.")
        states = self.budget + 1
        # Each level is a step of the search, however small the budget.
        choices, steps = states * len(self.levels), len(self.levels)
        if choices > MOST_CHOICES or steps > MOST_LATENTS or states * len(self.counts) > MOST_STATES:
            raise MechanismError("a lattice of so many directions, levels and so large a budget is too large to count.")
        if any(lengths.min() > 0 for _, lengths in self.directions):
            raise MechanismError("every direction of a lattice needs a level of length 0.")
        _ = self.size

    @property
    def dim(self) -> int:
        """How many directions."""
        return len(self.counts)

    @cached_property
    def directions(self) -> list[tuple[Integers, Integers]]:
        """(levels, lengths) of every direction."""
        cuts = np.cumsum(self.counts)[:-1]
        return list(zip(np.split(self.levels, cuts), np.split(self.lengths, cuts), strict=True))

    @cached_property
    def _within(self) -> list[list[int]]:
        """_within[i][l]: choices in directions i, i + 1, … that use at most l, as exact integers."""
        table = [np.full(self.budget + 1, 1, dtype=object)]
        for _, lengths in reversed(self.directions):
            table.append(spread(table[-1], lengths))
            if table[-1][-1].bit_length() > MOST_BITS:  # before the numbers of later directions fill the memory
                raise MechanismError(f"a lattice has fewer than 2^{MOST_BITS} codewords.")
        return [row.tolist() for row in reversed(table)]

    @property
    def size(self) -> int:
        """How many codewords there are."""
        return self._within[0][self.budget]

    def nearest(self, k: Integers) -> Integers:
        """The codeword of least squared distance to every row of k (N, d), as level numbers (N, d); exact."""
        numbers = np.empty((len(k), self.dim), dtype=np.int64)
        for rows in blocks(len(k), self.budget + 1):
            numbers[rows] = self._nearest(k[rows])
        return numbers

    def _nearest(self, k: Integers) -> Integers:
        """A knapsack over directions and length spent; ties go to the lower level number, then to the shorter total."""
        rows, width = len(k), self.budget + 1
        cost = np.full((rows, width), _FAR)
        cost[:, 0] = 0
        choices = []
        for column, (levels, lengths) in zip(k.T, self.directions, strict=True):
            new, choice = np.full((rows, width), _FAR), np.zeros((rows, width), dtype=np.int16)
            for number, (level, used) in enumerate(zip(levels.tolist(), lengths.tolist(), strict=True)):
                if used <= self.budget:
                    candidate = cost[:, : width - used] + ((column - level) ** 2)[:, None]
                    better = candidate < new[:, used:]
                    np.copyto(new[:, used:], candidate, where=better)
                    np.copyto(choice[:, used:], number, where=better)
            cost = new
            choices.append(choice)
        spent, index = cost.argmin(axis=1), np.arange(rows)
        numbers = np.empty((rows, self.dim), dtype=np.int64)
        for i in range(self.dim - 1, -1, -1):
            numbers[:, i] = choices[i][index, spent]
            spent = spent - self.directions[i][1][numbers[:, i]]
        return numbers

    def points(self, numbers: Integers) -> Integers:
        """Level numbers (N, d) → the codewords themselves (N, d)."""
        return np.stack([levels[n] for (levels, _), n in zip(self.directions, numbers.T, strict=True)], axis=1)

    @cached_property
    def _starts(self) -> Callable[[int, int], list[int]]:
        """_starts(i, left)[j]: codewords of directions i, … that come before level j, with `left` to spend."""
        lengths = [lengths.tolist() for _, lengths in self.directions]

        @lru_cache(maxsize=_ROWS_KEPT)
        def starts(i: int, left: int) -> list[int]:
            after = self._within[i + 1]
            return list(accumulate((after[left - used] if used <= left else 0 for used in lengths[i]), initial=0))

        return starts

    def rank(self, numbers: list[int]) -> int:
        """The number of a codeword among all, 0 … size − 1."""
        left, place = self.budget, 0
        for i, level in enumerate(numbers):
            place += self._starts(i, left)[level]
            left -= int(self.directions[i][1][level])
        return place

    def unrank(self, digits: Integers) -> Integers:
        """Codeword numbers as 62-bit digits (N, width) → level numbers (N, d): the inverse of `rank`, for many."""
        if not self.holds(digits).all():
            raise MechanismError(f"a report names no codeword: the lattice has {self.size}.")
        numbers = np.empty((len(digits), self.dim), dtype=np.int64)
        rows, left = np.arange(len(digits)), np.full(len(digits), self.budget, dtype=np.int16)
        for i, (_, lengths) in enumerate(self.directions):
            digits = digits[:, -_width(self._within[i][self.budget]) :]
            order = np.argsort(left, kind="stable")  # rows with the same rest of the budget have the same table
            rows, left, digits = rows[order], left[order], digits[order]
            ends = np.append(np.flatnonzero(np.diff(left)) + 1, len(left))
            for start, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
                if end > start:
                    starts = _digits(self._starts(i, int(left[start])), digits.shape[1])
                    level = _located(digits[start:end], starts)
                    digits[start:end] = _minus(digits[start:end], starts[level])
                    left[start:end] -= lengths[level].astype(np.int16)
                    numbers[rows[start:end], i] = level
        return numbers

    def holds(self, digits: Integers) -> Bools:
        """(N,): whether digits (N, width) of 62 bits together number a codeword."""
        last = _digits([self.size - 1], self.report_width)
        inside = ((digits >= 0) & (digits < 2**62)).all(axis=1)
        return np.asarray(inside & ~_less(np.broadcast_to(last, digits.shape), digits))

    @property
    def report_width(self) -> int:
        """How many 62-bit digits a codeword's number needs."""
        return _width(self.size)

    def digits(self, places: list[int]) -> Integers:
        """Codeword numbers (N,) of any size → 62-bit digits (N, width), the highest first."""
        return _digits(places, self.report_width)

    def level_moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean (d,) and mean square (d,) of each direction's level in a codeword drawn uniformly."""
        shares = self.level_shares()
        mean = np.array([s @ levels for s, (levels, _) in zip(shares, self.directions, strict=True)])
        square = np.array(
            [s @ levels.astype(float) ** 2 for s, (levels, _) in zip(shares, self.directions, strict=True)]
        )
        return mean, square

    def level_shares(self) -> list[NDArray[np.float64]]:
        """Per direction, the share of all codewords that use each level."""
        before, shares = np.array([1] + [0] * self.budget, dtype=object), []
        for i, (_, lengths) in enumerate(self.directions):
            after = np.array(self._within[i + 1], dtype=object)[::-1]
            used_by = {
                used: int((before[: self.budget + 1 - used] * after[used:]).sum()) / self.size
                for used in {int(u) for u in lengths if u <= self.budget}
            }
            shares.append(np.array([used_by.get(int(u), 0.0) for u in lengths]))
            before = spread(before, lengths)
        return shares


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeCodebook(NearestCodebook):
    """ε-LDP for every input: reports the number of the nearest codeword, or of any other codeword."""

    region: BoxRegion
    lattice: Lattice
    response: Response

    def __post_init__(self) -> None:
        if self.lattice.size != self.response.size or self.response.favoured != 1:
            raise MechanismError("the response must favour one codeword of the whole lattice.")
        wide = (self.region.low < -(2**24)).any() or (self.region.high > 2**24).any()
        if self.lattice.dim != self.region.dim or wide:
            raise MechanismError("the region must match the lattice and lie within ±2^24 grid steps.")

    @cached_property
    def layout(self) -> Layout:
        """Digits of 62 bits, of which only the first has another largest value."""
        later = self.lattice.report_width - 1
        high = ((self.lattice.size - 1) >> 62 * later, *(2**62 - 1,) * later)
        return Layout(low=(0,) * len(high), high=high)

    def places(self, k: Integers) -> list[int]:
        """Latents on the grid (N, d) → the number of the nearest codeword."""
        return [self.lattice.rank(row) for row in self.lattice.nearest(k).tolist()]

    def digits(self, places: list[int]) -> Integers:
        """Numbers of codewords → their digits of 62 bits (N, width)."""
        return self.lattice.digits(places)

    def possible(self, reports: Integers) -> Bools:
        """(N,): whether the digits together number a codeword. Each digit can be in range and the number too large."""
        return self.lattice.holds(reports)

    def fault(self, k: Integers) -> str | None:
        """A sentence if a latent has no codeword; otherwise None."""
        numbers = self.lattice.nearest(k)
        spent = sum(lengths[numbers[:, i]] for i, (_, lengths) in enumerate(self.lattice.directions))
        return "A latent is coded by no codeword." if (np.asarray(spent) > self.lattice.budget).any() else None


def spread(ways: Array, lengths: Integers) -> Array:
    """Ways to spend each amount after one more direction: the sum over its levels of `ways` moved by their lengths."""
    result = np.zeros_like(ways)
    for used, times in zip(*np.unique(lengths[lengths < len(ways)], return_counts=True), strict=True):
        moved = ways[: len(ways) - int(used)]
        result[int(used) :] += moved if times == 1 else int(times) * moved
    return result


def _width(size: int) -> int:
    """How many 62-bit digits numbers below `size` need."""
    return max(1, -(-(size - 1).bit_length() // 62))


def _digits(places: list[int], width: int) -> Integers:
    """The lowest `width` 62-bit digits (N, width) of whole numbers, the highest first."""
    shifts = range(62 * (width - 1), -1, -62)
    rows = [[place >> shift & 2**62 - 1 for shift in shifts] for place in places]
    return np.array(rows, dtype=np.int64).reshape(len(places), width)


def _located(digits: Integers, starts: Integers) -> Integers:
    """(N,): the last place of `starts` (L + 1, width), which rise, that is not above each of `digits` (N, width), all
    below the last of them."""
    if digits.shape[1] == 1:
        return np.searchsorted(starts[:, 0], digits[:, 0], side="right") - 1
    scale = 2.0 ** (-62.0 * np.arange(digits.shape[1]))  # doubles find the place approximately, digits exactly
    level = np.searchsorted(starts @ scale, digits @ scale, side="right") - 1
    level = np.clip(level, 0, len(starts) - 2)
    while (above := _less(digits, starts[level])).any():
        level = level - above
    while (below := ~_less(digits, starts[level + 1])).any():
        level = level + below
    return level


def _less(one: Integers, other: Integers) -> Bools:
    """(N,): whether numbers of digits (N, width) are less than others."""
    less = np.zeros(len(one), dtype=bool)
    for a, b in zip(one.T[::-1], other.T[::-1], strict=True):  # a higher digit decides before lower ones
        less = (a < b) | ((a == b) & less)
    return less


def _minus(one: Integers, other: Integers) -> Integers:
    """The digits (N, width) of differences of numbers, none below zero."""
    result = one - other
    for column in range(result.shape[1] - 1, 0, -1):
        borrowed = result[:, column] < 0
        result[:, column] += borrowed * np.int64(2**62)
        result[:, column - 1] -= borrowed
    return result
