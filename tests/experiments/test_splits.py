"""Honest rows on random splits: what is mixed, and what the page says."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import needs
from taskveil.experiments import breast_cancer, household, splits
from taskveil.experiments.models import Experiment
from taskveil.experiments.parts import Finished
from taskveil.experiments.report import ResultRow
from taskveil.experiments.runs import Run
from taskveil.experiments.summary import write_summary

HAVE = bool(os.environ.get("TASKVEIL_DATA"))


def row(loss: float, design: str = "codebook", epsilon: float = 1.0) -> ResultRow:
    return ResultRow(experiment="e", design=design, as_published=False, epsilon=epsilon, loss=loss, low=0.0, high=1.0)


def labelled(problem: Experiment) -> Counter[bytes]:
    """All records with their labels, in no order."""
    records = [np.column_stack(part) for part in ((problem.X, problem.y), (problem.X_test, problem.y_test))]
    return Counter(record.tobytes() for record in np.vstack(records))


@needs(HAVE, "the data in TASKVEIL_DATA")
def test_a_random_split_holds_the_same_records_and_another_network() -> None:
    ours, other, again = breast_cancer.problem(), breast_cancer.problem(3), breast_cancer.problem(3)
    assert len(ours.X) == len(other.X)
    assert not np.array_equal(ours.X, other.X)
    assert labelled(ours) == labelled(other)  # labels travel with their records
    assert not np.array_equal(ours.task.answers(ours.X), other.task.answers(ours.X))
    assert np.array_equal(other.X, again.X)
    assert np.array_equal(other.task.answers(ours.X), again.task.answers(ours.X))
    days, test, _ = household.problem(1)
    assert (len(days), len(test)) == (991, 426)
    assert not np.array_equal(days, household.problem()[0])


def test_mean_and_deviation_are_over_splits() -> None:
    rows = [[row(1.0), row(5.0, "constant")], [row(2.0), row(5.0, "constant")], [row(6.0), row(5.0, "constant")]]
    found = {point.design: point for point in splits.OverSplits.of(rows)}
    assert found["codebook"].mean == pytest.approx(3.0)
    assert found["codebook"].deviation == pytest.approx(np.sqrt(7.0))
    assert found["constant"].deviation == 0.0
    # What one split lacks would be a mean over fewer of them.
    assert [point.design for point in splits.OverSplits.of([*rows, [row(1.0)]])] == ["codebook"]
    assert splits.OverSplits.of(rows[:1]) == []


def test_the_page_has_a_table_of_splits(tmp_path: Path) -> None:
    part = Finished(name="e-codebook", seconds=1.0, machine="a machine", date="2026-01-02", commit=None, rows=[])
    run = Run(name="e", seeds=2, parts=[part], rows=[row(1.0)], splits=[[row(1.0)], [row(3.0)]])
    write_summary(tmp_path / "r.md", [run])
    page = (tmp_path / "r.md").read_text()
    assert "--seeds 2 --splits 2`" in page
    assert "On 2 random splits of all records, one seed each" in page
    assert "| codebook | 2.0000 ± 1.4142 |" in page
    write_summary(tmp_path / "r.md", [replace(run, splits=[])])
    assert "random splits of all" not in (tmp_path / "r.md").read_text()
