"""Vectors in a ball: a sound response, and what can go wrong with seeds, favoured sets and budgets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import taskveil as tv
from balls import attributes
from taskveil.client import entropy
from taskveil.client.mechanisms import BallResponse, CentredBallResponse, Response, SeededCodewords
from taskveil.client.regions import BoxRegion
from taskveil.designs.means.ball import normal_quantiles
from taskveil.veil.decoders import BallDecoder


def ball_veil(epsilon: float, kind: type[BallResponse] = BallResponse) -> tv.Veil:
    codewords = SeededCodewords(dim=2, rows=0, size=16, quantiles=normal_quantiles(256))
    reach = np.full(2, 2**19)
    centres = 4 if issubclass(kind, CentredBallResponse) else 0
    mechanism = kind(
        region=BoxRegion(step=2.0**-19, low=-reach, high=reach),
        codewords=codewords,
        response=Response.calibrated(size=16 + centres, favoured=4, epsilon=epsilon),
    )
    decoder = BallDecoder(codewords=codewords, places=np.arange(2), scale=1.0, offset=np.zeros(2))
    return tv.Veil(encoder=attributes(2, 2), mechanism=mechanism, decoder=decoder, task=None, method="museum")


class OwnDirection(BallResponse):
    """Always favours the vector's own direction: biased inside the ball, and as private as before."""

    def _likely(self, k: np.ndarray) -> tuple[np.ndarray, int]:
        _, draws = super()._likely(k)
        return np.full(len(k), draws), draws


class LoudBall(BallResponse):
    """Draws with √2 times the budget that it states."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        louder = Response.calibrated(size=16, favoured=4, epsilon=math.sqrt(2) * self.epsilon)
        return BallResponse(region=self.region, codewords=self.codewords, response=louder)(latents)


class Understated(BallResponse):
    """Claims 1% less than its response costs."""

    @property
    def epsilon(self) -> float:
        return super().epsilon - math.log(1.01)


class SeedOfTheRecord(BallResponse):
    """Draws two reports and sends the one whose codeword lies nearer to the vector: the seed depends on the record."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        one, other = super().__call__(latents), super().__call__(latents)
        nearness = [
            (self.codewords.directions(reports[:, :2], reports[:, 2]) * self.bound(latents)).sum(axis=1)
            for reports in (one, other)
        ]
        return np.where((nearness[0] >= nearness[1])[:, None], one, other)


class RepeatedMembers(BallResponse):
    """Vectors of the right half favour their best codeword twice, and so with twice the probability."""

    def favoured(self, seeds: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        best = super().favoured(seeds, vectors)
        best[:, :, 1] = np.where(vectors[:, :, 0] > 0, best[:, :, 0], best[:, :, 1])
        return best


class CentreAndDirection(CentredBallResponse):
    """Where the centre is favoured, the nearest codewords are too: 2m of them, so that every codeword that is not
    favoured is drawn more rarely than where m are."""

    def __call__(self, latents: np.ndarray) -> np.ndarray:
        k, seeds = self.inside(self.region.enforce(latents)), super().__call__(latents)[:, :2]
        part, draws = self._likely(k)
        own = entropy.uniform_below(draws, len(k)) < part
        nearest, centre = (self._sets(seeds, k, np.full(len(k), side)) for side in (True, False))
        both = replace(self.response, favoured=2 * self.centres)(np.hstack([nearest, centre]))
        return np.column_stack([seeds, np.where(own, self.response(nearest), both)])

    def _both(self, reports: np.ndarray, k: np.ndarray) -> np.ndarray:
        nearest, centre = super()._both(reports, k)
        return np.stack([nearest, nearest | centre])
