"""`tv.plan`: margins that agree with real intervals, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from surveys_drawn import Drawn
from taskveil.errors import BudgetError, DataError, TaskError
from taskveil.sweeps.planning import Plan, plan_of

RNG = np.random.default_rng(5)
COUNT, PEOPLE = 3_000, 40_000


def people(count: int, rng: np.random.Generator) -> pd.DataFrame:
    region = rng.choice(["North", "South"], count, p=[0.7, 0.3])
    plan = rng.choice(["Basic", "Plus", "Pro"], count, p=[0.6, 0.3, 0.1])
    income = np.clip(rng.gamma(3.0, 12.0, count), 0, 150)
    age = np.where(rng.random(count) < 0.1, np.nan, rng.integers(18, 91, count))
    return pd.DataFrame({"region": region, "plan": plan, "income": income, "age": age})


X = people(COUNT, RNG)
SCHEMA = tv.Schema(
    {
        "region": tv.Category(("North", "South")),
        "plan": tv.Category(("Basic", "Plus", "Pro")),
        "income": tv.Number(0, 150, "k€"),
        "age": tv.Count(18, 90, missing=True),
    }
)
TASK = tv.SurveyTask(by="region", pairs=[("plan", "region")], histograms={"income": [0, 20, 40, 60, 150]})


@pytest.fixture(scope="module")
def planned() -> Plan:
    return tv.plan(X, TASK, people=PEOPLE, epsilons=[1.0, 4.0], schema=SCHEMA)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_planned_margins_agree_with_real_intervals(planned: Plan, epsilon: float) -> None:
    """Half the mean width of every interval of twelve collections, where limits are not cut off: within 5% for means
    and shares of all people. Widths of ratios vary by up to 17% between collections, and are skewed: within 15%."""
    veil = tv.design(X, TASK, epsilon=epsilon, schema=SCHEMA)
    crowd, rng = Drawn.of(veil, people(100_000, np.random.default_rng(1))), np.random.default_rng(2)
    rounds = [tv.estimate(veil, crowd.reports(PEOPLE, rng)).groups for _ in range(12)]
    seen = 0
    for kind in ("means", "shares", "missing", "by", "pairs"):
        for rows in zip(*(groups[kind] for groups in rounds), strict=True):
            label = rows[0].label
            name = f"{label.name} (within the group)" if kind == "by" and label.kind == "share" else label.name
            if name not in {one.name for one in planned.rows}:
                continue
            expected = planned.margin(name, epsilon)
            if expected > 0.1 * planned.row(name, epsilon).width:  # ratios of few people have skewed intervals
                continue
            seen += 1
            width = float(np.mean([row.width for row in rows]))
            assert width / 2 == pytest.approx(expected, rel=0.15 if rows[0].ratio else 0.05), name
    assert seen > 20


def test_more_budget_and_more_people_make_margins_smaller(planned: Plan) -> None:
    for row in planned.rows:
        if row.epsilon == 1.0:
            assert planned.margin(row.name, 4.0) < row.margin(PEOPLE)
            assert row.margin(4 * PEOPLE) == pytest.approx(row.margin(PEOPLE) / 2)


def test_the_inverse_is_the_inverse(planned: Plan) -> None:
    needed = planned.people_for("plan=Basic", margin=0.02, epsilon=1.0)
    row = planned.row("plan=Basic", 1.0)
    assert row.margin(needed) <= 0.02 < row.margin(needed - 1)
    assert planned.people_for("income", margin=1.0, epsilon=4.0) < planned.people_for("income", margin=1.0, epsilon=1.0)


def test_the_table_the_frame_and_the_picture(planned: Plan, tmp_path: Path) -> None:
    text = planned.table()
    assert "40,000 people" in text
    assert "income [k€]" in text
    assert "age is missing" in text
    assert "3,000 volunteers" in text
    frame = planned.to_pandas()
    assert set(frame["epsilon"]) == {1.0, 4.0}
    assert frame.query("name == 'plan=Basic' and epsilon == 1.0")["margin"].item() == planned.margin("plan=Basic", 1.0)
    assert planned.plot(tmp_path / "plan.png").stat().st_size > 10_000
    assert json.loads(planned.to_json())["people"] == PEOPLE


def test_a_share_of_a_group_and_a_cell_have_names_of_their_own(planned: Plan) -> None:
    inside, cell = (planned.row(f"plan=Basic, region=North{end}", 1.0).value for end in (" (within the group)", ""))
    assert inside == pytest.approx(0.6, abs=0.05)
    assert cell == pytest.approx(0.42, abs=0.05)


def test_groups_without_people_are_left_out(planned: Plan) -> None:
    assert not any("region not listed" in row.name and "income" in row.name for row in planned.rows)


def test_groups_and_means_of_hardly_anybody_are_left_out_by_name() -> None:
    """They were left out without a word: nobody saw that the plan has no row for a group that was asked for."""
    table = X.assign(region=np.where(np.arange(COUNT) < 6, "North", "South"))  # 0.2%
    table["age"] = np.where(np.arange(COUNT) < 12, 50.0, np.nan)
    found = tv.plan(table, tv.SurveyTask(["plan", "age"], by="region"), people=PEOPLE, epsilons=[1.0], schema=SCHEMA)
    assert not any("region=North" in row.name and row.name != "region=North" for row in found.rows)
    assert "about fewer than 1% of people: region=North; age, region=South." in found.table()
    assert "not listed" not in found.basis
    veil = tv.design(table, tv.SurveyTask(["plan"], by="region"), epsilon=1.0, schema=SCHEMA)
    assert "about fewer than 1% of people: region=North." in plan_of(veil).basis


def test_nothing_is_said_to_be_left_out_where_nothing_is(planned: Plan) -> None:
    assert "Left out" not in planned.table()


def test_a_budget_is_named_for_a_margin(planned: Plan) -> None:
    wide = planned.widest(4.0)
    margin = wide.margin(PEOPLE) / wide.width
    assert planned.epsilon_for(margin=1.01 * margin) == 4.0
    assert planned.epsilon_for(margin=0.99 * margin) == math.inf
    enough = planned.advice(margin=1.01 * margin)
    assert "ε = 4 is the smallest budget" in enough
    needed = max(row.people(1.01 * margin * row.width) for row in planned.rows if row.epsilon == 4.0 and row.width > 0)
    assert needed < PEOPLE
    assert f"At this budget {needed:,} people are enough." in enough
    said = planned.advice(margin=0.001)
    assert "No budget of the plan is enough" in said
    assert f"{wide.people(0.001 * wide.width):,} people" in said


def test_a_schema_is_enough_and_says_what_was_assumed() -> None:
    found = tv.plan(SCHEMA, tv.SurveyTask(["plan", "income"]), people=10_000, epsilons=[2.0])
    assert "even shares" in found.table()
    assert found.row("plan=Pro", 2.0).value == pytest.approx(1 / 3, abs=0.03)
    assert found.row("income", 2.0).value == pytest.approx(75, abs=2)
    dates = tv.Schema({"since": tv.Date("2020-01-01", "2024-01-01"), "active": tv.Flag()})
    spread = tv.plan(dates, tv.SurveyTask(), people=10_000, epsilons=[2.0])
    assert "days" in spread.table()
    middle = (np.datetime64("2022-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert spread.row("since in days", 2.0).value == pytest.approx(middle, abs=20)
    with pytest.raises(DataError, match="without bounds"):
        tv.plan(tv.Schema.numbers(2), tv.SurveyTask(), people=10, epsilons=[1.0])


def test_a_mean_of_dates_in_a_group_has_the_name_of_the_field() -> None:
    schema = tv.Schema({"since": tv.Date("2020-01-01", "2024-01-01"), "plan": tv.Category(["a", "b"])})
    found = tv.plan(schema, tv.SurveyTask(["since"], by="plan"), people=10_000, epsilons=[2.0])
    titles = [row.label.title for row in found.rows if row.label.kind == "date"]
    assert titles == ["since", "since, plan=a", "since, plan=b"]


def test_a_veil_has_a_plan_too(planned: Plan) -> None:
    veil = tv.design(X, TASK, epsilon=1.0, schema=SCHEMA)
    found = plan_of(veil, people=PEOPLE)
    (epsilon,) = found.epsilons
    assert found.margin("income", epsilon) == pytest.approx(planned.margin("income", 1.0))


def test_means_have_margins_that_agree_with_intervals() -> None:
    numbers = RNG.beta(2, 5, size=(400, 3)) * [1.0, 10.0, 100.0]
    task, box = tv.MeanTask(np.diag([1.0, 0.1, 0.01])), tv.Box([0, 0, 0], [1, 10, 100])
    found = tv.plan(numbers, task, people=20_000, epsilons=[2.0], domain=box)
    veil = tv.design(numbers, task, epsilon=2.0, domain=box)
    crowd = RNG.beta(2, 5, size=(20_000, 3)) * [1.0, 10.0, 100.0]
    rows = tv.estimate(veil, veil.privatize(crowd)).groups["attributes"]
    for row, expected in zip(rows, found.rows, strict=True):
        assert (row.high - row.low) / 2 == pytest.approx(expected.margin(20_000), rel=0.15)
    own = plan_of(veil, people=20_000)  # from the sums in the release alone
    for row, expected, planned in zip(rows, own.rows, found.rows, strict=True):
        assert (row.high - row.low) / 2 == pytest.approx(expected.margin(20_000), rel=0.15)
        assert expected.value == pytest.approx(planned.value)


def test_vectors_in_a_ball_have_margins_of_their_sums() -> None:
    def vectors(count: int) -> np.ndarray:
        return np.clip(RNG.normal(size=(count, 4)) * 0.2, -0.5, 0.5)  # inside the ball

    veil = tv.design(vectors(500), tv.MeanTask(np.eye(4)), epsilon=4.0, domain=tv.Ball(1.0))
    rows = tv.estimate(veil, veil.privatize(vectors(20_000))).groups["attributes"]
    for row, expected in zip(rows, plan_of(veil, people=20_000).rows, strict=True):
        assert (row.high - row.low) / 2 == pytest.approx(expected.margin(20_000), rel=0.2)


def test_means_of_categories_flags_and_missing_values_have_margins() -> None:
    table, crowd = people(2_000, RNG), people(20_000, RNG)
    veil = tv.design(table, tv.MeanTask(), epsilon=2.0, schema=SCHEMA)
    rows = {row.label.name: row for row in tv.estimate(veil, veil.privatize(crowd)).groups["attributes"]}
    found = {row.name: row for row in plan_of(veil, people=20_000).rows}
    assert {"plan=Pro", "income", "age"} <= found.keys()
    for name, expected in found.items():
        assert (rows[name].high - rows[name].low) / 2 == pytest.approx(expected.margin(20_000), rel=0.25)


def test_what_has_no_margins_of_its_own_says_so() -> None:
    veil = tv.design(RNG.random((100, 2)), tv.MeanTask(np.eye(2)), epsilon=1.0, domain=tv.Box([0, 0], [1, 1]))
    with pytest.raises(DataError, match="keeps no sums"):
        plan_of(replace(veil, volunteers=None))
    with pytest.raises(TaskError, match="only surveys and means"):
        plan_of(tv.design(RNG.random((100, 2)), tv.LinearTask(np.eye(2)), epsilon=1.0))


def test_means_over_people_who_have_a_value_have_margins_that_agree_with_intervals() -> None:
    """Six in ten have no value: the margin was that of the mean with a number of the release in its place, which is
    half as wide. A ratio's limits are a little further apart than its standard error says."""
    schema = tv.Schema({"x": tv.Number(0.0, 100.0, missing=True), "y": tv.Number(0.0, 100.0)})
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": np.clip(rng.normal(40.0, 10.0, 40_000), 0, 100), "y": rng.random(40_000) * 100})
    table.loc[rng.random(40_000) < 0.6, "x"] = np.nan
    found = tv.plan(table[:2_000], tv.MeanTask(), people=40_000, epsilons=[1.0], schema=schema)
    veil = tv.design(table[:2_000], tv.MeanTask(), epsilon=1.0, schema=schema)
    # The width of a ratio depends on the share that has a value, which varies: the mean of eight collections.
    collected = [tv.estimate(veil, veil.privatize(table)).groups["attributes"] for _ in range(8)]
    for rows in zip(*collected, strict=True):
        half = np.mean([row.high - row.low for row in rows]) / 2
        assert half == pytest.approx(found.margin(rows[0].label.name, 1.0), rel=0.1)
    assert found.row("x", 1.0).value == pytest.approx(table["x"][:2_000].mean())


def test_a_model_has_a_share_of_the_signal() -> None:
    records = RNG.normal(size=(600, 3))
    y = (records[:, 0] + 0.5 * RNG.normal(size=600) > 0).astype(int)
    task = tv.ModelTask(LogisticRegression().fit(records, y), loss="cross_entropy")
    found = tv.plan(records, task, people=1_000, epsilons=[1.0, 6.0], y=y)
    low, high = found.kept
    assert low is not None
    assert high is not None
    assert low < high
    assert high > 0.3
    assert "600 of 600 volunteers" in found.table()
    assert "share of the signal kept" in found.table()
    with pytest.raises(TaskError, match="no margins"):
        found.epsilon_for(margin=0.02)
    with pytest.raises(DataError, match="needs volunteers"):
        tv.plan(SCHEMA, task, people=10, epsilons=[1.0])


def test_mistakes_are_explained(planned: Plan) -> None:
    with pytest.raises(DataError, match="no statistic 'salary', only"):
        planned.margin("salary", 1.0)
    with pytest.raises(BudgetError, match="no ε = 3, only ε = 1, ε = 4"):
        planned.margin("income", 3.0)
    with pytest.raises(DataError, match="above 0"):
        planned.people_for("income", margin=0.0, epsilon=1.0)
    with pytest.raises(DataError, match="1 person or more"):
        tv.plan(X, TASK, people=0, epsilons=[1.0])
    with pytest.raises(DataError, match="people=40_000"):
        tv.plan(X, TASK, people=1e6, epsilons=[1.0])  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="a list of budgets"):
        tv.plan(X, TASK, people=10, epsilons=2.0)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="at least one ε"):
        tv.plan(X, TASK, people=10, epsilons=[])
    with pytest.raises(BudgetError, match="must be a number, got 'one'"):
        tv.plan(X, TASK, people=10, epsilons=["one"])  # type: ignore[list-item]
    for margin in (0.0, -1.0, float("nan")):
        with pytest.raises(DataError, match="above 0"):
            planned.advice(margin=margin)


def test_a_margin_wider_than_the_range_is_unknown() -> None:
    few = tv.plan(SCHEMA, tv.SurveyTask(["plan"]), people=10, epsilons=[0.1, 8.0])
    line = next(line for line in few.table().split("\n") if line.startswith("plan="))
    assert "unknown" in line
    assert "points" in line  # the larger budget has a margin
    assert "wider than the range" in few.table()
    assert all(row["margin"] > 0 for row in few.to_dicts())
    many = tv.plan(SCHEMA, tv.SurveyTask(["plan"]), people=10**7, epsilons=[0.1, 8.0])
    assert "unknown" not in many.table()


def test_a_large_vocabulary_has_the_margin_of_a_rare_word() -> None:
    schema = tv.Schema({"word": tv.Words(101)})
    words = [f"w{place % 50}" for place in range(200)]
    found = tv.plan(pd.DataFrame({"word": words}), tv.SurveyTask(), people=20_000, epsilons=[1.0], schema=schema)
    veil = tv.design(pd.DataFrame({"word": words}), tv.SurveyTask(), epsilon=1.0, schema=schema)
    reports = veil.privatize(pd.DataFrame({"word": words * 100}))
    interval = tv.estimate(veil, reports, candidates={"word": ["never said"]}).shares["word"]["never said"]
    assert interval.high - interval.mean == pytest.approx(found.margin("word: a rare word", 1.0), rel=0.15)
