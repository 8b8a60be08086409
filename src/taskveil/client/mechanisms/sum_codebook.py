"""A codebook whose codewords are sums: one term from each of a few short lists.

**Guarantee.** ε-LDP for every input whatever the encoder computes, ε = ln(a/b).

**Why.** (1) For any floats, the search ends with *one* code number a stage. These digits number one of K₁·K₂·… sums;
the numbering is public. (2) `Response` over all of these sums, with that one favoured, is ε-LDP in whole numbers. (3)
The report consists of the digits of the number that it drew. All stages share one budget, because they are randomised
together, once. The quality of the search affects only the loss, not the guarantee.

Device arithmetic is in whole numbers: latents are rounded to the region's grid and scores are integer sums, so every
client finds the same codeword.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import EXACT, Array, Floats, Integers, Integers16, blocks, own_arrays
from taskveil.client.mechanisms.base import NearestCodebook
from taskveil.client.mechanisms.response import Response
from taskveil.client.networks import MOST_OPERATIONS, MOST_STEPS
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError

MOST_BRANCHES = 16
MOST_CODEWORDS = 2**14
"""Of all stages of a sum together: as many codes as are listed and compared one by one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SumCodebook(NearestCodebook):
    """ε-LDP for every input: reports the digits of a sum near the latent, or of any other sum.

    Shapes: codewords (K₁ + K₂ + …, d) in grid steps, one stage after the other; sizes (stages,). The search keeps
    `branches` sums from stage to stage.
    """

    region: BoxRegion
    codewords: Integers16
    sizes: Integers
    branches: int
    response: Response

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.sizes.ndim != 1 or self.sizes.dtype != np.int64 or not 1 <= len(self.sizes) <= MOST_STEPS:
            raise MechanismError(f"a sum of codebooks has 1 to {MOST_STEPS} stages, and their sizes in one row.")
        if self.sizes.min() < 1 or self.sizes.max() > MOST_CODEWORDS or self.sizes.sum() > MOST_CODEWORDS:
            raise MechanismError(f"a stage has 1 codeword or more, all of them together at most {MOST_CODEWORDS}.")
        if self.codewords.shape != (self.sizes.sum(), self.region.dim) or self.codewords.dtype != np.int16:
            raise MechanismError("the codewords of all stages are one row each for the region's latents, in 16 bits.")
        if not 1 <= self.branches <= MOST_BRANCHES or self.branches * self.codewords.size > MOST_OPERATIONS:
            raise MechanismError(f"a search follows 1 to {MOST_BRANCHES} branches, fewer among very many codewords.")
        if math.prod(self.sizes.tolist()) != self.response.size or self.response.favoured != 1:
            raise MechanismError("the response must favour one of all sums of the stages' codewords.")
        reach = np.maximum(np.abs(self.region.low), np.abs(self.region.high)).astype(np.float64)
        score = 0.0
        for stage in self.stages:
            score += float((2.0 * np.abs(stage) @ reach + (stage**2).sum(axis=1)).max())
            reach = reach + np.abs(stage).max(axis=0)
        if score >= EXACT:
            raise MechanismError("scores are too large to be exact; use a coarser grid.")

    @cached_property
    def stages(self) -> tuple[Floats, ...]:
        """The codewords of every stage (K, d): whole numbers in doubles."""
        return tuple(np.split(self.codewords.astype(np.float64), np.cumsum(self.sizes)[:-1]))

    @cached_property
    def layout(self) -> Layout:
        """Code numbers from 0 to a stage's size − 1."""
        return Layout(low=(0,) * len(self.sizes), high=tuple(size - 1 for size in self.sizes.tolist()))

    def nearest(self, k: Integers) -> Integers:
        """Latents on the grid (N, d) → the code numbers (N, stages) of a sum near each."""
        return nearest_sums(k.astype(np.float64), self.stages, self.branches)

    def places(self, k: Integers) -> list[int]:
        """Latents on the grid (N, d) → the number of the sum found: its code numbers are the digits, the first stage's
        the highest."""
        found = []
        for numbers in self.nearest(k).tolist():
            place = 0
            for number, size in zip(numbers, self.sizes.tolist(), strict=True):
                place = place * size + number
            found.append(place)
        return found

    def digits(self, places: list[int]) -> Integers:
        """Numbers of sums → their code numbers (N, stages)."""
        digits = np.empty((len(places), len(self.sizes)), dtype=np.int64)
        for column, size in reversed(list(enumerate(self.sizes.tolist()))):
            digits[:, column] = [place % size for place in places]
            places = [place // size for place in places]
        return digits

    def fault(self, k: Integers) -> str | None:
        """A sentence if a latent has no sum of codewords; otherwise None."""
        return None if self.layout.holds(self.nearest(k)).all() else "A latent is coded by no sum of codewords."


def nearest_sums(points: Array, stages: Sequence[Array], branches: int) -> Integers:
    """Points (N, d) → the code numbers (N, stages) of a sum of one codeword (d,) of every stage (K, d), near to each.

    From stage to stage the `branches` sums of highest score are kept, 2 z·s − |s|² for the sum s; ties go to the
    earlier branch, then to the lower number. Every record takes the same steps. Whole numbers in doubles give the same
    result on every machine; designs may also pass single precision.
    """
    found = np.empty((len(points), len(stages)), dtype=np.int64)
    squares = [(stage**2).sum(axis=1) for stage in stages]
    for rows in blocks(len(points), branches * max(len(stage) for stage in stages)):
        left = points[rows, None, :]  # the rest that every branch leaves
        count, _, dim = left.shape
        scores = np.zeros((count, 1), dtype=points.dtype)
        numbers = np.zeros((count, 1, 0), dtype=np.int64)
        for place, (stage, square) in enumerate(zip(stages, squares, strict=True), start=1):
            extended = (left.reshape(-1, dim) @ (2 * stage.T) - square).reshape(count, -1, len(stage))
            extended += scores[:, :, None]
            kept = min(branches, scores.shape[1] * len(stage)) if place < len(stages) else 1
            branch, number, scores = _highest(extended, kept)
            before = np.take_along_axis(numbers, branch[:, :, None], axis=1)
            numbers = np.concatenate([before, number[:, :, None]], axis=2)
            if place < len(stages):
                left = np.take_along_axis(left, branch[:, :, None], axis=1) - stage[number]
        found[rows] = numbers[:, 0]
    return found


def _highest(scores: Array, count: int) -> tuple[Integers, Integers, Array]:
    """Branch, number and score (N, count) of the highest of scores (N, branches, K), which are overwritten."""
    rows = np.arange(len(scores))
    leader = scores.argmax(axis=2)
    height = np.take_along_axis(scores, leader[:, :, None], axis=2)[:, :, 0]
    branch, number = (np.empty((len(scores), count), dtype=np.int64) for _ in range(2))
    highest = np.empty((len(scores), count), dtype=scores.dtype)
    for place in range(count):
        branch[:, place] = chosen = height.argmax(axis=1)
        number[:, place], highest[:, place] = leader[rows, chosen], height[rows, chosen]
        if place + 1 < count:
            scores[rows, chosen, number[:, place]] = -np.inf  # chosen: lower than all other scores
            again = scores[rows, chosen]
            leader[rows, chosen] = again.argmax(axis=1)
            height[rows, chosen] = again[rows, leader[rows, chosen]]
    return branch, number, highest
