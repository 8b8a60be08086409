"""Codebooks that are sums: a few short lists whose sums are too many to list, fitted to the sample.

All in the space of the task's outputs, where the loss is a squared distance. With probability p the report is the sum
that the device found, otherwise any sum at all; the expected loss of the codewords is therefore

    p · |z − s(z)|² + (1 − p) · (|z − Σ means|² + Σ variances),

means and variances those of each stage's codewords: terms drawn alike and independently. Given what the device finds
it is quadratic in the codewords of all stages together, and lowered stage by stage; given codewords, the device's own
search finds sums anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.client.mechanisms import Response, SumCodebook
from taskveil.client.mechanisms.sum_codebook import nearest_sums
from taskveil.client.regions import BoxRegion
from taskveil.designs.codebooks.listed import smoothed
from taskveil.veil.decoders import CodewordDecoder

BRANCHES = 8
"""Sums that a device follows from stage to stage."""

_FITTING_BRANCHES = 4  # more of them while fitting bring nothing
_STARTING_ROUNDS = 6  # of each stage by itself
_ROUNDS = 8  # searches with all stages
_SWEEPS = 2  # over all stages after each search
_FARTHEST = 2.0**22  # steps of a latent: scores stay exact


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
        """Mechanism and decoder on the integer grid.

        Args:
            reach: (r,), latents are bounded to ± reach.
            back: (n, r), leads from latents to records.
            mean: (n,), the record of latent zero.
        """
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


def fit_sum(
    latents: Floats,
    *,
    sizes: tuple[int, ...],
    dim: int,
    epsilon: float,
    smoothing: float,
    rng: np.random.Generator,
    draws: int = 4000,
) -> SumCode:
    """Codewords for draws from the smoothed density of the volunteers: stage after stage, then all together.

    Args:
        latents: of the volunteers (N, r).
        sizes: how many codewords each stage has.
        dim: the first so many latents are coded.
        epsilon: the budget of the report.
        smoothing: how much; see `smoothed`.
        rng: picks draws and starts.
        draws: at least so many, and some for every codeword.
    """
    response = Response.calibrated(size=math.prod(sizes), favoured=1, epsilon=epsilon)
    sample = smoothed(latents[:, :dim], max(draws, 24 * max(sizes)), rng, smoothing).astype(np.float32)
    stages: list[Array] = []
    left: Array = sample
    for size in sizes:
        stage = left[rng.choice(len(left), size, replace=len(left) < size)]
        for _ in range(_STARTING_ROUNDS):
            stage = _posterior_means(left, nearest_sums(left, [stage], 1)[:, 0], size, response, left.mean(axis=0))
        stages.append(stage)
        left = left - _sums([stage], nearest_sums(left, [stage], 1))
    for _ in range(_ROUNDS):
        stages = _refitted(sample, stages, nearest_sums(sample, stages, _FITTING_BRANCHES), response)
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
