from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from taskveil.arrays import check_arrays, own_arrays, owned
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
