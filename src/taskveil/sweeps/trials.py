"""Volunteers to design for and test records to judge the designs on.

The split is made once, before anything is designed. A segment's trial is the part of it that is about the segment's
people. Nobody is moved from one side to the other, so the losses of its own design and of the common one are of the
same people, and neither design has seen them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.bounds import heaviest, warn_of
from taskveil.designs.problem import Problem, as_numbers
from taskveil.designs.selection import people
from taskveil.errors import DataError, TaskError, callers_line
from taskveil.records.schema import Schema
from taskveil.records.tables import as_volunteers, column_names, take_rows
from taskveil.sweeps.options import SweepOptions
from taskveil.tasks import MeanTask, ModelTask, MultiTask, SurveyTask, Task, check_task, take_labels

TEST_SHARE = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """A problem, and test records X_test (M, n) with labels y_test that had no part in it.

    `columns` are the names of the attributes, if they have names. `bounded` says that a domain or a schema was passed.
    `trained` (N,) and `tested` (M,) are row numbers in the caller's table, or in the caller's test records.
    """

    problem: Problem
    X_test: Floats
    y_test: Any
    columns: tuple[str, ...] | None
    bounded: bool
    block: int
    trained: Integers
    tested: Integers

    @classmethod
    def of(cls, X: Any, task: Task, options: SweepOptions) -> Trial:
        """The trial that callers of `sweep` ask for; errors in the data are raised here."""
        if isinstance(task, SurveyTask):
            raise TaskError("a survey has no losses of single records to compare: use tv.plan, or taskveil plan.")
        y, (X_test, y_test), block = options.y, options.tested, options.block
        columns, held_out = column_names(X), X_test is None
        given = options.schema
        bounded = options.domain is not None or (given is not None and not given.unbounded)
        if held_out:
            trained, tested = split(_checked(X, task, y, options.schema), in_time=block > 1)
            X = X if columns is not None else as_volunteers(X)
            X_test, y_test = take_rows(X, tested), take_labels(task, y, tested)
            X, y = take_rows(X, trained), take_labels(task, y, trained)
        problem = Problem.of(
            X,
            task,
            y=y,
            domain=options.domain,
            schema=options.schema,
            on_device=options.on_device,
            torch_device=options.torch_device,
            delta=options.delta,
            rows=trained if held_out else None,
        )
        if held_out and isinstance(problem.task, ModelTask | MultiTask) and not options.on_device.volunteers_unseen:
            # A model that was fitted to the test records would look too good without privacy, and on devices.
            problem = replace(problem, task=problem.task.fitted_again(problem.X, problem.y) or problem.task)
        schema = problem.schema
        records = schema.expand(X_test)
        problem.task.labels(y_test, len(records))
        if bounded and not np.isnan(records).any():  # devices bring inside whatever lies outside
            records = problem.domain.project(records)
        if not held_out:
            trained, tested = np.arange(len(problem.X)), np.arange(len(records))
        if schema.unbounded and np.isfinite(records).all():  # a record that decides all losses hides the rest
            warn_of(
                heaviest(records),
                bounded=False,
                columns=columns,
                rows=tested,
                whose="test records'",
                stacklevel=callers_line() + 1,
            )
        return cls(
            problem=problem,
            X_test=records,
            y_test=y_test,
            columns=columns,
            bounded=bounded,
            block=block,
            trained=trained,
            tested=tested,
        )

    def some(self, volunteers: Integers, judges: Integers) -> Trial:
        """The trial of some of the `volunteers` and of the test records, both by their places here.

        The schema and the task stay. Without a domain or a schema, the range of these volunteers is the domain: their
        design is made as if the others did not exist.
        """
        problem = self.problem
        part = problem.some(volunteers)
        own = Problem.of(
            part.X,
            part.task,
            y=part.y,
            domain=part.domain if self.bounded or not part.schema.unbounded else None,
            on_device=part.on_device,
            torch_device=part.torch_device,
            delta=part.delta,
            columns=self.columns if part.schema.unbounded else part.schema.columns,
            rows=self.trained[volunteers],
        )
        return replace(
            self,
            problem=replace(own, schema=part.schema),
            X_test=self.X_test[judges],
            y_test=take_labels(problem.task, self.y_test, judges),
            trained=self.trained[volunteers],
            tested=self.tested[judges],
        )

    def lines(self) -> tuple[Floats, Floats]:
        """The test records' losses (M,) without privacy, and with the answer that is best for all volunteers."""
        problem, task = self.problem, self.problem.task
        clear = task.losses(self.X_test, self.X_test, self.y_test)
        if isinstance(task, MeanTask):  # a constant prediction is no estimate of a mean: more people do not help it
            return clear, clear
        return clear, task.constant_losses(problem.X, problem.y, self.X_test, self.y_test)


def split(records: Floats, *, in_time: bool) -> tuple[Integers, Integers]:
    """The numbers of the `records` to design with, and of those to test on: at random, with all copies of a record on
    the same side; or, `in_time`, the last ones."""
    count = len(records)
    person = np.arange(count) if in_time else people(records)
    everybody = int(person.max()) + 1
    order = np.arange(count) if in_time else np.random.default_rng(0).permutation(everybody)
    kept = max(2, round(everybody * (1 - TEST_SHARE)))
    if everybody - kept < 1:
        raise DataError("too few records to hold some out: pass X_test.")
    held_out = np.isin(person, order[kept:])
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _checked(X: Any, task: Task, y: Any, schema: Schema | None) -> Floats:
    """All volunteers' records as numbers (N, n), by which copies of a record are found; errors are raised here."""
    check_task(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warnings come again, for the records to design with
        schema = Schema.for_volunteers(X, schema)
    return as_numbers(X, task, y, schema, fewest=2)[0]
