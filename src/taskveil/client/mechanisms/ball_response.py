"""Randomised response between fresh random directions: the report of a vector in a ball, unbiased for every vector.

**Guarantee.** For any two inputs whatsoever and any report r, P[r | φ] ≤ e^ε · P[r | φ'], ε = ln(a/b).

**Why.** (1) The seed of a report is uniform and drawn without looking at the record, so it cancels. (2) Given the
seed, the device draws a sign with a probability that depends on the record. (3) Given seed and sign, it favours
exactly m of the K codewords and draws one by the response: any codeword has probability a/T or b/T (`response`). (4)
Over both signs, the probability is a mean of two such numbers and lies between b/T and a/T. (5) So two inputs differ
by the factor a/b at most. Which codewords are favoured, and how likely each sign is, makes no difference: no rounding
can weaken the bound. All draws are made in whole numbers from the operating system's bits.

**What it is for.** Codewords of a random seed are isotropic: they favour no direction. Then the mean of the reported
unit vector, over seeds, is κ times the favoured direction u, with κ the same for every u. A vector x of length |x| ≤ 1
favours u = x/|x| with probability (1 + |x|)/2, else −u, so that the mean of the reported vector over κ is x itself.

**Short vectors.** `CentredBallResponse` has m more codewords, which stand for the centre. With probability |x| it
favours the m codewords nearest to u, otherwise the m of the centre, never both. The steps above hold with "direction or
centre" in place of "sign": exactly m of K + m codewords are favoured. The mean is κ |x| u = κ x again, and the reported
vector is more often zero for a short vector than for a long one (docs/theory/balls.md).

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import EXACT, Bools, Floats, Integers, blocks
from taskveil.client import entropy
from taskveil.client.mechanisms.base import ResponseMechanism
from taskveil.client.mechanisms.response import Response, top
from taskveil.client.mechanisms.seeded_codewords import SeededCodewords
from taskveil.client.regions import BoxRegion
from taskveil.client.wire import Layout
from taskveil.errors import MechanismError


@dataclass(frozen=True, kw_only=True, eq=False)
class BallResponse(ResponseMechanism):
    """ε-LDP for every input, ε = ln(a/b) of the response.

    The region is the cube around the ball: −radius ≤ k ≤ radius. A report is the two numbers of a seed and the number
    of a codeword.
    """

    region: BoxRegion
    codewords: SeededCodewords
    response: Response

    def __post_init__(self) -> None:
        dim, radius, code = self.region.dim, self.radius, self.codewords
        if radius < 1 or (self.region.low != -radius).any() or (self.region.high != radius).any():
            raise MechanismError("the region of a ball is a cube around zero.")
        if code.dim != dim or code.size != self.response.size - self.centres or code.size < self.response.favoured:
            raise MechanismError("codewords must have the region's dimensions and be as many as the response has.")
        # A vector in the ball has ‖k‖₁ ≤ √d · radius.
        far = (math.isqrt(dim - 1) + 1) * radius
        if max(dim * radius**2, max(code.rows, 1) * (far + 1) * code.largest, 2 * radius << 16) >= EXACT:
            raise MechanismError("scores are too large to be exact; use a coarser grid.")

    @property
    def centres(self) -> int:
        """How many of the codewords stand for the centre: the last ones."""
        return 0

    @property
    def radius(self) -> int:
        """The radius of the ball, in grid steps."""
        return int(self.region.high[0])

    @cached_property
    def layout(self) -> Layout:
        """The two numbers of a seed, and the number of a codeword."""
        return Layout(low=(0, 0, 0), high=(2**32 - 1, 2**32 - 1, self.response.size - 1))

    def inside(self, k: Integers) -> Integers:
        """Members of the region (N, d) → integers in the ball (N, d): those outside are pulled straight towards zero.

        ⌊|k|·radius/L⌋ with L² ≥ Σ k² is at most |k|·radius/L in every coordinate, so the length is at most the radius.
        """
        squares = (k * k).sum(axis=1)
        length = np.ceil(np.sqrt(squares.astype(np.float64))).astype(np.int64)
        length += length**2 < squares  # where the root was rounded down to a whole number
        length = np.maximum(length, self.radius)[:, None]
        return np.asarray(np.sign(k) * (np.abs(k) * self.radius // length))

    def bound(self, latents: Floats) -> Floats:
        """Any floats (N, d) → what is randomised: inside the ball, on the grid, in the latents' own units."""
        return np.asarray(self.inside(self.region.enforce(latents)) * self.region.step, dtype=np.float64)

    def _likely(self, k: Integers) -> tuple[Integers, int]:
        """Vectors in the ball (N, d) → how many of all draws (the second number) favour their own direction (N,)."""
        length, whole = self._lengths(k)
        return whole + length, 2 * whole

    def _lengths(self, k: Integers) -> tuple[Integers, int]:
        """Vectors in the ball (N, d) → their lengths (N,) and the radius, in steps of 2^-16 of the grid's."""
        whole = self.radius << 16
        length = np.floor(np.sqrt((k * k).sum(axis=1).astype(np.float64)) * 2.0**16).astype(np.int64)
        return np.minimum(length, whole), whole

    def _sets(self, seeds: Integers, k: Integers, own: Bools) -> Integers:
        """The favoured codewords (N, m) of vectors (N, d), some of which favour their own direction (N,)."""
        return self.favoured(seeds, np.where(own[:, None], k, -k)[:, None])[:, 0]

    def favoured(self, seeds: Integers, vectors: Integers) -> Integers:
        """Seeds (N, 2) and vectors (N, M, d) → the codewords of highest score (N, M, m)."""
        size, favoured = self.codewords.size, self.response.favoured
        best = np.empty((*vectors.shape[:2], favoured), dtype=np.int64)
        for some in blocks(len(seeds), size * vectors.shape[1]):
            scores = self.codewords.scores(seeds[some], vectors[some])
            best[some] = top(scores.reshape(-1, size), favoured).reshape(*scores.shape[:2], favoured)
        return best

    def _favours(self, reports: Integers, k: Integers) -> Bools:
        """Reports (N, 3) and vectors (M, d) → whether the codeword is among the m of highest score (N, M): whether
        fewer than m come before it. No scores are sorted."""
        scores = self.codewords.scores(reports[:, :2], np.broadcast_to(k, (len(reports), *k.shape)))
        codes = reports[:, 2, None, None]
        own = np.take_along_axis(scores, codes, axis=2)
        level = (scores == own) & (np.arange(self.codewords.size) < codes)
        return np.asarray((scores > own).sum(axis=2) + level.sum(axis=2) < self.response.favoured)

    def _both(self, reports: Integers, k: Integers) -> Bools:
        """Reports (N, 3) and vectors (M, d) → whether the codeword is favoured (2, N, M): where vectors favour their
        own direction, and where they do not."""
        return self._favours(reports, np.concatenate([k, -k])).reshape(-1, 2, len(k)).swapaxes(0, 1)

    def __call__(self, latents: Floats) -> Integers:
        """Any floats (N, d) → reports (N, 3)."""
        k = self.inside(self.region.enforce(latents))
        seeds = _fresh_seeds(len(k))
        part, draws = self._likely(k)
        own = entropy.uniform_below(draws, len(k)) < part
        return np.column_stack([seeds, self.response(self._sets(seeds, k, own))])

    def log_likelihood(self, reports: Integers, latents: Floats) -> Floats:
        """(N, M): −64 ln 2 for the seed, and ln of the mean of a/T or b/T over what the vector may favour."""
        k = self.inside(self.region.enforce(latents))
        part, draws = self._likely(k)
        chances = np.empty((len(reports), len(k)))
        for some in blocks(len(reports), 2 * max(k.size, len(k) * self.response.size)):
            own, other = np.exp(self.response.log_chances(self._both(reports[some], k)))
            chances[some] = (part * own + (draws - part) * other) / draws
        return np.log(chances) - 64.0 * math.log(2.0)

    def fault(self, k: Integers) -> str | None:
        """A sentence if a vector lies outside the ball, a sign has no probability, or a favoured set has not exactly m
        distinct members; otherwise None."""
        k = self.inside(k)
        part, draws = self._likely(k)
        if ((k * k).sum(axis=1) > self.radius**2).any() or not ((part >= 0) & (part <= draws)).all():
            return "A vector lies outside the ball."
        seeds = _fresh_seeds(len(k))
        sets = np.sort(self.favoured(seeds, k[:, None])[:, 0], axis=1)
        distinct = (np.diff(sets, axis=1) > 0).all() and sets.min() >= 0 and sets.max() < self.codewords.size
        if not distinct or sets.shape[1] != self.response.favoured:
            return "A favoured set has not exactly m distinct members."
        return None


class CentredBallResponse(BallResponse):
    """ε-LDP as a `BallResponse`, with m more codewords that stand for the centre."""

    @property
    def centres(self) -> int:
        """As many as are favoured."""
        return self.response.favoured

    def _likely(self, k: Integers) -> tuple[Integers, int]:
        return self._lengths(k)

    def _sets(self, seeds: Integers, k: Integers, own: Bools) -> Integers:
        # The nearest are found in any case: the time does not say which were favoured.
        nearest = self.favoured(seeds, k[:, None])[:, 0]
        return np.where(own[:, None], nearest, self.codewords.size + np.arange(self.centres))

    def _both(self, reports: Integers, k: Integers) -> Bools:
        last = self.codewords.size - 1
        centre = np.broadcast_to(reports[:, 2:] > last, (len(reports), len(k)))
        return np.stack([self._favours(np.minimum(reports, [2**32, 2**32, last]), k) & ~centre, centre])


def _fresh_seeds(count: int) -> Integers:
    """(count, 2): uniform numbers below 2^32, from one word each."""
    words = entropy.random_words(count)
    low, high = words & np.uint64(2**32 - 1), words >> np.uint64(32)
    return np.stack([low, high], axis=1).astype(np.int64)
