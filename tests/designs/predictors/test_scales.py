"""The scale of attributes with heavy tails: only where there are any, and made for any column."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.client.latent_encoders import MonotoneTables
from taskveil.client.networks import LEVELS
from taskveil.designs.predictors import light as module
from taskveil.designs.predictors.light import KNOTS, heavy_tailed, ranked, tables_for

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(1000, 5))
SKEWED = np.exp(2 * Z)


def test_heavy_tails_are_found_in_any_unit_and_nothing_else() -> None:
    columns = {
        "gaussian": Z[:, 0],
        "uniform": RNG.random(1000),
        "rare dummy": (Z[:, 0] > 2.5).astype(float),
        "constant": np.full(1000, 1e300),
        "zero": np.zeros(1000),
        "lognormal": SKEWED[:, 0],
        "mirrored": -SKEWED[:, 0],
        "far away": 1e6 + SKEWED[:, 1],
        "huge": SKEWED[:, 1] * 1e300,
        "tiny": SKEWED[:, 1] * 1e-300,
        "both tails": np.sinh(3 * Z[:, 2]),
        "many zeros": np.where(Z[:, 2] > 1, SKEWED[:, 2], 0.0),
        "one wild cell": np.append(Z[1:, 3], 1e9),
    }
    found = heavy_tailed(np.column_stack(list(columns.values())))
    assert [name for name, heavy in zip(columns, found, strict=True) if heavy] == list(columns)[5:]


def tabled(X: np.ndarray) -> MonotoneTables:
    tables = tables_for(X)
    assert tables is not None
    return tables


def test_no_tables_without_heavy_tails_or_with_too_many_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables_for(Z) is None
    assert tables_for(SKEWED) is not None
    monkeypatch.setattr(module, "MOST_TABLES", 4)
    assert tables_for(SKEWED) is None


def test_lognormal_values_become_gaussian_ones() -> None:
    levels = tabled(SKEWED)(SKEWED)
    for column in range(5):
        assert np.corrcoef(levels[:, column], Z[:, column])[0, 1] > 0.98
        assert np.corrcoef(SKEWED[:, column], Z[:, column])[0, 1] < 0.6


def test_other_attributes_stay_as_they_are() -> None:
    X = np.column_stack([SKEWED[:, 0], Z[:, 0], Z[:, 1] > 1, np.full(1000, 7.0)])
    extent = np.maximum(np.ptp(X, axis=0), 1e-9)
    levels = tabled(X)(X)
    assert levels[:, 1:3] / LEVELS == pytest.approx(((X - X.min(axis=0)) / extent)[:, 1:3], abs=2e-6)
    assert np.ptp(levels[:, 3]) == 0


@pytest.mark.parametrize(
    "column",
    [
        np.where(Z[:, 0] > 1.8, SKEWED[:, 0], 0.0),
        np.where(Z[:, 0] > 1.8, -SKEWED[:, 0], 0.0),
        np.append(np.zeros(998), [5e-324, 1.0]),
        np.append(np.zeros(998), [1.0, 1.7e308]),
        np.append(np.zeros(998), [-1.7e308, 1.7e308]),
        np.append(np.repeat([1.0, 2.0], 499), [3.0, 1e15]),
        np.exp(100 * Z[:, 0]),
    ],
    ids=["zeros", "zeros and below", "subnormal", "huge", "widest", "ties", "e^100z"],
)
def test_no_column_is_too_strange(column: np.ndarray) -> None:
    tables = tabled(np.column_stack([column, Z[:, 1]]))
    levels = tables(np.column_stack([column, Z[:, 1]]))[:, 0]
    assert levels.min() < levels.max()
    assert tables.knots.shape[1] <= KNOTS


@pytest.mark.parametrize("count", [11, 60, 1000])
def test_ranks_publish_nobodys_value(count: int) -> None:
    """Knots are read by anybody who has the release: each stands for five people or more."""
    values = np.exp(2 * np.random.default_rng(count).normal(size=count))
    knots, shares = ranked(values)
    assert not np.isin(knots, values).any()
    assert len(knots) <= count // 5
    assert (np.diff(knots) > 0).all()
    assert (shares[0], shares[-1]) == (0.0, 1.0)
