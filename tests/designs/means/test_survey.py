"""Designs of surveys: chances, superfluous questions, joint questions against split budgets, and plans."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.designs.means.blocks import shares_of
from taskveil.designs.means.channels import best_channel
from taskveil.designs.means.survey import Planned, SurveySample
from taskveil.errors import TaskError
from taskveil.veil.surveys import OTHER, questions

RNG = np.random.default_rng(11)
COUNT = 3000
TABLE = pd.DataFrame(
    {
        "income": RNG.gamma(3.0, 10.0, COUNT).clip(0, 100),
        "age": RNG.uniform(18, 90, COUNT),
        "plan": RNG.choice(["Basic", "Plus", "Pro"], COUNT, p=[0.6, 0.3, 0.1]),
        "region": RNG.choice(["North", "South", "East"], COUNT, p=[0.5, 0.3, 0.2]),
    }
)
SCHEMA = tv.Schema(
    {
        "income": tv.Number(0, 100),
        "age": tv.Number(18, 90),
        "plan": tv.Category(["Basic", "Plus", "Pro"]),
        "region": tv.Category(["North", "South", "East"]),
    }
)
X = SCHEMA.expand(TABLE)


def planned(task: tv.SurveyTask, epsilon: float) -> Planned:
    low, high = SCHEMA.fields.box
    return SurveySample.of(task.on(SCHEMA), low, high, X, epsilon).planned()


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_chances_are_proportional_to_the_roots_of_costs(epsilon: float) -> None:
    plan = planned(tv.SurveyTask(), epsilon)
    roots = np.sqrt([one.cost for one in plan.asked])
    np.testing.assert_allclose(plan.chances, roots / roots.sum(), rtol=1e-6)
    assert plan.cost == pytest.approx(roots.sum() ** 2)


def test_a_weight_draws_reports_to_its_field() -> None:
    """√cost is in proportion to the weight."""
    veils = [tv.design(TABLE, tv.SurveyTask(weights=w), epsilon=1.0, schema=SCHEMA) for w in (None, {"age": 3.0})]
    ratios = []
    for veil in veils:
        chance = {one.fields: one.chance for one in questions(veil)}
        ratios.append(chance["age",] / chance["income",])
    assert ratios[1] == pytest.approx(3.0 * ratios[0], rel=1e-3)


def test_units_do_not_matter() -> None:
    """A mean counts in units of its standard deviation."""
    other = SCHEMA.replace(income=tv.Number(0, 100_000))
    table = TABLE.assign(income=TABLE["income"] * 1000.0)
    chances = [
        [one.chance for one in questions(tv.design(X, tv.SurveyTask(), epsilon=1.0, schema=schema))]
        for X, schema in ((TABLE, SCHEMA), (table, other))
    ]
    np.testing.assert_allclose(*chances, rtol=1e-3)


def test_cross_tables_make_single_questions_superfluous() -> None:
    """The pair measures both shares; asking for each alone as well would cost more."""
    task = tv.SurveyTask(["plan", "region"], pairs=[("plan", "region")])
    asked = [one.fields for one in questions(tv.design(TABLE, task, epsilon=1.0, schema=SCHEMA))]
    assert ("plan", "region") in asked
    both = tv.SurveyTask(["plan", "region"], by=["plan", "region"])
    asked = [one.fields for one in questions(tv.design(TABLE, both, epsilon=1.0, schema=SCHEMA))]
    assert len(asked) == len(set(map(frozenset, asked)))


def test_every_statistic_is_planned() -> None:
    task = tv.SurveyTask(["income", "plan"], by="region", pairs=[("plan", "region")], histograms={"age": [18, 40, 90]})
    found = planned(task, 1.0).variances
    for key in (
        ("mean", "income"),
        ("share", "plan", "Pro"),
        ("share", "plan", OTHER),
        ("share", "region", "North"),
        ("histogram", "age", 0),
        ("by", "region", "North", "mean", "income"),
        ("by", "region", "East", "share", "plan", "Basic"),
        ("pair", "plan", "region", "Pro", "South"),
    ):
        assert 0 < found[key] < math.inf
    assert found["by", "region", "East", "mean", "income"] > found["mean", "income"]


def test_more_budget_never_costs() -> None:
    costs = [planned(tv.SurveyTask(), epsilon).cost for epsilon in (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)]
    assert all(later < before for before, later in pairwise(costs))


def test_expected_variances_are_in_the_fields_units_and_hold_for_simulated_people() -> None:
    """The mean of many people's reports, repeated: its variance times their number is the one that was planned."""
    task, people = tv.SurveyTask(["income", "plan"]), 3000
    said = planned(task, 2.0).variances
    veil = tv.design(TABLE, task, epsilon=2.0, schema=SCHEMA)
    means, shares = [], []
    for _ in range(150):
        reports = veil.privatize(TABLE)[:, 0]
        for question in questions(veil):
            mine = reports[(reports >= question.start) & (reports < question.start + question.outputs)] - question.start
            if "income" in question.fields:
                place = question.fields.index("income")
                level = np.array(question.levels[place])[question.values[place]]
                means.append(question.scores(level[:, None])[mine, 0].mean())
            if "plan" in question.fields:
                place = question.fields.index("plan")
                has = (question.values[place] == question.levels[place].index("Basic")).astype(float)
                shares.append(question.scores(has[:, None])[mine, 0].mean())
    assert np.mean(means) == pytest.approx(TABLE["income"].mean(), abs=4 * np.std(means) / math.sqrt(150))
    # The people are the same every time, so their own spread is missing where all of them answer.
    assert 0.5 < np.var(means) * people / said["mean", "income"] < 1.5
    assert 0.5 < np.var(shares) * people / said["share", "plan", "Basic"] < 1.5


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("fields", [["plan", "region"], ["income", "age"], ["income", "plan", "age", "region"]])
def test_splitting_the_budget_is_never_better(fields: list[str], epsilon: float) -> None:
    """Everybody answers all d questions with ε/d each: the sum of the costs of single questions at that ε."""
    split = 0.0
    for name in fields:
        split += planned(tv.SurveyTask([name]), epsilon / len(fields)).cost
    assert planned(tv.SurveyTask(fields), epsilon).cost <= 1.001 * split


def test_a_number_alone_is_reported_by_the_best_channel() -> None:
    """No response over the same levels is better, and it is within a hundredth of a bound for all channels on them."""
    low, high = SCHEMA.fields.box
    (one,) = SurveySample.of(tv.SurveyTask(["income"]).on(SCHEMA), low, high, X, 1.0).planned().asked
    assert one.channel is not None
    points = one.measures.functionals * np.sqrt(one.measures.weights)
    points = points - one.rows.prior @ points
    assert one.cost <= 1.001 * best_channel(points, one.rows.prior, 1.0).cost
    assert one.channel.cost <= 1.01 * one.channel.bound


def test_rare_rows_are_not_told_apart() -> None:
    """Priors are public: what fewer than ten volunteers share is the same for all such rows."""
    k = np.concatenate([np.zeros(500), np.full(300, 1), np.full(3, 2), np.full(7, 3)]).astype(np.int64)[:, None]
    prior = shares_of(k, [np.arange(6)], [False])
    assert len(set(np.round(prior[2:], 12))) == 1
    assert prior.sum() == pytest.approx(1.0)
    assert prior.min() > 0


def test_expected_shares_of_many_rows_have_the_shares_of_each_field() -> None:
    """The people of rare rows were spread evenly over them: with many rows, all values looked equally frequent."""
    rng = np.random.default_rng(0)
    digits = [
        rng.choice(len(p), 400, p=p) for p in ([0.7, 0.2, 0.1], [0.5, 0.3, 0.1, 0.1], [0.6, 0.2, 0.1, 0.05, 0.05])
    ]
    prior = shares_of(np.column_stack(digits), [np.arange(3), np.arange(4), np.arange(5)], [False] * 3).reshape(3, 4, 5)
    for axis, digit in enumerate(digits):
        found = prior.sum(axis=tuple({0, 1, 2} - {axis}))
        assert found == pytest.approx(np.bincount(digit) / 400, abs=0.03)


def test_expected_shares_show_no_person_in_a_rare_row() -> None:
    """Where one person is among the rare rows, and where this person has another value, the shares are the same."""
    rng = np.random.default_rng(1)
    k = np.column_stack([rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)])
    scales = [np.arange(2), np.arange(30)]
    one, other = (np.concatenate([k, [[0, value]]]) for value in (7, 23))
    assert np.array_equal(shares_of(one, scales, [False] * 2), shares_of(other, scales, [False] * 2))


def test_arrays_are_surveyed_within_their_domain() -> None:
    veil = tv.design(RNG.random((200, 2)), tv.SurveyTask(), epsilon=1.0, domain=tv.Box([0, 0], [2, 2]))
    assert {one.fields for one in questions(veil)} == {("x0",), ("x1",)}
    assert questions(veil)[0].levels[0][-1] == 2.0


def test_small_client_folders_have_fewer_blocks() -> None:
    table = pd.DataFrame({"one": RNG.integers(0, 300, 5000).astype(str)})
    schema = tv.Schema({"one": tv.Category([str(number) for number in range(300)])})
    sizes = []
    for limit in (1 << 19, 16_000):
        veil = tv.design(table, tv.SurveyTask(), epsilon=0.5, schema=schema, on_device=tv.OnDevice(max_bytes=limit))
        sizes.append(veil.size.client_bytes)
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("method", ["codebook", "task_aware", "constant"])
def test_biased_methods_refuse_surveys(method: str) -> None:
    with pytest.raises(TaskError, match="SurveyTask"):
        tv.design(TABLE, tv.SurveyTask(), epsilon=1.0, schema=SCHEMA, method=method)


def test_auto_is_means() -> None:
    assert tv.design(TABLE, tv.SurveyTask(), epsilon=1.0, schema=SCHEMA).method == "means"


def test_too_many_cells_are_refused_with_what_to_do() -> None:
    values = [str(number) for number in range(90)]
    schema = tv.Schema({"one": tv.Category(values), "two": tv.Category(values)})
    table = pd.DataFrame({name: RNG.choice(values, 500) for name in ("one", "two")})
    with pytest.raises(TaskError, match=r"'one' and 'two': a question has at most 4,096 values or cells, got 8,281"):
        tv.design(table, tv.SurveyTask(pairs=[("one", "two")]), epsilon=1.0, schema=schema)
    assert tv.design(table, tv.SurveyTask(), epsilon=1.0, schema=schema).size.report_bytes == 2


def test_histograms_are_listed_where_there_is_space_for_it() -> None:
    """The best channel for the shares above each edge beats blocks, and takes more space."""
    task = tv.SurveyTask(["plan"], histograms={"income": np.linspace(0, 100, 31)})
    veils = [
        tv.design(TABLE, task, epsilon=1.0, schema=SCHEMA, on_device=tv.OnDevice(max_bytes=limit))
        for limit in (1 << 19, 1 << 15)
    ]
    kinds = [next(type(one.part).__name__ for one in questions(veil) if one.binned[0]) for veil in veils]
    assert kinds == ["LevelGroup", "BlockGroup"]
    assert veils[1].size.client_bytes <= 1 << 15
    assert veils[0].loss(TABLE).mean < veils[1].loss(TABLE).mean


def test_errors_of_means_count_in_the_spread_of_values_and_not_of_few_levels() -> None:
    """Rounded to two levels, a skewed number spreads three times as far. Its error then counted a ninth, so a question
    about two numbers at two levels each seemed better than one for each: three to six times the squared error."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"income": np.clip(rng.lognormal(3.2, 0.5, 4000), 0, 150), "age": rng.uniform(18, 90, 4000)})
    schema = tv.Schema({"income": tv.Number(0, 150), "age": tv.Number(18, 90)})
    low, high = schema.fields.box
    for epsilon in (2.0, 4.0):
        both, alone = (
            SurveySample.of(tv.SurveyTask(fields).on(schema), low, high, schema.expand(table), epsilon)
            for fields in (["income", "age"], ["income"])
        )
        weights = [
            dict(zip(one.measures.keys, one.measures.weights.tolist(), strict=True))["mean", "income"]
            for one in (both._blocks(((0, False), (1, False)), 2), both.made(((0, False),)), alone.planned().asked[0])
        ]
        assert weights == pytest.approx([weights[0]] * 3)
        assert weights[0] == pytest.approx(table["income"].std() ** -2, rel=0.3)  # a few people may be anywhere
        key = ("mean", "income")
        assert both.planned().variances[key] < 2.0 * alone.planned().variances[key]
