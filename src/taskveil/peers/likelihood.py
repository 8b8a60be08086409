"""The likeliest shares of rows, given the counts of reports, by expectation and maximisation (EM).

An unbiased share uses no more than the counts. That shares are not negative is used here: the error of all shares
together is much smaller, and single shares are biased.
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
