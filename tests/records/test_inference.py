"""What is inferred of a column that nobody has described, and what is not."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError, UnusedColumnWarning, WildRecordWarning
from taskveil.records.inference import FEWEST_ALIKE, MOST_CATEGORIES


def field(values: object, dtype: object = None) -> tv.Number | tv.Count | tv.Category | tv.Flag | tv.Date:
    return tv.Schema.of(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}))["x"]  # type: ignore[call-overload]


def test_kinds() -> None:
    assert field([0.5, 1.5, 4.0]) == tv.Number(0.5, 4.0, fill=2.25)
    assert field([3, 1, 2]) == tv.Count(1, 3, fill=2)
    assert field([-3, 1, 2]) == tv.Number(-3, 2, fill=-0.5)
    assert field([True, False, True]) == tv.Flag(fill=True)
    assert field([True, None, False, False], object) == tv.Flag(missing=True)
    assert field([dt.date(2021, 3, 4), dt.date(2020, 1, 2)], object) == tv.Date("2020-01-02", "2021-03-04", cycles=())
    assert field(["2021/03/04", "2020/01/02"]) == tv.Date("2020-01-02", "2021-03-04", cycles=())


def test_the_median_that_stands_in_is_no_volunteers_own_value() -> None:
    """It is public: fewer than ten volunteers have none, and that of more is rounded."""
    values = np.random.default_rng(0).uniform(0, 200_000, 251)
    for count in (1, 3, 9, 10, 251):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = field([*values[:count], *[None] * 20])
        assert isinstance(found, tv.Number)
        assert any("Its bounds are theirs" in str(one.message) for one in said) == (count < 10)
        assert found.fill not in values or count == 1  # of one, both bounds are its value
        if count == 251:
            assert abs(found.fill - np.median(values)) <= 500


@pytest.mark.parametrize("count", [FEWEST_ALIKE - 1, FEWEST_ALIKE])
def test_a_value_is_listed_once_enough_volunteers_share_it(count: int) -> None:
    found = field(["common"] * 20 + ["rare"] * count + [None])
    assert isinstance(found, tv.Category)
    assert ("rare" in found.values) == (count >= FEWEST_ALIKE)
    assert found.missing


def test_only_the_most_frequent_values_are_listed() -> None:
    values = [f"v{place:03}" for place in range(60) for _ in range(FEWEST_ALIKE + (place < 7))]
    found = field(values)
    assert isinstance(found, tv.Category)
    assert len(found.values) == MOST_CATEGORIES
    assert {f"v{place:03}" for place in range(7)} <= set(found.values)


@pytest.mark.parametrize("values", [[f"name {place}" for place in range(30)], [None] * 30])
def test_a_column_that_says_nothing_is_left_out(values: list[str | None]) -> None:
    with pytest.warns(UnusedColumnWarning, match="'x' is left out"):
        schema = tv.Schema.of(pd.DataFrame({"x": values, "n": np.arange(30.0)}))
    assert list(schema) == ["n"]
    with pytest.warns(UnusedColumnWarning), pytest.raises(DataError, match="no column"):
        tv.Schema.of(pd.DataFrame({"x": values}))


def test_one_wild_value_does_not_set_the_bounds() -> None:
    values = np.random.default_rng(0).normal(100.0, 10.0, 300)
    values[7] = 1e9
    with pytest.warns(WildRecordWarning, match="'x', 1 out of line") as said:
        found = field(values)
    assert isinstance(found, tv.Number)
    assert found.high < 1000.0
    assert "1000000000" not in str(said[0].message)


@pytest.mark.parametrize("values", [pd.cut(pd.Series(np.arange(30.0)), 3), pd.Series([0.5, 1.5] * 9, dtype="category")])
def test_categories_that_are_no_text_are_refused_with_a_way_on(values: pd.Series) -> None:
    table = pd.DataFrame({"x": values})
    with pytest.raises(DataError, match="'x' are neither text"):
        tv.Schema.of(table)
    said = tv.Schema.of(table.assign(x=table["x"].astype(str).astype("category")))  # as the message says
    assert isinstance(said["x"], tv.Category)


def test_other_things_are_refused_by_name() -> None:
    for values in ([[1], [2]], ["text", 3.5, None]):
        with pytest.raises(DataError, match="'x'"):
            field(values, object)


def test_bounds_are_round_and_hold_everybody() -> None:
    rng = np.random.default_rng(8)
    for scale in (1e-6, 1.0, 3e4, 1e12):
        values = scale * rng.normal(7.0, 2.0, 500)
        field = tv.Schema.of(pd.DataFrame({"a": values}))["a"]
        assert isinstance(field, tv.Number)
        assert field.low <= values.min() < values.max() <= field.high
        assert field.high - field.low < 1.3 * np.ptp(values)
        assert not np.isin([field.low, field.high], values).any()
        assert max(len(f"{bound:e}".split("e")[0].rstrip("0")) for bound in (field.low, field.high)) <= 4  # 9.87e+05
    assert tv.Schema.of(pd.DataFrame({"a": np.full(30, 4.25)}))["a"] == tv.Number(4.25, 4.25)


@pytest.mark.parametrize(
    "form", ["2021-03-{:02d}", "2021/03/{:02d} 12:05", "2021.03.{:02d} 12:05:06", "2021-03-{:02d}T12:05:06Z"]
)
def test_dates_in_text_come_back_as_they_were_written(form: str) -> None:
    table = pd.DataFrame({"day": [form.format(1 + place % 28) for place in range(60)]})
    schema = tv.Schema.of(table)
    assert isinstance(schema["day"], tv.Date)
    assert schema.for_model(schema.expand(table))["day"].tolist() == table["day"].tolist()


def test_times_of_no_form_keep_their_seconds() -> None:
    table = pd.DataFrame({"day": [f"2021-03-04T{place % 24:02d}:30:00+01:00" for place in range(60)]})
    schema = tv.Schema.of(table)
    assert schema["day"] == tv.Date("2021-03-04", "2021-03-04T23:59:59", cycles=("day",))  # whole days are public
    assert schema.for_model(schema.expand(table))["day"][5] == "2021-03-04 05:30:00"


def test_the_only_one_among_zeros_is_no_slip() -> None:
    """Pulled in, the column would be the same for everybody, and users' ones would be zeros."""
    rare = np.zeros(100, dtype=np.int64)
    rare[7] = 1
    found = tv.Schema.of(pd.DataFrame({"rare": rare, "kind": ["a", "b"] * 50}))["rare"]
    assert isinstance(found, tv.Count)
    assert (found.low, found.high) == (0.0, 1.0)
