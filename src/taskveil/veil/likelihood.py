"""The likeliest shares of rows, given the counts of reports, by expectation and maximisation (EM).

An unbiased share uses no more than the counts. That shares are not negative, and that neighbouring bins of a number
have similar densities, is used here: the error of all shares together is much smaller, and single shares are biased.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from taskveil.arrays import Floats

Linear = Callable[[Floats], Floats]


def likeliest_shares(
    expected: Linear, by_row: Linear, counts: Floats, *, gain: float, smooth: Linear | None = None
) -> Floats:
    """The shares (rows,) under which `counts` (outputs,) of a channel are likeliest, by EM.

    It ends with the first step that adds less than `gain` to the log-likelihood.

    Args:
        expected: from shares (rows,) to the chances of outputs (outputs,): the channel.
        by_row: from values (outputs,) to their means for people of each row (rows,): its transpose.
        counts: of reports.
        gain: where to stop.
        smooth: what is done to shares after every step.
    """
    rows, last, held = len(by_row(counts)), -math.inf, counts > 0
    shares = np.full(rows, 1.0 / rows)
    while True:
        seen = expected(shares)
        likelihood = float(counts[held] @ np.log(seen[held]))
        if likelihood - last < gain:
            return shares
        last = likelihood
        shares = shares * by_row(np.divide(counts, seen, out=np.zeros(len(seen)), where=held))
        if smooth is not None:
            shares = smooth(shares)
        shares = shares / shares.sum()


def levelled(edges: Floats, reports: int, strength: float = 0.06) -> Floats:
    """(bins, bins): the matrix that moves the shares of bins between `edges` a little towards an even density.

    It is an implicit step of the heat equation, p − q = (strength/reports) · ∂ flow, with the flow between neighbours
    in proportion to the difference of their densities; lengths are in parts of the range. Shares stay at least 0, and
    their sum stays as it is. A step of EM does not depend on the number of reports: with many, it outweighs this one.
    """
    width = np.diff(edges) / (edges[-1] - edges[0])
    apart = (width[1:] + width[:-1]) / 2.0
    steps = np.diff(np.eye(len(width)), axis=0)
    flow = steps.T @ (steps / apart[:, None]) / width
    return np.asarray(np.linalg.inv(np.eye(len(width)) + strength / reports * flow))
