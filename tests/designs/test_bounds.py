"""Single wild cells do not decide a design, and whatever is heavy by nature is left alone."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from torch import nn

import taskveil as tv
from taskveil.designs.bounds import heaviest, outside, plausible_box, resistant, resistant_labels
from taskveil.designs.problem import Problem
from taskveil.errors import WildRecordWarning

SPREADS = np.array([2.0, 1.5, 1.0, 0.7, 0.5])
X = np.random.default_rng(0).normal(size=(300, 5)) * SPREADS
FRESH = np.random.default_rng(1).normal(size=(20_000, 5)) * SPREADS
LINEAR = tv.LinearTask(np.eye(5))
MODEL = tv.ModelTask(nn.Linear(5, 1))


def with_cell(value: float, row: int = 17, column: int = 2) -> np.ndarray:
    wild = X.copy()
    wild[row, column] = value
    return wild


def gain(veil: tv.Veil) -> float:
    """What reports are worth on fresh, clean records."""
    return LINEAR.constant_loss(X, None, FRESH, None) - veil.loss(FRESH).mean


@pytest.mark.parametrize("value", [20.0, -1e4, 1e9, 1e150, 1e300])
@pytest.mark.parametrize("method", ["task_aware", "task_agnostic"])
def test_one_wild_cell_costs_at_most_a_twentieth_of_the_gain(value: float, method: str) -> None:
    clean = tv.design(X, LINEAR, epsilon=5.0, method=method)
    with pytest.warns(WildRecordWarning, match="row 17, column 2"):
        wild = tv.design(with_cell(value), LINEAR, epsilon=5.0, method=method)
    assert gain(wild) >= 0.95 * gain(clean) > 0


def test_so_with_codebooks() -> None:
    clean = tv.design(X, LINEAR, epsilon=2.0, method="codebook")
    with pytest.warns(WildRecordWarning):
        wild = tv.design(with_cell(1e9), LINEAR, epsilon=2.0, method="codebook")
    assert gain(wild) >= 0.95 * gain(clean) > 0


@pytest.mark.parametrize("task", [LINEAR, MODEL], ids=["linear", "model"])
def test_wild_rows_and_several_wild_cells_are_brought_back(task: tv.LinearTask) -> None:
    wild = X.copy()
    wild[5] = [1e6, -1e7, 1e9, 1e5, 1e6]
    wild[250, 0] = -1e8
    with pytest.warns(WildRecordWarning, match="and 3 more"):
        problem = Problem.of(wild, task)
    assert np.abs(problem.X / SPREADS).max() < 10
    assert np.array_equal(np.delete(problem.X, [5, 250], axis=0), np.delete(X, [5, 250], axis=0))
    # What devices clip to follows, so that users' wild cells are brought to the same place.
    assert np.array_equal(problem.domain.bounding_box.high, problem.X.max(axis=0))


def test_a_column_that_is_constant_but_for_one_cell() -> None:
    wild = X.copy()
    wild[:, 3] = 1.0
    wild[40, 3] = 1e9
    bounded, cells = resistant(wild, LINEAR)
    assert [(cell.row, cell.column) for cell in cells] == [(40, 3)]
    assert np.ptp(bounded[:, 3]) == 0


NATURAL = {
    "normal": lambda rng: rng.normal(size=(300, 5)),
    "few normal, many attributes": lambda rng: rng.normal(size=(25, 30)),
    "exponential": lambda rng: rng.exponential(size=(300, 5)),
    "lognormal": lambda rng: rng.lognormal(sigma=1.0, size=(300, 5)),
    "very lognormal": lambda rng: rng.lognormal(sigma=2.5, size=(300, 5)),
    "rain": lambda rng: rng.lognormal(sigma=1.5, size=(300, 5)) * (rng.random((300, 5)) < 0.4),
    "rare categories": lambda rng: (rng.random((300, 5)) < [0.5, 0.1, 0.02, 0.01, 0.004]) * 1.0,
    "a group of one in forty": lambda rng: rng.normal(size=(400, 5)) + 20.0 * (np.arange(400) % 40 == 0)[:, None],
    "digits": lambda _: datasets.load_digits().data,
    "wine": lambda _: datasets.load_wine().data,
    "breast cancer": lambda _: datasets.load_breast_cancer().data,
}


@pytest.mark.parametrize("name", NATURAL)
def test_what_is_heavy_by_nature_stays_bit_for_bit(name: str) -> None:
    records = NATURAL[name](np.random.default_rng(3))
    for task in (tv.LinearTask(np.eye(records.shape[1])), tv.ModelTask(nn.Linear(records.shape[1], 1))):
        bounded, cells = resistant(records, task)
        assert bounded is records
        assert cells == []


def test_an_attribute_that_the_task_ignores_may_be_as_wild_as_others() -> None:
    """It decides nothing, so it is no reason to touch a record; unless it drowns what matters in rounding."""
    ignoring = tv.LinearTask(np.diag([1.0, 1.0, 0.0, 1.0, 1.0]))
    assert resistant(with_cell(1e3), ignoring)[1] == []
    assert resistant(with_cell(1e3), LINEAR)[1] != []


def test_wild_cells_end_where_the_tail_of_the_others_might_reach() -> None:
    """Not closer than the largest of the others, and the same however wild the cell was."""
    box = plausible_box(with_cell(1e3))
    others = np.delete(X[:, 2], 17)
    assert others.max() < box.high[2] < 3 * others.max()
    assert plausible_box(with_cell(1e30)).high[2] == box.high[2]
    assert plausible_box(-with_cell(1e3)).low[2] == pytest.approx(-box.high[2])
    assert [(cell.row, cell.column) for cell in outside(with_cell(1e3), box)] == [(17, 2)]


def caught(records: object, task: object, **options: object) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tv.design(records, task, epsilon=1.0, method="task_aware", **options)  # type: ignore[arg-type]
    return found


def test_the_warning_names_row_and_column_once_and_no_value() -> None:
    (warning,) = caught(with_cell(98765.0), LINEAR)
    assert "row 17, column 2 (100% of its variance)" in str(warning.message)
    assert "98765" not in str(warning.message)
    assert "brought" in str(warning.message)
    assert "domain=" in str(warning.message)
    assert warning.filename == __file__
    table = pd.DataFrame(with_cell(98765.0), columns=["age", "rooms", "income", "rent", "heat"])
    assert "row 17, column 'income'" in str(caught(table, LINEAR)[0].message)
    assert caught(with_cell(98765.0), LINEAR, domain=tv.Box(-9, 9)) == []
    assert caught(X, LINEAR) == []


def test_a_record_that_carries_most_of_the_variance_by_nature_is_named_and_kept() -> None:
    """Doubling sizes, as of towns: the largest is in line with the others and yet most of the variance."""
    sizes = np.column_stack([2.0 ** np.arange(40), np.arange(40.0)])
    (cell,) = heaviest(sizes)
    assert (cell.row, cell.column) == (39, 0)
    (warning,) = caught(sizes, tv.LinearTask(np.eye(2)))
    assert "row 39, column 0" in str(warning.message)
    assert "kept" in str(warning.message)


@pytest.mark.parametrize("every", [20, 37, 6])
def test_a_group_in_another_unit_is_named_and_kept(every: int) -> None:
    """Too many for a slip, and far too far out for a group that was meant."""
    mixed = 70.0 + 10.0 * X[:, :2]
    mixed[::every, 1] *= 1000
    (warning,) = caught(mixed, tv.LinearTask(np.eye(2)))
    assert "row 0, column 1" in str(warning.message)
    assert "kept" in str(warning.message)
    assert {(cell.row, cell.column) for cell in heaviest(mixed)} == {(row, 1) for row in range(0, 300, every)}
    assert heaviest(70.0 + 10.0 * X) == []
    half = 70.0 + 10.0 * X
    half[::2] *= 1000  # as many as the others: two kinds of people
    assert heaviest(half) == []


def test_sweeps_name_the_rows_of_the_table_they_were_given() -> None:
    train = np.sort(np.random.default_rng(0).permutation(300)[:210])  # what the sweep designs with
    row = int(train[100])
    with pytest.warns(WildRecordWarning, match=f"row {row}, column 2") as found:
        tv.sweep(with_cell(1e9, row), LINEAR, epsilons=[1.0, 2.0], methods=["task_aware"])
    assert len(found) == 1
    assert found[0].filename == __file__


def test_wild_labels_are_brought_back() -> None:
    labels = X[:, 0] + 0.1 * X[:, 1]
    labels[99] = 1e9
    bounded, cells = resistant_labels(MODEL, labels, 300)
    assert bounded.shape == labels.shape
    assert np.abs(bounded).max() < 20
    assert [cell.row for cell in cells] == [99]
    with pytest.warns(WildRecordWarning, match="the label of row 99"):
        assert Problem.of(X, MODEL, y=labels, domain=tv.Box(-9, 9)).y[99] == bounded[99]
    several = tv.MultiTask([(MODEL, 1.0), (LINEAR, 1.0)])
    (first, second), cells = resistant_labels(several, [labels, None], 300)
    assert np.array_equal(first, bounded)
    assert second is None
    assert [cell.row for cell in cells] == [99]
    classes = tv.ModelTask(nn.Linear(5, 2), "cross_entropy")
    rare = np.arange(300) == 4
    assert resistant_labels(classes, rare.astype(int), 300)[1] == []


def test_sweeps_bring_test_records_inside_a_given_domain() -> None:
    """Devices would do so, and a slip in the test table must not decide the comparison."""
    test = FRESH[:200].copy()
    test[3, 1] = 1e9
    box = tv.Box(-9, 9)
    frontiers = [
        tv.sweep(X, LINEAR, epsilons=[2.0], methods=["task_aware"], test=records, domain=box)
        for records in (test, np.clip(test, -9, 9))
    ]
    assert frontiers[0].table() == frontiers[1].table()


def test_ties_with_the_last_that_is_in_line_are_not_wild() -> None:
    counts = np.random.default_rng([4, 60, 5]).poisson(1, size=(60, 5)).astype(float)

    scaled = 0.7 * counts  # no whole numbers, whose gaps rounding may explain
    found = outside(scaled, plausible_box(scaled))

    assert len(found) == 1  # the only 4 of its attribute, and none of its twelve 2s
    assert outside(counts, plausible_box(counts)) == []


@pytest.mark.parametrize("count", [300, 1000, 5000])
@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_a_few_small_counts_beside_many_zeros_are_in_line(count: int, share: float) -> None:
    """Most people buy nothing, and the others mostly one: their tail is not cut, but a slip still is."""
    rng = np.random.default_rng(0)
    some = int(share * count)
    for drawn in (
        1 + rng.poisson(1, some),
        rng.geometric(0.2, some),
        rng.integers(1, 31, some),
        rng.choice([1, 7], some),
    ):
        values = np.zeros(count)
        values[:some] = drawn
        assert plausible_box(values[:, None]).high[0] >= drawn.max()
    ages = rng.integers(18, 80, count).astype(float)
    ages[0] = 4500
    assert plausible_box(ages[:, None]).high[0] < 200
