"""Projections: the nearest shares that add up, and tables with given margins."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.estimates.survey import averaged, on_simplex, with_margins


def test_the_nearest_point_of_the_simplex() -> None:
    assert on_simplex(np.array([0.5, 0.5])).tolist() == [0.5, 0.5]
    assert on_simplex(np.array([0.9, 0.3, -0.4])) == pytest.approx([0.8, 0.2, 0.0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.normal(size=6)
        found = on_simplex(shares)
        others = rng.dirichlet(np.full(6, 0.3), 500)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1.0)
        assert ((shares - found) ** 2).sum() <= ((shares - others) ** 2).sum(axis=1).min() + 1e-12


def test_precision_weighs() -> None:
    assert averaged(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])) == pytest.approx([0.25])


def test_tables_get_their_margins_and_are_nearest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows, columns = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3))
        noisy = np.outer(rows, columns) + 0.05 * rng.normal(size=(4, 3))
        found = with_margins(noisy, rows, columns)
        assert found.min() >= 0
        assert found.sum(axis=1) == pytest.approx(rows, abs=1e-9)
        assert found.sum(axis=0) == pytest.approx(columns, abs=1e-9)
        # Towards any other table with these margins, the distance grows.
        step = np.outer(rows, columns) - found
        assert ((found - noisy) * step).sum() >= -1e-6


def test_margins_with_zeros() -> None:
    found = with_margins(np.full((2, 2), 0.25), np.array([1.0, 0.0]), np.array([0.3, 0.7]))
    assert found == pytest.approx(np.array([[0.3, 0.7], [0.0, 0.0]]))


def test_a_table_that_has_its_margins_already_is_clipped_all_the_same() -> None:
    """Its cells were never clipped, and scaling them made infinities."""
    table = np.array([[0.9, 0.05, -0.01], [0.06, -0.02, 0.02], [0.0, 0.0, 0.0]])
    rows, columns = np.array([0.94, 0.06, 0.0]), np.array([0.96, 0.03, 0.01])
    found = with_margins(table, rows, columns)
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=1), rows)
    assert np.allclose(found.sum(axis=0), columns)
