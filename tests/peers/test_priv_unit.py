"""PrivUnit's error against simulated reports, and against the other form of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.peers.literature import PrivUnit
from taskveil.peers.priv_unit import priv_unit, priv_unit_error


@pytest.mark.parametrize(("dim", "epsilon"), [(3, 1.0), (8, 4.0), (30, 2.0)])
def test_the_error_is_that_of_simulated_reports(dim: int, epsilon: float) -> None:
    """Uniform unit vectors, weighted by their density: no draw of the mechanism's own."""
    threshold, kappa = priv_unit(dim, epsilon)
    vectors = np.random.default_rng(0).standard_normal((400_000, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = np.where(vectors[:, 0] >= threshold, math.exp(epsilon), 1.0)
    off = vectors / kappa - np.eye(dim)[0]
    errors = (off**2).sum(axis=1)
    mean = weights @ errors / weights.sum()
    spread = math.sqrt(weights**2 @ (errors - mean) ** 2) / weights.sum()
    assert abs(mean - priv_unit_error(dim, epsilon)) < 5 * spread + 1e-3


@pytest.mark.parametrize("dim", [4, 30, 100, 1000])
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_both_forms_agree(dim: int, epsilon: float) -> None:
    assert abs(priv_unit(dim, epsilon)[1] / PrivUnit.of(dim, epsilon).mean - 1) < 1e-5
