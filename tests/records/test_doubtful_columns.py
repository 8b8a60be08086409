"""Columns that look like something else than what they were taken for are named; what is as it should be is not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DoubtfulColumnWarning, UnusedColumnWarning

RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 1000, 900), unit="D")
INCOMES = RNG.gamma(4.0, 800.0, 900).round(1)
AGES = RNG.integers(18, 95, 900)
FEW = np.arange(900) % 25 == 0


def infer(values: Sequence[object]) -> tv.Schema:
    return tv.Schema.of(pd.DataFrame({"x": values, "other": 0.5}))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (DAYS.strftime("%d.%m.%Y"), "look like dates"),
        (DAYS.strftime("%m/%d/%y 00:00"), "look like dates"),
        ([f"{place}/{place // 2}" for place in RNG.normal(130, 18, 900).astype(int)], "several numbers"),
        ([f"{value}".replace(".", ",") for value in INCOMES.round(-2)], "look like numbers"),
        (["-"] * 30 + [f"€ {value:,.1f}" for value in INCOMES], "look like numbers"),
        (["-"] * 30 + RNG.integers(18, 60, 900).astype(str).tolist(), "look like numbers"),
        ([f"A{place}" for place in RNG.integers(0, 300, 900)], r"became a category, and \d+ of 900 .* Group rare"),
        (RNG.integers(10_000, 100_000, 900), "looks like a postal code"),
        (RNG.integers(1_000, 10_000, 900), "looks like a postal code"),
        (1_609_459_200 + 3600 * np.arange(900), "time since 1970.*unit='s'"),
        (1000 * (1_609_459_200 + RNG.integers(0, 10**7, 900)), "time since 1970.*unit='ms'"),
        (RNG.permutation(100_000 + np.arange(900))[:600], "number of the row"),
        (np.where(FEW, -99, AGES), r"is -99 for 36 of 900 volunteers, far .* column\.where\(column != -99\)"),
        (np.where(FEW, -1, AGES), "is -1 for 36 of 900 volunteers"),
        (np.where(FEW, 999, AGES), "is 999 for 36 of 900 volunteers"),
        (np.where(FEW, 99_999, INCOMES), "is 99999 for 36 of 900 volunteers"),
    ],
)
def test_a_doubtful_column_is_named(values: Sequence[object], said: str) -> None:
    with pytest.warns(DoubtfulColumnWarning, match=f"(?s)column 'x' .*{said}"):
        infer(values)


def test_a_column_that_is_left_out_may_be_mended_too() -> None:
    with pytest.warns(UnusedColumnWarning, match="'x' is left out.*look like dates"):
        infer([f"04.03.2021 10:{place:02}" for place in range(60)])


@pytest.mark.parametrize(
    "values",
    [
        RNG.choice(["France", "Italy", "Spain"], 900).tolist() + [f"typo {place}" for place in range(90)],
        RNG.choice(["1", "2", "7"], 900).tolist(),  # names of things, if few
        [f"{place:05}" for place in RNG.integers(0, 40, 900)],  # a leading zero says that it is no number
        [f"model {place}" for place in RNG.integers(0, 40, 900)],
        RNG.integers(18, 95, 900),
        np.round(INCOMES),
        RNG.integers(20_000, 90_000, 900),
        np.arange(40),
        np.arange(900) % 31 - 1,  # a scale that begins at -1
        np.arange(900) % 100,  # and one that ends at 99
        np.where(np.arange(900) < 4, -99, AGES),  # too few people share it
        np.where(FEW, 1000.0, INCOMES),  # no code
        np.where(FEW, -99, np.arange(900) % 5),  # perhaps names of a few things
        DAYS.strftime("%Y-%m-%d"),
    ],
)
def test_what_is_as_it_should_be_is_not_doubted(values: Sequence[object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtfulColumnWarning)
        infer(values)


def test_whoever_writes_the_fields_is_not_asked_again() -> None:
    table = pd.DataFrame({"x": DAYS.strftime("%d.%m.%Y"), "other": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tv.Schema({"x": tv.Category(["04.03.2021"]), "other": tv.Number(0, 1)}).like(table)


GERMAN = DAYS.strftime("%d.%m.%Y")
SINCE = tv.Date("2020-01-01", "2023-01-01", missing=True)


@pytest.mark.parametrize(
    ("field", "values", "said"),
    [
        (SINCE, GERMAN, "900 of 900 values .* its tv.Date: they count as missing. They look like dates"),
        (SINCE, [*GERMAN[:460], *[None] * 440], "460 of 460 values"),
        (tv.Category(["Yes", "No"]), ["yes", "no"] * 450, "900 of 900 values .* its tv.Category: .* not listed"),
        (tv.Count(18, 94), 1000 * AGES, "900 of 900 values .* its tv.Count: they are out of range"),
    ],
)
def test_volunteers_who_do_not_fit_the_given_schema_are_named(
    field: tv.Date, values: Sequence[object], said: str
) -> None:
    """Without a word, such a design would take all of them for people with the same value."""
    table = pd.DataFrame({"x": values, "other": np.linspace(0, 1, 900)})
    schema = tv.Schema({"x": field, "other": tv.Number(0, 1)})
    with pytest.warns(DoubtfulColumnWarning, match=f"(?s)column 'x': {said}"):
        tv.design(table, tv.MeanTask(), epsilon=1.0, schema=schema)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (SINCE, [*DAYS[:500].strftime("%Y-%m-%d"), *GERMAN[:400]]),  # fewer than half
        (SINCE, [None] * 450 + [*DAYS[:450].strftime("%Y-%m-%d")]),
        (tv.Category(["A1"]), ["A1"] + [f"A{place}" for place in range(2, 901)]),  # the one that matters
        (tv.Count(18, 20), AGES),  # bounds may cut a tail
    ],
)
def test_a_schema_may_leave_out_values_on_purpose(field: tv.Date, values: Sequence[object]) -> None:
    table = pd.DataFrame({"x": values, "other": np.linspace(0, 1, 900)})
    schema = tv.Schema({"x": field, "other": tv.Number(0, 1)})
    tv.design(table, tv.MeanTask(), epsilon=1.0, schema=schema)
