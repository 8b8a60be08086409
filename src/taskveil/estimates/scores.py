"""Tallies of reports: counts of codes, and sums of unbiased scores. The mechanism's channel says which.

Tallies hold counts and sums alone: they take constant memory however many reports there are, and two tallies add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, blocks, own_arrays
from taskveil.errors import DataError
from taskveil.veil import Veil
from taskveil.veil.channels import UnbiasedScores, channel_of

MOST_LISTED = 2**24
"""Codes that a tally has a count for each; of more, it lists those that came."""


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
    came: Integers | None = None
    """The codes that came (K,), rising, where there are more than `MOST_LISTED`: `codes` (K,) counts these."""

    def __post_init__(self) -> None:
        own_arrays(self)
        numbers = [array for array in (self.codes, self.total, self.square, self.came) if array is not None]
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
        codes = came = None
        if self.codes is not None and other.codes is not None:
            if self.came is None or other.came is None:
                codes = self.codes + other.codes
            else:
                every = np.concatenate([self.came, other.came])
                came, codes = _counted(every, np.concatenate([self.codes, other.codes]))
        return Tally(
            release=self.release,
            count=self.count + other.count,
            codes=codes,
            total=self.total + other.total,
            square=self.square + other.square,
            came=came,
        )

    def listed_between(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """The codes from `start` to `stop` − 1 that came, less `start`, and how often each did."""
        codes = self.codes
        if codes is None:
            raise DataError("this tally has no counts of codes: count the reports again.")
        if self.came is None:
            came = np.flatnonzero(codes[start:stop])
            return came, codes[start:stop][came]
        first, last = np.searchsorted(self.came, [start, stop]).tolist()
        return self.came[first:last] - start, codes[first:last]

    def between(self, start: int, stop: int) -> Integers:
        """(stop − start,): how often each of these codes came."""
        came, counts = self.listed_between(start, stop)
        found = np.zeros(stop - start, dtype=np.int64)
        found[came] = counts
        return found


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
    def sparse(self) -> bool:
        """Whether tallies list the codes that came, because there are too many codes."""
        return len(self.sizes) == 1 and self.sizes[0] > MOST_LISTED

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
        codes = came = None
        if self.sparse:
            came, codes = np.unique(reports[:, 0], return_counts=True)
        elif self.sizes:
            counts = [np.bincount(column, minlength=size) for column, size in zip(reports.T, self.sizes, strict=True)]
            codes = np.concatenate(counts)
        total, square = np.zeros(self.width), np.zeros(self.square_shape)
        if self.sums is not None:
            for rows in blocks(len(reports), self.width):
                # Near zero, so that the squares lose no digits.
                raw = self.sums.raw(reports[rows]) - self.sums.outside
                total += raw.sum(axis=0)
                square += (raw**2).sum(axis=0) if square.ndim == 1 else raw.T @ raw
        return Tally(release=self.release, count=len(reports), codes=codes, total=total, square=square, came=came)

    def of_counts(self, came: Integers, counts: Integers) -> Tally:
        """The tally of reports that are one code each: the different codes (K,) and how often each came (K,)."""
        none = self.tally(np.zeros((0, len(self.sizes)), dtype=np.int64))
        if self.sparse:
            came, codes = _counted(came, counts)
        else:
            codes = np.zeros(self.sizes, dtype=np.int64)
            np.add.at(codes, came, counts)
        return replace(none, count=int(counts.sum()), codes=codes, came=came if self.sparse else None)


def _counted(codes: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Each code once, rising, with its counts added up."""
    came, places = np.unique(codes, return_inverse=True)
    found = np.zeros(len(came), dtype=np.int64)
    np.add.at(found, places, counts)
    return came, found


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
        if codes is not None and scores.sparse:
            came = reports.came
            rising = came is not None and came.shape == codes.shape and (np.diff(came) > 0).all()
            if came is None or not rising or codes.sum() != reports.count or (codes < 1).any():
                raise DataError("the codes of this tally are not those of its reports: count the reports again.")
            if len(came) and not 0 <= came[0] <= came[-1] < scores.sizes[0]:
                raise DataError("this tally has codes that its release has not: count the reports again.")
        elif codes is not None:
            stages = np.split(codes, np.cumsum(scores.sizes)[:-1]) if codes.shape == (sum(scores.sizes),) else []
            if not stages or any((stage < 0).any() or stage.sum() != reports.count for stage in stages):
                raise DataError("the codes of this tally are not those of its reports: count the reports again.")
        return reports
    return scores_of(veil).tally(veil.checked(reports))
