"""Parts that take turns in being held out: copies of a record stay together, people who resemble each other do not."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.designs.selection import FEWEST_DISTINCT, folds_of, people

RNG = np.random.default_rng(2)
MEASURED = RNG.normal(size=(40, 3))


def test_copies_of_measured_records_are_one_person() -> None:
    place = RNG.permutation(np.repeat(np.arange(40), 5))
    person = people(MEASURED[place])
    assert len(set(person)) == 40
    assert all(len(set(person[place == k])) == 1 for k in range(40))
    assert person[0] == 0
    assert (np.diff(np.unique(person, return_index=True)[1]) > 0).all()  # numbered as they appear


def test_a_few_copies_are_found_among_many_and_minus_zero_is_zero() -> None:
    X = MEASURED.copy()
    X[3, 0], X[7] = 0.0, X[3]
    X[7, 0] = -0.0
    expected = np.arange(40)
    expected[7:] -= 1
    expected[7] = 3
    np.testing.assert_array_equal(people(X), expected)


def test_a_table_put_together_several_times_is_seen_when_it_is_rounded() -> None:
    """No attribute tells its people apart any more, and some are alike."""
    rounded = np.round(2 * MEASURED)
    rounded[7] = rounded[3]
    person = people(np.tile(rounded, (4, 1)))
    assert len(set(person)) == len({row.tobytes() for row in rounded + 0.0}) < 40
    np.testing.assert_array_equal(person[:40], person[120:])
    unevenly = np.vstack([rounded, rounded, rounded[:20]])
    np.testing.assert_array_equal(people(unevenly), np.arange(100))  # may well be people who are alike


@pytest.mark.parametrize(
    "X",
    [
        MEASURED,
        RNG.integers(2, size=(500, 5)).astype(float),
        np.eye(30)[RNG.integers(30, size=500)],
        np.column_stack([RNG.integers(18, 90, size=500), RNG.integers(2, size=500)]).astype(float),
        RNG.integers(FEWEST_DISTINCT - 1, size=(500, 1)).astype(float),
    ],
    ids=["all different", "five answers", "one of thirty kinds", "age and sex", "a rating"],
)
def test_people_who_happen_to_be_alike_are_several(X: np.ndarray) -> None:
    np.testing.assert_array_equal(people(X), np.arange(len(X)))


@pytest.mark.parametrize("folds", [2, 5])
def test_parts_hold_whole_people_and_as_many_each(folds: int) -> None:
    person = np.repeat(np.arange(40), 5)
    fold = folds_of(person, folds, np.random.default_rng(1))
    assert all(len(set(fold[person == k])) == 1 for k in range(40))
    assert np.bincount(fold).tolist() == [200 // folds] * folds
    alone = folds_of(np.arange(33), folds, np.random.default_rng(1))
    np.testing.assert_array_equal(alone, np.random.default_rng(1).permutation(33) % folds)


def test_copies_of_rounded_records_are_one_person() -> None:
    """Thirty of sixty people are in the table twice; no attribute tells them apart, all five together do."""
    X = np.round(3 * np.random.default_rng(0).normal(size=(60, 5)))
    person = people(np.vstack([X, X[:30]]))
    np.testing.assert_array_equal(person[60:], person[:30])


def test_a_small_table_that_was_put_together_twice_is_seen() -> None:
    X = np.round(MEASURED[:15])
    assert len({row.tobytes() for row in X + 0.0}) >= 10
    person = people(np.vstack([X, X]))
    np.testing.assert_array_equal(person[:15], person[15:])
