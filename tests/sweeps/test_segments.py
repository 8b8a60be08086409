"""Segments: who belongs to which, which are large enough, and folders named after them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import taskveil as tv
from taskveil.errors import DataError
from taskveil.sweeps.options import SweepOptions
from taskveil.sweeps.segments import (
    FEWEST_TESTED,
    FEWEST_VOLUNTEERS,
    MOST_SEGMENTS,
    folder_names,
    groups_of,
    labels_of,
)
from taskveil.sweeps.trials import Trial

NAT = np.datetime64("NaT")


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (["NZ", " AU ", "", None], ["NZ", "AU", None, None]),
        (np.array([1.0, 2.5, np.nan, -3.0]), ["1", "2.5", None, "-3"]),
        (np.array([1, 2, 1, 2], dtype=np.int8), ["1", "2", "1", "2"]),
        ([True, False, None, np.bool_(True)], ["True", "False", None, "True"]),
        (np.array(["2024-01-02", "2024-01-02T03:04", NAT], "M8[s]"), ["2024-01-02", "2024-01-02T03:04:00", None]),
        ([date(2024, 1, 2), datetime(2024, 1, 2, 3), None, pd.NaT], ["2024-01-02", "2024-01-02T03:00:00", None, None]),
        (pd.Series(["a", None, "b", pd.NA], dtype=object), ["a", None, "b", None]),
        (pd.Series([1, None, 3, 4], dtype="Int64"), ["1", None, "3", "4"]),
        (pd.Series(["a", "b", None, "a"], dtype="category"), ["a", "b", None, "a"]),
        (pl.Series(["a", None, "b", "a"]), ["a", None, "b", "a"]),
        (pa.chunked_array([["a", None], ["b", "a"]]), ["a", None, "b", "a"]),
    ],
)  # fmt: skip
def test_labels_are_texts_whatever_they_were(labels: Any, texts: list[str | None]) -> None:
    count = len(texts)
    assert labels_of(labels, np.zeros((count, 2)), count) == texts
    table = pd.DataFrame({"a": range(count), "where": labels if isinstance(labels, np.ndarray | pd.Series) else texts})
    assert labels_of("where", table, count) == texts


@pytest.mark.parametrize(
    ("segment", "says"),
    [
        ("country", "no column of this name; it has a, b"),
        (["x"] * 3, "one label for each of the 4 records"),
        (np.zeros((4, 1)), "one label for each of the 4 records"),
        (7, "one label for each of the 4 records"),
        ([(1, 2)] * 4, "one label for each"),
        ([object()] * 4, "not a object"),
        ([b"x"] * 4, "not a bytes"),
    ],
)
def test_labels_that_are_none(segment: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        labels_of(segment, pd.DataFrame(np.zeros((4, 2)), columns=["a", "b"]), 4)


def test_a_name_needs_a_table_and_one_column() -> None:
    with pytest.raises(DataError, match="bare array"):
        labels_of("a", np.zeros((4, 2)), 4)
    with pytest.raises(DataError, match="two columns of this name"):
        labels_of("a", pd.DataFrame(np.zeros((4, 2)), columns=["a", "a"]), 4)


def trial(count: int, test: int) -> Trial:
    rng = np.random.default_rng(0)
    return Trial.of(
        rng.normal(size=(count, 2)),
        tv.LinearTask(np.eye(2)),
        SweepOptions(epsilons=[1.0], test=rng.normal(size=(test, 2))),
    )


def test_the_largest_come_first_and_the_small_keep_the_common_design() -> None:
    enough, tested = FEWEST_VOLUNTEERS, FEWEST_TESTED
    labels = ["b"] * enough + ["a"] * 2 * enough + ["few"] * (enough - 1) + ["alone"] + [None] * 4
    test_labels = ["a", "b", "few"] * tested + ["only here"] + [None]
    groups = groups_of(trial(len(labels), len(test_labels)), labels, test_labels)
    assert list(groups) == ["a", "b", "few", "alone", "only here"]
    assert {name: group.why_not is None for name, group in groups.items()} == {
        "a": True, "b": True, "few": False, "alone": False, "only here": False,
    }  # fmt: skip
    assert "1 volunteers and 0 people to test on" in groups["alone"].why_not
    assert [labels[place] for place in groups["b"].volunteers] == ["b"] * enough
    assert [test_labels[place] for place in groups["b"].tested] == ["b"] * tested


def test_people_who_are_all_alike_keep_the_common_design() -> None:
    both = trial(60, 2 * FEWEST_TESTED)
    both.problem.X[:30] = both.problem.X[0]
    groups = groups_of(both, ["same"] * 30 + ["other"] * 30, ["same", "other"] * FEWEST_TESTED)
    assert groups["other"].why_not is None
    assert "identical" in groups["same"].why_not


def test_copies_of_a_record_are_one_person() -> None:
    rng, enough = np.random.default_rng(0), max(FEWEST_VOLUNTEERS, FEWEST_TESTED)
    labels = ["people"] * enough * 3 + ["copies"] * enough * 3
    records = np.concatenate([np.repeat(rng.normal(size=(count, 2)), 3 * enough // count, 0) for count in (enough, 3)])
    both = replace(trial(len(labels), len(labels)), X_test=records + 10.0)
    both.problem.X[:] = records
    groups = groups_of(both, labels, labels)
    assert groups["people"].why_not is None
    assert groups["people"].tested.tolist() == list(range(0, 3 * enough, 3))
    assert "3 volunteers and 3 people to test on" in groups["copies"].why_not
    in_time = groups_of(replace(both, block=2), labels, labels)
    assert len(in_time["copies"].tested) == 3 * enough


def test_too_many_segments_and_none() -> None:
    many = [str(place) for place in range(MOST_SEGMENTS + 1)]
    with pytest.raises(DataError, match="1,001 segments are more than 1,000"):
        groups_of(trial(len(many), 5), many, ["1"] * 5)
    with pytest.raises(DataError, match="nobody has a segment"):
        groups_of(trial(5, 5), [None] * 5, [None] * 5)


def test_folders_differ_on_every_file_system() -> None:
    odd = ["a/b", "a_b", "A_B", "a b", "..", "", "CON", "nul.txt", "x" * 300, "café", "."]
    names = ["NZ", "common", "Common", "folders.json", *odd]
    folders = folder_names(names)
    assert list(folders) == names
    assert folders["NZ"] == "NZ"
    assert len({folder.casefold() for folder in folders.values()} | {"common", "folders.json"}) == len(names) + 2
    for folder in folders.values():
        assert folder.isascii()
        assert 0 < len(folder) < 100
        assert not set(folder) & set('/\\:*?"<>| ')
        assert folder.strip(".") == folder
        assert folder.split(".")[0].lower() not in ("con", "nul")
    assert folder_names(["a/b"])["a/b"] == folders["a/b"]  # whoever else is there
