"""What reports are counted by: codes one by one, or sums of unbiased scores.

- Lists of codes and levels: how often each code came. This is all that reports say.
- Sums of codebooks: how often each code of each stage came, and the sums of what the codewords stand for.
- Lattices: the sums of what the codewords stand for.
- Laplace: the sums of the reported numbers.

For every mechanism with sums there are a known vector r of the report and a vector u(x), computed on the device from
the record x, with E[r | x] = outside + kept · u(x) for every x. So (r − outside)/kept is an unbiased score of u. Its
mean over people estimates the mean of u over them, and nothing is assumed about them.

Tallies hold counts and sums alone: they take constant memory however many reports there are, and two tallies add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, own_arrays
from taskveil.client.mechanisms import Codebook, Laplace, LatticeCodebook, LevelResponse, SumCodebook
from taskveil.errors import DataError
from taskveil.veil import Veil
from taskveil.veil.decoders import CodewordDecoder, LatticeDecoder

_ROWS = 2**18  # reports at a time, for the memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """Counts of codes (K,), one stage after the other, or None; sum (p,) and sum of products (p, p) of r − outside.

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
    """How reports of one release are counted. `sizes`: how many codes each stage has, none without codes; `raw`:
    reports (N, width) → r (N, p), None where the codes are all there is; `spans` (p,): the width of the range in which
    the score of a truthful report lies."""

    release: str
    sizes: tuple[int, ...] = ()
    raw: Callable[[Integers], Floats] | None = None
    outside: Floats | float = 0.0
    kept: float = 1.0
    spans: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def listed(self) -> bool:
        """Whether the counts of one list of codes are all that reports say."""
        return self.raw is None

    def tally(self, reports: Integers) -> Tally:
        """Counts and sums of `reports` (N, width)."""
        codes = None
        if self.sizes:
            counts = [np.bincount(column, minlength=size) for column, size in zip(reports.T, self.sizes, strict=True)]
            codes = np.concatenate(counts)
        total, square = np.zeros(len(self.spans)), np.zeros((len(self.spans), len(self.spans)))
        if self.raw is not None:
            for start in range(0, len(reports), _ROWS):
                raw = self.raw(reports[start : start + _ROWS]) - self.outside  # near zero: the squares lose no digits
                total += raw.sum(axis=0)
                square += raw.T @ raw
        return Tally(release=self.release, count=len(reports), codes=codes, total=total, square=square)

    def moments(self, tally: Tally) -> tuple[Floats, Floats]:
        """The people's mean of u (p,), and the variance (p,) of one person's score of it."""
        mean = tally.total / tally.count
        spread = np.diag(tally.square) / tally.count - mean**2
        return mean / self.kept, np.maximum(spread, 0.0) * tally.count / max(tally.count - 1, 1) / self.kept**2


def scores_of(veil: Veil) -> Scores:
    """How the reports of a veil are counted, or a DataError."""
    release, decoder = veil.release_id, veil.decoder
    match veil.mechanism:
        case Codebook(stages=(stage,)):
            return Scores(release=release, sizes=(stage.response.size,))
        case LevelResponse() as levels:
            return Scores(release=release, sizes=(levels.layout.high[0] + 1,))
        case Laplace(region=region) as laplace:
            spans = (region.reach[1] - region.reach[0]) * region.step
            return Scores(release=release, raw=laplace.values, spans=np.asarray(spans, dtype=np.float64))
        case SumCodebook() as sums if isinstance(decoder, CodewordDecoder):
            stages = np.split(decoder.codewords, np.cumsum(decoder.sizes)[:-1])
            kept, sizes = sums.response.extra, tuple(sums.sizes.tolist())
            outside = (1.0 - kept) * np.sum([stage.mean(axis=0) for stage in stages], axis=0)
            spans = np.sum([np.ptp(stage, axis=0) for stage in stages], axis=0) / kept
            return Scores(release=release, sizes=sizes, raw=decoder, outside=outside, kept=kept, spans=spans)
        case LatticeCodebook(lattice=lattice) as codebook if isinstance(decoder, LatticeDecoder):
            kept = codebook.response.extra
            anywhere = decoder.weights @ lattice.level_moments()[0] * decoder.step + decoder.offset
            reach = np.array([np.ptp(levels) for levels, _ in lattice.directions]) * decoder.step
            spans = np.abs(decoder.weights) @ reach / kept
            return Scores(release=release, raw=decoder, outside=(1.0 - kept) * anywhere, kept=kept, spans=spans)
        case _:
            raise DataError(
                "reports of this release are corrected stage by stage, so sums over many of them have no unbiased "
                "form. Design it again with this version of taskveil."
            )


def tally(veil: Veil, reports: Any) -> Tally:
    """Counts and sums of reports. Tallies of the parts of a collection add up (`+`) to that of the whole."""
    if isinstance(reports, Tally):
        if reports.release != veil.release_id:
            raise DataError(
                f"this is a tally of reports of release {reports.release[:12]}…, not of {veil.release_id[:12]}…. "
                "Estimate from it with the release that the reports were made with."
            )
        scores, codes = scores_of(veil), reports.codes
        sums = len(scores.spans)
        if reports.total.shape != (sums,) or reports.square.shape != (sums, sums) or (scores.listed and codes is None):
            raise DataError("this tally does not have the sums of its release: count the reports again.")
        if codes is not None:
            stages = np.split(codes, np.cumsum(scores.sizes)[:-1]) if codes.shape == (sum(scores.sizes),) else []
            if not stages or any((stage < 0).any() or stage.sum() != reports.count for stage in stages):
                raise DataError("the codes of this tally are not those of its reports: count the reports again.")
        return reports
    return scores_of(veil).tally(veil.checked(reports))
