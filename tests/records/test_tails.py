"""Bounds resist slips, and leave alone what is rare by nature."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.arrays import Floats
from taskveil.records.inference import harmless_range


def with_zeros(values: Floats, count: int) -> Floats:
    return np.concatenate([values, np.zeros(count - len(values))])


@pytest.mark.parametrize("claims", [2, 5, 18])
def test_rare_events_keep_their_sizes(claims: int) -> None:
    """Where nearly everybody has none, the few that have some are no slips, and differ."""
    for seed in range(20):
        values = with_zeros(np.random.default_rng(seed).lognormal(5.0, 1.0, claims), 1000)
        assert harmless_range(values) == (0.0, values.max())


def test_a_slip_among_rare_events_is_brought_back() -> None:
    values = with_zeros(np.append(np.random.default_rng(0).lognormal(5.0, 0.5, 40), 1e12), 1000)
    assert harmless_range(values)[1] < 1e4


@pytest.mark.parametrize("count", [100_000, 200_000])
def test_a_large_table_is_bounded_without_a_warning(count: int) -> None:
    """2% of it are more places than a double can be halved; pytest makes warnings errors."""
    values = np.random.default_rng(0).normal(size=count)
    assert harmless_range(values) == (values.min(), values.max())
    assert harmless_range(np.append(values, 1e9))[1] < 10.0
    assert harmless_range(with_zeros(np.abs(values[:3000]), count))[1] == np.abs(values[:3000]).max()
