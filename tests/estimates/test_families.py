"""Estimates of families: drawn members are pooled by precision, groups that chose are weighted by people."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import surveys_drawn
import taskveil as tv
from families import answers, chosen, drawn, means, people
from taskveil.client.wire import Report, pack_batch
from taskveil.errors import DataError, TooFewReportsError, WireError
from taskveil.estimates import SurveyEstimate


def sent(veil: tv.Veil, X: np.ndarray) -> list[Report]:
    layout, release = veil.mechanism.layout, bytes.fromhex(veil.release_id)
    rng = np.random.default_rng(1)
    rows = veil.privatize(X).tolist()
    return [Report(release=release, id=rng.bytes(16), payload=layout.pack(row)) for row in rows]


def test_drawn_members_are_pooled_by_precision() -> None:
    family = tv.Family({"fine": (means(2.0), 1), "coarse": (means(0.5), 1)})
    X = people(40_000, seed=9)
    found = tv.estimate(family, family.privatize(X), confidence=1 - 1e-6)
    one, two = (found.members[name].attributes[0] for name in ("fine", "coarse"))
    both = found.attributes[0]
    assert abs(both.mean - one.mean) < 0.2 * abs(both.mean - two.mean)
    assert both.high - both.low < one.high - one.low
    assert both.low < X[:, 0].mean() < both.high
    assert found.shares_of_people == {}
    assert "has spent" not in found.source
    assert found.epsilon == family.epsilon


def test_groups_that_chose_are_weighted_by_their_numbers_of_people() -> None:
    """Two equal groups at ε = .5 and 2 weigh a half each; by precision it would be .06 and .94."""
    family = tv.Family.of_budgets({0.5: means(0.5), 2.0: means(2.0)})
    low, high = np.full((30_000, 2), 0.2), np.full((30_000, 2), 0.8)
    reports = {"0.5": means(0.5).privatize(low), "2": means(2.0).privatize(high)}
    found = tv.estimate(family, reports, confidence=1 - 1e-6)
    assert found.shares_of_people == {"0.5": 0.5, "2": 0.5}
    one, two = (found.members[name].attributes[0] for name in ("0.5", "2"))
    both = found.attributes[0]
    assert both.mean == pytest.approx((one.mean + two.mean) / 2)
    assert both.high - both.mean == pytest.approx(np.hypot(one.high - one.mean, two.high - two.mean) / 2)
    assert both.low < 0.5 < both.high
    by_precision = tv.estimate([means(0.5), means(2.0)], [means(0.5).privatize(low), means(2.0).privatize(high)])
    assert by_precision.attributes[0].mean > 0.7  # what this pooling is for


def test_weighted_groups_cover() -> None:
    family = tv.Family.of_budgets({0.5: means(0.5), 2.0: means(2.0)})
    rng, covered = np.random.default_rng(4), 0
    for _ in range(200):
        low, high = rng.random((300, 2)) * 0.4, 0.5 + rng.random((900, 2)) * 0.5
        found = tv.estimate(family, {"0.5": means(0.5).privatize(low), "2": means(2.0).privatize(high)})
        assert found.shares_of_people == {"0.5": 0.25, "2": 0.75}
        row, truth = found.attributes[0], np.vstack([low, high])[:, 0].mean()
        covered += row.low <= truth <= row.high
    assert covered >= 180  # 190 expected: less than 180 has a probability below .002


def test_a_survey_beside_answers_gives_honest_means_and_drift_by_attribute() -> None:
    X = 0.5 * people(40_000, seed=12)  # unlike the volunteers
    found = tv.estimate(drawn(), drawn().privatize(X), confidence=1 - 1e-6)
    assert 3_700 < found.members["survey"].reports < 4_300
    for place, row in enumerate(found.attributes):
        assert row.low < X[:, place].mean() < row.high
    assert found.drift.raised
    assert found.members["survey"].drift.raised
    assert found.frequencies
    assert set(found.content()["members"]) == {"answers", "survey"}


def test_reports_come_as_bytes_in_any_mixture() -> None:
    X = people(600, seed=2)
    reports = [*sent(answers(), X), *sent(means(1.0), X)]
    mixed = [bytes(report) for report in reports] + [bytes(reports[0])]
    np.random.default_rng(0).shuffle(mixed)  # type: ignore[arg-type]
    found = tv.estimate(drawn(), mixed)
    assert {name: one.reports for name, one in found.members.items()} == {"answers": 600, "survey": 600}
    bodies = [pack_batch(sent(answers(), X)), pack_batch(sent(means(1.0), X))]
    assert tv.estimate(drawn(), bodies).reports == 1200
    with pytest.raises(WireError, match="not in the family"):
        tv.estimate(chosen(), [pack_batch(sent(answers(), X))])


def test_small_groups_are_left_out_and_said() -> None:
    found = tv.estimate(chosen(), {"1": means(1.0).privatize(people()), "2": means(2.0).privatize(people()[:5])})
    assert set(found.members) == {"1"}
    assert any("5 reports are left out" in note for note in found.notes)
    assert found.shares_of_people == {"1": 1.0}
    with pytest.raises(TooFewReportsError):
        tv.estimate(chosen(), {"1": means(1.0).privatize(people()[:5])})


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(DataError, match="no member three"):
        tv.estimate(chosen(), {"three": []})
    with pytest.raises(DataError, match="one member"):
        tv.estimate(chosen(), {}, assume="cells")


def test_limits_that_hold_at_all_times_are_wider() -> None:
    reports = {name: veil.privatize(people(3_000)) for name, veil in chosen().members.items()}
    once, always = (tv.estimate(chosen(), reports, anytime=anytime).attributes[0] for anytime in (False, True))
    assert always.high - always.low > 1.3 * (once.high - once.low)


def test_rows_of_a_survey_and_of_another_member_stand_in_one_table() -> None:
    X = people(2_000, seed=4)
    survey = tv.design(X, tv.SurveyTask(), epsilon=2.0)
    family = tv.Family({"answers": (answers(), 1), "survey": (survey, 1)})
    reports = {name: veil.privatize(X) for name, veil in family.members.items()}
    found = tv.estimate(family, reports)
    assert "Rows of other releases" in found.table()
    assert set(found.to_pandas()["statistic"]) == {"other", "mean"}
    assert found.members["survey"].means.keys() == found.means.keys()


def test_means_of_people_who_have_a_value_are_not_weighted_by_all_people() -> None:
    """Half of those who chose ε = 1 have no income: weighted by people, their mean would count too much."""
    rng = np.random.default_rng(0)
    schema = tv.Schema({"income": tv.Number(0.0, 100.0, missing=True), "owner": tv.Flag()})
    poor = pd.DataFrame({"income": np.where(rng.random(3000) < 0.5, np.nan, 30.0), "owner": rng.random(3000) < 0.5})
    rich = pd.DataFrame({"income": np.full(3000, 60.0), "owner": rng.random(3000) < 0.5})
    both = pd.concat([poor, rich], ignore_index=True)
    veils = {epsilon: tv.design(both, tv.SurveyTask(), epsilon=epsilon, schema=schema) for epsilon in (1.0, 4.0)}
    reports = {"1": veils[1.0].privatize(poor), "4": veils[4.0].privatize(rich)}
    found = tv.estimate(tv.Family.of_budgets(veils), reports)
    assert [row.label.name for row in found.groups["means"]] == ["1: income", "4: income"]
    assert [row.label.name for row in found.groups["missing"]] == ["income is missing"]
    assert any("for each choice of ε" in note for note in found.notes)
    # By name, neither of the two stands for everybody.
    assert "income" not in found.means
    assert found.members["1"].means["income"].mean < found.members["4"].means["income"].mean


@pytest.mark.parametrize("is_drawn", [False, True])
def test_a_family_of_surveys_is_consistent(is_drawn: bool) -> None:
    """Cells that perhaps nobody is in are hidden in tables of one member and not of the other, and pooled anyway."""
    veils, table = {one: surveys_drawn.survey(one) for one in (0.5, 4.0)}, surveys_drawn.people(8_000, 5)
    low, high = veils.values()
    family = tv.Family({"a": (low, 1), "b": (high, 1)}) if is_drawn else tv.Family.of_budgets(veils)
    reports = {name: veil.privatize(table[place::2]) for place, (name, veil) in enumerate(family.members.items())}
    found = tv.estimate(family, reports)
    assert isinstance(found, SurveyEstimate)
    labels = [row.label.same for row in found.groups["pairs"]]
    assert len(set(labels)) == len(labels) == len(found.members[next(iter(reports))].groups["pairs"])
    e = found.consistent()
    assert sum(row.mean for row in e.pairs["plan", "region"].values()) == pytest.approx(1.0)
    for one in (e, *(member.consistent() for member in found.members.values())):
        assert isinstance(one, SurveyEstimate)
        for histogram in one.histograms.values():
            assert len(histogram.edges) == 5
            assert sum(row.mean for row in histogram.shares) == pytest.approx(1.0)
    assert ("income" in e.histograms) is is_drawn


def test_rows_of_one_choice_alone_do_not_stand_for_all_people() -> None:
    """By name, the last choice's mean took the place of all others', and histograms of two choices were one of twice
    as many bins, which were projected to add up to 1 together."""
    rng = np.random.default_rng(0)
    schema = tv.Schema({"g": tv.Category(["A", "B"]), "x": tv.Number(0.0, 10.0, missing=True), "f": tv.Flag()})
    X = pd.DataFrame({"g": rng.choice(["A", "B"], 4000), "x": rng.random(4000) * 10, "f": rng.random(4000) < 0.5})
    X.loc[rng.random(4000) < 0.2, "x"] = np.nan
    task = tv.SurveyTask(by="g", histograms={"x": [0, 2, 5, 10]})
    veils = {
        1.0: tv.design(X, tv.SurveyTask(by="g", pairs=[("g", "f")], histograms={"x": [0, 2, 5, 10]}), epsilon=1.0,
                       schema=schema),
        4.0: tv.design(X, task, epsilon=4.0, schema=schema),
    }  # fmt: skip
    found = tv.estimate(
        tv.Family.of_budgets(veils), {"1": veils[1.0].privatize(X), "4": veils[4.0].privatize(X[:2000])}
    )
    assert set(found.by) == {"1: g", "4: g"}
    assert found.by["1: g"]["A"]["x"][1:] == found.members["1"].by["g"]["A"]["x"][1:]
    assert found.by["4: g"]["A"]["x"][1:] == found.members["4"].by["g"]["A"]["x"][1:]
    assert set(found.means) == {"1: x", "4: x"}
    assert set(found.shares) == {"g", "f"}
    assert set(found.pairs) == {("1: g", "1: f")}
    assert found.histograms["1: x"].edges == found.histograms["4: x"].edges == (0.0, 2.0, 5.0, 10.0)
    smooth = found.consistent()
    for name in ("1: x", "4: x"):
        assert sum(row.mean for row in smooth.histograms[name].shares) == pytest.approx(1.0)
    assert "By 1: g: x" in found.table()
