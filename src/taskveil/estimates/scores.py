"""Tallies of reports: counts of codes, and sums of unbiased scores. The mechanism's channel says which.

Tallies hold counts and sums alone: they take constant memory however many reports there are, and two tallies add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, blocks, own_arrays
from taskveil.errors import DataError
from taskveil.veil import Veil
from taskveil.veil.channels import UnbiasedScores, channel_of


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Counts of codes (K,), one stage after the other, or None; sum (p,) and sum of products (p, p) of r − outside, or
    of squares (p,) where scores are `diagonal`.

    A tally is of one release, like its reports: codes and sums of another release look alike and mean something else.
    """

    release: str
    """The id of the release that the reports were made with."""
    count: int
    codes: Integers | None
    total: Floats
    square: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        numbers = [array for array in (self.codes, self.total, self.square) if array is not None]
        known = all(isinstance(array, np.ndarray) and np.isfinite(array).all() for array in numbers)
        if type(self.count) is not int or self.count < 0 or not isinstance(self.release, str) or not known:
            raise DataError("a tally holds a count of reports, counts of codes and finite sums.")

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
class Scores:
    """How reports of one release are counted. `sizes`: how many codes each number of a report may be, none without
    codes; `sums`: the scores that are added up, None where the codes are all there is."""

    release: str
    sizes: tuple[int, ...]
    sums: UnbiasedScores | None

    @property
    def listed(self) -> bool:
        """Whether the counts of one list of codes are all that reports say."""
        return self.sums is None

    @property
    def width(self) -> int:
        """How many scores are added up."""
        return 0 if self.sums is None else len(self.sums.spans)

    @property
    def square_shape(self) -> tuple[int, ...]:
        """The shape of the sums of products, or of squares alone."""
        return (self.width,) * (1 if self.sums is not None and self.sums.diagonal else 2)

    def tally(self, reports: Integers) -> Tally:
        """Counts and sums of `reports` (N, width)."""
        codes = None
        if self.sizes:
            counts = [np.bincount(column, minlength=size) for column, size in zip(reports.T, self.sizes, strict=True)]
            codes = np.concatenate(counts)
        total, square = np.zeros(self.width), np.zeros(self.square_shape)
        if self.sums is not None:
            for rows in blocks(len(reports), self.width):
                # Near zero, so that the squares lose no digits.
                raw = self.sums.raw(reports[rows]) - self.sums.outside
                total += raw.sum(axis=0)
                square += (raw**2).sum(axis=0) if square.ndim == 1 else raw.T @ raw
        return Tally(release=self.release, count=len(reports), codes=codes, total=total, square=square)


def scores_of(veil: Veil) -> Scores:
    """How the reports of a veil are counted, or a DataError."""
    channel = channel_of(veil.mechanism, veil.decoder)
    if not channel.sizes and channel.scores is None:
        raise DataError(
            "sums over many reports of this release have no unbiased form, so there are no population estimates. "
            "Design it again with this version of taskveil."
        )
    return Scores(release=veil.release_id, sizes=channel.sizes, sums=channel.scores)


def tally(veil: Veil, reports: Any) -> Tally:
    """Counts and sums of reports. Tallies of the parts of a collection add up (`+`) to that of the whole."""
    if isinstance(reports, Tally):
        if reports.release != veil.release_id:
            raise DataError(
                f"this is a tally of reports of release {reports.release[:12]}…, not of {veil.release_id[:12]}…. "
                "Estimate from it with the release that the reports were made with."
            )
        scores, codes = scores_of(veil), reports.codes
        sums = scores.width
        if (
            reports.total.shape != (sums,)
            or reports.square.shape != scores.square_shape
            or (scores.listed and codes is None)
        ):
            raise DataError("this tally does not have the sums of its release: count the reports again.")
        if codes is not None:
            stages = np.split(codes, np.cumsum(scores.sizes)[:-1]) if codes.shape == (sum(scores.sizes),) else []
            if not stages or any((stage < 0).any() or stage.sum() != reports.count for stage in stages):
                raise DataError("the codes of this tally are not those of its reports: count the reports again.")
        return reports
    return scores_of(veil).tally(veil.checked(reports))
