"""What a survey may ask for: names, bins, weights; everything else is a TaskError in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import TaskError

SCHEMA = tv.Schema(
    {
        "income": tv.Number(0, 100, missing=True),
        "plan": tv.Category(["a", "b"]),
        "region": tv.Category(["n", "s"], missing=True),
        "active": tv.Flag(),
        "joined": tv.Date("2020-01-01", "2024-01-01"),
        "fixed": tv.Number(3, 3),
        "word": tv.Words(101),
    }
)


def test_without_names_every_field_that_varies_is_asked_for() -> None:
    task = tv.SurveyTask().on(SCHEMA)
    assert task.fields == ("income", "plan", "region", "active", "joined", "word")
    assert task.asked == task.fields


def test_a_survey_knows_its_parts() -> None:
    task = tv.SurveyTask("plan", "region", [("plan", "active")], {"plan": 2}, {"income": [0, 50, 100]}).on(SCHEMA)
    assert task.asked == ("income", "plan", "region", "active")
    assert [tuple(pair) for pair in task.pairs] == [("plan", "active")]
    assert (task.weight("plan"), task.weight("region")) == (2.0, 1.0)
    edges = task.edges("income")
    assert edges is not None
    assert edges.tolist() == [0, 50, 100]
    assert task.edges("plan") is None


def test_edges_of_dates_may_be_dates() -> None:
    edges = tv.SurveyTask(histograms={"joined": ["2020-01-01", "2021-01-01", "2024-01-01"]}).edges("joined")
    assert edges is not None
    assert edges.tolist() == [18262.0, 18628.0, 19723.0]


def test_names_and_edges_may_be_arrays_or_an_index() -> None:
    dates = pd.DatetimeIndex(["2020-01-01", "2021-01-01", "2024-01-01"])
    task = tv.SurveyTask(
        pd.Index(["joined", "income"]),
        by=np.array(["plan"]),
        histograms={"joined": dates, "income": pd.Series([0, 50, 100])},
    )
    assert (task.fields, task.by) == (("joined", "income"), ("plan",))
    joined, income = task.edges("joined"), task.edges("income")
    assert joined is not None
    assert income is not None
    assert (joined.tolist(), income.tolist()) == ([18262.0, 18628.0, 19723.0], [0.0, 50.0, 100.0])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"fields": []}, "empty list"),
        ({"by": []}, "empty list"),
        ({"pairs": []}, "empty list"),
        ({"fields": ["plan", "plan"]}, "twice"),
        ({"by": ["plan", "plan"]}, "twice"),
        ({"pairs": [("plan", "region"), ("region", "plan")]}, "twice"),
        ({"pairs": [("plan", "plan")]}, "with itself"),
        ({"pairs": ["plan"]}, "a pair is two names"),
        ({"pairs": "plan"}, "list of pairs"),
        ({"fields": 3}, "list of names"),
        ({"fields": [3]}, "list of names"),
        ({"fields": ["incme"]}, "no field 'incme'; they have income, plan"),
        ({"by": "regoin"}, "no field 'regoin'"),
        ({"pairs": [("plan", "regoin")]}, "no field 'regoin'"),
        ({"weights": {"plam": 1}}, "no field 'plam'"),
        ({"histograms": {"incme": [0, 1, 2]}}, "no field 'incme'"),
        ({"by": "income"}, "Give bins: histograms={'income'"),
        ({"pairs": [("plan", "joined")]}, "Give bins"),
        ({"by": "word"}, "open vocabulary"),
        ({"histograms": {"plan": [0, 1, 2]}}, "no bins"),
        ({"histograms": {"income": [0, 1]}}, "3 or more edges"),
        ({"histograms": {"income": [0, 2, 1]}}, "rise"),
        ({"histograms": {"income": [0, np.nan, 1]}}, "finite"),
        ({"histograms": {"income": [0, 50, 200, 300]}}, "always be empty"),
        ({"histograms": {"income": "abc"}}, "list of numbers or dates"),
        ({"histograms": {"income": ["a", "b", "c"]}}, "list of numbers or dates"),
        ({"histograms": [1]}, "given by name"),
        ({"weights": {"plan": 0}}, "leave it out of fields"),
        ({"weights": {"plan": -1.0}}, "from a millionth"),
        ({"weights": {"plan": float("nan")}}, "from a millionth"),
        ({"weights": {"plan": True}}, "from a millionth"),
        ({"weights": 3}, "given by name"),
        ({"fields": ["plan"], "weights": {"income": 2}}, "does not ask for 'income'"),
        ({"fields": ["fixed"]}, "same value for everybody"),
    ],
)
def test_what_cannot_be_asked_for_is_named(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        tv.SurveyTask(**asked).on(SCHEMA)


def test_a_number_with_bins_can_be_a_group() -> None:
    task = tv.SurveyTask(["plan"], by="income", histograms={"income": [0, 50, 100]}).on(SCHEMA)
    assert task.by == ("income",)


def test_there_are_no_answers_for_single_records_and_no_labels() -> None:
    task = tv.SurveyTask().on(SCHEMA)
    for call in (task.predict, task.linear_form, lambda X: task.losses(X, X)):
        with pytest.raises(TaskError, match=r"tv\.estimate"):
            call(np.zeros((2, 3)))
    with pytest.raises(TaskError, match="no labels"):
        task.labels([1, 2], 2)
    with pytest.raises(TaskError, match=r"task\.on"):
        _ = tv.SurveyTask().schema
