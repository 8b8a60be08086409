"""A channel in whole numbers: rows of equal sums, ratios within e^ε, and values that are unbiased for just these."""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.means.channels import Channel

TOTAL = 2.0**51
"""About the sum of every row."""

SPARED = 1e-9
"""The share of the budget that is left over for making all rows' sums equal."""

LARGEST = 27.0
"""The largest ε that tables have room for: e^27 is 2^39, and a mean needs no more."""


def whole_numbers(channel: Channel, epsilon: float) -> Integers:
    """The channel as a table (L, R) whose rows have the same sum; no column has a ratio above e^ε. It may have been
    searched for a larger ε: if rows have equal sums for one, they have for all."""
    low = np.maximum(np.rint(channel.masses * TOTAL), 1.0)
    # Masses are rounded by a half, so entries by less than e^ε, and no row lacks more than that for each report: the
    # likeliest report, whose larger entries are e^ε times `low`, makes up for it within what is spared.
    spared = max(SPARED * epsilon, 4.0 * len(low) / float(low.max()))
    high = np.floor(low * np.exp(max(0.0, min(epsilon, LARGEST) - spared)))
    table = np.where(channel.patterns.T, high, low).astype(np.int64)
    sums = table.sum(axis=1)
    table[:, int(low.argmax())] += sums.max() - sums
    return np.asarray(table)


def exact_values(table: Integers, points: Floats, prior: Floats) -> Floats:
    """The values (R, k) of least expected ‖v‖² under the prior (L,) whose mean is exactly `points` (L, k) at every
    level of the table (L, R), up to the last digits of a double."""
    chances = table / table[0].sum()
    scale = 1.0 / np.sqrt(prior @ chances)
    scaled = chances * scale
    values = np.linalg.lstsq(scaled, points, rcond=None)[0]
    values += np.linalg.lstsq(scaled, points - scaled @ values, rcond=None)[0]
    return np.asarray(values * scale[:, None])
