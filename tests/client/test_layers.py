"""Levels by table: on the lines between knots, for any value whatsoever, and the same in any company."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import releases
from hostile import hostile_records
from taskveil.client.latent_encoders import FARTHEST_KNOT, LinearEncoder, MonotoneTables, TabledEncoder
from taskveil.client.networks import LEVELS, levels
from taskveil.client.trees import MOST_KNOTS
from taskveil.errors import DataError


def table(*points: tuple[float, int]) -> MonotoneTables:
    """The table of one attribute."""
    knots, found = zip(*points, strict=True)
    return MonotoneTables(knots=np.array([knots], dtype=np.float64), levels=np.array([found], dtype=np.int64))


def exact(tables: MonotoneTables, column: int, value: float) -> Fraction:
    """The level of a value as a fraction, before it is rounded."""
    knots, found = tables.knots[column].tolist(), tables.levels[column].tolist()
    if np.isnan(value):
        return Fraction(LEVELS // 2)
    value = max(value, knots[0])
    place = max(i for i, knot in enumerate(knots) if knot <= value)
    if place == len(knots) - 1:
        return Fraction(found[-1])
    share = (Fraction(value) - Fraction(knots[place])) / (Fraction(knots[place + 1]) - Fraction(knots[place]))
    return found[place] + share * (found[place + 1] - found[place])


def values_for(tables: MonotoneTables, rng: np.random.Generator) -> np.ndarray:
    """Hostile records, knots, their neighbours and values between, (N, n)."""
    knots = tables.knots.T
    between = knots[:-1] + rng.random(knots[:-1].shape) * np.diff(knots, axis=0)
    near = [np.nextafter(knots, side) for side in (-np.inf, np.inf)]
    return np.concatenate([hostile_records(tables.width), knots, between, *near])


def test_levels_lie_on_the_lines_between_knots() -> None:
    tables = releases.tables()
    X = values_for(tables, np.random.default_rng(0))
    q = tables(X)
    assert np.array_equal(q, np.floor(q))
    for column in range(tables.width):
        for value, level in zip(X[:, column].tolist(), q[:, column].tolist(), strict=True):
            # Half a level for rounding, and a little for shares that are rounded doubles.
            assert abs(exact(tables, column, value) - Fraction(level)) <= Fraction(1, 2) + Fraction(1, 10**8)


def test_a_larger_value_never_has_a_lower_level() -> None:
    tables = releases.tables()
    X = np.sort(values_for(tables, np.random.default_rng(1)), axis=0)
    q = tables(X)
    rises = np.diff(q, axis=0) >= 0
    assert rises[~np.isnan(X[1:])].all()
    assert q.min() == 0
    assert q.max() == LEVELS


def test_a_record_has_its_levels_in_any_batch() -> None:
    tables = releases.tables()
    X = values_for(tables, np.random.default_rng(2))
    assert np.array_equal(tables(X), np.concatenate([tables(row[None]) for row in X]))


def test_ends_jumps_and_nan() -> None:
    jump = table((0.0, 0), (1.0, 10), (1.0, 100), (2.0, 200))
    found = jump(np.array([[-np.inf], [-0.0], [np.nextafter(1.0, 0.0)], [1.0], [1.5], [np.inf], [np.nan]]))
    assert found[:, 0].tolist() == [0, 0, 10, 100, 150, 200, LEVELS // 2]
    assert table((3.0, 7))(np.array([[-1e308], [3.0], [np.inf]]))[:, 0].tolist() == [7, 7, 7]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(0, 10**6))
def test_two_knots_are_the_even_levels(low: float, width: float, seed: int) -> None:
    low_, high = np.array([low]), np.array([low + width])
    X = low + width * np.random.default_rng(seed).normal(size=(50, 1))
    straight = table((low, 0), (low + width, LEVELS))
    assert np.abs(straight(X) - levels(X, low_, high)).max() <= 1


def test_an_encoder_of_full_range_takes_levels_as_they_are() -> None:
    full = np.full(5, float(LEVELS))
    q = np.random.default_rng(0).integers(0, LEVELS + 1, size=(200, 5)).astype(np.float64)
    assert np.array_equal(levels(q, 0 * full, full), q)
    tabled = releases.tabled(releases.linear())
    assert np.array_equal(tabled(hostile_records(5)), tabled.encoder(tabled.tables(hostile_records(5))))
    assert np.isfinite(tabled(hostile_records(5))).all()
    assert np.array_equal(tabled.low, tabled.tables.knots[:, 0])
    assert np.array_equal(tabled.high, tabled.tables.knots[:, -1])


def test_numpy_set_to_raise_hears_nothing() -> None:
    with np.errstate(all="raise"):
        releases.tabled(releases.linear())(hostile_records(5))


@pytest.mark.parametrize(
    ("knots", "found", "says"),
    [
        ([[1.0, 0.0]], [[0, 1]], "fall"),
        ([[0.0, np.nan]], [[0, 1]], "finite"),
        ([[0.0, np.inf]], [[0, 1]], "finite"),
        ([[0.0, 2 * FARTHEST_KNOT]], [[0, 1]], "half the range"),
        ([[0.0, 1.0]], [[1, 0]], "fall"),
        ([[0.0, 1.0]], [[-1, 0]], "between 0 and"),
        ([[0.0, 1.0]], [[0, LEVELS + 1]], "between 0 and"),
        ([[0.0, 1.0]], [[0, 1, 2]], "every knot"),
        ([[0.0, 1.0]], [[0.0, 1.0]], "64-bit"),
        ([[0, 1]], [[0, 1]], "64-bit"),
        ([0.0, 1.0], [0, 1], "knots"),
        ([[]], np.zeros((1, 0), dtype=np.int64), "knots"),
        (np.zeros((1, MOST_KNOTS + 1)), np.zeros((1, MOST_KNOTS + 1), dtype=np.int64), "knots"),
    ],
)
def test_tables_that_are_none_are_refused(knots: object, found: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        MonotoneTables(knots=np.array(knots), levels=np.array(found))


def test_parts_that_do_not_belong_together_are_refused() -> None:
    tables, tabled = releases.tables(), releases.tabled(releases.linear())
    with pytest.raises(DataError, match="before an encoder of 7"):
        TabledEncoder(tables=tables, encoder=releases.linear(7))
    with pytest.raises(DataError, match="without any"):
        TabledEncoder(tables=tables, encoder=tabled)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="without any"):
        TabledEncoder(tables=releases.linear(), encoder=releases.linear())  # type: ignore[arg-type]
    assert isinstance(tabled.encoder, LinearEncoder)
