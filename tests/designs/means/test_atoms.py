"""Categories as one atom: unbiased for every value, as good as subset selection, and one default for K."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.client.mechanisms import BlockGroup, LevelResponse
from taskveil.designs.means.blocks import best_width, subset_variances
from taskveil.errors import TaskError

RNG = np.random.default_rng(4)


def table(count: int, people: int = 4000) -> tuple[pd.DataFrame, tv.Schema]:
    values = [f"value {number}" for number in range(count)]
    schema = tv.Schema({"one": tv.Category(values, missing=True), "two": tv.Number(0, 10), "three": tv.Flag()})
    one = np.where(RNG.random(people) < 0.05, None, RNG.choice(values, people))
    return pd.DataFrame({"one": one, "two": RNG.random(people) * 10, "three": RNG.random(people) < 0.3}), schema


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("count", [1, 2, 12])
def test_every_value_is_told_without_bias(count: int, epsilon: float) -> None:
    """Listed values, others and missing ones, whatever is reported beside them."""
    people, schema = table(count)
    veil = tv.design(people, tv.MeanTask(), epsilon=epsilon, schema=schema)
    assert veil.guarantee.epsilon <= epsilon
    rows = [{"one": one, "two": 2.5, "three": True} for one in (*schema["one"].words, "unheard of", None)]
    records = schema.expand(rows)
    assert isinstance(veil.mechanism, LevelResponse)
    reports = np.arange(veil.mechanism.outputs)[:, None]
    expected = veil.mechanism.chances(veil.encoder(records)) @ veil.estimates(reports)
    np.testing.assert_allclose(expected, records, atol=2e-5 * 10)


@pytest.mark.parametrize("count", [2, 10, 50])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_shares_are_as_good_as_subset_selection(count: int, epsilon: float) -> None:
    """The best specialist for as many values as there are, with the one for all that are not listed. (Told value by
    value, 50 of them would cost 13 to 31 times as much.)"""
    values = [f"value {number}" for number in range(count)]
    people = pd.DataFrame({"one": RNG.permutation(np.resize(values, 20_000)), "two": RNG.random(20_000)})
    schema = tv.Schema({"one": tv.Category(values), "two": tv.Number(0, 1)})
    veil = tv.design(people, tv.MeanTask(np.diag([1.0, 0.0])), epsilon=epsilon, schema=schema)
    assert isinstance(veil.mechanism, LevelResponse)
    assert any(isinstance(group, BlockGroup) for group in veil.mechanism.groups)
    shares = np.array([0.0, *[1 / count] * count])
    columns = np.eye(count + 1)[:, 1:]
    width = best_width(columns, np.ones(count), shares, epsilon)
    specialist = float(subset_variances(columns, shares, epsilon, width).sum())
    own = float((shares[1:] * (1 - shares[1:])).sum())  # people's own spread is no part of the loss
    assert veil.loss(people).mean + own <= 1.03 * specialist


def test_without_k_every_field_counts_by_its_spread() -> None:
    people, schema = table(3)
    spread = [
        float(np.linalg.norm(schema.expand(people)[:, :4].std(axis=0))),
        float(people["two"].std(ddof=0)),
        float(people["three"].std(ddof=0)),
    ]
    made, named = (
        tv.design(people, task, epsilon=1.0, schema=schema)
        for task in (tv.MeanTask(), tv.MeanTask(np.diag(1 / np.array(spread))))
    )
    assert made.task is not None
    assert named.task is not None
    np.testing.assert_allclose(made.task.K, named.task.K)  # type: ignore[union-attr]
    with pytest.raises(TaskError, match=r"tv\.design"):
        tv.MeanTask().on(schema)


def test_units_of_arrays_do_not_matter_without_k() -> None:
    X = RNG.normal(size=(300, 2))
    one, other = (tv.design(X * unit, tv.MeanTask(), epsilon=1.0) for unit in ([1.0, 1.0], [1.0, 1000.0]))
    assert one.loss(X).mean == pytest.approx(other.loss(X * [1.0, 1000.0]).mean, rel=1e-3)
    constant = tv.design(np.column_stack([X[:, 0], np.full(300, 3.0)]), tv.MeanTask(), epsilon=1.0)
    assert constant.task is not None


def test_one_wild_value_does_not_silence_the_others() -> None:
    X = RNG.normal(size=(500, 2))
    X[0, 0] = 1e6
    with pytest.warns(tv.errors.WildRecordWarning):
        veil = tv.design(X, tv.MeanTask(), epsilon=1.0)
    weights = np.diag(veil.task.K)  # type: ignore[union-attr]
    assert weights[0] == pytest.approx(weights[1], rel=0.3)


def test_a_constant_column_is_no_number_to_report() -> None:
    """A task without any spread still has a K."""
    people, schema = table(2)
    veil = tv.design(people.assign(two=3.0), tv.MeanTask(), epsilon=1.0, schema=schema)
    assert veil.loss(people.assign(two=3.0)).mean > 0
