from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from taskveil.arrays import as_floats, check_arrays, own_arrays, owned
from taskveil.errors import DataError


@dataclass(frozen=True)
class Part:
    values: np.ndarray
    number: int = 3

    def __post_init__(self) -> None:
        own_arrays(self)


def test_parts_keep_their_own_numbers() -> None:
    mine = np.arange(3)
    part = Part(mine)
    mine[0] = 100
    assert part.values.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        part.values[0] = 100
    assert mine.flags.writeable
    assert part.number == 3


def test_a_view_is_copied_too() -> None:
    base = np.arange(4.0)
    copy = owned(base[::2])
    base[:] = 9
    assert copy.tolist() == [0.0, 2.0]
    assert not copy.flags.writeable


@pytest.mark.parametrize("array", [np.zeros(3), np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.zeros((2, 1))])
def test_the_array_that_does_not_fit_is_named(array: np.ndarray) -> None:
    check_arrays(good=(np.zeros(2), (2,)))
    with pytest.raises(DataError, match="bad must be finite numbers of shape"):
        check_arrays(good=(np.zeros(2), (2,)), bad=(array, (2,)))


class Loud(Fraction):
    """A number that raises when it is asked for."""

    def __float__(self) -> float:
        raise LookupError("secret")


class Endless(Fraction):
    """A number too large to compare."""

    def __float__(self) -> float:
        raise OverflowError("secret")

    def __gt__(self, _: object) -> bool:
        raise ArithmeticError("secret")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, Loud(1)], [1.0, np.nan]),
        ([1.0, Endless(1)], [1.0, np.nan]),
        ([1.0, np.ma.masked], [1.0, np.nan]),
        (np.array([1.0, np.ma.masked, None], dtype=object), [1.0, np.nan, np.nan]),
        ([np.ma.masked_array([1.0, 2.0], mask=[False, True]), [3.0, 4.0]], [[1.0, np.nan], [3.0, 4.0]]),
        ([[np.ma.masked, 2.0], (3.0, np.ma.masked)], [[np.nan, 2.0], [3.0, np.nan]]),
        (np.ma.masked_array([1, 2], mask=[True, False]), [np.nan, 2.0]),
    ],
)
def test_whatever_a_value_is_like_it_is_a_number_or_missing(values: object, expected: object) -> None:
    assert np.array_equal(as_floats(values), expected, equal_nan=True)


@pytest.mark.parametrize("time", [np.timedelta64(5, "ns"), np.timedelta64("NaT")])
def test_spans_of_time_are_refused_whatever_they_are(time: object) -> None:
    for values in ([1.0, time], [time, time], [None, time]):
        with pytest.raises(DataError):
            as_floats(values)
