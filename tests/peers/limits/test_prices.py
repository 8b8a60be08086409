from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_reports import gain, gaussian_cells, improved, random_report
from taskveil.designs.moments import gaussian_distortion
from taskveil.peers.limits import information_limit
from taskveil.peers.limits.prices import (
    _SQUARES,
    _TILTS,
    _log_integrals,
    _mean_excess,
    equal_directions,
    layered_reduction,
    price_limit,
)


@cache
def bounds(variances: tuple[float, ...], epsilon: float) -> tuple[float, float]:
    return layered_reduction(variances, epsilon), sum(variances) - price_limit(variances, epsilon)


CELLS = {1: (200,), 2: (30, 30), 3: (12, 10, 10), 4: (8, 6, 6, 5)}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0, 8.0]), st.booleans(), st.integers(0, 2**32 - 1))
def test_no_report_of_gaussian_data_gains_more(dims: int, epsilon: float, equal: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    variances = [1.0] * dims if equal else [1.0, 0.5, 0.3, 0.2][:dims]
    values, masses = gaussian_cells(variances, CELLS[dims])
    gained = gain(values, masses, random_report(rng, values, masses, epsilon))
    assert gained <= min(bounds(tuple(variances), epsilon)) + 1e-9


@pytest.mark.parametrize(("dims", "epsilon", "size", "share"), [
    (1, 2.0, 2, 0.9), (1, 3.0, 3, 0.9), (2, 3.0, 5, 0.9), (2, 5.0, 24, 0.85), (3, 5.0, 32, 0.8), (4, 6.0, 64, 0.8),
])  # fmt: skip
def test_good_reports_come_near(dims: int, epsilon: float, size: int, share: float) -> None:
    """A bound that nothing approaches would pass the test above: plain randomised response on the nearest of a few
    codewords gains this share of it at least, and the information limit is far off."""
    values, masses = gaussian_cells([1.0] * dims, CELLS[dims])
    rng = np.random.default_rng(0)
    gained = max(
        gain(values, masses, improved(values, masses, rng.standard_normal((size, dims)), 1, epsilon)) for _ in range(4)
    )
    allowed = min(bounds((1.0,) * dims, epsilon))
    assert share * allowed < gained <= allowed
    assert allowed < 0.95 * (dims - gaussian_distortion([1.0] * dims, information_limit(epsilon)))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize(("alpha", "slope"), [(-0.1, 0.5), (0.05, 0.2), (-0.01, 0.95)])
def test_the_exact_excess(count: int, alpha: float, slope: float) -> None:
    lengths = np.array([0.0, 0.3, 1.0, 2.5])
    line = np.linspace(-9, 9, 1801)
    rest = (np.arange(900) + 0.5) / 100 if count > 1 else np.zeros(1)  # norm of the other coordinates
    weights = np.exp(-(line**2) / 2)
    others = rest ** (count - 2.0) * np.exp(-(rest**2) / 2) if count > 1 else np.ones(1)
    weights, others = weights / weights.sum(), others / others.sum()
    for length, found in zip(lengths, _mean_excess(lengths, alpha, slope, count)[0], strict=True):
        excess = 2 * length * line[:, None] - length**2 - alpha - slope * (line[:, None] ** 2 + rest**2)
        expected = weights @ np.maximum(excess, 0.0) @ others
        assert found == pytest.approx(expected, rel=2e-3, abs=1e-6)


def test_the_transform_bounds_the_excess_for_every_answer() -> None:
    """Against samples: never below E ψ⁺, in whatever direction u points; not far above where the largest T is found,
    at answers of about the data's size."""
    rng = np.random.default_rng(1)
    variances, level, alpha = np.array([1.0, 0.6, 0.1]), 0.3, -0.05
    gains, kept = np.maximum(variances - level, 0), np.minimum(variances, level)
    tilts = _TILTS / (2 * level)
    logs = _log_integrals(tilts, gains, kept) - tilts[:, None] * alpha
    z = rng.standard_normal((400_000, 3)) * np.sqrt(variances)
    prices = alpha + z**2 @ (gains / variances)
    for place in (0, 12, 24, 30):
        bound = float(np.exp(logs[:, place].min()))
        direction = np.abs(rng.standard_normal((6, 3))) ** 3
        found = []
        for u in np.sqrt(_SQUARES[place]) * direction / np.linalg.norm(direction, axis=1, keepdims=True):
            excess = np.maximum(2 * z @ u - u @ u - prices, 0.0)
            assert excess.mean() - 4 * excess.std() / math.sqrt(len(z)) <= bound
            found.append(excess.mean())
        assert place == 0 or max(found) > 0.3 * bound


def test_more_directions_and_more_budget_are_never_worse() -> None:
    for epsilon in (0.5, 2.0, 6.0):
        gains = [equal_directions(count, epsilon) for count in (1, 2, 3, 4, 5)]
        assert gains == sorted(gains)
    losses = [price_limit([1.0, 0.4, 0.4], epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 700.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] > 0
