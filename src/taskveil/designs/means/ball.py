"""Reports of vectors in a ball: how many codewords a device draws, how many it favours, and what a report then says.

The error of a report follows from moments of random directions (`taskveil.veil.channels.ball`) and from the lengths of
volunteers' vectors, so that nothing is simulated. K weighs attributes, but the reports are isotropic: they suit a K
that weighs attributes about alike. `designs.means.design` compares them with reports of single attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from taskveil.arrays import Floats, Integers, Integers16
from taskveil.client.latent_encoders import AttributeEncoder
from taskveil.client.mechanisms import BallResponse, CentredBallResponse, Response, SeededCodewords
from taskveil.client.networks import LEVELS, MOST_NUMBERS
from taskveil.client.regions import BoxRegion
from taskveil.designs.domain import Ball
from taskveil.designs.problem import Problem
from taskveil.designs.selection import SLACK
from taskveil.tasks.linear import MatrixTask
from taskveil.veil import Veil
from taskveil.veil.channels.ball import Lean, lean_of
from taskveil.veil.decoders import BallDecoder


def ball_veil(problem: Problem, ball: Ball, asked: Integers, epsilon: float, name: str) -> Veil:
    """The veil whose reports are directions of the attributes `asked` (d,), 2 or more, of records in a ball."""
    lengths = np.linalg.norm(problem.X[:, asked] - ball.center[asked], axis=1) / ball.radius
    rows, response, lean = best_response(len(asked), epsilon, np.minimum(lengths, 1.0))
    kind, size = BallResponse, response.size
    if lean.centre is not None:
        kind, size = CentredBallResponse, size - response.favoured
    codewords = SeededCodewords(dim=len(asked), rows=rows, size=size, quantiles=normal_quantiles(2**12))
    half = LEVELS // 2
    reach = np.full(len(asked), half)
    box = ball.bounding_box
    offset = problem.X.mean(axis=0)
    offset[asked] = ball.center[asked]
    return Veil(
        encoder=AttributeEncoder(low=box.low, high=box.high, step=np.full(len(asked), 1.0 / half), places=asked),
        mechanism=kind(
            region=BoxRegion(step=1.0 / half, low=-reach, high=reach), codewords=codewords, response=response
        ),
        decoder=BallDecoder(codewords=codewords, places=asked, scale=ball.radius / lean.mean, offset=offset),
        task=problem.task,
        method=name,
    )


def weighed(task: MatrixTask) -> Integers:
    """The attributes that a task weighs."""
    return np.flatnonzero(np.abs(task.K).max(axis=0) > 0)


def best_response(dim: int, epsilon: float, lengths: ArrayLike = 1.0) -> tuple[int, Response, Lean]:
    """Rows of the matrix, the response, and how its reports lean: of those whose error for vectors of these lengths
    (N,) is at most a hundredth above the least, the one with the fewest numbers to draw, without a matrix if there is
    one. (Without a matrix, the server computes one codeword of each report and nothing else.)"""
    found = [
        (rows, *best_favoured(size, dim, rows, epsilon, lengths, centred))
        for _, _, rows, size in sorted(_choices(dim))
        for centred in (False, True)
    ]
    errors = [lean.variance(dim, lengths) for _, _, lean in found]
    return next(one for one, error in zip(found, errors, strict=True) if error <= (1.0 + SLACK) * min(errors))


def _choices(dim: int) -> Iterator[tuple[bool, int, int, int]]:
    """(whether there is a matrix, numbers to draw, rows of the matrix, codewords).

    Pairs of codewords are 1, 2, 4, … while numbers are at most half of what a device takes, about 10 ms in Python.
    There is one pair in any case. A matrix leaves 64, 128, … dimensions: with d left, the error rises by about
    (1 + ε)/(2d).
    """
    for rows in (0, *(2**power for power in range(6, dim.bit_length()) if dim > 2 * 2**power)):
        numbers, size = rows * dim, 2
        while size == 2 or numbers + size // 2 * (rows or dim) <= MOST_NUMBERS // 2:
            if numbers + size // 2 * (rows or dim) <= MOST_NUMBERS:
                yield rows > 0, numbers + size // 2 * (rows or dim), rows, size
            size *= 2


def best_favoured(
    size: int, dim: int, rows: int, epsilon: float, lengths: ArrayLike, centred: bool
) -> tuple[Response, Lean]:
    """Of so many codewords, the number of favoured ones with the least error, and how its reports lean. The error falls
    and then rises in that number, which is at most half of all. `centred`: as many more stand for the centre."""

    def tried(favoured: int) -> tuple[Response, Lean]:
        centres = favoured if centred else 0
        response = Response.calibrated(size=size + centres, favoured=favoured, epsilon=epsilon)
        return response, lean_of(response, dim, rows, centres)

    low, high = 1, size // 2
    while low < high:
        middle = (low + high) // 2
        if tried(middle)[1].variance(dim, lengths) <= tried(middle + 1)[1].variance(dim, lengths):
            high = middle
        else:
            low = middle + 1
    return tried(low)


def normal_quantiles(count: int) -> Integers16:
    """(count,): quantiles of the absolute value of a normal number, times 2^10, as whole numbers of 1 or more. Each is
    the root mean square of its part of the distribution, so that all together have the variance of a normal number.

    The mean square between a and b, which has the probability p, is 1 − (b φ(b) − a φ(a))/p.
    """
    edges = ndtri(0.5 + np.arange(count) / (2 * count))
    density: Floats = np.append(edges * np.exp(-(edges**2) / 2) / math.sqrt(2 * math.pi), 0.0)
    squares = 1.0 - np.diff(density) * 2 * count
    return np.asarray(np.maximum(1, np.rint(np.sqrt(squares) * 2**10)), dtype=np.int16)
