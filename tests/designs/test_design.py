"""The front door: what it accepts, and what it refuses at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import taskveil as tv
from taskveil.errors import BudgetError, DataError, DomainError, TaskError

X = np.random.default_rng(0).normal(size=(50, 3))
TASK = tv.LinearTask(np.eye(3))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(X, columns=["a", "b", "c"]),
        pl.DataFrame(X, schema=["a", "b", "c"]),
        pa.table({name: X[:, i] for i, name in enumerate("abc")}),
    ],
)
def test_tables_keep_their_column_names(table: object) -> None:
    veil = tv.design(table, TASK, epsilon=1.0, method="task_aware")
    assert veil.columns == ("a", "b", "c")
    assert np.array_equal(veil.encode(table), veil.encode(X))


@pytest.mark.parametrize("epsilon", [0, -1.0, np.nan, np.inf, -np.inf, "much", None])
def test_impossible_budgets(epsilon: object) -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        tv.design(X, TASK, epsilon=epsilon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (np.empty((0, 3)), "5 volunteers"),
        (X[:1], "5 volunteers"),
        (np.empty((5, 0)), "5 volunteers"),
        (np.where(np.arange(3) == 1, np.nan, X), "row 0, column 1 is nan"),
        (np.where(np.arange(3) == 2, np.inf, X), "column 2 is inf"),
        (np.ones((9, 3)), "identical"),
        ([["a", "b", "c"], ["d", "e", "f"]], "numbers"),
        ([[1.0, 2.0], [1.0]], "numbers"),
        (X[None], "matrix"),
        (X[0], "matrix"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": [[1], [2]], "c": [0.0, 1.0]}), "'b'"),
        (pl.DataFrame({"a": [1.0, 2.0], "b": [[1], [2]], "c": [0.0, 1.0]}), "'b'"),
        (pa.table({"a": [1.0, 2.0], "b": [[1], [2]], "c": [0.0, 1.0]}), "'b'"),
    ],
)
def test_volunteers_that_cannot_be_used(records: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        tv.design(records, TASK, epsilon=1.0)


@pytest.mark.parametrize("K", [np.ones(3), np.ones((2, 2, 2)), np.empty((0, 3)), [[np.nan] * 3], [["a"] * 3], "K"])
def test_matrices_that_are_no_task(K: object) -> None:
    with pytest.raises(TaskError, match="K must be"):
        tv.LinearTask(K)  # type: ignore[arg-type]


def test_everything_must_have_one_width() -> None:
    with pytest.raises(TaskError, match="K has 4 columns"):
        tv.design(X, tv.LinearTask(np.eye(4)), epsilon=1.0)
    with pytest.raises(DomainError, match="2 attributes"):
        tv.design(X, TASK, epsilon=1.0, domain=tv.Box([0, 0], [1, 1]))
    veil = tv.design(X, TASK, epsilon=1.0, method="task_aware")
    for call in (veil.encode, veil.privatize, veil.loss):
        with pytest.raises(DataError, match="made for 3"):
            call(np.ones((2, 4)))


def test_options_that_do_not_exist() -> None:
    with pytest.raises(TaskError, match="method must be one of"):
        tv.design(X, TASK, epsilon=1.0, method="magic")  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="latent_dim"):
        tv.design(X, TASK, epsilon=1.0, on_device=tv.OnDevice(latent_dim=0))
    with pytest.raises(TaskError, match="LinearTask"):
        tv.design(X, "a task", epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["auto", "task_aware"])
def test_a_given_domain_protects_the_design(method: str) -> None:
    """One cell in the wrong unit is brought inside, and costs next to nothing."""
    rng = np.random.default_rng(5)
    records, fresh = rng.normal(size=(300, 5)), rng.normal(size=(20_000, 5))
    wild = records.copy()
    wild[120, 3] = 1e9
    task, box = tv.LinearTask(np.diag([3.0, 2.0, 1.0, 1.0, 1.0])), tv.Box(-5, 5)
    nothing = task.constant_loss(records, None, fresh, None)
    gain, kept = (
        nothing - tv.design(volunteers, task, epsilon=2.0, method=method, domain=box).loss(fresh).mean
        for volunteers in (records, wild)
    )
    assert kept >= 0.95 * gain > 0


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("method", ["auto", "codebook", "task_aware"])
def test_too_few_volunteers_are_told_how_many_it_takes(count: int, method: str) -> None:
    if count < 5:
        with pytest.raises(DataError, match="at least 5 volunteers"):
            tv.design(X[:count], TASK, epsilon=1.0, method=method)
    else:
        assert np.isfinite(tv.design(X[:count], TASK, epsilon=1.0, method=method).loss(X[:count]).mean)


@pytest.mark.parametrize("task", [tv.SurveyTask(by="plan"), tv.MeanTask()])
def test_a_schema_alone_is_enough_for_statistics_and_no_volunteers_are_made_up(
    task: tv.SurveyTask | tv.MeanTask,
) -> None:
    """It raised AttributeError, although the docs say that a survey needs no volunteers."""
    schema = tv.Schema(
        {
            "income": tv.Number(0, 100, missing=True),
            "plan": tv.Category(["Basic", "Plus"]),
            "since": tv.Date("2020-01-01", "2024-01-01"),
            "owner": tv.Flag(),
        }
    )
    veil = tv.design(schema, task, epsilon=2.0)
    assert veil.volunteers is None
    assert veil.schema.names == schema.names
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "income": rng.gamma(4.0, 8.0, 20_000),
            "plan": rng.choice(["Basic", "Plus"], 20_000, p=[0.8, 0.2]),
            "since": np.datetime64("2021-01-01") + rng.integers(0, 300, 20_000),
            "owner": rng.random(20_000) < 0.3,
        }
    )
    found = tv.estimate(veil, veil.privatize(people))
    rows = {row.label.name: row for rows in found.groups.values() for row in rows}
    assert abs(rows["income"].mean - people["income"].clip(0, 100).mean()) < 1.5 * rows["income"].width
    assert abs(rows["plan=Basic"].mean - 0.8) < 1.5 * rows["plan=Basic"].width
    assert not found.drift.raised
    assert "keeps no sums over its volunteers" in found.drift.words


def test_a_schema_alone_is_not_enough_for_answers() -> None:
    schema = tv.Schema({"income": tv.Number(0, 100)})
    with pytest.raises(DataError, match="a LinearTask is designed from volunteers' records"):
        tv.design(schema, tv.LinearTask([[1.0]]), epsilon=1.0)
    with pytest.raises(DataError, match="numbers without bounds"):
        tv.design(tv.Schema.numbers(2), tv.MeanTask(), epsilon=1.0)
