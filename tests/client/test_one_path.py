"""How long a record takes must not depend on what is in it: the clock sees what the report hides."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.client.device import Device, Fields
from taskveil.client.fields import Category
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion
from taskveil.client.values import LONGEST_TEXT, NO_VALUE, text_of
from taskveil.errors import DataError

WIDTH = 10_000


def ratio(slow: Callable[[], object], quick: Callable[[], object]) -> float:
    """Processor time of one by that of the other, the best of many turns, old and new taking turns."""
    best = [1.0, 1.0]
    for _ in range(40):
        for place, work in enumerate((slow, quick)):
            start = time.process_time_ns()
            work()
            best[place] = min(best[place], (time.process_time_ns() - start) * 1e-9)
    return best[0] / best[1]


def takes_at_most(times: float, slow: Callable[[], object], quick: Callable[[], object]) -> bool:
    """Whether one takes so many times as long as the other, or less; a busy machine has three tries."""
    return any(ratio(slow, quick) < times for _ in range(3))


@pytest.fixture(scope="module")
def device() -> Device:
    reach = np.ones(WIDTH)
    encoder = LinearEncoder.of(low=-reach, high=reach, weights=np.ones((1, WIDTH)), offset=np.zeros(1))
    region = BoxRegion(step=2.0**-10, low=np.array([-1024]), high=np.array([1024]))
    return Device(encoder=encoder, mechanism=Laplace.calibrated(region=region, epsilon=1.0))


@pytest.mark.parametrize("odd", [None, Decimal("0.5"), 10**30, 10**400, True, np.float32(0.5)], ids=repr)
@pytest.mark.parametrize("form", [list, lambda row: np.array(row, dtype=object)], ids=["list", "array"])
def test_one_odd_value_takes_no_longer(device: Device, odd: Any, form: Callable[[list[Any]], Any]) -> None:
    """Before, one missing value sent all 10,000 columns through another loop: four times the time."""
    plain = [0.25] * WIDTH
    mixed = [*plain[1:], odd]
    assert takes_at_most(1.25, lambda: device.record(form(mixed)), lambda: device.record(form(plain)))


@pytest.mark.parametrize("odd", [None, 1, True, 10**30, 10**400, np.float64(0.5), np.float32(0.5), np.int64(1)])
def test_no_kind_of_number_takes_much_longer_than_another(device: Device, odd: Any) -> None:
    """JSON has 1 and 0.5, of different types: a record of whole numbers took 15 times as long as one of fractions."""
    plain, mixed = [0.25] * WIDTH, [odd] * WIDTH
    slow, quick = (lambda: device.privatize(device.record(mixed))), (lambda: device.privatize(device.record(plain)))
    assert takes_at_most(3.0, slow, quick)


@pytest.mark.parametrize("letter", ["a", "\u00fc", "\U0001f600"])
def test_long_words_take_no_longer_than_short_ones(letter: str) -> None:
    """Before, a release with words of 400,000 letters made devices read as many of a value."""
    field = Category([letter * (LONGEST_TEXT // 2), "short"])
    fields = Fields(names=("word",), fields=(field,))
    assert fields.expand_one([letter * (LONGEST_TEXT // 2)]).tolist() == [[1.0, 0.0]]
    longest = [letter * 400_000]
    assert fields.expand_one(longest).tolist() == [[0.0, 0.0]]
    assert takes_at_most(1.5, lambda: fields.expand_one(longest), lambda: fields.expand_one(["other"]))


@pytest.mark.parametrize("word", ["a" * 1001, "\u00fc" * 1001, "\U0001f600" * 501])
def test_longer_words_are_no_values_of_a_category(word: str) -> None:
    assert text_of(word) == NO_VALUE
    with pytest.raises(DataError, match="1000 characters"):
        Category([word])


def test_a_long_text_in_a_column_of_words_is_one_that_the_category_does_not_list() -> None:
    words = ["north", "south"] * 50 + ["x" * 5000] * 20
    schema = tv.Schema.of(pd.DataFrame({"place": words}))
    (field,) = schema.fields.fields
    assert field.values == ("north", "south")  # type: ignore[attr-defined]
