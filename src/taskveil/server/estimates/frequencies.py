"""How many people favour each codeword: the channel inverted exactly, with intervals from the binomial law itself.

A codeword comes as a report with probability p = b/T + M (a − b)/T, where M is the share of people whose record
favours it. The number of such reports among N is binomial in p whoever the people are, so limits for p are limits for
M. They are the mid-p form of Clopper and Pearson's: from the exact distribution, right on average over where p lies
(Clopper and Pearson's own are never below 95% and up to a few percent above, where reports are few).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

from taskveil.arrays import Bools, Floats, Integers
from taskveil.client.mechanisms import Response


def frequencies(counts: Integers, response: Response, *, confidence: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Share of people (K,) who favour each codeword, and its limits (K,) each; the shares add up to m.

    Args:
        counts: how often each codeword was reported (K,).
        response: the channel.
        confidence: how often the limits hold.
    """
    total = int(counts.sum())
    low, high = _midp(counts, total, (1 - confidence) / 2)
    shares = _inverted(counts / total, response)
    return shares, np.clip(_inverted(low, response), 0.0, 1.0), np.clip(_inverted(high, response), 0.0, 1.0)


def on_the_simplex(shares: Floats, total: float = 1.0) -> Floats:
    """The nearest shares (K,) in the sense of least squares that lie between 0 and 1 and add up to `total`."""
    # A shift of all shares, cut off at 0 and 1; its sum falls with the shift, so bisection finds it.
    low, high = float(shares.min()) - 1.0, float(shares.max())
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(shares - middle, 0.0, 1.0).sum() > total else (low, middle)
    return np.clip(shares - high, 0.0, 1.0)


def _inverted(probability: Floats, response: Response) -> Floats:
    """The share of people (K,) who must favour codewords that come with these probabilities (K,)."""
    return np.asarray((probability - response.base) / response.extra)


def _midp(counts: Integers, total: int, tail: float) -> tuple[Floats, Floats]:
    """The probabilities at which half of P[count] and all beyond it make up `tail`, on either side."""
    counts = counts.astype(np.float64)
    # Bisection between 0 and 1: the mid-p value is monotone in p. Clopper and Pearson's limits bracket it from outside.
    below = np.where(counts > 0, betaincinv(np.maximum(counts, 1), total - counts + 1, tail), 0.0)
    above = np.where(counts < total, betaincinv(counts + 1, np.maximum(total - counts, 1), 1 - tail), 1.0)
    center = counts / total

    def beyond(p: Floats) -> Floats:
        """P[X > count] + P[X = count]/2."""
        return np.asarray((bdtrc(counts, total, p) + np.where(counts > 0, bdtrc(counts - 1, total, p), 1.0)) / 2)

    def within(p: Floats) -> Floats:
        """P[X < count] + P[X = count]/2."""
        return np.asarray((bdtr(counts, total, p) + np.where(counts > 0, bdtr(counts - 1, total, p), 0.0)) / 2)

    low = _bisected(lambda p: beyond(p) < tail, below, center)
    high = _bisected(lambda p: within(p) > tail, center, above)
    return low, high


def _bisected(is_left: Callable[[Floats], Bools], low: Floats, high: Floats) -> Floats:
    """Where `is_left` turns false, between `low` and `high` (K,)."""
    for _ in range(60):
        middle = (low + high) / 2
        left = is_left(middle)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return (low + high) / 2
