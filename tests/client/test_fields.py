"""Natural values become numbers and back, and no value is an error."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import block_releases
import mixed_records
from taskveil.client.base_field import Coded, expand
from taskveil.client.fields import Category, Count, Date, Field, Flag, Number
from taskveil.client.values import text_of
from taskveil.errors import DataError

FIELDS: list[Field] = [*mixed_records.ORDINARY.fields, *mixed_records.STRANGE.fields, *block_releases.WORDS.fields[:2]]


class Rude:
    """Raises at whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("the value is secret")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the value is secret")

    __hash__ = None  # type: ignore[assignment]


class RudeText(str):
    """Text with its own idea of itself."""

    def __str__(self) -> str:
        raise RuntimeError("the value is secret")

    def __hash__(self) -> int:
        raise RuntimeError("the value is secret")


class RudeNumber(float):
    """A number that does not want to be one."""

    def __float__(self) -> float:
        raise RuntimeError("the value is secret")


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.complex_numbers(), st.decimals(),
    st.fractions(), st.dates(), st.datetimes(), st.timedeltas(), st.times(), st.from_type(type),
    st.lists(st.integers()), st.dictionaries(st.text(), st.integers()), st.sampled_from(mixed_records.HOSTILE),
    st.from_regex(r"\d{4}-\d\d-\d\d"),
    st.sampled_from([pd.NA, pd.NaT, np.ma.masked, Decimal("snan"), object()]),
    st.sampled_from([np.bool_(True), np.int8(1), np.float16(1), np.longdouble("1e4000"), np.str_("true")]),
    st.sampled_from([np.bytes_(b"1"), 10**5000, -(10**5000), np.timedelta64(1, "s"), np.datetime64(2**62, "Y")]),
    st.sampled_from([np.zeros(3), Fraction(1, 3)]),
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS, ids=repr)
@given(values=st.lists(ANYTHING, max_size=5))
def test_every_value_becomes_numbers_within_the_fields_box(field: Field, values: list[Any]) -> None:
    with np.errstate(all="raise"):
        found = field.expand(values)
    low, high = field.box
    assert found.shape == (len(values), len(low)) == (len(values), len(field.labels("x")))
    assert ((found >= low) & (found <= high)).all()
    assert not np.signbit(found[found == 0]).any()  # −0 would be other bits for the same number


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_not_even_a_class_of_the_callers_own_raises(field: Field) -> None:
    rude = field.expand([Rude(), RudeText("true"), RudeNumber(1)])
    low, high = field.box
    assert ((rude >= low) & (rude <= high)).all()
    assert np.array_equal(rude[1], field.expand(["true"])[0])


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_no_values_give_no_rows(field: Field) -> None:
    assert field.expand([]).shape == (0, len(field.box[0]))


ARRAYS = [
    np.array([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 2.5, 4.0, 1e300, 2.0**53]),
    np.array([0, 1, 2, 3, 4, 5, -1, 2**53 - 1, 2**62]),
    np.array([0, 1, 2**64 - 1], dtype=np.uint64),
    np.array([0.5, np.nan, 4, 1], dtype=np.float16),
    np.array([np.longdouble("1e4000"), np.longdouble(4)]),
    np.array([True, False]),
    np.array(["Europe", "4", "true", "", "2021-03-04", "USA "]),
    np.array([b"Europe", b"4"]),
    np.array(["2021-03-04", "NaT", "2024-02-29"], dtype="datetime64[D]"),
    np.array(["2021-03-04T05:06:07.89"], dtype="datetime64[ns]"),
    np.array([1, 2], dtype="timedelta64[s]"),
    np.array([1 + 2j]),
    np.array(mixed_records.HOSTILE, dtype=object),
    np.ma.MaskedArray([1, 2, 3, 4], mask=[False, True, False, True]),
]


@pytest.mark.parametrize("field", FIELDS, ids=repr)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_lists_arrays_and_columns_that_repeat_themselves_agree(field: Field, array: np.ndarray) -> None:
    values = array.tolist() if isinstance(array, np.ma.MaskedArray) else list(array)
    alone = np.vstack([expand(field, [value]) for value in values])
    codes = np.array([*range(len(values)), -1, *range(len(values))])
    assert np.array_equal(expand(field, values), alone)
    assert np.array_equal(expand(field, array), alone)
    assert np.array_equal(expand(field, np.ma.concatenate([array] * 9)), np.vstack([alone] * 9))
    repeated = expand(field, Coded(codes=codes, values=values))
    assert np.array_equal(repeated, np.vstack([alone, expand(field, [None]), alone]))


@pytest.mark.parametrize(("field", "values"), [
    (Number(-3, 8, missing=True), [-3.0, 0.1, 8.0, math.nan, 2.5]),
    (Number(-3, 8), [-3.0, 0.1, 8.0, 2.5]),
    (Count(0, 2**53, missing=True), [0.0, 2.0**53, math.nan, 17.0]),
    (Category(["a", "b", "c"], missing=True), ["a", "c", "b", None]),
    (Category(["a", "b", ""]), ["a", "", "b"]),
    (Flag(missing=True), [1.0, 0.0, math.nan]),
    (Flag(), [1.0, 0.0]),
    (Date("1900-01-01", "2100-01-01", missing=True), ["2021-03-04T05:06:07", "NaT", "1900-01-01"]),
    (Date("0001-01-01", "9999-12-31T23:59:59", cycles=()), ["0001-01-01", "9999-12-31T23:59:59", "2021-03-04T05:06"]),
])  # fmt: skip
def test_there_and_back(field: Field, values: list[Any]) -> None:
    found, chance = field.collapse(field.expand(values))
    expected = (
        np.array(values, dtype="datetime64[s]") if isinstance(field, Date) else np.array(values, dtype=found.dtype)
    )
    assert np.array_equal(found, expected, equal_nan=found.dtype != object)
    assert np.allclose(chance, 1.0)


def test_means_give_the_most_probable_value_and_its_chance() -> None:
    found, chance = Category(["a", "b"], missing=True).collapse(
        np.array([[0.2, 0.5, 0.1], [0.2, 0.1, 0.6], [0.1, 0.2, 0.1]])
    )
    assert found.tolist() == ["b", None, None]
    assert np.allclose(chance, [0.5, 0.6, 0.6])
    # Of those who have one, the mean is 10; six in ten have one.
    found, chance = Number(0, 100, missing=True).collapse(np.array([[0.6 * 10 + 0.4 * 50, 0.4], [50.0, 0.9]]))
    assert found[0] == pytest.approx(10.0)
    assert np.isnan(found[1])
    assert np.allclose(chance, [0.6, 0.9])
    assert Flag().collapse(np.array([[0.7], [0.2]])).chance == pytest.approx([0.7, 0.8])
    assert Count(0, 9).collapse(np.array([[3.6], [99.0]])).values.tolist() == [4.0, 9.0]


@pytest.mark.parametrize(("value", "text"), [
    ("Europe", "Europe"), ("", ""), (4, "4"), (4.0, "4"), (-0.0, "0"), (np.int8(4), "4"), (True, "true"),
    (np.False_, "false"), (Decimal(4), "4"), (2**53 - 1, "9007199254740991"), (None, None), (math.nan, None),
    (pd.NA, None), (np.str_("é"), "é"),
    (2**53, "\0"), (4.5, "\0"), (math.inf, "\0"), (10**400, "\0"), ([], "\0"), (b"4", "\0"), (date(2021, 3, 4), "\0"),
    (1j, "\0"), (RudeNumber(4), None),
])  # fmt: skip
def test_what_a_category_goes_by(value: object, text: str | None) -> None:
    assert text_of(value) == text
    assert text_of(Rude()) == "\0"


def test_what_lies_outside_is_brought_to_the_nearest_bound_and_keeps_its_season() -> None:
    assert Number(0, 10).expand([-5, 99, math.inf, "7", "7 kW", None]).ravel().tolist() == [0, 10, 10, 7, 5, 5]
    assert Count(0, 10).expand([3.99, -0.5, 99]).ravel().tolist() == [3, 0, 10]
    inside, outside = Date("2020-01-01", "2022-12-31").expand(["2021-07-09", "2027-07-09"])
    assert outside[0] == Date("2020-01-01", "2022-12-31").box[1][0]
    assert np.array_equal(inside[1:3], outside[1:3])


@pytest.mark.parametrize("make", [
    lambda: Number(1, 0),
    lambda: Number(0, math.inf),
    lambda: Number(math.nan, 1),
    lambda: Number(-1e308, 1e308),
    lambda: Number("low", "high"),  # type: ignore[arg-type]
    lambda: Number(0, 1, fill=2),
    lambda: Number(0, 1, unit=None),  # type: ignore[arg-type]
    lambda: Number(0, 1, missing=1),  # type: ignore[arg-type]
    lambda: Count(0, 1.5),
    lambda: Count(0, 2.0**54),
    lambda: Category([]),
    lambda: Category("USA"),  # type: ignore[arg-type]
    lambda: Category(["a", "a"]),
    lambda: Category([4, "4"]),
    lambda: Category(["a", None]),
    lambda: Category(["a", 4.5]),
    lambda: Category([str(n) for n in range(2**16 + 1)]),
    lambda: Category(["a"], missing=0),  # type: ignore[arg-type]
    lambda: Flag(fill=1),  # type: ignore[arg-type]
    lambda: Flag(missing=None),  # type: ignore[arg-type]
    lambda: Date("2022-01-01", "2021-01-01"),
    lambda: Date("2021-02-29", "2022-01-01"),
    lambda: Date("2021-01-01", "someday"),
    lambda: Date(None, "2021-01-01"),  # type: ignore[arg-type]
    lambda: Date("2021-01-01", "2022-01-01", cycles=("moon",)),
    lambda: Date("2021-01-01", "2022-01-01", cycles=("year", "year")),
    lambda: Date("2021-01-01", "2022-01-01", missing="no"),  # type: ignore[arg-type]
])  # fmt: skip
def test_fields_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(DataError):
        make()


def test_bounds_of_any_type_are_kept_as_plain_ones() -> None:
    number = Number(np.float32(1), Decimal(3))
    assert (type(number.low), number.low, number.high, number.fill) == (float, 1.0, 3.0, 2.0)
    assert Count(0, 5).fill == 2.0
    assert Category([4, True, "a"]).values == ("4", "true", "a")
    assert Date(date(2020, 1, 1), datetime(2021, 1, 1, 12)).high == "2021-01-01T12:00:00"  # type: ignore[arg-type]


def test_halves_of_a_character_side_by_side_are_that_character() -> None:
    """As JSON writes them and browsers have them: a release that was written and read knows no other."""
    halves, whole = "\ud83d\ude00", "\U0001f600"
    assert Category([halves]).values == Category([whole]).values == (whole,)
    assert Category([whole]).expand([halves, whole, "\ude00\ud83d", "\ud83d"]).tolist() == [[1.0], [1.0], [0.0], [0.0]]
    with pytest.raises(DataError, match="all different"):
        Category([halves, whole])


def test_digits_are_numbers_and_words_are_not() -> None:
    written = ["7", "+7", "7.", ".5e1", "-7E-1", "1e999", "1" * 40]
    assert Number(-1, 100).expand(written).ravel().tolist() == [7, 7, 7, 5, -0.7, 100, 100]
    words = [" 7", "7 kW", "7,5", "0x7", "1_000", "nan", "inf", "٧", "7\n", "", "1" * 41]
    assert Number(-1, 100).expand(words).ravel().tolist() == [49.5] * len(words)
    assert Flag(missing=True).expand(["1", "0", "2", "true"]).tolist() == [[1, 0], [0, 0], [0, 1], [1, 0]]
