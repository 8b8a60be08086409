"""A budget for all reports of a person: what it pays for, exactly, and how many reports serve a task best."""

from __future__ import annotations

import math
import warnings
from dataclasses import FrozenInstanceError, replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from taskveil.client import Client
from taskveil.client.panels import times_cost
from taskveil.designs.means.survey import SurveySample
from taskveil.designs.over_time import best_of
from taskveil.errors import BudgetError, DataError, NothingToReportWarning, ReleaseError
from taskveil.sweeps.planning import plan

U = np.random.default_rng(5).random((400, 1))


@pytest.mark.parametrize("lifetime", [4.0, 1 / 3, 0.1, 7.3, 1e-300, 1e300])
@pytest.mark.parametrize("rounds", [1, 3, 52, 365])
def test_all_reports_together_never_cost_more_than_the_lifetime(lifetime: float, rounds: int) -> None:
    over_time = tv.OverTime(lifetime=lifetime, rounds=rounds)
    for reports in range(1, rounds + 1):
        epsilon = over_time.epsilon(reports)
        assert reports * Fraction(epsilon) <= Fraction(lifetime)
        assert times_cost(epsilon, reports) <= lifetime
        assert reports * Fraction(math.nextafter(epsilon, math.inf)) > Fraction(lifetime)
        fixed = over_time.fixed(reports)
        assert (fixed.reports, fixed.epsilon(reports)) == (reports, epsilon)


@pytest.mark.parametrize(
    ("lifetime", "per_report", "rounds", "reports"),
    [
        (4.0, 1.0, 52, 4),
        (4.0, 1.0, 3, 3),
        (4.5, 1.0, 52, 4),
        (0.3, 0.1, 52, 2),
        (1.0, 1.0, 1, 1),
        (1e300, 1e-300, 9, 9),
    ],
)
def test_a_given_budget_of_a_report_is_paid_as_often_as_the_lifetime_allows(
    lifetime: float, per_report: float, rounds: int, reports: int
) -> None:
    over_time = tv.OverTime(lifetime=lifetime, rounds=rounds, per_report=per_report)
    assert over_time.reports == reports
    assert reports * Fraction(per_report) <= Fraction(lifetime)
    assert reports == rounds or (reports + 1) * Fraction(per_report) > Fraction(lifetime)


def test_rounds_have_numbers_names_or_dates() -> None:
    assert tv.OverTime(lifetime=1.0, rounds=3).names == ("1", "2", "3")
    named = tv.OverTime(lifetime=1.0, rounds=["spring", "autumn"])
    assert (named.names, named.total, named.panel(1).days) == (("spring", "autumn"), 2, 0)
    array = tv.OverTime(lifetime=1.0, rounds=np.array(named.names))  # type: ignore[arg-type]
    assert array == named
    assert {type(name) for name in array.names} == {str}
    expected = ("2026-12-28", "2027-01-04")
    for start in ("2026-12-28", "20261228", date(2026, 12, 28), datetime(2026, 12, 28, 9)):
        dated = tv.OverTime(lifetime=1.0, rounds=2, start=start)
        assert (dated.names, dated.panel(2).days) == (expected, 7)
    assert tv.OverTime(lifetime=1.0, rounds=2, start="2026-12-28", days=1).names == ("2026-12-28", "2026-12-29")
    ahead = datetime(2026, 12, 28, 1, tzinfo=timezone(timedelta(hours=2)))  # the day before, in universal time
    year = tv.OverTime(lifetime=1.0, rounds=2, start=ahead)
    assert year.panel(1).round_on(ahead) == year.names[0] == "2026-12-27"
    assert hash(named) == hash(tv.OverTime(lifetime=1.0, rounds=("spring", "autumn")))
    with pytest.raises(FrozenInstanceError):
        named.lifetime = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"lifetime": 0.0}, BudgetError, "lifetime must be a finite number above zero"),
        ({"lifetime": math.inf}, BudgetError, "above zero"),
        ({"lifetime": True}, BudgetError, "got True"),
        ({"lifetime": "four"}, BudgetError, "lifetime must be a number"),
        ({"per_report": 4.5}, BudgetError, "costs more than the lifetime of 4"),
        ({"per_report": 4.0000001}, BudgetError, "4.0000001 costs more than the lifetime of 4"),
        ({"per_report": -1}, BudgetError, "per_report must be a finite number above zero"),
        ({"rounds": 0}, DataError, "between 1 and 32,768 rounds"),
        ({"rounds": 10**12}, DataError, "between 1 and 32,768 rounds"),
        ({"rounds": True}, DataError, "how many rounds"),
        ({"rounds": "weekly"}, DataError, "how many rounds"),
        ({"rounds": 2.5}, DataError, "how many rounds"),
        ({"rounds": ["a", "a"]}, DataError, "a name of its own"),
        ({"rounds": ["a", 2]}, DataError, "are texts"),
        ({"rounds": {"a", "b"}}, DataError, "a list of their names"),  # the order of a set is not its own
        ({"rounds": {"a": 1, "b": 2}}, DataError, "a list of their names"),
        ({"rounds": [f"{'é' * 400}{number}" for number in range(400)]}, DataError, "too long for a release"),
        ({"rounds": ["a"], "start": "2026-01-01"}, DataError, "pass one"),
        ({"start": "tomorrow"}, DataError, "begin on a date"),
        ({"start": 2026}, DataError, "the day of the first round"),
        ({"start": "9999-12-01"}, DataError, "begin on a date"),
        ({"days": 0}, DataError, "1 or more"),
        ({"days": 1.5}, DataError, "1 or more"),
        ({"days": 1}, DataError, "pass start too"),
        ({"days": 1, "rounds": ["a", "b"]}, DataError, "pass start too"),
    ],
)
def test_budgets_that_cannot_be_kept_are_refused(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tv.OverTime(**{"lifetime": 4.0, "rounds": 52, **wrong})


def test_other_functions_refuse_it_in_words() -> None:
    over_time = tv.OverTime(lifetime=4.0, rounds=52)
    for refuse in (
        lambda: tv.Cost(epsilon=over_time),  # type: ignore[arg-type]
        lambda: tv.OverTime(lifetime=over_time, rounds=2),  # type: ignore[arg-type]
    ):
        with pytest.raises(BudgetError, match=r"OverTime\(lifetime=4, rounds=52\)\. Only tv\.design, tv\.sweep and"):
            refuse()


@pytest.mark.parametrize("total", [1, 2, 7, 52, 365])
@pytest.mark.parametrize("middle", [0.05, 0.7, 3.0, 40.0])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 6.0])
def test_no_number_of_reports_is_better_by_more_than_a_percent(total: int, middle: float, power: float) -> None:
    calls: list[int] = []

    def worth(reports: int) -> float:
        """A report's worth, which does not fall with its ε = 4/reports."""
        calls.append(reports)
        return (4.0 / reports) ** power / (middle**power + (4.0 / reports) ** power)

    tried = best_of(total, worth)
    assert sorted(tried) == sorted(calls)
    assert len(calls) == len(set(calls))
    every = {reports: reports * worth(reports) for reports in range(1, total + 1)}
    assert max(every.values()) <= 1.0100001 * every[tried[0]]
    if power >= 2.0 and middle >= 0.7:  # information grows with the square of a small ε
        assert len(tried) <= 14


def test_where_a_report_is_worth_nothing_one_is_planned() -> None:
    assert best_of(52, lambda reports: 0.0 if reports else 1.0) == [1]
    assert best_of(52, lambda reports: -1.0 if reports else 1.0) == [1]


def test_a_mean_gets_the_number_of_reports_whose_round_has_the_least_variance(tmp_path: Path) -> None:
    over_time = tv.OverTime(lifetime=3.0, rounds=12, start="2026-11-16")
    veil = tv.design(U, tv.MeanTask(), epsilon=over_time)
    panel = veil.panel
    assert panel is not None
    assert (len(panel.rounds), panel.days) == (12, 7)
    assert veil.guarantee.lifetime <= 3.0
    assert veil.guarantee.lifetime == pytest.approx(3.0, rel=1e-6)
    # The same by designs of every number, and margins as a plan computes them.
    every = {}
    for reports in range(1, 13):
        (row,) = plan(U, tv.MeanTask(), people=1, epsilons=[over_time.epsilon(reports)]).rows
        every[reports] = row.variance * 12 / reports / U.var()  # the task's unit is the spread
    errors = {one.reports: one.error for one in veil.considered_panels}
    assert errors == pytest.approx({reports: every[reports] for reports in errors}, rel=1e-6)
    assert veil.considered_panels[0].reports == panel.reports
    assert min(every.values()) >= every[panel.reports] / 1.0100001
    veil.save(tmp_path / "release")
    loaded = tv.Veil.load(tmp_path / "release")
    assert (loaded.panel, loaded.considered_panels) == (panel, veil.considered_panels)
    with Client.load(tmp_path / "release", ledger=tmp_path / "ledger") as client:
        assert client.cap == veil.guarantee.lifetime
        made = [client.report([0.5], round=name) for name in panel.rounds]
        assert sum(report is not None for report in made) == panel.reports


def test_a_survey_gets_the_number_of_reports_whose_round_has_the_least_variance() -> None:
    people = pd.DataFrame({"plan": ["Basic", "Pro", "Pro", "Team"] * 100, "hours": U[:, 0] * 40})
    schema = tv.Schema({"plan": tv.Category(["Basic", "Pro", "Team"]), "hours": tv.Number(0, 40)})
    over_time = tv.OverTime(lifetime=8.0, rounds=4)
    veil = tv.design(people, tv.SurveyTask(), epsilon=over_time, schema=schema)
    assert veil.panel is not None
    errors = {one.reports: one.error for one in veil.considered_panels}
    low, high = schema.fields.box
    records = schema.expand(people)
    task = tv.SurveyTask().on(schema)
    for reports, error in errors.items():  # as the design computes it before it rounds its tables
        sample = SurveySample.of(task, low, high, records, over_time.epsilon(reports))
        assert error == pytest.approx(sample.planned().cost * 4 / reports, rel=0.01)
    assert errors[veil.panel.reports] == min(errors.values())


def test_answers_count_those_who_are_silent_as_answered_by_the_constant() -> None:
    X = np.random.default_rng(1).normal(size=(300, 2))
    task = tv.LinearTask([[1.0, 0.5]])
    over_time = tv.OverTime(lifetime=6.0, rounds=3)
    veil = tv.design(X, task, epsilon=over_time)
    assert veil.panel is not None
    constant = next(one.held_out_loss for one in veil.considered if one.method == "constant")
    for one in veil.considered_panels:
        alone = tv.design(X, task, epsilon=one.epsilon).considered[0].held_out_loss
        assert one.error == pytest.approx(constant - one.reports / 3 * (constant - alone), rel=1e-9)
    assert min(veil.considered_panels, key=lambda one: one.error) == veil.considered_panels[0]


def test_a_method_that_is_named_is_judged_against_the_constant_too() -> None:
    X = np.random.default_rng(1).normal(size=(100, 1))
    veil = tv.design(X, tv.LinearTask([[1.0]]), epsilon=tv.OverTime(lifetime=6.0, rounds=2), method="task_aware")
    assert veil.method == "task_aware"
    assert veil.panel is not None
    assert {one.reports for one in veil.considered_panels} == {1, 2}
    assert all(0.0 < one.error < 1.2 for one in veil.considered_panels)


def test_with_a_budget_for_each_report_nothing_is_compared() -> None:
    X = np.random.default_rng(1).normal(size=(100, 1))
    over_time = tv.OverTime(lifetime=4.0, rounds=["a", "b", "c"], per_report=1.9)
    veil = tv.design(X, tv.LinearTask([[1.0]]), epsilon=over_time, method="task_aware")
    assert veil.panel == over_time.panel(2)
    assert veil.guarantee.epsilon == 1.9
    assert veil.guarantee.lifetime == 3.8
    assert veil.considered_panels == ()
    assert "You will be asked 2 times in 3 rounds" in veil.guarantee.statement
    assert veil.guarantee.assumptions == ("When a device joins, and when it is on, does not depend on its records.",)
    assert repr(veil).endswith("in 2 of 3 rounds>")


def test_a_constant_says_so_once() -> None:
    X, rng = np.random.default_rng(2).normal(size=(200, 2)), np.random.default_rng(3)
    y = rng.integers(2, size=200)  # nothing that a record knows
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        veil = tv.design(X, task, y=y, epsilon=tv.OverTime(lifetime=1.0, rounds=9))
    assert veil.method == "constant"
    assert veil.panel is not None
    assert veil.panel.reports == 1
    assert [(one.category, one.filename) for one in said] == [(NothingToReportWarning, __file__)]


def test_a_release_with_something_else_among_the_compared_is_refused(tmp_path: Path) -> None:
    veil = tv.design(U, tv.MeanTask(), epsilon=tv.OverTime(lifetime=3.0, rounds=2))
    forged = replace(veil, considered_panels=(tv.Veil.load, 3))  # type: ignore[arg-type]
    with pytest.raises(Exception):  # noqa: B017, PT011
        forged.save(tmp_path / "a")
    other = replace(veil, considered_panels=(veil.volunteers,))  # type: ignore[arg-type]
    other.save(tmp_path / "b")
    with pytest.raises(ReleaseError):
        tv.Veil.load(tmp_path / "b")
