"""Groups of latents that are reported together: by a table, by cyclic blocks, or by lines of a plane.

A group is a public part of a release. `LevelResponse` draws one without looking at the record; the group then draws one
of its outputs from the latents on the region's grid, which may be anything inside the region.

**Guarantee.** For any two members k, k' of the region and any output o of a group, P[o | k] ≤ (a/b) · P[o | k'], where
a/b is the group's `worst`.

**Why, for a table** (`LevelGroup`). (1) Each latent is rounded at random to one of the two levels around it: every
input becomes a mixture of rows of the table. (2) All rows have the same sum T and an output is drawn with probability
entry / T, so the probability of an output is a mean of its column, and lies between the column's least and largest
entry, over T. (3) The ratio of two such means is at most the column's largest / least.

**Why, for blocks** (`BlockGroup`). (1) The number j of a block is uniform and drawn before the record is looked at, so
P[j | k] = 1/B for every k. (2) Given j, a row v favours the outputs {(v − d) mod R : d in block j}. The block has w
distinct residues from 0 to R − 1, so these are exactly w distinct outputs, and the `Response` is ε-LDP over all such
sets with e^ε = a/b. (3) So P[(j, s) | row v] is a/(B·T) or b/(B·T). (4) Rounding at random makes P[(j, s) | k] a mean
of such numbers over rows, which lies between them. A `binned` latent is rounded down, which is a mixture too.

**Why, for a plane** (`PlaneGroup`). The same, with the public draw of a form (α, β) in place of j, and with the
favoured set {(h − d) mod p : 0 ≤ d < w} of the residue h = α v₁ + β v₂ mod p: w < p distinct outputs for every h. A
latent of the plane is a whole number of grid steps from 0 to p − 1 already, and is not rounded.

**What they are for.** With values of the outputs that average to a statistic in every row, the mean over many reports
is unbiased for every population. Over the B blocks, two rows v, v' share an output with a chance that depends on v − v'
mod R only: the channel is a circulant, which a Fourier transform inverts. Over the p² − 1 forms, ⟨(α, β), Δ⟩ takes
every residue but 0 exactly p times and 0 exactly p − 1 times, for every Δ ≠ 0, because p is prime: any two different
points share an output with one and the same chance.

No time depends on the record: every level is compared, and every favoured output is computed.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from taskveil.arrays import EXACT, Bools, Floats, Integers, own_arrays, owned
from taskveil.client import entropy
from taskveil.client.mechanisms.response import Response
from taskveil.client.networks import MOST_STEPS
from taskveil.client.regions import BoxRegion
from taskveil.client.values import is_prime
from taskveil.errors import MechanismError

MOST_ENTRIES = 2**20
"""Of all tables and blocks together, and rows of a group: no release, forged or not, makes a report slow."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledGroup:
    """What the groups share whose latents have levels.

    Shapes: places (k,) which latents; counts (k,) how many levels each has; levels (Σ counts,) in grid steps, rising
    from the region's low to its high for each latent. A row's number has the level numbers as digits, the first
    latent's the highest. The group is drawn with probability `chance` (1 or more) over the sum of all groups' chances.
    """

    places: Integers
    counts: Integers
    levels: Integers
    chance: int

    nominal: ClassVar[bool] = False
    """Whether every row is reported as a value of its own, as the values of a category are."""

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_places(self.places, self.chance)
        arrays = (self.counts, self.levels)
        if any(array.dtype != np.int64 or array.ndim != 1 for array in arrays):
            raise MechanismError("a group needs counts and levels in a row each, in 64-bit integers.")
        counts = self.counts.tolist()
        if len(counts) != len(self.places) or min(counts) < 1 or not self.rows <= MOST_ENTRIES:
            raise MechanismError(f"a group needs 1 level or more of each latent, and at most {MOST_ENTRIES} rows.")
        if len(self.levels) != sum(counts) or not all((np.diff(levels) > 0).all() for levels in self.scales):
            raise MechanismError("a group needs all levels of its latents, rising for each.")

    @property
    def rows(self) -> int:
        """How many choices of one level of each latent there are."""
        return math.prod(self.counts.tolist())

    @cached_property
    def scales(self) -> tuple[Integers, ...]:
        """The levels of each latent."""
        return tuple(np.split(self.levels, np.cumsum(self.counts)[:-1]))

    @cached_property
    def _steps(self) -> tuple[Integers, ...]:
        """The distance from every level of a latent to the next one, and 1 for the last level."""
        return tuple(np.append(np.diff(levels), 1) for levels in self.scales)

    def check(self, region: BoxRegion) -> None:
        """Returns if the levels of every latent reach from end to end of the region."""
        _check_dim(self.places, region)
        ends = np.array([levels[[0, -1]] for levels in self.scales])
        if (ends != np.stack([region.low, region.high], axis=1)[self.places]).any():
            raise MechanismError("the levels of every latent must reach from the region's low to its high.")

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

    def row(self, k: Integers) -> Integers:
        """Members of the region (N, d) → rows (N,): each latent rounded at random to a level beside it."""
        row = np.zeros(len(k), dtype=np.int64)
        for count, below, part, whole in zip(self.counts, *(array.T for array in self.between(k)), strict=True):
            row = row * count + below + entropy.bernoulli(part, whole)
        return row

    def fault(self, k: Integers) -> str | None:
        """A latent of these members of the region (N, d) that lies between no two levels."""
        below, part, whole = self.between(k)
        if not ((below >= 0) & (below < self.counts) & (part >= 0) & (part < whole)).all():
            return "A latent lies between no two levels of its group."
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelGroup(ScaledGroup):
    """One output for all latents of the group, drawn from the row of a table.

    Shapes: table (Π counts, outputs) whole numbers of 1 or more, every row with the same sum T < 2^53.
    """

    table: Integers

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table.dtype != np.int64 or self.table.ndim != 2 or len(self.table) != self.rows:
            raise MechanismError("a group's table needs one row for every choice of levels, in 64-bit integers.")
        if not 1 <= self.table.size <= MOST_ENTRIES:
            raise MechanismError(f"the table of a group has 1 to {MOST_ENTRIES} entries, got {self.table.size}.")
        # In doubles first, which do not overflow: entries up to 2^63 may add up to more.
        if self.table.min() < 1 or self.table.sum(axis=1, dtype=np.float64).max() > EXACT:
            raise MechanismError("entries of a table are 1 or more, and the sum of a row less than 2^53.")
        if self.total >= EXACT or (self.table.sum(axis=1) != self.total).any():
            raise MechanismError("all rows of a table must have the same sum, less than 2^53.")

    @cached_property
    def total(self) -> int:
        """T, the sum of every row."""
        return int(self.table[0].sum())

    @property
    def outputs(self) -> int:
        """How many outputs the table has."""
        return int(self.table.shape[1])

    @property
    def entries(self) -> int:
        """Numbers of the table."""
        return int(self.table.size)

    @property
    def width(self) -> int:
        """Numbers that one draw compares."""
        return max(self.outputs, int(self.counts.max()))

    @cached_property
    def _thresholds(self) -> Integers:
        """(rows, outputs): how many of the T draws give this output or one before it."""
        return owned(np.cumsum(self.table, axis=1))

    @cached_property
    def worst(self) -> tuple[int, int]:
        """(largest, least) entry of the column with the largest ratio."""
        return worst(np.unique(np.stack([self.table.max(axis=0), self.table.min(axis=0)]), axis=1).T.tolist())

    @property
    def blanket(self) -> float:
        """The part of a draw that is the same for every record: the sum of the columns' least entries, over T."""
        return int(self.table.min(axis=0).sum()) / self.total

    def draw(self, k: Integers) -> Integers:
        """Members of the region (N, d) → outputs (N,)."""
        row = self.row(k)
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

    def likelihood(self, outputs: Integers, k: Integers) -> Floats:
        """(n, M): the probability of outputs (n,) for members of the region (M, d) once the group is drawn."""
        return self.chances(k)[:, outputs].T


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockGroup(ScaledGroup):
    """One output j·R + s for all latents of the group: j a public draw of a block, s a response that favours the row.

    Shapes: binned (k,) true for latents that are rounded down to a level instead of at random (the last level of such a
    latent may lie below the region's high); blocks (B, w), each row w distinct residues from 0 to R − 1, R = Π counts.
    The response is one of w favoured outputs of R. Row v favours the outputs (v − d) mod R for the residues d of block
    j. One block of one residue is plain randomised response; more of them select subsets.
    """

    binned: Bools
    blocks: Integers
    response: Response

    nominal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.binned.dtype != np.bool_ or self.binned.shape != self.places.shape:
            raise MechanismError("a group of blocks says of each latent whether it is binned, true or false.")
        if self.blocks.dtype != np.int64 or self.blocks.ndim != 2 or not 1 <= self.blocks.size <= MOST_ENTRIES:
            raise MechanismError(f"blocks are rows of 64-bit integers, 1 to {MOST_ENTRIES} in all.")
        if (self.response.size, self.response.favoured) != (self.rows, self.blocks.shape[1]):
            raise MechanismError("the response has as many outputs as the group rows, and favours as many as a block.")
        residues = np.sort(self.blocks, axis=1)
        if residues.min() < 0 or residues.max() >= self.rows or not (np.diff(residues, axis=1) > 0).all():
            raise MechanismError(f"a block has distinct residues from 0 to {self.rows - 1}.")

    @property
    def outputs(self) -> int:
        """B·R: blocks times rows."""
        return len(self.blocks) * self.rows

    @property
    def entries(self) -> int:
        """Numbers of the blocks and levels."""
        return int(self.blocks.size + self.levels.size)

    @property
    def width(self) -> int:
        """Numbers that one draw computes or compares."""
        return max(self.response.favoured, int(self.counts.max()))

    @property
    def worst(self) -> tuple[int, int]:
        """a and b of the response."""
        return self.response.a, self.response.b

    @property
    def blanket(self) -> float:
        """The part of a draw that is the same for every record: that of the response."""
        return self.response.blanket

    def check(self, region: BoxRegion) -> None:
        """Returns if the levels of every latent begin at the region's low and, unless it is binned, end at its high."""
        _check_dim(self.places, region)
        first, last = (np.array([levels[end] for levels in self.scales]) for end in (0, -1))
        low, high = region.low[self.places], region.high[self.places]
        if (first != low).any() or (last > high).any() or (~self.binned & (last < high)).any():
            raise MechanismError("the levels of every latent must reach from the region's low to its high.")

    def between(self, k: Integers) -> tuple[Integers, Integers, Integers]:
        """As for every group with levels; a binned latent is 0 steps above its level."""
        below, part, whole = super().between(k)
        return below, np.where(self.binned, 0, part), whole

    def draw(self, k: Integers) -> Integers:
        """Members of the region (N, d) → outputs (N,)."""
        block = entropy.uniform_below(len(self.blocks), len(k))  # before the record is looked at
        return block * self.rows + self.response(self.favoured(block, self.row(k)))

    def fault(self, k: Integers) -> str | None:
        """A latent of these members of the region (N, d) that lies between no two levels, or a block that favours not
        exactly w distinct outputs. Every block is tried with a row of the members."""
        if wrong := super().fault(k):
            return wrong
        numbers, (_, row), *_ = np.arange(len(self.blocks)), *self._roundings(k)
        favoured = np.sort(self.favoured(numbers, np.resize(row, len(numbers))), axis=1)
        distinct = (np.diff(favoured, axis=1) > 0).all() and favoured.min() >= 0 and favoured.max() < self.rows
        if not distinct or favoured.shape[1] != self.response.favoured:
            return "A block favours not exactly as many distinct outputs as its response says."
        return None

    def favoured(self, block: Integers, row: Integers) -> Integers:
        """Numbers of blocks (N,) and rows (N,) → the outputs that they favour (N, w), without the block's number."""
        return np.asarray((row[:, None] - self.blocks[block]) % self.rows)

    def chances(self, k: Integers) -> Floats:
        """Members of the region (N, d) → the probability of every output (N, outputs) once the group is drawn."""
        count, numbers = len(self.blocks), np.arange(len(self.blocks))
        chances = np.full((len(k), count, self.rows), self.response.base / count)
        for share, row in self._roundings(k):
            favoured = (row[:, None, None] - self.blocks) % self.rows
            chances[np.arange(len(k))[:, None, None], numbers[:, None], favoured] += (
                share[:, None, None] * self.response.extra / count
            )
        return chances.reshape(len(k), self.outputs)

    def likelihood(self, outputs: Integers, k: Integers) -> Floats:
        """(n, M): the probability of outputs (n,) for members of the region (M, d) once the group is drawn."""
        block, output = np.divmod(outputs, self.rows)
        found = np.full((len(outputs), len(k)), self.response.base)
        for share, row in self._roundings(k):
            wanted = block[:, None] * self.rows + (row - output[:, None]) % self.rows
            place = np.minimum(np.searchsorted(self._residues, wanted), self.blocks.size - 1)
            found += self.response.extra * share * (self._residues[place] == wanted)
        return found / len(self.blocks)

    @cached_property
    def _residues(self) -> Integers:
        """(B·w,): j·R + d for every residue d of block j, rising."""
        numbers = np.arange(len(self.blocks))[:, None] * self.rows
        return owned(np.sort((numbers + self.blocks).ravel()))

    def _roundings(self, k: Integers) -> list[tuple[Floats, Integers]]:
        """Members of the region (N, d) → probabilities (N,) and rows (N,) of the ways to round them."""
        ways = [(np.ones(len(k)), np.zeros(len(k), dtype=np.int64))]
        for count, below, part, whole in zip(self.counts, *(array.T for array in self.between(k)), strict=True):
            levels = [((whole - part) / whole, below)]
            if part.any():
                levels.append((part / whole, np.minimum(below + 1, count - 1)))
            ways = [(chance * share, row * count + digit) for chance, row in ways for share, digit in levels]
        return ways


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaneGroup:
    """One output ((α·p + β) − 1)·p + s for a point (v₁, v₂) of a plane with p² points: (α, β) a public draw of a form,
    s a response that favours the w residues up to α v₁ + β v₂ mod p.

    Shapes: places (2,) the latents v₁ and v₂, whose grid steps reach from 0 to p − 1 in the region; `prime` is p, with
    p(p² − 1) < 2^53. The response is one of w favoured outputs of p.
    """

    places: Integers
    prime: int
    response: Response
    chance: int

    nominal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_places(self.places, self.chance)
        if len(self.places) != 2:
            raise MechanismError(f"a plane has two latents, got {len(self.places)}.")
        # The bound comes first: divisors of a number of any size would take any time to try.
        if not 2 <= self.prime <= MOST_ENTRIES or self.outputs >= EXACT:
            raise MechanismError(f"a plane needs p(p² − 1) outputs of less than 2^53, got p = {self.prime}.")
        if not is_prime(self.prime):
            raise MechanismError(f"a plane needs a prime number of residues, got {self.prime}.")
        if self.response.size != self.prime:
            raise MechanismError("the response of a plane has as many outputs as there are residues.")

    @property
    def outputs(self) -> int:
        """p(p² − 1): forms times residues."""
        return self.prime * (self.prime**2 - 1)

    @property
    def entries(self) -> int:
        """Favoured residues, which are computed for every report."""
        return self.response.favoured

    @property
    def width(self) -> int:
        """Numbers that one draw computes."""
        return self.response.favoured

    @property
    def worst(self) -> tuple[int, int]:
        """a and b of the response."""
        return self.response.a, self.response.b

    @property
    def blanket(self) -> float:
        """The part of a draw that is the same for every record: that of the response."""
        return self.response.blanket

    def check(self, region: BoxRegion) -> None:
        """Returns if the region has the residues 0 to p − 1 for both latents."""
        _check_dim(self.places, region)
        if region.low[self.places].any() or (region.high[self.places] != self.prime - 1).any():
            raise MechanismError(f"the latents of a plane reach from 0 to {self.prime - 1} grid steps.")

    def fault(self, k: Integers) -> str | None:
        """A latent of these members of the region (N, d) that is no residue."""
        point = k[:, self.places]
        return None if ((point >= 0) & (point < self.prime)).all() else "A latent of a plane is no residue."

    def draw(self, k: Integers) -> Integers:
        """Members of the region (N, d) → outputs (N,)."""
        form = entropy.uniform_below(self.prime**2 - 1, len(k))  # before the record is looked at
        favoured = (self.residues(form, k)[:, None] - np.arange(self.response.favoured)) % self.prime
        return form * self.prime + self.response(favoured)

    def residues(self, form: Integers, k: Integers) -> Integers:
        """Numbers of forms (…,) from 0 on, members of the region (…, d) → α v₁ + β v₂ mod p (…,)."""
        first, second = np.divmod(form + 1, self.prime)
        return np.asarray((first * k[..., self.places[0]] + second * k[..., self.places[1]]) % self.prime)

    def likelihood(self, outputs: Integers, k: Integers) -> Floats:
        """(n, M): the probability of outputs (n,) for members of the region (M, d) once the group is drawn."""
        form, output = np.divmod(outputs, self.prime)
        before = (self.residues(form[:, None], k[None]) - output[:, None]) % self.prime
        return np.exp(self.response.log_chances(before < self.response.favoured)) / (self.prime**2 - 1)

    def log_likelihood(self, outputs: Integers, k: Integers) -> Floats:
        """(n, M): ln of `likelihood`."""
        return np.log(self.likelihood(outputs, k))

    def chances(self, k: Integers) -> Floats:
        """Members of the region (N, d) → the probability of every output (N, outputs): of small planes only."""
        return self.likelihood(np.arange(self.outputs), k).T


def worst(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The pair (largest, least) of the largest ratio, compared in whole numbers."""
    a, b = 1, 1
    for most, least in pairs:
        if most * b > a * least:
            a, b = most, least
    return a, b


def _check_places(places: Integers, chance: int) -> None:
    if places.dtype != np.int64 or places.ndim != 1:
        raise MechanismError("a group names its latents in one row of 64-bit integers.")
    if not 1 <= len(places) <= MOST_STEPS or len(np.unique(places)) < len(places):
        raise MechanismError(f"a group has 1 to {MOST_STEPS} latents, each of them once.")
    if not 1 <= chance < EXACT:
        raise MechanismError(f"a group's chance is a whole number from 1 to 2^53 − 1, got {chance}.")


def _check_dim(places: Integers, region: BoxRegion) -> None:
    if places.min() < 0 or places.max() >= region.dim:
        raise MechanismError(f"a group names a latent that is not among the region's {region.dim}.")
