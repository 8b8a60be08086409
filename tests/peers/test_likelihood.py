"""The likeliest shares: by hand, and from expected counts."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.peers.likelihood import likeliest_shares

CHANNEL = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])


def test_expected_counts_give_back_the_shares_and_contrary_ones_the_edge_of_the_simplex() -> None:
    shares = np.array([0.2, 0.5, 0.3])
    assert likeliest_shares(
        CHANNEL.__matmul__, CHANNEL.T.__matmul__, CHANNEL @ shares * 1e6, gain=1e-9
    ) == pytest.approx(shares, abs=1e-3)
    # The unbiased shares of the first and the last are negative here; likelihood has its maximum at the corner.
    found = likeliest_shares(CHANNEL.__matmul__, CHANNEL.T.__matmul__, np.array([20.0, 60.0, 20.0]), gain=1e-9)
    assert found == pytest.approx([0.0, 1.0, 0.0], abs=1e-2)
