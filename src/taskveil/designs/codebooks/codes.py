"""Codes for a linear task, fitted to a sample: codewords that are listed, sums of short lists, and lattices.

All in the space of the task's outputs, where the loss is a squared distance. A *choice* says how large a code is; `fit`
makes a code of it. Every code has exact expected losses, and parts (mechanism and decoder) on the integer grid.

**Listed.** Given favoured sets, the best codeword is the mean of the records given its report, under the exact channel;
given codewords, a record favours the m nearest. The two steps alternate.

**Sums.** A few short lists whose sums are too many to list. With probability p the report is the sum that the device
found, otherwise any sum at all; the expected loss of the codewords is therefore

    p · |z − s(z)|² + (1 − p) · (|z − Σ means|² + Σ variances),

means and variances those of each stage's codewords: terms drawn alike and independently. Given what the device finds
it is quadratic in the codewords of all stages together, and lowered stage by stage; given codewords, the device's own
search finds sums anew.

**Lattices.** Codebooks too large to list: levels of every direction, their lengths, and a budget of lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from taskveil.arrays import Array, Floats, Integers, blocks
from taskveil.client.mechanisms import Codebook, LatticeCodebook, Response, Stage, SumCodebook
from taskveil.client.mechanisms.lattice import Lattice, spread
from taskveil.client.mechanisms.sum_codebook import nearest_sums
from taskveil.client.regions import BoxRegion
from taskveil.designs.codebooks.alternation import given_reports
from taskveil.designs.domain import box_region
from taskveil.veil.decoders import CodewordDecoder, LatticeDecoder

JUDGED = 2000  # volunteers that judge codes and refine lattices; more would hardly change them

BRANCHES = 8
"""Sums that a device follows from stage to stage; while fitting, more than half of them bring nothing."""

_STARTING_ROUNDS = 6  # of each stage by itself
_ROUNDS = 8  # searches with all stages
_SWEEPS = 2  # over all stages after each search
_FARTHEST = 2.0**22  # steps of a latent: scores stay exact

LEVELS_PER_DIRECTION = 255
LENGTHS_PER_BIT = 3  # resolution of code lengths, which are whole numbers
_TAIL = 0.05  # share of a wide tail in the levels' probabilities, so that no record is priced out
REACH = 1.5  # times the largest latent seen: as far as levels reach, and as far as a device goes
_KEPT = 2.0  # records' worth of weight by which a level stays on its grid point


@dataclass(frozen=True, kw_only=True)
class ListedCode:
    """Codewords (K, d) for the first d latents; the remaining latents are decoded as their mean, zero."""

    codewords: Floats
    response: Response

    def losses(self, latents: Floats) -> Floats:
        """The exact expected squared error of every record (N,) over all latents (N, r)."""
        C = self.codewords
        distances = (latents**2).sum(axis=1)[:, None] - 2.0 * latents[:, : C.shape[1]] @ C.T + (C**2).sum(axis=1)
        nearest = np.partition(distances, self.response.favoured - 1, axis=1)[:, : self.response.favoured]
        return np.asarray(self.response.extra * nearest.sum(axis=1) + self.response.base * distances.sum(axis=1))

    def parts(self, reach: Floats, back: Floats, mean: Floats) -> tuple[Codebook, CodewordDecoder]:
        """Mechanism and decoder on the integer grid: latents are bounded to ± reach (r,), `back` (n, r) leads from
        latents to records, and `mean` (n,) is the record of latent zero."""
        region, points = box_region(-reach, reach), np.zeros((len(self.codewords), len(reach)))
        points[:, : self.codewords.shape[1]] = self.codewords
        k = np.rint(points / region.step).astype(np.int64)
        # The nearest codewords are those of the highest 2 k·c − |c|², in whole numbers.
        stage = Stage(vectors=2 * k, offsets=-(k**2).sum(axis=1), shifts=k, response=self.response)
        decoder = CodewordDecoder(codewords=points @ back.T + mean, sizes=np.array([len(points)]))
        return Codebook(region=region, stages=(stage,)), decoder


@dataclass(frozen=True, kw_only=True)
class ListedChoice:
    """A listed codebook of `size` codewords, `favoured` of them favoured, in the first `dim` directions. It is fitted
    to draws from the density smoothed so much; without smoothing, to the few records themselves."""

    size: int
    favoured: int
    dim: int
    smoothing: float = 1.0

    @property
    def listed(self) -> int:
        """How many codewords a device stores."""
        return self.size

    def fit(self, latents: Floats, epsilon: float, rng: np.random.Generator, *, final: bool = False) -> ListedCode:
        """A code for latents (N, r), with more draws, starts and rounds for the final one."""
        draws, starts, rounds = (16_000, 8, 25) if final else (4_000, 1, 15)
        response = Response.calibrated(size=self.size, favoured=self.favoured, epsilon=epsilon)
        sample = latents[:, : self.dim]
        if self.smoothing > 0.0:
            sample = smoothed(sample, max(draws, 24 * self.size), rng, self.smoothing)
        distinct = np.unique(sample, axis=0)
        fits = []
        for _ in range(max(1, min(starts, 512 // self.size))):
            codewords = distinct[rng.choice(len(distinct), self.size, replace=len(distinct) < self.size)]
            for _ in range(rounds):
                codewords = _means(sample, _nearest(sample, codewords, self.favoured), response)
            fits.append(ListedCode(codewords=codewords, response=response))
        return min(fits, key=lambda code: float(code.losses(sample).mean())) if len(fits) > 1 else fits[0]


def smoothed(latents: Floats, count: int, rng: np.random.Generator, smoothing: float = 1.0) -> Floats:
    """At least `count` draws from a Gaussian kernel estimate, shrunk to keep the covariance of the latents (N, r).

    A few hundred volunteers cannot place hundreds of codewords; their smoothed density can. The bandwidth is
    `smoothing` times Silverman's, which is right for Gaussian records and too wide for those that lie in clusters.
    """
    records, dim = latents.shape
    bandwidth = smoothing * (4.0 / ((dim + 2) * records)) ** (1.0 / (dim + 4))
    copies = np.tile(latents, (max(1, -(-count // records)), 1))
    jitter = bandwidth * latents.std(axis=0) * rng.standard_normal(copies.shape)
    return np.asarray((copies + jitter) / np.sqrt(1.0 + bandwidth**2))


def _nearest(sample: Floats, codewords: Floats, count: int) -> NDArray[np.intp]:
    """The `count` nearest codewords of every record: the highest 2 z·c − |c|². Single precision is enough to design."""
    found = np.empty((len(sample), count), dtype=np.intp)
    points, doubled = sample.astype(np.float32), (2.0 * codewords.T).astype(np.float32)
    squares = (codewords**2).sum(axis=1).astype(np.float32)
    for some in blocks(len(sample), len(codewords)):
        scores = points[some] @ doubled
        scores -= squares
        rows = np.arange(len(scores))
        for place in range(count):
            best = scores.argmax(axis=1)
            found[some, place] = best
            scores[rows, best] = -np.inf
    return found


def _means(sample: Floats, favoured: NDArray[np.intp], response: Response) -> Floats:
    """E[z | report = k] for every k: each record counts b/T everywhere and (a − b)/T more where it favours."""
    sums = given_reports(np.column_stack([sample, np.ones(len(sample))]), favoured, response)
    return np.asarray(sums[:, :-1] / sums[:, -1:])


@dataclass(frozen=True, kw_only=True)
class SumCode:
    """Codewords (K, d) of every stage for the first d latents; the remaining ones are decoded as their mean, zero."""

    stages: tuple[Floats, ...]
    response: Response
    branches: int = BRANCHES

    def losses(self, latents: Floats) -> Floats:
        """The exact expected squared error of every record (N,) over all latents (N, r)."""
        dim = self.stages[0].shape[1]
        coded = latents[:, :dim]
        found = _sums(self.stages, nearest_sums(coded, self.stages, self.branches))
        middle = np.sum([stage.mean(axis=0) for stage in self.stages], axis=0)
        spread = sum(float(stage.var(axis=0).sum()) for stage in self.stages)
        kept = self.response.extra
        anywhere = ((coded - middle) ** 2).sum(axis=1) + spread
        uncoded = (latents[:, dim:] ** 2).sum(axis=1)
        return np.asarray(uncoded + kept * ((coded - found) ** 2).sum(axis=1) + (1.0 - kept) * anywhere)

    def parts(self, reach: Floats, back: Floats, mean: Floats) -> tuple[SumCodebook, CodewordDecoder]:
        """Mechanism and decoder on the integer grid: latents are bounded to ± reach (r,), `back` (n, r) leads from
        latents to records, and `mean` (n,) is the record of latent zero."""
        points = np.concatenate(self.stages)
        step = 2.0 ** math.ceil(math.log2(max(np.abs(points).max() / np.iinfo(np.int16).max, reach.max() / _FARTHEST)))
        codewords = np.zeros((len(points), len(reach)), dtype=np.int16)
        codewords[:, : points.shape[1]] = np.rint(points / step)
        edge = np.ceil(reach / step).astype(np.int64)
        sizes = np.array([len(stage) for stage in self.stages])
        estimates = codewords * step @ back.T
        estimates[: sizes[0]] += mean
        return (
            SumCodebook(
                region=BoxRegion(step=step, low=-edge, high=edge),
                codewords=codewords,
                sizes=sizes,
                branches=self.branches,
                response=self.response,
            ),
            CodewordDecoder(codewords=estimates, sizes=sizes),
        )


@dataclass(frozen=True, kw_only=True)
class SumChoice:
    """Sums of one codeword from each of `stages` lists, `size` codewords in each, in the first `dim` directions, fitted
    to draws from the density smoothed so much."""

    stages: int
    size: int
    dim: int
    smoothing: float

    @property
    def listed(self) -> int:
        """How many codewords a device stores."""
        return self.stages * self.size

    def fit(self, latents: Floats, epsilon: float, rng: np.random.Generator, *, final: bool = False) -> SumCode:
        """A code for latents (N, r), with more effort for the final one."""
        response = Response.calibrated(size=self.size**self.stages, favoured=1, epsilon=epsilon)
        draws = max(16_000 if final else 4_000, 24 * self.size)
        sample = smoothed(latents[:, : self.dim], draws, rng, self.smoothing).astype(np.float32)
        stages: list[Array] = []
        left: Array = sample
        for _ in range(self.stages):
            stage = left[rng.choice(len(left), self.size, replace=len(left) < self.size)]
            for _ in range(_STARTING_ROUNDS):
                number = nearest_sums(left, [stage], 1)[:, 0]
                stage = _posterior_means(left, number, self.size, response, left.mean(axis=0))
            stages.append(stage)
            left = left - _sums([stage], nearest_sums(left, [stage], 1))
        for _ in range(_ROUNDS):
            stages = _refitted(sample, stages, nearest_sums(sample, stages, BRANCHES // 2), response)
        return SumCode(stages=tuple(stage.astype(np.float64) for stage in stages), response=response)


def _refitted(sample: Array, stages: list[Array], numbers: Integers, response: Response) -> list[Array]:
    """Every stage in turn at the least expected loss, given the others and the sums (N, stages) found."""
    stages, left = list(stages), sample - _sums(stages, numbers)
    for place in [*range(len(stages))] * _SWEEPS:
        own = stages[place][numbers[:, place]]
        others = np.sum([stage.mean(axis=0) for at, stage in enumerate(stages) if at != place], axis=0)
        stages[place] = _posterior_means(
            left + own, numbers[:, place], len(stages[place]), response, sample.mean(axis=0) - others
        )
        left = left + own - stages[place][numbers[:, place]]
    return stages


def _posterior_means(left: Array, number: Integers, size: int, response: Response, middle: Array) -> Array:
    """(size, d): the mean of what is left over (N, d) given the code number that is reported.

    A number is reported because it was found, or drawn with all others: then what is left over is `middle` on average.
    """
    anyone = (1.0 - response.extra) * len(left) / size
    sums = np.stack([np.bincount(number, z, size) for z in left.T], axis=1)
    weight = response.extra * np.bincount(number, minlength=size) + anyone
    return np.asarray(((response.extra * sums + anyone * middle) / weight[:, None]).astype(left.dtype))


def _sums(stages: Sequence[Array], numbers: Integers) -> Array:
    """The sums (N, d) of the codewords with these numbers (N, stages)."""
    return np.asarray(np.sum([stage[numbers[:, place]] for place, stage in enumerate(stages)], axis=0))


@dataclass(frozen=True, kw_only=True)
class LatticeCode:
    """A lattice whose levels stand for multiples of `step`."""

    lattice: Lattice
    response: Response
    step: float

    def losses(self, latents: Floats) -> Floats:
        """The exact expected squared error of every record (N,); latents beyond the lattice's count as zero."""
        dim = self.lattice.dim
        k = np.rint(latents[:, :dim] / self.step).astype(np.int64)
        numbers = self.lattice.nearest(np.clip(k, -(2**24), 2**24))
        codewords = self.lattice.points(numbers) * self.step
        mean, second = (moment * self.step**power for power, moment in enumerate(self.lattice.level_moments(), start=1))
        energy = (latents**2).sum(axis=1)
        nearest = energy - 2.0 * (latents[:, :dim] * codewords).sum(axis=1) + (codewords**2).sum(axis=1)
        anywhere = energy - 2.0 * latents[:, :dim] @ mean + second.sum()
        return np.asarray(self.response.extra * nearest + (1.0 - self.response.extra) * anywhere)

    def parts(self, reach: Floats, back: Floats, mean: Floats) -> tuple[LatticeCodebook, LatticeDecoder]:
        """Mechanism and decoder on the integer grid: latents are bounded to ± reach (r,), `back` (n, r) leads from
        latents to records, and `mean` (n,) is the record of latent zero."""
        edge = np.minimum(np.ceil(reach / self.step), 2.0**24).astype(np.int64)
        region = BoxRegion(step=self.step, low=-edge, high=edge)
        return (
            LatticeCodebook(region=region, lattice=self.lattice, response=self.response),
            LatticeDecoder(lattice=self.lattice, step=self.step, weights=back, offset=mean),
        )


@dataclass(frozen=True, kw_only=True)
class LatticeChoice:
    """A lattice of about e^nats codewords with levels `spacing` apart; levels move to best estimates in `rounds`."""

    nats: float
    spacing: float
    rounds: int = 2

    @property
    def listed(self) -> int:
        """How many codewords a device stores: it counts levels instead."""
        return 0

    def fit(
        self,
        latents: Floats,
        epsilon: float,
        rng: np.random.Generator,  # noqa: ARG002 - nothing random here
        *,
        final: bool = False,  # noqa: ARG002
    ) -> LatticeCode:
        """A code for latents (N, r)."""
        sample = latents[:JUDGED]
        spacing = max(self.spacing, 2.0 * REACH * float(np.abs(sample).max()) / LEVELS_PER_DIRECTION)
        step = 2.0 ** math.floor(math.log2(spacing / 1024.0))
        directions = [_levels(z, spacing) for z in sample.T]
        budget = _budget([lengths for _, lengths in directions], self.nats)
        kept = [(levels[lengths <= budget], lengths[lengths <= budget]) for levels, lengths in directions]
        lattice = Lattice(
            levels=np.concatenate([np.rint(levels / step).astype(np.int64) for levels, _ in kept]),
            lengths=np.concatenate([lengths for _, lengths in kept]),
            counts=np.array([len(levels) for levels, _ in kept]),
            budget=budget,
        )
        response = Response.calibrated(size=lattice.size, favoured=1, epsilon=epsilon)
        for _ in range(self.rounds):
            lattice = _refined(sample, lattice, response, step)
        return LatticeCode(lattice=lattice, response=response, step=step)


def _levels(z: Floats, spacing: float) -> tuple[Floats, Integers]:
    """Grid points of one direction and lengths −log₂ of their probability: a Gaussian mixed with a wide tail."""
    side = min(LEVELS_PER_DIRECTION // 2, math.ceil(max(REACH * float(np.abs(z).max()) / spacing - 0.5, 0.0)))
    levels = np.arange(-side, side + 1, dtype=np.float64) * spacing
    spread = float(z.std()) or spacing
    body = ndtr((levels + spacing / 2) / spread) - ndtr((levels - spacing / 2) / spread)
    wide = np.exp(-np.abs(levels) / (math.sqrt(2) * spread))
    bits = -np.log2((1 - _TAIL) * body / body.sum() + _TAIL * wide / wide.sum())
    lengths: Integers = np.rint((bits - bits.min()) * LENGTHS_PER_BIT).astype(np.int64)
    return levels, lengths


def _budget(lengths: list[Integers], nats: float) -> int:
    """The largest length budget with at most e^nats codewords, and with two at least; counted in exact integers."""
    most = int(LENGTHS_PER_BIT * (nats / math.log(2) + 8))
    ways = np.array([1] + [0] * most, dtype=object)
    for direction in lengths:
        ways = spread(ways, direction)
    sizes = np.cumsum(ways).tolist()
    fitting = [spent for spent, size in enumerate(sizes) if math.log(size) <= nats]
    return max(fitting[-1], next(spent for spent, size in enumerate(sizes) if size >= 2))


def _refined(sample: Floats, lattice: Lattice, response: Response, step: float) -> Lattice:
    """Every level moved to the mean of the records given that it is reported; its records may then choose anew."""
    numbers, shares = lattice.nearest(np.rint(sample / step).astype(np.int64)), lattice.level_shares()
    moved = []
    for z, n, share, (levels, _) in zip(sample.T, numbers.T, shares, lattice.directions, strict=True):
        truthful = response.extra * (np.bincount(n, minlength=len(levels)) + _KEPT)
        anyone = (1.0 - response.extra) * share * len(sample)
        sums = response.extra * (np.bincount(n, z, len(levels)) + _KEPT * levels * step) + anyone * z.mean()
        moved.append(np.rint(sums / (truthful + anyone) / step).astype(np.int64))
    return replace(lattice, levels=np.concatenate(moved))


Choice = ListedChoice | LatticeChoice | SumChoice
