"""Devices for vectors in a ball, made by hand."""

from __future__ import annotations

import numpy as np

from taskveil.client.device import Device
from taskveil.client.latent_encoders import AttributeEncoder
from taskveil.client.mechanisms import BallResponse, CentredBallResponse, Response, SeededCodewords
from taskveil.client.networks import LEVELS
from taskveil.client.regions import BoxRegion
from taskveil.designs.means.ball import normal_quantiles


def ball_response(
    dim: int,
    size: int,
    favoured: int,
    epsilon: float,
    *,
    rows: int = 0,
    quantiles: int = 2**12,
    radius: int = 2**19,
    kind: type[BallResponse] = BallResponse,
) -> BallResponse:
    reach = np.full(dim, radius)
    centres = favoured if issubclass(kind, CentredBallResponse) else 0
    return kind(
        region=BoxRegion(step=2.0**-19, low=-reach, high=reach),
        codewords=SeededCodewords(dim=dim, rows=rows, size=size, quantiles=normal_quantiles(quantiles)),
        response=Response.calibrated(size=size + centres, favoured=favoured, epsilon=epsilon),
    )


def attributes(width: int, dim: int) -> AttributeEncoder:
    """The last `dim` of `width` attributes in ranges of one width."""
    low = np.random.default_rng(width).normal(size=width)
    places = np.arange(width - dim, width)
    return AttributeEncoder(low=low, high=low + 3.0, step=np.full(dim, 2.0 / LEVELS), places=places)


def ball_device(width: int, mechanism: BallResponse) -> Device:
    names = tuple(f"x{place}" for place in range(width))
    return Device(
        encoder=attributes(width, mechanism.region.dim), mechanism=mechanism, columns=names, units=("m",) * width
    )


def ball_devices() -> dict[str, Device]:
    """One device per way through the code; small ones."""
    return {
        "ball": ball_device(5, ball_response(5, 64, 23, 1.0)),
        # An odd number of dimensions, few favoured, a coarse grid, and attributes that are not asked for.
        "ball_few": ball_device(6, ball_response(3, 256, 2, 6.0, radius=40)),
        # Codewords of few numbers: many have the same score.
        "ball_ties": ball_device(4, ball_response(2, 128, 9, 3.0, quantiles=2)),
        "ball_matrix": ball_device(151, ball_response(151, 32, 10, 2.0, rows=7)),
        "ball_centre": ball_device(5, ball_response(5, 64, 9, 3.0, kind=CentredBallResponse)),
        # All codewords favoured, or as many as the centre has.
        "ball_centre_all": ball_device(6, ball_response(3, 8, 8, 2.0, radius=40, kind=CentredBallResponse)),
        "ball_centre_matrix": ball_device(151, ball_response(151, 32, 4, 4.0, rows=7, kind=CentredBallResponse)),
    }


def wide_ball_devices() -> dict[str, Device]:
    """As designed for a thousand dimensions."""
    return {"ball_wide": ball_device(1000, ball_response(1000, 4096, 14, 8.0, rows=64))}
