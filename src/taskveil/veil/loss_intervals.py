"""How far the mean of some records can be from the mean of all: intervals for skewed losses and for series in time.

What is known is one number per record, a loss or a difference of losses. What is asked for is their mean over all the
people the records stand for. `interval` holds it with 95% confidence. `bounds` are for decisions, where a miss on one
side is what counts: each holds with the confidence named and is never tighter than Student's.

**What is assumed.** The records are drawn independently from the people of interest (block = 1), or they come in the
order of time and records more than about `block` apart tell nothing of each other. Nothing is assumed about the shape,
but a mean that hangs on events which the sample has hardly seen cannot be bounded by any method: `few_leaders` counts
the records that carry half of all differences, and `Veil.loss` warns when they are few. Nothing can warn of what the
sample holds nothing of.

**Skewness.** Losses are skewed to the right, so samples that missed the tail have too low a mean *and* too small a
spread: mean ± 1.96 s/√n then lies too low, and far too often. Hall's transformation (1992) takes the skewness γ out of
Student's t: with a = γ/√n, g(t) = t + a t²/3 + a² t³/27 + a/6 is nearly symmetric, and its inverse is
g⁻¹(z) = 3/a · (∛(1 + a(z − a/6)) − 1). The limits are mean − g⁻¹(±q) s/√n with the quantile q of t on n − 1 degrees of
freedom. Sample skewness is itself too small for long tails, so two estimates are used, the usual G₁ and the one that
Bobée and Robitaille (1975) corrected for small samples, and the wider limit counts on either side. Without skewness
that is Student's interval to within a percent from 30 records on; with long tails it is up to 2.3 times as wide.

**Time.** Neighbours that are alike make the mean less certain than so many records suggest. The variance of the mean
is that of the circular block bootstrap, which has a closed form: (b/N) · mean over all N circular blocks of (block's
mean − mean)², times N/(N − b). It is a Bartlett estimate, so it has about (N/b − 1) · b / Σ(1 − |j|/b)² degrees of
freedom, which is N − 1 for b = 1 and 1.5 (N/b − 1) for long blocks. The blocks' means also give the skewness, with N/b
in the place of n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError, needs

LEVEL = 0.05
"""Of a test: how often it rejects a hypothesis that is true."""
CONFIDENCE = 1.0 - LEVEL
"""Of an interval, if you do not ask for another."""


def interval(values: Floats, *, confidence: float = CONFIDENCE, block: int = 1) -> tuple[Floats, Floats]:
    """Limits that hold the mean over all people with the `confidence` named, half of the rest on either side.

    Args:
        values: (..., N), one number per record; in the order of time where `block` is above 1.
        confidence: how often, over samples like this one, the limits hold.
        block: so many neighbours belong together.

    Returns:
        Low and high, (...) each. NaN where there are fewer than two blocks, or numbers that are not finite.
    """
    return _limits(values, (1 + confidence) / 2, block, ())


def loss_interval(losses: Floats, *, block: int = 1) -> tuple[Floats, Floats]:
    """The 95% `interval` of a mean loss, from `losses` (..., N): not below zero where none of them is."""
    low, high = interval(losses, block=block)
    return np.where((losses >= 0).all(axis=-1), np.maximum(low, 0.0), low), high


def bounds(values: Floats, *, confidence: float, block: int = 1) -> tuple[Floats, Floats]:
    """A lower and an upper bound (...) of the mean of `values` (..., N), each holding with this `confidence` (at least
    a half); `block` neighbours belong together. NaN as in `interval`."""
    return _limits(values, confidence, block, (np.zeros(()),))


def _limits(values: Floats, level: float, block: int, slants: tuple[Floats, ...]) -> tuple[Floats, Floats]:
    """The widest limits (...), each of one-sided confidence `level`, over two estimated `slants` and those given."""
    with needs("an interval"):
        from scipy.special import stdtrit

    values = np.asarray(values, dtype=np.float64)
    count = values.shape[-1] / check_block(block)
    with np.errstate(all="ignore"):  # what is not finite stays so, and is no interval
        mean = values.mean(axis=-1)
        if count < 2:
            return np.full_like(mean, math.nan), np.full_like(mean, math.nan)
        deviations = values - mean[..., None]
        unit = np.abs(deviations).max(axis=-1)
        means = circular_means(deviations / np.where(unit > 0, unit, 1.0)[..., None], block)
        second, third = (means**2).mean(axis=-1), (means**3).mean(axis=-1)
        error = unit * np.sqrt(second / (count - 1))
        skewness = third / np.where(second > 0, second, 1.0) ** 1.5
        low, high = mean, mean
        quantile = float(stdtrit(_freedom(count, block), level))
        for slant in (*_slants(skewness, count), *slants):
            low = np.fmin(low, mean - error * np.maximum(_untransformed(quantile, slant), 0.0))
            high = np.fmax(high, mean - error * np.minimum(_untransformed(-quantile, slant), 0.0))
    known = np.isfinite(error)
    return np.where(known, low, math.nan), np.where(known, high, math.nan)


def check_block(block: Any) -> int:
    """`block` itself, a whole number of records from 1 up, or a DataError."""
    if isinstance(block, bool) or not isinstance(block, int | np.integer) or block < 1:
        raise DataError(f"block is a whole number of neighbouring records, at least 1; got {block!r}.")
    return int(block)


def circular_means(values: Floats, block: int) -> Floats:
    """The means (..., N) of every `block` neighbours of `values` (..., N), the last next to the first."""
    if block == 1:
        return values
    sums = np.cumsum(np.concatenate([values, values[..., : block - 1]], axis=-1), axis=-1)
    sums[..., block:] -= sums[..., :-block].copy()
    return np.asarray(sums[..., block - 1 :] / block)


FEW = 5
"""Up to so many records that carry half of all differences are few, if there are twenty times as many in all."""


def few_leaders(values: Floats) -> int | None:
    """The smallest number of records that carry half of what `values` (N,) differ from their median, if they are few;
    None if not. What all have in common makes no mean less sure."""
    carried = np.cumsum(np.sort(np.abs(values - np.median(values)))[::-1])
    count = 1 + int(np.searchsorted(carried, carried[-1] / 2))
    return count if carried[-1] > 0 and count <= min(FEW, len(values) / 20) else None


def _freedom(count: float, block: int) -> float:
    """Degrees of freedom of the variance from overlapping blocks."""
    weights = 1 - np.arange(1, block) / block
    return float((count - 1) * block / (1 + 2 * (weights**2).sum()))


def _slants(skewness: Floats, count: float) -> tuple[Floats, Floats]:
    """γ/√n for the two estimates of the skewness. No sample of n has a G₁ above √n."""
    usual = skewness * math.sqrt(count * (count - 1)) / max(count - 2, 1.0)
    corrected = skewness * (1 + 6.51 / count + 20.2 / count**2 + (1.48 / count + 6.77 / count**2) * skewness**2)
    root = math.sqrt(count)
    return np.clip(usual / root, -1.0, 1.0), corrected / root


def _untransformed(z: float, slant: Floats) -> Floats:
    """Hall's g⁻¹(z), which is z itself where there is no skewness."""
    flat = np.abs(slant) < 1e-9
    a = np.where(flat, 1.0, slant)
    return np.where(flat, z, 3 / a * (np.cbrt(1 + a * (z - a / 6)) - 1))
