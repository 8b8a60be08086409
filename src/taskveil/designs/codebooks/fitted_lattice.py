"""Codebooks too large to list: levels, lengths and budget of a lattice, fitted to the sample."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import LatticeCodebook, Response
from taskveil.client.mechanisms.lattice import Lattice, spread
from taskveil.client.regions import BoxRegion
from taskveil.veil.decoders import LatticeDecoder

LEVELS_PER_DIRECTION = 255
LENGTHS_PER_BIT = 3  # resolution of code lengths, which are whole numbers
REFINING_RECORDS = 2000  # more records do not move the levels
_TAIL = 0.05  # share of a wide tail in the levels' probabilities, so that no record is priced out
REACH = 1.5  # times the largest latent seen: as far as levels reach, and as far as a device goes
_KEPT = 2.0  # records' worth of weight by which a level stays on its grid point


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
        """Mechanism and decoder on the integer grid.

        Args:
            reach: (r,), latents are bounded to ± reach.
            back: (n, r), leads from latents to records.
            mean: (n,), the record of latent zero.
        """
        edge = np.minimum(np.ceil(reach / self.step), 2.0**24).astype(np.int64)
        region = BoxRegion(step=self.step, low=-edge, high=edge)
        return (
            LatticeCodebook(region=region, lattice=self.lattice, response=self.response),
            LatticeDecoder(lattice=self.lattice, step=self.step, weights=back, offset=mean),
        )


def fit_lattice(latents: Floats, *, nats: float, spacing: float, epsilon: float, rounds: int = 2) -> LatticeCode:
    """Levels `spacing` apart in every direction, as many codewords as `nats` allow, levels moved to best estimates."""
    sample = latents[:REFINING_RECORDS]
    spacing = max(spacing, 2.0 * REACH * float(np.abs(sample).max()) / LEVELS_PER_DIRECTION)
    step = 2.0 ** math.floor(math.log2(spacing / 1024.0))
    directions = [_levels(z, spacing) for z in sample.T]
    budget = _budget([lengths for _, lengths in directions], nats)
    kept = [(levels[lengths <= budget], lengths[lengths <= budget]) for levels, lengths in directions]
    lattice = Lattice(
        levels=np.concatenate([np.rint(levels / step).astype(np.int64) for levels, _ in kept]),
        lengths=np.concatenate([lengths for _, lengths in kept]),
        counts=np.array([len(levels) for levels, _ in kept]),
        budget=budget,
    )
    response = Response.calibrated(size=lattice.size, favoured=1, epsilon=epsilon)
    for _ in range(rounds):
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
