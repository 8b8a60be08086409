"""What a report says without bias, and what many of them say together.

Every mechanism here has a vector u(x), computed on the device from the record, and a known vector r of the report with

    E[r | x] = outside + told · u(x)        whoever x is,

so s = (r − outside)/told is an unbiased score of u, and its mean over people estimates their mean of u whatever people
they are. Nothing is assumed here.

- one codebook: r is what the reported codeword stands for, u the sum of what the favoured ones stand for, told =
  (a − b)/T, outside = b/T times the sum over all codewords (the channel, inverted exactly);
- sums and lattices of codewords: the same with one favoured codeword and all of them counted by formula;
- Laplace: r is the report, u the bounded latent, told = 1;
- levels: r is what the report stands for, and u(x) = x itself.

Tallies hold sums alone: constant memory however many reports there are, and two tallies add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, LevelResponse, SumCodebook
from taskveil.decoders import CodewordDecoder, LatticeDecoder
from taskveil.errors import DataError
from taskveil.reference import Reference
from taskveil.server.estimates.leave_one_out import told_of_strangers
from taskveil.veil import Veil

PSEUDO = 4
"""Reports of volunteers that are added for the spread, where there is nothing else to tell it."""

MOST_CODES = 2**20
"""Different reports that are counted one by one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """So many reports: how often each code number came (K,), or sum (p,) and sum of squares (p, p) of what they say.

    It is of one release, like its reports: code numbers and sums of another one look alike and mean something else.
    """

    release: str
    """The id of the release that the reports were made with."""
    count: int
    codes: Integers | None
    total: Floats
    square: Floats

    def __add__(self, other: Tally) -> Tally:
        """All reports of both, or a DataError unless they are of one release."""
        if self.release != other.release:
            raise DataError(
                f"these are tallies of different releases, {self.release[:12]}… and {other.release[:12]}…, which do "
                "not add up. Pass each beside its veil: tv.estimate([veil, other], [tally, others])."
            )
        return Tally(
            release=self.release,
            count=self.count + other.count,
            codes=None if self.codes is None or other.codes is None else self.codes + other.codes,
            total=self.total + other.total,
            square=self.square + other.square,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """The people's mean of u (p,) as `count` reports tell it, with the covariance (p, p) of that mean."""

    count: int
    mean: Floats
    covariance: Floats

    @property
    def directions(self) -> Floats:
        """(p, r): those in which reports differ, scaled so that the mean's covariance along them is the identity."""
        variance = np.diag(self.covariance)
        # A column that is the same for everybody varies by rounding errors alone.
        varies = variance * self.count > 1e-14 * (self.mean**2 + variance * self.count)
        scale = np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
        values, axes = np.linalg.eigh(self.covariance * np.outer(scale, scale))
        kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
        return np.asarray(scale[:, None] * axes[:, kept] / np.sqrt(values[kept]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """How reports of one release are read. `raw`: reports (N, width) → r (N, p); `seen`: u (V, p) of the
    volunteers, as strangers' would be."""

    release: str
    raw: Callable[[Integers], Floats]
    seen: Callable[[Reference], Floats]
    outside: Floats
    told: float
    codes: int | None = None
    """How many different reports there are, if they are few enough to be counted."""
    expected: Callable[[Reference], Floats] | None = None
    """How likely every code is (K,) for the volunteers; given where u(x) is the record x itself, and nothing but
    reports is needed for means."""

    @property
    def direct(self) -> bool:
        """Whether u(x) is the record x itself."""
        return self.expected is not None

    def tally(self, reports: Integers) -> Tally:
        """What `reports` (N, width) add up to."""
        none = np.zeros((0, 0))
        if self.codes is not None:
            found = np.bincount(reports[:, 0], minlength=self.codes)
            return Tally(release=self.release, count=len(reports), codes=found, total=none[0:0].ravel(), square=none)
        raw = self.raw(reports) - self.outside  # near zero, so that the squares lose no digits
        return Tally(release=self.release, count=len(reports), codes=None, total=raw.sum(axis=0), square=raw.T @ raw)

    def evidence(self, tally: Tally, reference: Reference | None = None) -> Evidence:
        """What a tally says of the people's mean of u.

        Where nothing but reports decides how sure it is, a few that the `reference` volunteers would send are added for
        the spread: among few reports a rare one may not have come yet, and without it all would seem certain.
        """
        if tally.codes is None:
            mean = tally.total / tally.count
            spread = tally.square / tally.count - np.outer(mean, mean)
        else:
            values = self.raw(np.arange(len(tally.codes))[:, None]) - self.outside
            share, first = tally.codes / tally.count, values[0]
            away = share @ (values - first)  # exactly 0 for what all codes stand for alike: reports do not tell it
            mean = first + away
            if self.expected is not None and reference is not None:
                share = (tally.codes + PSEUDO * self.expected(reference)) / (tally.count + PSEUDO)
            spread = ((values - first - away).T * share) @ (values - first - away)
        spread = spread / max(tally.count - 1, 1)
        return Evidence(count=tally.count, mean=mean / self.told, covariance=spread / self.told**2)


def scores_of(veil: Veil) -> Scores:
    """How the reports of a veil are read, or a DataError."""
    mechanism, release = veil.mechanism, veil.release_id
    match mechanism, veil.decoder:
        case Codebook(stages=(stage,)), CodewordDecoder() as decoder:
            table, response = _told_by_codes(veil, decoder), stage.response

            def seen(reference: Reference) -> Floats:
                k = mechanism.region.enforce(reference.latents)
                known = np.hstack([reference.records, reference.answers])[:, : table.shape[1]]
                return told_of_strangers(stage, k, table, known, reference.everybody)

            return Scores(
                release=release,
                raw=lambda reports: table[reports[:, 0]],
                seen=seen,
                outside=response.base * table.sum(axis=0),
                told=response.extra,
                codes=len(table) if len(table) <= MOST_CODES else None,
            )
        case Laplace() as laplace, _:
            return Scores(
                release=release,
                raw=laplace.values,
                seen=lambda volunteers: laplace.bound(volunteers.latents),
                outside=np.zeros(laplace.latent_dim),
                told=1.0,
            )
        case LevelResponse() as levels, CodewordDecoder() as decoder:
            codewords = decoder.codewords
            return Scores(
                release=release,
                raw=lambda reports: codewords[reports[:, 0]],
                seen=lambda volunteers: levels.chances(volunteers.latents) @ codewords,
                outside=np.zeros(codewords.shape[1]),
                told=1.0,
                codes=len(codewords),
                expected=lambda volunteers: levels.chances(volunteers.latents).mean(axis=0),
            )
        case SumCodebook() as sums, CodewordDecoder() as decoder:
            stages = np.split(decoder.codewords, np.cumsum(decoder.sizes)[:-1])
            anywhere = np.sum([stage.mean(axis=0) for stage in stages], axis=0)
            told = sums.response.extra
            return Scores(
                release=release,
                raw=decoder,
                seen=lambda volunteers: decoder(sums.nearest(sums.region.enforce(volunteers.latents))),
                outside=(1.0 - told) * anywhere,
                told=told,
            )
        case LatticeCodebook() as codebook, LatticeDecoder() as decoder:
            lattice, told = codebook.lattice, codebook.response.extra
            middle, _ = lattice.level_moments()
            return Scores(
                release=release,
                raw=decoder,
                seen=lambda volunteers: decoder.estimates(lattice.nearest(codebook.region.enforce(volunteers.latents))),
                outside=(1.0 - told) * (decoder.weights @ middle * decoder.step + decoder.offset),
                told=told,
            )
        case _:
            raise DataError(
                "reports of this release are corrected stage by stage, and what many of them say together has no "
                "unbiased form. Design it again with this version of taskveil."
            )


def _told_by_codes(veil: Veil, decoder: CodewordDecoder) -> Floats:
    """What each code number stands for (K, p): the estimated record and, where reports are answered directly, the
    answer; classes by their probabilities."""
    if not isinstance(veil.answering, CodewordDecoder):
        return decoder.codewords
    answers = veil.answering.codewords
    if veil.reference is not None and veil.reference.shares.all():
        answers = softmax(answers, axis=1)
    return np.hstack([decoder.codewords, answers])
