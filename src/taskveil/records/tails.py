"""How far a column's values plausibly reach, when a few may be slips: one in the wrong unit among hundreds.

Beyond the k-th largest distance from the median, the log-distances of any tail that is no heavier than a power law
(normal, exponential, lognormal, Pareto) have gaps that are exponential with at most the mean the tail itself shows. A
gap that m others make less likely than `SUSPICION` is suspicious, where at most 2% of the records lie beyond it. What
lies beyond is brought to where the others' tail might plausibly reach (`PLAUSIBLE`), and no closer: a tail that is
heavy by nature is hardly cut.
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers

SUSPICION, PLAUSIBLE = 0.01, 0.1
"""A gap is suspicious when the tail of the others makes it less likely than the first; bounds lie where they make it
as likely as the second."""

FEWEST = 20
"""Values: of fewer, one always stands out."""

WILD_SHARE = 0.02
"""Of the values, at most: more of them are a group, not a slip."""

INFLATION = 0.2
"""Of the variance, at least: less does no harm."""

TAIL = 10
"""Values, at least, that a tail is told from."""


def plausible_range(values: Floats) -> tuple[float, float]:
    """The range of finite values (N,), pulled in where a few are out of line with the others."""
    low, high = float(values.min()), float(values.max())
    if len(values) < FEWEST:
        return low, high
    middle = float(np.median(values))
    spread = float(np.median(np.abs(values - middle)))
    return max(low, middle - _reach(middle - values, spread)), min(high, middle + _reach(values - middle, spread))


def harmless_range(values: Floats) -> tuple[float, float]:
    """The range of finite values (N,), pulled in to what is plausible where the others would else make the variance
    a fifth larger: what does no harm stays."""
    low, high = plausible_range(values)
    unit = float(np.abs(values).max()) or 1.0  # squares of wild values overflow
    bounded = float((np.clip(values, low, high) / unit).var())
    return (low, high) if (values / unit).var() > (1 + INFLATION) * bounded else (values.min(), values.max())


def _reach(distance: Floats, spread: float) -> float:
    """How far a tail may plausibly reach from the median, infinite where nothing is suspicious.

    Args:
        distance: from the median, (N,), positive on this side.
        spread: the median distance on both sides, which makes small distances count alike.
    """
    most, tail = max(1, int(WILD_SHARE * len(distance))), max(TAIL, len(distance) // 20)
    ordered = np.sort(np.maximum(distance, 0.0))[::-1][: most + tail + 1]
    logs = np.log(ordered[ordered + spread > 0] + spread)
    beyond = np.arange(1, min(most, len(logs) - 1) + 1)
    if len(beyond) == 0:  # nothing on this side, or one cell beside which all are equal
        return 0.0 if len(logs) == 1 else np.inf
    last = np.minimum(beyond + tail, len(logs) - 1)
    others = last - beyond  # m of them, beside the one that they are measured from
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    slope = (sums[last] - sums[beyond]) / np.maximum(others, 1) - logs[last]
    gap = beyond * (logs[beyond - 1] - logs[beyond])
    # Exponential gaps against the mean of m others: P[gap > c · slope] = (1 + c/m)^−m. The chance is halved for each
    # place: all of them together err as often.
    threshold = _quantile(np.log(SUSPICION) - beyond * np.log(2.0), others) * slope
    # Where most values are equal, all others may lie beyond: a rare event, and no tail to be out of line with.
    wild = np.flatnonzero((others > 0) & (gap > np.maximum(threshold, 1e-9)))
    if len(wild) == 0:
        return np.inf
    place = wild[-1]
    reach = logs[beyond[place]] + _quantile(np.log(PLAUSIBLE), others)[place] * slope[place]
    # Through logarithms and back, the last of the others must not land outside: it may have many ties.
    return max(float(np.exp(reach) - spread), float(ordered[beyond[place]]))


def _quantile(log_chance: float | Floats, others: Integers) -> Floats:
    """c with (1 + c/m)^−m = chance for every number m of others, at least 1; in logarithms, since a chance that is
    halved a thousand times is none in doubles."""
    m = np.maximum(others, 1)
    return np.asarray(m * np.expm1(np.minimum(-log_chance / m, 700.0)))
