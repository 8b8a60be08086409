"""Means as people read them: digits that the interval is worth, shares, dates, and people who have no value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import taskveil as tv
from taskveil.estimates.assumed import among_present
from taskveil.estimates.labels import Label
from taskveil.estimates.rows import labels_of, rows_of
from taskveil.veil.volunteers import Groups, missing_in

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
        (Label("x"), -0.0012, 0.5, "0.00", "+0.00"),  # what rounds to zero has no sign but of a change
        (Label("x"), -0.0, 0.5, "0.00", "+0.00"),
        (Label("x", "share"), -1e-5, 0.02, "0.0%", "+0.0 points"),
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


def test_numbers_flags_and_dates_may_be_missing_and_categories_have_a_share_for_it() -> None:
    columns = SCHEMA.columns
    found = [(columns[one.place], columns[one.flag], one.fill) for one in missing_in(SCHEMA)]
    assert [row[:2] for row in found] == [
        ("income", "income is missing"),
        ("owner", "owner is missing"),
        ("since in days", "since is missing"),
        ("since of the year (cos)", "since is missing"),
        ("since of the year (sin)", "since is missing"),
    ]
    assert [fill for _, _, fill in found[:2]] == [90.0, 1.0]
    assert list(missing_in(tv.Schema.numbers(2))) == []


def test_means_are_over_the_people_who_have_a_value() -> None:
    """By sums over two groups: the same as from the records of the people who have one."""
    rng = np.random.default_rng(0)
    income, owner = rng.normal(30, 5, 500), rng.random(500) < 0.4
    group = (income > 31).astype(int)
    rows = [
        {"country": "Ghana", "income": None if i % 4 == 0 else income[i], "owner": None if i % 5 == 0 else owner[i],
         "since": "2020-05-05", "age": 30}
        for i in range(500)
    ]  # fmt: skip
    numbers, missing = SCHEMA.expand(rows), list(missing_in(SCHEMA))
    sums = Groups.of(group, np.zeros((500, 1)), numbers)
    means, variances = among_present(sums.means, sums.variances, missing, numbers.mean(axis=0))
    columns = SCHEMA.columns
    place = columns.index("income")
    there = np.arange(500) % 4 > 0
    assert sums.together(means)[place] == pytest.approx(income[there].mean())
    assert sums.together(means)[columns.index("owner")] == pytest.approx(np.delete(owner, np.s_[::5]).mean())
    others = [columns.index(name) for name in ("country=Ghana", "income is missing", "age")]
    assert np.array_equal(means[:, others], sums.means[:, others])
    assert np.array_equal(variances[:, others], sums.variances[:, others])

    # v = R + (x − R)/(1 − P) has these means and variances by group.
    R = income[there].mean()
    v = np.where(there, R + (income - R) / there.mean(), R)
    for number in (0, 1):
        assert means[number, place] == pytest.approx(v[group == number].mean())
        assert variances[number, place] == pytest.approx(v[group == number].var())


def test_where_nobody_has_a_value_there_is_no_mean() -> None:
    numbers = SCHEMA.expand([{"country": None, "income": None, "owner": None, "since": None, "age": None}] * 12)
    sums = Groups.of(np.zeros(12, dtype=np.int64), np.zeros((12, 1)), numbers)
    means, _ = among_present(sums.means, sums.variances, list(missing_in(SCHEMA)), numbers.mean(axis=0))
    columns = SCHEMA.columns
    assert np.isnan(means[0, columns.index("income")])
    assert means[0, columns.index("income is missing")] == 1.0
    assert Label("x").interval(np.nan, -np.inf, np.inf) == ("unknown", "unknown … unknown")


def test_fields_say_where_means_can_be() -> None:
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(18, 90, 300), "sex": rng.choice(["f", "m"], 300)})
    schema = tv.Schema.of(people).replace(age=tv.Number(18, 100, "years", missing=True, fill=50))
    veil = tv.design(people, tv.MeanTask(np.eye(2)), epsilon=1.0, schema=schema)
    bounds = {label.name: label.bounds for label in labels_of(veil)}
    assert bounds["age"] == (18, 100)
    assert bounds["sex=f"] == bounds["age is missing"] == (0, 1)


def test_no_mean_lies_where_no_value_can() -> None:
    """Unbiased means of rare values are below 0 half of the time."""
    people = pd.DataFrame({"age": np.full(40, 18), "sex": ["f"] * 39 + ["m"]})
    schema = tv.Schema.of(people).replace(age=tv.Number(18, 100, "years"))
    veil = tv.design(people, tv.MeanTask(np.eye(2)), epsilon=1.0, schema=schema)
    for _ in range(5):
        for row in tv.estimate(veil, veil.privatize(people)).rows():
            least, most = row.label.bounds
            assert least <= row.interval.low <= row.interval.mean <= row.interval.high <= most


def test_classes_and_answers_are_called_by_the_target() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    label = pd.Series(np.where(X["a"] > 0, "yes", "no"), name="renewed")
    task = tv.ModelTask(LogisticRegression().fit(X.to_numpy(), label), loss="cross_entropy")
    on_device = tv.OnDevice(encoder="linear", share_model=True, volunteers_unseen=True)
    honest: dict[str, Any] = {"on_device": on_device, "method": "codebook"}
    veil = tv.design(X, task, y=label, epsilon=2.0, **honest)
    assert veil.outputs.names == ("renewed = no", "renewed = yes")
    names = [row.name for row in tv.estimate(veil, veil.privatize(X)).frequencies]
    assert all(re.fullmatch(r"code \d+ \(renewed = (yes|no), \d+%\)", name) for name in names), names
    price = pd.Series(3.0 * X["a"], name="price")
    task = tv.ModelTask(LinearRegression().fit(X.to_numpy(), price), loss="mse")
    veil = tv.design(X, task, y=price, epsilon=2.0, **honest)
    assert veil.outputs.names == ("price",)
    names = [row.name for row in tv.estimate(veil, veil.privatize(X)).frequencies]
    assert all(re.fullmatch(r"code \d+ \(price = -?[\d.e-]+\)", name) for name in names), names


def test_a_printed_share_lies_where_a_share_can_lie() -> None:
    """Unbiased shares of few reports may be below 0 or above 100%; next to limits inside, that would mislead."""
    label = Label("code 0", "share", bounds=(0.0, 1.0))
    for mean, printed in ((-0.019, "0.0%"), (1.9, "100.0%")):
        (row,) = rows_of([label], *(np.array([one]) for one in (mean, mean - 0.1, mean + 0.1, 0.2, 0.4, 2.0)))
        assert row.cells[1] == printed
        assert row.interval.mean == mean
