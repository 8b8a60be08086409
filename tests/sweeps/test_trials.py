"""Who is held out, and that a segment's trial is about its own people alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.designs.domain import Box
from taskveil.errors import WildRecordWarning
from taskveil.sweeps.options import SweepOptions
from taskveil.sweeps.trials import Trial, split

RNG = np.random.default_rng(5)
X = RNG.normal(size=(200, 2)) * np.repeat([[1.0], [20.0]], 100, axis=0)
"""A hundred who are close to each other, and a hundred who are not."""


def trial(X: Any, **options: Any) -> Trial:
    task = options.pop("task", tv.LinearTask(np.eye(2)))
    return Trial.of(X, task, SweepOptions(epsilons=[1.0], **options))


def test_no_copy_of_a_record_is_on_both_sides_of_the_split() -> None:
    copies = np.tile(np.random.default_rng(0).normal(size=(40, 6)), (10, 1))
    train, test = split(copies, in_time=False)
    assert len(train) + len(test) == len(copies)
    assert 100 <= len(test) <= 140
    assert not {row.tobytes() for row in copies[train]} & {row.tobytes() for row in copies[test]}


def test_a_part_is_made_as_if_the_others_did_not_exist() -> None:
    both = trial(X)
    near = np.flatnonzero(both.trained < 100)
    part = both.some(near, np.flatnonzero(both.tested < 100))
    alone = trial(X[part.trained], test=X[part.tested])
    assert part.problem.X.tolist() == alone.problem.X.tolist()
    assert part.problem.domain.bounding_box.high.max() < 5 < both.problem.domain.bounding_box.high.max()
    assert part.X_test.tolist() == X[part.tested].tolist()
    assert sorted([*part.trained, *part.tested]) == list(range(100))
    assert [line.tolist() for line in part.lines()] == [line.tolist() for line in alone.lines()]


def test_what_was_said_of_records_holds_for_every_part() -> None:
    some = np.arange(40)
    given = trial(X, domain=Box(-30, 30)).some(some, some)
    assert given.problem.domain.bounding_box.high.tolist() == [30.0, 30.0]
    table = pd.DataFrame({"a": X[:, 0], "where": ["here", "there"] * 100})
    both = trial(table)
    here = np.flatnonzero(table["where"].to_numpy()[both.trained] == "here")
    part = both.some(here, some)
    assert part.problem.schema == both.problem.schema  # a column that is constant here is still one
    assert part.problem.X.tolist() == both.problem.X[here].tolist()


def test_a_wild_cell_of_a_part_has_the_callers_row() -> None:
    """Not out of line with everybody, but with those of the segment."""
    wild = X.copy()
    both = trial(wild)
    row = int(both.trained[np.flatnonzero(both.trained < 100)[7]])
    wild[row] = 40.0
    with pytest.warns(WildRecordWarning, match=f"row {row}, column 0"):
        trial(wild).some(np.flatnonzero(both.trained < 100), np.arange(5))


def test_labels_go_with_their_records() -> None:
    from torch import nn

    both = trial(X, task=tv.ModelTask(nn.Linear(2, 1)), y=X[:, 0])
    part = both.some(np.arange(10, 40), np.array([3, 1]))
    assert part.problem.y.tolist() == X[both.trained[10:40], 0].tolist()
    assert part.y_test.tolist() == X[both.tested[[3, 1]], 0].tolist()
