"""Gaussian noise for the auditor: a sound mechanism, and copies of it with one fault each."""

from __future__ import annotations

import math

import numpy as np

import taskveil as tv
from auditing.exhibits import STEP, encoder
from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Gaussian
from taskveil.client.noise import discrete_gaussian
from taskveil.client.regions import BallRegion
from taskveil.veil.decoders import AffineDecoder


def gaussian_veil(
    epsilon: float,
    delta: float,
    dim: int = 1,
    kind: type[Gaussian] = Gaussian,
    region: type[BallRegion] = BallRegion,
) -> tv.Veil:
    """Latents in the ball of radius 1, with the least noise for this ε and δ."""
    ball = region(step=STEP, center=np.zeros(dim, dtype=np.int64), squared_radius=2**40)
    made = Gaussian.calibrated(region=ball, epsilon=epsilon, delta=delta)
    mechanism = kind(region=ball, scale=made.scale, delta=delta, order=made.order)
    decoder = AffineDecoder(weights=np.eye(dim), offset=np.zeros(dim))
    return tv.Veil(encoder=encoder(dim), mechanism=mechanism, decoder=decoder, task=None, method="museum")


class Quiet(Gaussian):
    """Draws noise that is too small by √2, as if the radius were the diameter of half the ball."""

    def __call__(self, latents: Floats) -> Integers:
        k = self.region.enforce(latents)
        return k + discrete_gaussian(self.scale / math.sqrt(2), k.size).reshape(k.shape)


class Cube(BallRegion):
    """Forces latents into the cube around the ball that is charged."""

    def contains(self, k: Integers) -> np.ndarray:
        return np.asarray(np.abs(k - self.center).max(axis=1) <= self.farthest)

    def _share(self, offset: Integers) -> Floats:
        return np.asarray(self.farthest / np.maximum(np.abs(offset).max(axis=1), 1))
