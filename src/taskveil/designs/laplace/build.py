"""Turns a linear map and a domain into a working veil: grid, region, calibrated noise, best decoder."""

from __future__ import annotations

import math

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.encoders import LinearEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion, DiamondRegion, Region, SignRegion
from taskveil.designs.domain import Domain, Points
from taskveil.designs.moments import LinearProblem
from taskveil.designs.sensitivity import sign_vectors
from taskveil.errors import SensitivityError
from taskveil.veil import Veil
from taskveil.veil.decoders import AffineDecoder, least_squares_decoder
from taskveil.veil.losses import LossBounds

GRID_BITS = 20
"""A region is about 2^20 steps wide, so rounding a latent costs about a millionth of its sensitivity."""

MAX_SIGN_REGION = 10
"""Up to this many latents a device can afford all sign vectors (512 comparisons)."""


def build_linear(
    problem: LinearProblem,
    epsilon: float,
    *,
    weights: Floats,
    offset: Floats | None = None,
    method: str,
    region: Region | None = None,
    decoder: AffineDecoder | None = None,
    bounds: LossBounds | None = None,
) -> Veil:
    """A veil that encodes φ = weights x + offset.

    Args:
        problem: the volunteers, the task and the domain.
        epsilon: the budget of one report.
        weights: (Z, n).
        offset: (Z,); by default the volunteers' mean becomes 0.
        method: the name the veil bears.
        region: what φ is bounded to; by default the image of the domain.
        decoder: by default the least-squares decoder of the sample.
        bounds: what is known about the least loss.
    """
    box = problem.domain.bounding_box
    offset = -weights @ problem.moments.mean if offset is None else offset
    encoder = LinearEncoder.of(low=box.low, high=box.high, weights=weights, offset=offset)
    region = region or image_region(problem.domain, encoder, weights, offset)
    mechanism = Laplace.calibrated(region=region, epsilon=epsilon)
    if decoder is None:
        decoder = least_squares_decoder(mechanism.bound(encoder(problem.X)), problem.X, mechanism.noise_variance)
    return Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=problem.task, method=method, bounds=bounds)


def grid_step(extent: float) -> float:
    """The power of two that divides `extent` into 2^20 to 2^21 steps."""
    return float(2.0 ** (np.floor(np.log2(max(extent, 1e-280))) - GRID_BITS))


def image_region(domain: Domain, encoder: LinearEncoder, weights: Floats, offset: Floats) -> Region:
    """A region that contains the image of the domain and has its ℓ1 diameter (up to rounding to the grid).

    The image of a box or a ball is symmetric about the image of its center, so the diamond of half its
    diameter contains it. A cloud of points has no symmetry: sign bounds follow it exactly for a few
    latents; for many, the smaller of a box and a diamond around it is taken.
    """
    if isinstance(domain, Points):
        return cloud_region(encoder(domain.records))
    try:
        diameter = domain.l1_sensitivity(weights)
    except SensitivityError:
        # Too many coupled latents for the exact diameter: bound every latent by its own exact range.
        high = domain.support(weights) + offset
        low = -domain.support(-weights) + offset
        return box_region(low, high)
    step = grid_step(diameter)
    center = np.rint((domain.center @ weights.T + offset) / step).astype(np.int64)
    # The image is rounded in every coordinate and so is its center: half a step each, on both sides.
    return DiamondRegion(step=step, center=center, radius=int(np.ceil(diameter / 2 / step)) + len(offset))


def box_region(low: Floats, high: Floats) -> BoxRegion:
    """The smallest box on the grid that contains low ≤ φ ≤ high after rounding.

    Scores multiply a latent by a difference of latents and must be exact: far from zero the grid is coarser.
    """
    far = float(np.maximum(np.abs(low), np.abs(high)).max())
    extent = float((high - low).sum()) or far or 1.0
    step = grid_step(max(extent, math.sqrt(extent * far) / 2**4, far / 2**18))
    return BoxRegion(
        step=step,
        low=np.floor(low / step + 0.5).astype(np.int64),
        high=np.floor(high / step + 0.5).astype(np.int64),
    )


def cloud_region(latents: Floats) -> Region:
    """The region around a cloud of latents (N, Z) with the cloud's own ℓ1 diameter, or nearly for many latents."""
    spread = np.ptp(latents, axis=0)
    step = grid_step(float(spread.sum()) or 1.0)
    k = np.floor(latents / step + 0.5).astype(np.int64)
    if latents.shape[1] <= MAX_SIGN_REGION:
        signs = sign_vectors(latents.shape[1])
        products = k @ signs.T.astype(np.int64)
        # The volunteer nearest to the mean: certainly inside, where a rounded mean might not be.
        center = k[np.abs(k - k.mean(axis=0)).sum(axis=1).argmin()]
        return SignRegion(step=step, signs=signs, lower=products.min(axis=0), upper=products.max(axis=0), center=center)
    box = BoxRegion(step=step, low=k.min(axis=0), high=k.max(axis=0))
    middle = np.rint(np.median(k, axis=0)).astype(np.int64)
    diamond = DiamondRegion(step=step, center=middle, radius=int(np.abs(k - middle).sum(axis=1).max()))
    return box if box.l1_diameter <= diamond.l1_diameter else diamond
