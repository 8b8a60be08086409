"""Randomised response between levels: the report of a mean, unbiased for every population in the region.

**Guarantee.** For any two inputs whatsoever and any report r, P[r | φ] ≤ e^ε · P[r | φ'], with e^ε the largest ratio of
two entries in one column of a table.

**Why.** (1) `region.enforce` maps every input to whole grid steps inside a box. (2) The group of latents that is
reported is drawn at random, by weights in the release, without looking at the record. (3) Each latent of the group is
rounded at random to one of the two levels around it: every input becomes a mixture of rows of the group's table. (4)
All rows have the same sum T and an output is drawn with probability entry / T, so the probability of an output is a
mean of its column, and lies between the column's least and largest entry, over T. (5) The ratio of two such means is at
most the column's largest / least, and the group's chance cancels. (6) ln of the largest ratio of all columns is
certified in whole numbers. All draws are made in whole numbers too, from the operating system's bits.

**What it is for.** Rounding up has probability (k − l)/(l' − l), so P[r | φ] is linear in every latent between two
levels: values of the outputs that average to the latents at all levels do so everywhere in the box. Their mean over
many reports is then the population's mean, whatever the population.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from taskveil.arrays import EXACT, Floats, Integers, blocks, own_arrays, owned
from taskveil.client import entropy
from taskveil.client.mechanisms.base import Mechanism
from taskveil.client.mechanisms.sum_codebook import MOST_CODEWORDS
from taskveil.client.networks import MOST_STEPS
from taskveil.client.promise import exact_log_ratio, log_ratio
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError

MOST_ENTRIES = 2**20
"""Of all tables together: no release, forged or not, makes a report slow."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelGroup:
    """Latents that are reported together: one output for all of them.

    Shapes: places (k,) which latents; counts (k,) how many levels each has; levels (Σ counts,) in grid steps, rising
    from the region's low to its high for each latent; table (Π counts, outputs) whole numbers of 1 or more, every row
    with the same sum T < 2^53. A row's number has the level numbers as digits, the first latent's the highest.
    The group is drawn with probability `chance` (1 or more) over the sum of all groups' chances.
    """

    places: Integers
    counts: Integers
    levels: Integers
    table: Integers
    chance: int

    def __post_init__(self) -> None:
        own_arrays(self)
        arrays = (self.places, self.counts, self.levels, self.table)
        if any(array.dtype != np.int64 for array in arrays) or [array.ndim for array in arrays] != [1, 1, 1, 2]:
            raise MechanismError(
                "a group needs places, counts and levels in a row each and a table, in 64-bit integers."
            )
        if not 1 <= len(self.places) <= MOST_STEPS or len(np.unique(self.places)) < len(self.places):
            raise MechanismError(f"a group has 1 to {MOST_STEPS} latents, each of them once.")
        if not 1 <= self.table.size <= MOST_ENTRIES:
            raise MechanismError(f"the table of a group has 1 to {MOST_ENTRIES} entries, got {self.table.size}.")
        counts = self.counts.tolist()
        if len(counts) != len(self.places) or min(counts) < 1 or math.prod(counts) != len(self.table):
            raise MechanismError("a group's table needs one row for every choice of one level of each latent.")
        if len(self.levels) != sum(counts) or not all((np.diff(levels) > 0).all() for levels in self.scales):
            raise MechanismError("a group needs all levels of its latents, rising for each.")
        # In doubles first, which do not overflow: entries up to 2^63 may add up to more.
        if self.table.min() < 1 or self.table.sum(axis=1, dtype=np.float64).max() > EXACT:
            raise MechanismError("entries of a table are 1 or more, and the sum of a row less than 2^53.")
        if self.total >= EXACT or (self.table.sum(axis=1) != self.total).any():
            raise MechanismError("all rows of a table must have the same sum, less than 2^53.")
        if not 1 <= self.chance < EXACT:
            raise MechanismError(f"a group's chance is a whole number from 1 to 2^53 − 1, got {self.chance}.")

    @cached_property
    def scales(self) -> tuple[Integers, ...]:
        """The levels of each latent."""
        return tuple(np.split(self.levels, np.cumsum(self.counts)[:-1]))

    @cached_property
    def _steps(self) -> tuple[Integers, ...]:
        """The distance from every level of a latent to the next one, and 1 for the last level."""
        return tuple(np.append(np.diff(levels), 1) for levels in self.scales)

    @cached_property
    def total(self) -> int:
        """T, the sum of every row."""
        return int(self.table[0].sum())

    @property
    def outputs(self) -> int:
        """How many outputs the table has."""
        return int(self.table.shape[1])

    @cached_property
    def _thresholds(self) -> Integers:
        """(rows, outputs): how many of the T draws give this output or one before it."""
        return owned(np.cumsum(self.table, axis=1))

    @cached_property
    def worst(self) -> tuple[int, int]:
        """(largest, least) entry of the column with the largest ratio."""
        return _worst(np.unique(np.stack([self.table.max(axis=0), self.table.min(axis=0)]), axis=1).T.tolist())

    def between(self, k: Integers) -> tuple[Integers, Integers, Integers]:
        """Members of the region (N, d) → for each latent of the group (N, k): the number of the highest level that is
        not above it, how many steps it is above that level, and how many the next level is (1 above the last)."""
        shape = len(k), len(self.places)
        below, part, whole = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.int64)
        for column, (place, levels, steps) in enumerate(zip(self.places, self.scales, self._steps, strict=True)):
            # Every level is compared, so that the time does not depend on the record.
            number = (levels[1:] <= k[:, place, None]).sum(axis=1)
            below[:, column], part[:, column], whole[:, column] = number, k[:, place] - levels[number], steps[number]
        return below, part, whole

    def draw(self, k: Integers) -> Integers:
        """Members of the region (N, d) → outputs (N,)."""
        row = np.zeros(len(k), dtype=np.int64)
        for count, below, part, whole in zip(self.counts, *(array.T for array in self.between(k)), strict=True):
            row = row * count + below + entropy.bernoulli(part, whole)
        drawn = entropy.uniform_below(self.total, len(k))
        return np.asarray((self._thresholds[row] <= drawn[:, None]).sum(axis=1), dtype=np.int64)

    def chances(self, k: Integers) -> Floats:
        """Members of the region (N, d) → the probability of every output (N, outputs) once the group is drawn."""
        mixed, record = (self.table / self.total)[None], np.zeros(len(k), dtype=np.int64)
        for count, below, part, whole in zip(self.counts, *(array.T for array in self.between(k)), strict=True):
            mixed = mixed.reshape(len(mixed), count, -1)
            above = np.minimum(below + 1, count - 1)
            up, down = (part / whole)[:, None], ((whole - part) / whole)[:, None]
            mixed, record = down * mixed[record, below] + up * mixed[record, above], np.arange(len(k))
        return mixed.reshape(len(k), self.outputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelResponse(Mechanism):
    """ε-LDP for every input, e^ε the largest ratio within a column of the groups' tables.

    A report is one whole number: the outputs of all groups numbered through, the first group's first.
    """

    region: BoxRegion
    groups: tuple[LevelGroup, ...]

    def __post_init__(self) -> None:
        if not 1 <= sum(group.table.size for group in self.groups) <= MOST_ENTRIES:
            raise MechanismError(
                f"there is 1 group or more, and all tables together have at most {MOST_ENTRIES} entries."
            )
        if sum(group.chance for group in self.groups) >= EXACT:
            raise MechanismError(
                "the chances of all groups add up to 2^53 or more: divide them all by the same number."
            )
        for group in self.groups:
            if group.places.min() < 0 or group.places.max() >= self.region.dim:
                raise MechanismError(f"a group names a latent that is not among the region's {self.region.dim}.")
            ends = np.array([levels[[0, -1]] for levels in group.scales])
            if (ends != np.stack([self.region.low, self.region.high], axis=1)[group.places]).any():
                raise MechanismError("the levels of every latent must reach from the region's low to its high.")

    @cached_property
    def _thresholds(self) -> Integers:
        """(groups,): how many of the draws choose this group or one before it."""
        return owned(np.cumsum([group.chance for group in self.groups]))

    @cached_property
    def _starts(self) -> Integers:
        """(groups,): the number of each group's first output."""
        sizes = np.array([group.outputs for group in self.groups])
        return owned(np.cumsum(sizes) - sizes)

    @cached_property
    def _worst(self) -> tuple[int, int]:
        """(largest, least) entry of the column with the largest ratio."""
        return _worst(group.worst for group in self.groups)

    @cached_property
    def epsilon(self) -> float:
        """The privacy loss between any two inputs: the least double certified to be at least ln(largest/least)."""
        return log_ratio(*self._worst)

    @property
    def exact_epsilon(self) -> Decimal:
        """ln(largest/least) in sixty digits."""
        return exact_log_ratio(*self._worst)

    @cached_property
    def layout(self) -> Layout:
        """Code numbers from 0 to the number of all groups' outputs − 1."""
        return Layout(low=(0,), high=(sum(group.outputs for group in self.groups) - 1,))

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, 1)."""
        k = self.region.enforce(latents)
        drawn = entropy.uniform_below(int(self._thresholds[-1]), len(k))
        drawn = np.searchsorted(self._thresholds, drawn, side="right")
        reports = np.empty((len(k), 1), dtype=np.int64)
        for number in np.unique(drawn).tolist():
            group, members = self.groups[number], np.flatnonzero(drawn == number)
            for rows in blocks(len(members), max(group.outputs, *group.counts.tolist())):
                some = members[rows]
                reports[some, 0] = self._starts[number] + group.draw(k[some])
        return reports

    def chances(self, latents: Floats) -> Floats:
        """(M, outputs): P[report | latent] of every report there is, for any floats (M, d)."""
        k, draws = self.region.enforce(latents), int(self._thresholds[-1])
        return np.concatenate([group.chance / draws * group.chances(k) for group in self.groups], axis=1)

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): ln of the mean of the rows of its group's table, weighted by the probabilities of rounding."""
        said = np.empty((len(reports), len(latents)))
        for some in blocks(len(latents), max(group.table.size for group in self.groups)):
            said[:, some] = np.log(self.chances(latents[some]))[:, reports[:, 0]].T
        return said

    def contrast(self, latents: Floats) -> Floats:
        """The probabilities of all reports, of which half the ℓ1 distance is the total variation; of very many
        reports, the bounded latents instead."""
        return self.chances(latents) if self.layout.high[0] < MOST_CODEWORDS else self.bound(latents)

    def fault(self, k: Integers) -> str | None:
        """A latent that lies between no two levels."""
        for group in self.groups:
            below, part, whole = group.between(k)
            if not ((below >= 0) & (below < group.counts) & (part >= 0) & (part < whole)).all():
                return "A latent lies between no two levels of its group."
        return None


def _worst(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The pair (largest, least) of the largest ratio, compared in whole numbers."""
    a, b = 1, 1
    for most, least in pairs:
        if most * b > a * least:
            a, b = most, least
    return a, b
