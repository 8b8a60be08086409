"""From counts to a lower confidence bound on ε.

If a mechanism is (ε, δ)-LDP, every event S and every two inputs satisfy P[S | x] ≤ e^ε·P[S | x'] + δ. So any event
gives ε ≥ ln((P[S | x] − δ) / P[S | x']). The event is chosen on one sample and counted on another, independent one;
Clopper–Pearson bounds of the two probabilities, exact for every sample size, then give a bound that is wrong with
probability `alpha` at most, whatever the mechanism, the inputs and the way the event was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from taskveil.arrays import Floats

RESOLUTION = 512
"""Values, ranges or thresholds of a score that are distinguished: a tail is then within about 1% of the best one."""


def at_least(successes: ArrayLike, trials: int, alpha: float) -> Floats:
    """Lower limits of the probability of success (Clopper–Pearson); each is wrong with probability at most `alpha`."""
    k = np.asarray(successes, dtype=np.float64)
    low = betaincinv(np.maximum(k, 1e-300), trials - k + 1, alpha)
    return np.asarray(np.where(k > 0, low, 0.0))


def at_most(successes: ArrayLike, trials: int, alpha: float) -> Floats:
    """Upper limits of the probability of success (Clopper–Pearson); each is wrong with probability at most `alpha`."""
    k = np.asarray(successes, dtype=np.float64)
    # 1 − I⁻¹ of the mirrored arguments keeps a small alpha exact where 1 − alpha would round.
    high = 1 - betaincinv(np.maximum(trials - k, 1e-300), k + 1, alpha)
    return np.asarray(np.where(k < trials, high, 1.0))


def epsilon_low(first: ArrayLike, second: ArrayLike, trials: int, *, alpha: float, delta: float = 0.0) -> Floats:
    """Lower limits of ε, if `first` of `trials` reports of x and `second` of `trials` of x' are in the event.

    Each is wrong with probability at most `alpha`: half of it for each of the two probabilities. None is below 0.
    """
    p, q = at_least(first, trials, alpha / 2) - delta, at_most(second, trials, alpha / 2)
    return np.asarray(np.log(np.maximum(p, q) / q))


def epsilon_of_event_high(first: int, second: int, trials: int, *, alpha: float, delta: float = 0.0) -> float:
    """An upper limit of the ε that *this* event shows. It says nothing about other events."""
    p, q = float(at_most(first, trials, alpha / 2)) - delta, float(at_least(second, trials, alpha / 2))
    if q <= 0:
        return math.inf
    return max(0.0, math.log(p / q)) if p > 0 else 0.0


def largest_provable(trials: int, *, alpha: float, delta: float = 0.0) -> float:
    """The largest lower limit of ε that so many trials can give: that of two disjoint sets of reports."""
    return float(epsilon_low(trials, 0, trials, alpha=alpha, delta=delta))


@dataclass(frozen=True, kw_only=True)
class Tail:
    """The event `score ≥ threshold`, or `score ≤ threshold` where `below`; `swapped`: likelier under x' than x."""

    threshold: float
    below: bool
    swapped: bool

    def holds(self, scores: Floats) -> NDArray[np.bool_]:
        """(N,): whether the event happened, for scores (N,)."""
        return np.asarray(scores <= self.threshold if self.below else scores >= self.threshold)


def best_tail(first: Floats, second: Floats, *, trials: int, alpha: float, delta: float) -> tuple[float, Tail]:
    """The tail of the scores of x and x' that promises the largest bound in `trials` further reports of each.

    Returns the promised bound too. What is promised here is a hope, not a bound: the same scores chose the tail.
    """
    pooled = np.concatenate([first, second])
    levels = np.concatenate([np.geomspace(1e-5, 0.02, RESOLUTION // 4), np.linspace(0.02, 0.98, RESOLUTION // 2)])
    levels = np.concatenate([levels, 1 - levels[: RESOLUTION // 4]])
    edges = np.unique(np.concatenate([np.quantile(pooled, levels, method="nearest"), _atoms(pooled)]))
    best = (-1.0, Tail(threshold=math.inf, below=False, swapped=False))
    ordered = np.sort(first), np.sort(second)
    for below in (False, True):
        side = "right" if below else "left"
        rates = []
        for scores in ordered:
            under = np.searchsorted(scores, edges, side=side) / len(scores)  # type: ignore[call-overload]
            rates.append(under if below else 1 - under)
        for swapped in (False, True):
            p, q = (rates[1], rates[0]) if swapped else (rates[0], rates[1])
            # Half a count more than seen: an event that x' never hit in a small sample is not an event of rate zero.
            seen = np.minimum(q + 0.5 / len(first), 1.0)
            hopes = epsilon_low(p * trials, seen * trials, trials, alpha=alpha, delta=delta)
            place = int(np.argmax(hopes))
            if hopes[place] > best[0]:
                best = float(hopes[place]), Tail(threshold=float(edges[place]), below=below, swapped=swapped)
    return best


def _atoms(pooled: Floats) -> Floats:
    """The most frequent scores: where a tail ought to begin exactly (Laplace's ratio is e^ε *from* the latent on)."""
    sample = pooled[:: max(1, len(pooled) // 100_000)]
    values, counts = np.unique(sample, return_counts=True)
    return np.asarray(values[np.argsort(-counts, kind="stable")[:64]])
