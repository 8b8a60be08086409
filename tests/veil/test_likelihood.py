"""The likeliest shares: by hand, from many reports, and with a smoothing that vanishes."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.veil.likelihood import levelled, likeliest_shares

CHANNEL = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])


def test_expected_counts_give_back_the_shares_and_contrary_ones_the_edge_of_the_simplex() -> None:
    shares = np.array([0.2, 0.5, 0.3])
    assert likeliest_shares(
        CHANNEL.__matmul__, CHANNEL.T.__matmul__, CHANNEL @ shares * 1e6, gain=1e-9
    ) == pytest.approx(shares, abs=1e-3)
    # The unbiased shares of the first and the last are negative here; likelihood has its maximum at the corner.
    found = likeliest_shares(CHANNEL.__matmul__, CHANNEL.T.__matmul__, np.array([20.0, 60.0, 20.0]), gain=1e-9)
    assert found == pytest.approx([0.0, 1.0, 0.0], abs=1e-2)


@pytest.mark.parametrize("edges", [np.linspace(0.0, 5.0, 6), np.array([-3.0, 0.0, 1.0, 10.0, 100.0])])
def test_a_smoothing_step_keeps_sums_and_even_densities_and_vanishes(edges: np.ndarray) -> None:
    width = np.diff(edges) / (edges[-1] - edges[0])
    step = levelled(edges, 10)
    assert step.min() >= 0.0
    assert step.sum(axis=0) == pytest.approx(1.0)
    assert step @ width == pytest.approx(width)
    first = np.eye(len(width))[0]
    assert 0.0 < (step @ first)[1] < first[0]
    assert levelled(edges, 10**12) == pytest.approx(np.eye(len(width)), abs=1e-4)
    assert levelled(edges, 10**15) == pytest.approx(np.eye(len(width)), abs=1e-7)
