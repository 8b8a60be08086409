"""The task of means: the same questions as a linear task answers, and no linear task."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import TaskError
from taskveil.tasks import as_linear, check_task, needs_unbiased

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 4))
K = RNG.normal(size=(3, 4))


def test_it_answers_and_costs_as_a_linear_task_with_the_same_matrix() -> None:
    mean, linear, estimates = tv.MeanTask(K), tv.LinearTask(K), X + RNG.normal(size=X.shape)
    assert np.array_equal(mean.predict(X), linear.predict(X))
    assert np.array_equal(mean.losses(estimates, X), linear.losses(estimates, X))
    assert np.array_equal(mean.pairwise_output_losses(mean.predict(X[:5]), X), linear.pairwise_losses(X[:5], X))
    assert (mean.width, mean.outputs) == (4, 3)


def test_it_is_checked_and_owned_like_one() -> None:
    given = K.copy()
    task = tv.MeanTask(given)
    given[:] = 0.0
    assert np.array_equal(task.K, K)
    with pytest.raises(TaskError, match=r"finite matrix .* got shape \(4,\)"):
        tv.MeanTask(np.ones(4))
    with pytest.raises(TaskError, match="K has 4 columns, but the data has 3 attributes"):
        task.check_width(3)


def test_it_is_a_task_but_no_linear_one() -> None:
    """Whatever is designed for a LinearTask shrinks: means of that are wrong."""
    task = tv.MeanTask(K)
    assert check_task(task) is task
    assert as_linear(task) is None
    assert not isinstance(task, tv.LinearTask)
    assert needs_unbiased(tv.LinearTask(K), "any") is None
    with pytest.raises(TaskError, match="a MeanTask shares no report with other tasks"):
        tv.MultiTask([(task, 1.0)])  # type: ignore[list-item]


def test_on_a_table_it_is_still_about_means() -> None:
    table = pd.DataFrame({"power": np.arange(30.0), "origin": ["a", "b", "a"] * 10})
    schema = tv.Schema.of(table)
    bound = tv.MeanTask(np.diag([2.0, 3.0])).on(schema)
    assert isinstance(bound, tv.MeanTask)
    assert np.array_equal(bound.K, tv.LinearTask(np.diag([2.0, 3.0])).on(schema).K)


def test_it_asks_who_has_no_value() -> None:
    """The mean is that of the people who have one, whatever share of them that is and whatever stands in for none."""
    rng = np.random.default_rng(0)

    def people(count: int, without: float) -> pd.DataFrame:
        income = np.where(rng.random(count) < without, np.nan, rng.uniform(10, 50, count))
        return pd.DataFrame({"income": income, "sex": rng.choice(["f", "m"], count)})

    volunteers, others = people(400, 0.1), people(20_000, 0.5)
    schema = tv.Schema.of(volunteers).replace(income=tv.Number(0, 200, missing=True))  # 100 stands in for none
    task = tv.MeanTask(np.diag([1 / 12, 2.0]))
    assert task.on(schema).on(schema).outputs == task.on(schema).outputs == 4
    veil = tv.design(volunteers, task, epsilon=4.0, schema=schema)
    found = {entry.name: entry for entry in tv.estimate(veil, veil.privatize(others)).attributes}
    assert found["income is missing"].mean == pytest.approx(0.5, abs=0.06)
    assert found["income"].mean == pytest.approx(30, abs=6)
    ignored = tv.design(volunteers, tv.MeanTask(np.diag([0.0, 2.0])), epsilon=4.0, schema=schema)
    names = [entry.name for entry in tv.estimate(ignored, ignored.privatize(others)).attributes]
    assert names == ["sex=f", "sex=m"]  # of what is not asked for nothing is said
