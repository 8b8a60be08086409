"""Inputs a device may receive from a broken sensor, a wrong unit or an attacker."""

from __future__ import annotations

import numpy as np


def hostile_records(width: int) -> np.ndarray:
    """Rows of NaN, ±inf, huge, tiny, subnormal, ±0, mixed and random bit patterns, (N, width)."""
    rng = np.random.default_rng(0)
    values = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 5e-324, -5e-324, 0.0, -0.0, 1e18, -1e18, 2.0**53]
    constant = np.array([np.full(width, value) for value in values])
    mixed = rng.choice(values, size=(200, width))
    bits = rng.integers(0, 2**64, size=(500, width), dtype=np.uint64).view(np.float64)
    one_hot = np.concatenate([np.where(np.eye(width) > 0, value, 0) for value in (1e300, -1e300, np.inf, np.nan)])
    return np.concatenate([constant, mixed, bits, one_hot])
