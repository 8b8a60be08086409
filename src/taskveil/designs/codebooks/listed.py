"""Codebooks that are listed: codewords found by alternating minimisation of the exact expected loss.

All in the space of the task's outputs, where the loss is a squared distance. Given favoured sets, the best codeword is
the mean of the records given its report, under the exact channel; given codewords, a record favours the m nearest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.arrays import Floats
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.designs.codebooks.alternation import given_reports
from taskveil.designs.domain import box_region
from taskveil.veil.decoders import CodewordDecoder

_ROWS = 512  # records at a time: the scores stay in the cache


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
        """Mechanism and decoder on the integer grid.

        Args:
            reach: (r,), latents are bounded to ± reach.
            back: (n, r), leads from latents to records.
            mean: (n,), the record of latent zero.
        """
        region, points = box_region(-reach, reach), np.zeros((len(self.codewords), len(reach)))
        points[:, : self.codewords.shape[1]] = self.codewords
        k = np.rint(points / region.step).astype(np.int64)
        # The nearest codewords are those of the highest 2 k·c − |c|², in whole numbers.
        stage = Stage(vectors=2 * k, offsets=-(k**2).sum(axis=1), shifts=k, response=self.response)
        decoder = CodewordDecoder(codewords=points @ back.T + mean, sizes=np.array([len(points)]))
        return Codebook(region=region, stages=(stage,)), decoder


def fit_listed(
    latents: Floats,
    *,
    size: int,
    favoured: int,
    dim: int,
    epsilon: float,
    smoothing: float,
    rng: np.random.Generator,
    draws: int = 4000,
    starts: int = 1,
    rounds: int = 15,
) -> ListedCode:
    """The best of a few starts, judged on the (smoothed) sample itself.

    Args:
        latents: of the volunteers (N, r).
        size: K, how many codewords.
        favoured: m, how many of them a record favours.
        dim: the first so many latents are coded.
        epsilon: the budget of the report.
        smoothing: fit to draws from the density smoothed this much; 0: to the few records themselves.
        rng: picks starts and draws.
        draws: at least this many when smoothing.
        starts: random starts, fewer for large codes.
        rounds: alternations for each.
    """
    response = Response.calibrated(size=size, favoured=favoured, epsilon=epsilon)
    sample = latents[:, :dim]
    if smoothing > 0.0:
        sample = smoothed(sample, max(draws, 24 * size), rng, smoothing)
    distinct = np.unique(sample, axis=0)
    fits = []
    for _ in range(max(1, min(starts, 512 // size))):
        codewords = distinct[rng.choice(len(distinct), size, replace=len(distinct) < size)]
        for _ in range(rounds):
            codewords = _posterior_means(sample, _nearest(sample, codewords, favoured), response)
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
    for start in range(0, len(sample), _ROWS):
        scores = points[start : start + _ROWS] @ doubled
        scores -= squares
        rows = np.arange(len(scores))
        for place in range(count):
            best = scores.argmax(axis=1)
            found[start : start + _ROWS, place] = best
            scores[rows, best] = -np.inf
    return found


def _posterior_means(sample: Floats, favoured: NDArray[np.intp], response: Response) -> Floats:
    """E[z | report = k] for every k: each record counts b/T everywhere and (a − b)/T more where it favours."""
    sums = given_reports(np.column_stack([sample, np.ones(len(sample))]), favoured, response)
    return np.asarray(sums[:, :-1] / sums[:, -1:])
