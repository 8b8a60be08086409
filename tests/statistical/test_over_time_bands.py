"""Bands over the rounds contain the truth at all rounds at once; `benchmarks/over_time_bands.py` in a small version."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from scipy.stats import binom

# By its path: in the path of all tests, benchmarks/ray.py would be found in place of Ray.
_SPEC = importlib.util.spec_from_file_location("bands", Path(__file__).parents[2] / "benchmarks/over_time_bands.py")
assert _SPEC is not None
assert _SPEC.loader is not None
bands = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(bands)

COLLECTIONS, ROUNDS = 80, 12
FALSE_ALARM = 1e-7


def test_bands_hold_at_all_rounds_in_95_percent_of_collections() -> None:
    """Ten rows are looked at, so that each may have a tenth of the false alarms."""
    most = int(binom.isf(FALSE_ALARM / 10, COLLECTIONS, 0.05))
    held = bands.shares(bands.apps, COLLECTIONS, rounds=ROUNDS, people=2400)
    assert len(held) == 10
    assert COLLECTIONS * (1 - min(held.values())) <= most
    # Intervals that each hold with 95% miss somewhere in up to 46% of collections: the test sees that.
    alone = bands.shares(bands.apps, COLLECTIONS, rounds=ROUNDS, people=2400, each=0.95)
    assert COLLECTIONS * (1 - np.mean(list(alone.values()))) > most
