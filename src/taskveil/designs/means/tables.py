"""A channel in whole numbers: rows of equal sums, ratios within e^ε, and values that are unbiased for just these."""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.means.channels import Channel

TOTAL = 2.0**51
"""About the sum of every row."""

SPARED = 1e-9
"""The share of the budget that is left over for making all rows' sums equal."""


def whole_numbers(channel: Channel, epsilon: float) -> Integers:
    """The channel as a table (L, R) whose rows have the same sum; no column has a ratio above e^ε."""
    low = np.maximum(np.rint(channel.masses * TOTAL), 1.0).astype(np.int64)
    high = np.floor(low * np.exp(epsilon * (1.0 - SPARED))).astype(np.int64)
    table = np.where(channel.patterns.T, high, low)
    # What rows lack is far below what the spared budget allows in the likeliest column that all rows share.
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
