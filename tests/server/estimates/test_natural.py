"""Means as people read them: digits that the interval is worth, shares, dates, and people who have no value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.server.estimates.calibration import Means
from taskveil.server.estimates.natural import Label, holes_in, labels_of, over_those_who_have_one, with_holes
from taskveil.server.estimates.result import Group

SCHEMA = tv.Schema({
    "country": tv.Category(["France", "Ghana"], missing=True),
    "income": tv.Number(0, 100, "k€", missing=True, fill=90),
    "owner": tv.Flag(missing=True, fill=True),
    "since": tv.Date("2018-01-01", "2022-01-01", missing=True, cycles=("year",)),
    "age": tv.Count(0, 120),
})  # fmt: skip


@pytest.mark.parametrize(
    ("label", "value", "error", "said", "changed"),
    [
        (Label("x"), 1234.5678, 0.24, "1,234.57", "+1,234.57"),
        (Label("x"), 1234.5678, 240.0, "1,235", "+1,235"),
        (Label("x"), -0.0123, 0.5, "-0.01", "-0.01"),
        (Label("x"), 3e-7, 1e-8, "3e-07", "+3e-07"),
        (Label("x"), 2.5, 0.0, "2.500", "+2.500"),
        (Label("x"), 0.0, 0.0, "0", "+0"),
        (Label("x"), float("nan"), 1.0, "unknown", "unknown"),
        (Label("x", "share"), 0.1234, 0.02, "12.3%", "+12.3 points"),
        (Label("x", "date"), 18000.75, 3.0, "2019-04-14", "+18000.8 days"),
        (Label("x", "date"), -1.0, 3.0, "1969-12-31", "-1.0 days"),
    ],
)
def test_as_many_digits_as_the_interval_is_worth(
    label: Label, value: float, error: float, said: str, changed: str
) -> None:
    assert label.said(value, error) == said
    assert label.said(value, error, change=True) == changed


def test_intervals_say_their_unit_once() -> None:
    assert Label("x", "share").interval(0.1, 0.05, 0.15) == ("10.0%", "5.0% … 15.0%")
    assert Label("x", "share").interval(0.1, 0.05, 0.15, change=True) == ("+10.0 points", "+5.0 … +15.0 points")
    assert Label("since in days", "date", "").title == "since"
    assert Label("income", unit="k€").title == "income [k€]"


def test_numbers_flags_and_dates_have_holes_and_categories_have_a_share_for_it() -> None:
    columns = SCHEMA.columns
    found = [(columns[hole.place], columns[hole.flag], hole.fill) for hole in holes_in(SCHEMA)]
    middle = float(np.mean([np.datetime64("2018-01-01").astype(int), np.datetime64("2022-01-01").astype(int)]))
    assert found == [
        ("income", "income is missing", 90.0),
        ("owner", "owner is missing", 1.0),
        ("since in days", "since is missing", middle),
        ("since of the year (cos)", "since is missing", 0.0),
        ("since of the year (sin)", "since is missing", 0.0),
    ]
    assert list(holes_in(None)) == []


def test_means_are_over_those_who_have_a_value() -> None:
    rng = np.random.default_rng(0)
    income, owner = rng.normal(30, 5, 500), rng.random(500) < 0.4
    rows = [
        {"country": "Ghana", "income": None if i % 4 == 0 else income[i], "owner": None if i % 5 == 0 else owner[i],
         "since": "2020-05-05", "age": 30}
        for i in range(500)
    ]  # fmt: skip
    numbers, holes = SCHEMA.expand(rows), list(holes_in(SCHEMA))
    B, c = over_those_who_have_one(holes, numbers.mean(axis=0))
    adjusted = numbers @ B.T + c
    columns = SCHEMA.columns
    place = columns.index("income")
    assert adjusted[:, place].mean() == pytest.approx(np.delete(income, np.s_[::4]).mean())
    assert adjusted[:, columns.index("owner")].mean() == pytest.approx(np.delete(owner, np.s_[::5]).mean())
    others = [columns.index(name) for name in ("country=Ghana", "income is missing", "age")]
    assert np.array_equal(adjusted[:, others], numbers[:, others])

    # They vary as the mean over those who have one does: that of other people, to first order.
    weights = 1.0 + 1e-4 * rng.normal(size=500)
    there = weights * (np.arange(500) % 4 > 0)
    moved = (there @ income) / there.sum() - np.delete(income, np.s_[::4]).mean()
    assert weights @ adjusted[:, place] / weights.sum() - adjusted[:, place].mean() == pytest.approx(moved, rel=1e-2)
    assert np.array_equal(np.isnan(with_holes(holes, numbers)[:, place]), np.arange(500) % 4 == 0)


def test_where_nobody_has_a_value_nothing_is_divided_by_nothing() -> None:
    numbers = SCHEMA.expand([{"country": None, "income": None, "owner": None, "since": None, "age": None}] * 5)
    B, c = over_those_who_have_one(list(holes_in(SCHEMA)), numbers.mean(axis=0))
    assert np.array_equal(B, np.eye(SCHEMA.width))
    assert not c.any()


def test_no_mean_lies_where_nobody_can() -> None:
    """Unbiased means of rare values are below 0 half of the time: neither tables nor pictures take that."""
    means = Means(
        mean=np.array([-0.07, 0.5, 3.0]),
        from_reports=np.array([0.0016, 0.01, 4.0]),
        from_volunteers=np.zeros((1, 3)),
        unseen=np.zeros(3),
    )
    labels = (Label("x", "share", bounds=(0, 1)), Label("y", "share", bounds=(0, 1)), Label("z", bounds=(2, 90)))
    group = Group(labels=labels, means=means, volunteers=np.ones(3), spread=np.ones(3))
    rare, half, number = group.intervals
    assert (rare.mean, rare.low) == (0.0, 0.0)
    assert 0 < rare.high < 0.01
    assert half.low < half.mean < half.high
    assert (number.mean, number.low) == (3.0, 2.0)
    assert number.high == pytest.approx(3 + 1.96 * 2, abs=0.01)
    assert all(entry.low <= entry.mean <= entry.high for entry in group.intervals)


def test_fields_say_where_means_can_be() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 90, 300), "sex": rng.choice(["f", "m"], 300)})
    schema = tv.Schema.of(people).replace(age=tv.Number(18, 100, "years", missing=True))
    veil = tv.design(people, tv.MeanTask(np.eye(2)), epsilon=1.0, domain=schema)
    assert veil.reference is not None
    bounds = {label.name: label.bounds for label in labels_of(veil, veil.reference)}
    assert bounds["age"] == (18, 100)
    assert bounds["sex=f"] == bounds["age is missing"] == (0, 1)
