"""Plans and sweeps over time: margins that real rounds have, and losses against the number of reports."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import BudgetError, TaskError
from taskveil.sweeps.planning import plan_of

SCHEMA = tv.Schema({"plan": tv.Category(["Basic", "Pro", "Team"]), "hours": tv.Number(0, 40)})
YEAR = tv.OverTime(lifetime=4.0, rounds=52)
FOUR = tv.OverTime(lifetime=4.0, rounds=52, per_report=1.0)


def test_a_plan_over_time_counts_the_people_who_report_in_a_round() -> None:
    plan = tv.plan(SCHEMA, tv.SurveyTask(), people=52_000, epsilons=[1.0, FOUR, YEAR])
    alone = tv.plan(SCHEMA, tv.SurveyTask(), people=4_000, epsilons=[1.0])
    for name in ("plan=Pro", "hours"):
        row = plan.row(name, FOUR)
        assert (row.reports, row.over_time) == (4, FOUR)
        assert row.margin(52_000) == pytest.approx(alone.margin(name, 1.0))
        assert row.change(52_000, block=True) == pytest.approx(math.sqrt(2) * row.margin(52_000))
        assert row.change(52_000) == pytest.approx(2 * row.margin(52_000))
        assert plan.people_for(name, margin=row.margin(52_000), epsilon=FOUR) == pytest.approx(52_000, abs=2)
        once = plan.row(name, YEAR)
        assert once.reports == 1
        assert once.change(52_000) == pytest.approx(math.sqrt(2) * once.margin(52_000))  # no person is in both
    table = plan.table().splitlines()
    assert "ε = 1 in 4 of 52 rounds" in table[1]
    assert "change within a block" in table[1]
    assert "between blocks, at most" in table[1]
    found = next(one for one in plan.to_dicts() if one["name"] == "hours" and one.get("reports") == 4)
    assert (found["lifetime"], found["rounds"]) == (4.0, 52)
    assert found["change_in_block"] < found["change_between_blocks"]
    assert json.loads(plan.to_json())["rows"] == plan.to_dicts()
    assert "lifetime ε = 4 in 52 rounds" in repr(plan)
    with pytest.raises(BudgetError, match="the plan has no lifetime ε = 2 in 52 rounds, only ε = 1, lifetime ε = 4 by"):
        plan.row("hours", tv.OverTime(lifetime=2.0, rounds=52))


@pytest.mark.parametrize(("reports", "rounds", "longest"), [(2, 3, 2), (5, 52, 11), (40, 52, 2), (52, 52, 1)])
def test_margins_hold_in_every_round_if_blocks_have_two_lengths(reports: int, rounds: int, longest: int) -> None:
    """Half of the people report in the last rounds of three with r = 2, and not two thirds."""
    over_time = tv.OverTime(lifetime=float(reports), rounds=rounds, per_report=1.0)
    row = tv.plan(SCHEMA, tv.SurveyTask(), people=10, epsilons=[over_time]).row("hours", over_time)
    panel = over_time.panel(reports)
    everybody = replace(row, over_time=None)
    for block in range(reports):
        people = 10_000 / len(panel.block_rounds(block))
        assert everybody.margin(people) <= row.margin(10_000) * (1 + 1e-12)  # type: ignore[arg-type]
    assert row.margin(10_000) == pytest.approx(everybody.margin(10_000) * math.sqrt(longest))
    assert row.people(row.margin(10_000)) == pytest.approx(10_000, abs=1)


def test_planned_margins_of_rounds_and_changes_agree_with_real_ones(tmp_path: Path) -> None:
    """40 collections of 12 rounds, in which half of the values stay from round to round. The standard deviation of 480
    means errs by 3%, that of 400 changes, which share rounds, by 4%, and that of 40 changes by 11%: the limits are six
    of these errors away. The change between blocks varies less than the bound by a factor of √2."""
    rng, people = np.random.default_rng(3), 3_000
    volunteers = rng.random((500, 1))
    over_time = tv.OverTime(lifetime=6.0, rounds=12, per_report=3.0)
    veil = tv.design(volunteers, tv.MeanTask(), epsilon=over_time, domain=tv.Box([0], [1]))
    panel = veil.panel
    assert panel is not None
    (row,) = tv.plan(volunteers, tv.MeanTask(), people=people, epsilons=[over_time], domain=tv.Box([0], [1])).rows
    within, between, rounds = [], [], []
    for _ in range(40):
        starts = np.array([panel.start(block) for block in range(3)])
        drawn = rng.integers(starts[:2], starts[1:], size=(people, 2))
        values, means = rng.random(people), np.zeros(12)
        for place in range(12):
            renewed = rng.random(people) < 0.5
            values = np.where(renewed, rng.random(people), values)
            who = (drawn == place).any(axis=1)
            means[place] = veil.decode(veil.privatize(values[who, None])).mean()
        rounds += list(means - 0.5)
        within += [means[place + 1] - means[place] for place in (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)]
        between.append(means[6] - means[5])
    assert np.std(rounds) == pytest.approx(row.margin(people) / 1.96, rel=0.2)
    assert np.std(within) == pytest.approx(row.change(people, block=True) / 1.96, rel=0.25)
    assert np.std(between) < 1.3 * row.change(people) / 1.96


def test_a_plan_of_a_release_over_time_is_that_of_its_panel() -> None:
    people = pd.DataFrame({"plan": ["Basic", "Pro", "Pro", "Team"] * 50, "hours": np.linspace(0, 40, 200)})
    veil = tv.design(people, tv.SurveyTask(), epsilon=FOUR, schema=SCHEMA)
    found = plan_of(veil, people=52_000)
    expected = tv.plan(people, tv.SurveyTask(), people=52_000, epsilons=[FOUR], schema=SCHEMA)
    assert [row.margin(52_000) for row in found.rows] == pytest.approx(
        [row.margin(52_000) for row in expected.rows], rel=1e-9
    )
    assert found.rows[0].reports == 4


def test_a_plan_for_answers_keeps_the_share_of_the_best_number_of_reports() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    six = tv.OverTime(lifetime=6.0, rounds=3)
    plan = tv.plan(X, tv.LinearTask([[1.0, 1.0]]), people=10, epsilons=[2.0, six, 6.0])
    always, over_time, once = plan.kept
    assert over_time is not None
    assert once is not None
    assert always is not None
    # Reports of 2 in all rounds, and one report of 6 in one of three, are two of the numbers that are compared.
    assert over_time >= max(always, once / 3) - 1e-9
    assert over_time < once
    assert plan.plot().get_xlabel() == "privacy budget ε"


def test_the_smallest_budget_counts_lifetimes() -> None:
    plan = tv.plan(SCHEMA, tv.SurveyTask(), people=10**9, epsilons=[8.0, FOUR])
    assert plan.epsilon_for(margin=0.1) == FOUR
    assert plan.advice(margin=0.1).startswith("lifetime ε = 4 by reports of 1 in 52 rounds is the smallest budget")
    assert plan.plot() is not None


def test_a_sweep_over_time_compares_numbers_of_reports(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(300, 1))
    six = tv.OverTime(lifetime=6.0, rounds=3)
    frontier = tv.sweep(X, tv.LinearTask([[1.0]]), epsilons=[six, 2.5], methods=["task_aware"])
    found = frontier.over_time(six)
    assert found.reports == [1, 2, 3]
    for reports in found.reports:
        loss = frontier.loss("task_aware", six.epsilon(reports))
        expected = frontier.constant - reports / 3 * (frontier.constant - loss)
        assert found.error("task_aware", reports) == pytest.approx(expected)
    best = found.best("task_aware")
    assert all(found.error("task_aware", best) <= found.error("task_aware", reports) for reports in found.reports)
    assert "2 × ε = 3" in found.table()
    assert "constant prediction" in found.table()
    assert len(found.to_pandas()) == 3
    assert found.plot(tmp_path / "picture.png").exists()
    again = type(frontier).from_json(frontier.to_json(tmp_path / "frontier.json"))
    assert again.over_time(six) == found
    with pytest.raises(TaskError, match="no point"):
        found.error("task_aware", 7)
    with pytest.raises(TaskError, match="no point"):
        frontier.over_time(YEAR)


def test_a_sweep_of_means_over_time_has_the_variance_of_a_round() -> None:
    X = np.random.default_rng(0).random((1_000, 1))
    two = tv.OverTime(lifetime=3.0, rounds=2)
    found = tv.sweep(X, tv.MeanTask(), epsilons=[two], methods=["means", "duchi"], test=X).over_time(two)
    (row,) = tv.plan(X, tv.MeanTask(), people=1, epsilons=[two.fixed(1)]).rows
    assert found.error("means", 1) == pytest.approx(row.variance * 2 / X.var(), rel=0.01)
    assert found.error("duchi", 1) > found.error("means", 1)
    assert found.clear is None
    assert "Variance" in found.table()
    assert found.plot().get_yscale() == "log"


def test_a_survey_over_time_is_for_plans() -> None:
    with pytest.raises(TaskError, match=r"use tv\.plan"):
        tv.sweep(pd.DataFrame({"hours": [1.0, 2.0] * 20}), tv.SurveyTask(), epsilons=[YEAR])
