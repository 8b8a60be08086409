"""The channel of vectors in a ball: a report is a random direction that leans towards the record, or the centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taskveil.arrays import NUMBERS_AT_A_TIME, Floats
from taskveil.client.mechanisms import BallResponse, Response
from taskveil.tasks import Task
from taskveil.tasks.linear import MatrixTask
from taskveil.veil.channels.channel import Channel, Encoded, UnbiasedScores, VolunteerValues
from taskveil.veil.decoders import BallDecoder, Decoder


class Lean(NamedTuple):
    """The mean of ⟨u, v⟩ and of its square, for a reported vector v and the unit vector u that was favoured; and the
    mean square of v in any direction across u. Where codewords stand for the centre: the mean square of v in any
    direction when these were favoured."""

    mean: float
    along: float
    across: float
    centre: float | None

    def variance(self, dim: int, lengths: ArrayLike = 1.0) -> float:
        """The mean of E‖v/mean − x‖² over vectors x of these lengths (N,): the squared error of one report."""
        r, square = np.asarray(lengths, dtype=np.float64), self.along + (dim - 1) * self.across
        second = square if self.centre is None else r * square + (1.0 - r) * dim * self.centre
        return float((second / self.mean**2 - r**2).mean())


def favoured_moments(size: int, favoured: int, dim: int) -> tuple[float, float]:
    """Σ over the `favoured` best of `size` random directions, half of them opposite to the others, of E[cos] and of
    E[cos²]. cos is that of the angle to a fixed direction in `dim` dimensions, 2 or more.

    The best are the m largest |cos| of n = size/2 independent ones. Let G(v) be the mean of |cos| (or cos²) over the
    part v of all directions with the largest |cos|. Given the (m + 1)-th largest, the sum is that of m directions of
    such a part, so its mean is n times that of G(V) with V ~ Beta(m, n − m). With y = 1 − t² at the edge of the part,
    G is 2 c y^((d−1)/2)/(d − 1), c the density of cos at 0, and for cos² it is I_y((d − 1)/2, 3/2)/d.
    """
    from scipy.special import betainc, betaincinv, gammaln  # so that the command line starts at once, also without it

    count, half = size // 2, (dim - 1) / 2
    part, weight = _places(favoured, count)
    y = betaincinv(half, 0.5, part)
    density = math.exp(float(gammaln(dim / 2) - gammaln(half))) / math.sqrt(math.pi)
    cosines, squares = density * y**half / half, betainc(half, 1.5, y) / dim
    return count * float(weight @ cosines), count * float(weight @ squares)


def _places(favoured: int, count: int) -> tuple[Floats, Floats]:
    """Places and weights with which to take means over a Beta(favoured, count − favoured) variable; 1 if it is certain.

    There are eight places in each of 60 pieces, which reach from one tail of 10^-15 to the other. They are as narrow as
    the distribution, so that the number of codewords does not matter.
    """
    if favoured == count:
        return np.ones(1), np.ones(1)
    from scipy.special import betaincinv

    others = count - favoured
    edges = np.geomspace(betaincinv(favoured, others, 1e-15), 1.0 - betaincinv(others, favoured, 1e-15), 61)
    places, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    v = (edges[:-1, None] + half * (1 + places)).ravel()
    log = (favoured - 1) * np.log(v) + (others - 1) * np.log1p(-v)
    weight = (half * weights).ravel() * np.exp(log - log.max())
    return v, weight / weight.sum()


def lean_of(response: Response, dim: int, rows: int, centres: int) -> Lean:
    """How reported directions lean towards the favoured one; `rows` is that of the matrix, 0 without one, and `centres`
    of the response's codewords stand for the centre.

    With a Gaussian matrix W, Wᵀ v = u ⟨z, v⟩ + a Gaussian vector across u, with z = W u. The length of z is that of
    `rows` independent normal numbers, and does not depend on its direction.
    """
    from scipy.special import gammaln

    inner, size = rows or dim, response.size - centres
    cosines, squares = favoured_moments(size, response.favoured, inner)
    mean, alike = response.extra * cosines, response.base * size
    along, whole = response.extra * squares + alike / inner, 1.0 - response.base * centres
    if not rows:
        return Lean(mean, along, (whole - along) / (dim - 1), alike / dim if centres else None)
    length = math.sqrt(2.0) * math.exp(float(gammaln((rows + 1) / 2) - gammaln(rows / 2)))
    return Lean(mean * length, along * rows, whole, alike if centres else None)


def ball_channel(mechanism: BallResponse, decoder: Decoder) -> Channel:
    """The channel, if the decoder knows the codewords."""
    return BallChannel(mechanism, decoder) if isinstance(decoder, BallDecoder) else Channel(mechanism, decoder)


@dataclass(frozen=True, eq=False)
class BallChannel(Channel):
    """Decoded reports are unbiased for the record itself; their sums give means."""

    mechanism: BallResponse
    decoder: BallDecoder

    unbiased: ClassVar[bool] = True

    @cached_property
    def lean(self) -> Lean:
        """The mean and the mean squares of a report's direction."""
        code = self.mechanism.codewords
        return lean_of(self.mechanism.response, code.dim, code.rows, self.mechanism.centres)

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes of vectors outside the ball."""
        return ("Vectors outside the release's ball count as the vector of the same direction on its surface.",)

    @property
    def scores(self) -> UnbiasedScores:
        """The decoded directions. No number of a unit vector is above 1, and none of Wᵀ v above the length of a column
        of W."""
        code, decoder = self.mechanism.codewords, self.decoder
        spans = np.zeros(len(decoder.offset))
        farthest = math.sqrt(code.rows) * code.largest / code.spread if code.rows else 1.0
        spans[decoder.places] = 2.0 * decoder.scale * farthest
        return UnbiasedScores(raw=decoder, spans=spans, diagonal=code.dim**2 > NUMBERS_AT_A_TIME)

    def losses(self, task: Task, records: Encoded, answering: Decoder | None) -> Floats | None:
        """s² (along · ‖K u‖² + across · (‖K‖² − ‖K u‖²)) − ‖K(x − center)‖², with u the direction of x − center and s
        the decoder's scale; at the center, the mean of this over all directions u. Where codewords stand for the
        centre, the factor of s² has the weight ‖x − center‖/radius, and centre · ‖K‖² has the rest."""
        if not isinstance(task, MatrixTask) or answering is not None:
            return None
        K, scale, lean = task.K[:, self.decoder.places], self.decoder.scale, self.lean
        bounded = self.mechanism.bound(records.latents)
        lengths = np.linalg.norm(bounded, axis=1)
        whole = float((K**2).sum())
        seen = ((bounded @ K.T) ** 2).sum(axis=1)
        share = np.divide(seen, lengths**2, out=np.full(len(seen), whole / K.shape[1]), where=lengths > 0)
        second = lean.along * share + lean.across * (whole - share)
        if lean.centre is not None:
            second += (1.0 - lengths) * (lean.centre * whole - second)
        second *= scale**2
        # The mean of reports is that of the bounded record.
        mean = self.decoder.offset + np.zeros_like(records.X)
        mean[:, self.decoder.places] += bounded * (scale * lean.mean)
        spread = second - (scale * lean.mean) ** 2 * seen
        return np.asarray(spread + task.losses(mean, records.X))

    def measured(self, records: Encoded) -> VolunteerValues:
        """The records."""
        return VolunteerValues(records.X)
