"""Estimates of a survey: every statistic by name, near the truth; rare groups, pooled questions, files and tables."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surveys_drawn as drawn
import taskveil as tv
from taskveil.errors import DataError
from taskveil.estimates.survey import CONSISTENT, HistogramEstimate, SurveyEstimate, on_simplex
from taskveil.estimates.survey_statistics import statistics
from taskveil.estimates.surveyed import Survey
from taskveil.veil.surveys import OTHER, questions

PEOPLE = drawn.people(20_000, 5, richer=5.0)


@cache
def tally() -> object:
    return drawn.Drawn.of(drawn.survey(), PEOPLE).reports(60_000, np.random.default_rng(0))


@cache
def found() -> SurveyEstimate:
    estimate = tv.estimate(drawn.survey(), tally())
    assert isinstance(estimate, SurveyEstimate)
    return estimate


def near(row: tv.estimates.Interval, truth: float) -> bool:
    """Within two and a half half-widths: about five standard errors."""
    return abs(row.mean - truth) < 1.25 * (row.high - row.low) + 0.01 and row.assumes is None


def test_statistics_by_name_are_near_the_truth() -> None:
    e, north = found(), PEOPLE["region"] == "North"
    assert near(e.means["income"], PEOPLE["income"].mean())
    assert near(e.shares["plan"]["Basic"], (PEOPLE["plan"] == "Basic").mean())
    assert near(e.shares["owner"][True], PEOPLE["owner"].mean())
    assert near(e.missing["income"], PEOPLE["income"].isna().mean())
    assert near(e.by["region"]["North"]["income"], PEOPLE["income"][north].mean())
    assert near(e.by["region"]["North"]["plan"]["Plus"], (PEOPLE["plan"] == "Plus")[north].mean())
    assert near(e.pairs["plan", "region"][None, "North"], (PEOPLE["plan"].isna() & north).mean())
    assert near(e.histograms["income"].quantile(0.5), PEOPLE["income"].median())
    assert set(e.shares["plan"]) == {OTHER, "Basic", "Plus"}


def test_every_row_is_near_the_truth() -> None:
    for rows in found().groups.values():
        for row in rows:
            if math.isfinite(row.mean):
                assert near(
                    row.interval._replace(mean=row.mean, low=row.low, high=row.high), drawn.truth(PEOPLE, row.label)
                )


def test_people_who_differ_raise_drift_and_others_do_not() -> None:
    assert found().drift.raised
    assert "income" in found().drift.moved
    alike = drawn.Drawn.of(drawn.survey(), drawn.people(20_000, 0))
    assert tv.estimate(drawn.survey(), alike.reports(5_000, np.random.default_rng(1))).drift.p_value > 1e-3


def test_a_group_that_nobody_is_in_is_unknown_and_named() -> None:
    people = drawn.Drawn.of(drawn.survey(), drawn.people(20_000, 2, island=0.0))
    e = tv.estimate(drawn.survey(), people.reports(3_000, np.random.default_rng(0)))
    row = e.by["region"]["Island"]["income"]
    assert math.isnan(row.mean)
    assert (row.low, row.high) == (0.0, 100.0)
    assert any("too few people" in note and "region=Island" in note for note in e.notes)
    assert "unknown" in e.table()
    e.consistent().to_pandas()


def test_few_reports_give_wide_intervals_and_no_crash() -> None:
    people = drawn.Drawn.of(drawn.survey(), PEOPLE)
    for count in (10, 30, 200):
        for anytime in (False, True):
            e = tv.estimate(drawn.survey(), people.reports(count, np.random.default_rng(count)), anytime=anytime)
            assert e.means["income"].low <= e.means["income"].high
            e.table()
            e.content()


def test_anytime_and_confidence_widen() -> None:
    usual, always, surer = (
        tv.estimate(drawn.survey(), tally(), anytime=anytime, confidence=confidence)
        for anytime, confidence in ((False, 0.95), (True, 0.95), (False, 0.999))
    )
    for e in (always, surer):
        assert e.means["income"].low < usual.means["income"].low
        assert e.by["region"]["North"]["income"].high > usual.by["region"]["North"]["income"].high
    bands, shares = usual.histograms["income"].bands, usual.histograms["income"].shares
    assert all(band.high > share.high for band, share in zip(bands, shares, strict=True))


def test_pooled_questions_weigh_by_what_the_release_expects_and_not_by_counts() -> None:
    survey = Survey.of(drawn.survey(), tally())
    other = Survey.of(drawn.survey(), drawn.Drawn.of(drawn.survey(), PEOPLE).reports(500, np.random.default_rng(9)))
    pooled = [one for one in statistics(drawn.survey(), survey.questions) if len(one.parts) > 1]
    assert pooled
    for one in pooled[:5]:
        a, b = survey.scored(one), other.scored(one)
        assert a is not None
        assert b is not None
        assert np.array_equal(a.values, b.values)
        assert np.array_equal(a.weights, b.weights)


def test_statistics_without_any_report_stay_unknown_when_shares_are_made_to_add_up() -> None:
    """Of a dozen reports, none is about some questions: their shares are not numbers, which no projection takes."""
    people = drawn.Drawn.of(drawn.survey(), drawn.people(2000, 1))
    unknown = 0
    for seed in range(30):
        found = tv.estimate(people.veil, people.reports(12, np.random.default_rng(seed)))
        smooth = found.consistent()
        for name, those in found.shares.items():
            if any(np.isnan(row.mean) for row in those.values()):
                unknown += 1
            else:
                extra = smooth.missing[name].mean if name in smooth.missing else 0.0
                assert sum(row.mean for row in smooth.shares[name].values()) + extra == pytest.approx(1.0)
        unknown += any(np.isnan(row.mean) for those in found.pairs.values() for row in those.values())
    assert unknown


def test_consistent_shares_add_up_and_say_so() -> None:
    e = found().consistent()
    for name, missing in (("plan", True), ("region", False), ("owner", False)):
        shares = [row.mean for row in e.shares[name].values()] + ([e.missing[name].mean] if missing else [])
        assert min(shares) >= 0
        assert sum(shares) == pytest.approx(1.0)
    cells = e.pairs["plan", "region"]
    north = sum(row.mean for (_, region), row in cells.items() if region == "North")
    assert north == pytest.approx(e.shares["region"]["North"].mean)
    assert min(row.mean for row in cells.values()) >= 0
    assert CONSISTENT in e.notes
    assert CONSISTENT not in found().notes
    assert e.shares["plan"]["Basic"].low == found().shares["plan"]["Basic"].low


def test_consistent_histograms_add_up_with_their_quantiles() -> None:
    raw, e = found().histograms["income"], found().consistent().histograms["income"]
    shares = np.array([row.mean for row in e.shares])
    assert shares.min() >= 0.0
    assert shares.sum() == pytest.approx(1.0)
    assert [row.mean for row in e.below] == pytest.approx(np.cumsum(shares)[:-1].tolist())
    assert [row.low for row in e.shares] == [row.low for row in raw.shares]
    assert near(e.quantile(0.5), PEOPLE["income"].median())


@pytest.mark.parametrize("by", [None, "owner"])
def test_a_consistent_histogram_is_nearer_to_the_truth_than_unbiased_shares_brought_into_range(by: str | None) -> None:
    """By the mean distance of the distribution functions; bins are many and unequal, and a tenth has no value."""
    edges = [0, 1, 2, 4, *range(6, 60, 2), 70, 100]
    task = tv.SurveyTask(["income"], by, histograms={"income": edges})
    veil = tv.design(drawn.people(2000, 0), task, epsilon=1.0, schema=drawn.SCHEMA)
    truth = np.histogram(PEOPLE["income"].dropna(), edges)[0] / PEOPLE["income"].count()
    errors = []
    for _ in range(8):
        e = tv.estimate(veil, veil.privatize(PEOPLE[:10_000]))
        unbiased, likely = (
            np.array([row.mean for row in one.histograms["income"].shares]) for one in (e, e.consistent())
        )
        errors.append([np.abs(np.cumsum(shares - truth)).mean() for shares in (on_simplex(unbiased), likely)])
    projected, likeliest = np.mean(errors, axis=0)
    assert likeliest < 0.9 * projected  # on average .42, and above .7 in two of 1,000 draws of eight


def test_a_histogram_that_is_measured_with_another_field_adds_up_too() -> None:
    task = tv.SurveyTask(["owner"], by="income", histograms={"income": [0, 10, 20, 30, 50, 100]})
    veil = tv.design(drawn.people(2000, 0), task, epsilon=2.0, schema=drawn.SCHEMA)
    e = tv.estimate(veil, veil.privatize(PEOPLE))
    assert all(
        len(rows.fields) > 1
        for rows in Survey.of(veil, tv.estimates.tally(veil, veil.privatize(PEOPLE[:20]))).questions
        if "income" in rows.fields
    )
    histogram = e.consistent().histograms["income"]
    assert sum(row.mean for row in histogram.shares) == pytest.approx(1.0)
    for row, (low, high) in zip(histogram.shares, itertools.pairwise(histogram.edges), strict=True):
        assert near(row, PEOPLE["income"].dropna().between(low, high, inclusive="left").mean())


def test_quantiles_by_hand() -> None:
    def below(*rows: tuple[float, float, float]) -> HistogramEstimate:
        intervals = tuple(tv.estimates.Interval("", *row) for row in rows)
        return HistogramEstimate(name="x", edges=(0.0, 1.0, 2.0, 4.0), shares=(), bands=(), below=intervals)

    sure = below((0.2, 0.15, 0.25), (0.6, 0.55, 0.65))
    assert sure.quantile(0.5)[1:4] == pytest.approx((1.75, 1.0, 2.0))
    assert sure.quantile(0.1)[1:4] == pytest.approx((0.5, 0.0, 1.0))
    assert sure.quantile(0.9)[1:4] == pytest.approx((3.5, 2.0, 4.0))
    vague = below((0.2, 0.0, 0.7), (0.6, 0.3, 0.9))
    assert vague.quantile(0.5)[2:4] == (0.0, 4.0)
    with pytest.raises(DataError, match="between 0 and 1"):
        sure.quantile(1.0)


def test_table_picture_file_and_frame(tmp_path: Path) -> None:
    e = found()
    text = e.table()
    for title in (
        "Means",
        "Shares of plan",
        "Missing values",
        "By region: income",
        "plan × region",
        "Histogram of income",
    ):
        assert f"\n{title}\n" in text
    assert e.plot(tmp_path / "survey.png").stat().st_size > 5_000
    content = json.loads(e.to_json(tmp_path / "survey.json").read_text())
    assert content["means"][0]["of"] == ["income"]
    assert {tuple(row["of"]) for row in content["pairs"]} >= {("plan", "region", "Basic", "North")}
    frame = e.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    (north,) = frame[(frame["statistic"] == "mean") & (frame["group"] == "North")]["mean"]
    assert north == e.by["region"]["North"]["income"].mean
    assert "SurveyEstimate from 60,000 reports" in repr(e)
    assert {one.name for one in e.forged(0.01)} >= {"income", "plan=Basic"}


def test_the_picture_has_groups_cross_tables_and_histograms_too(tmp_path: Path) -> None:
    """It had only the rows that volunteers have a value for, and nothing at all of a release without volunteers."""
    parts = [ax for ax in found().plot().child_axes if ax.get_yticks().size]
    titles = [ax.get_title(loc="left") for ax in parts]
    assert titles[0] == "Means"
    assert {"Shares of plan", "By region: income", "plan × region", "Histogram of income"} <= set(titles)
    shown = sum(len(ax.get_yticklabels()) for ax in parts)
    rows = [row for section in found().sections() for row in section.rows if np.isfinite(row.interval[2:4]).all()]
    assert shown == min(len(rows), 60)
    (income,) = (ax for ax in parts if ax.get_title(loc="left") == "By region: income")
    assert income.get_yticklabels()[0].get_text() == "income, region=North\n[k€]"
    low, high = income.get_xlim()
    assert low < found().by["region"]["North"]["income"].mean < high  # in its own unit
    drawn.survey().save(tmp_path / "bare", volunteers=False)
    bare = tv.estimate(tv.Veil.load(tmp_path / "bare"), tally())
    assert bare.plot(tmp_path / "bare.png").stat().st_size > 5_000


def test_two_rounds_differ_and_pool() -> None:
    people = drawn.Drawn.of(drawn.survey(), PEOPLE)
    first, second = (people.reports(5_000, np.random.default_rng(seed)) for seed in (1, 2))
    one, other = (tv.estimate(drawn.survey(), reports) for reports in (first, second))
    assert {row.name for row in one.minus(other)["means"]} == {"income"}
    both = tv.estimate(
        [drawn.survey(), drawn.survey(1.0)],
        [first, drawn.Drawn.of(drawn.survey(1.0), PEOPLE).reports(5_000, np.random.default_rng(3))],
    )
    assert isinstance(both, SurveyEstimate)
    assert both.means["income"].high - both.means["income"].low < one.means["income"].high - one.means["income"].low


def test_a_saved_release_gives_the_same(tmp_path: Path) -> None:
    drawn.survey().save(tmp_path / "release")
    again = tv.estimate(tv.Veil.load(tmp_path / "release"), tally())
    assert again.means.keys() == found().means.keys()
    for name, row in again.means.items():  # the last digits depend on how arrays lie in memory
        assert row[1:4] == pytest.approx(found().means[name][1:4], rel=1e-12)
    assert again.drift.words == found().drift.words
    drawn.survey().save(tmp_path / "bare", volunteers=False)
    assert "keeps no sums" in tv.estimate(tv.Veil.load(tmp_path / "bare"), tally()).drift.words


def test_what_a_survey_does_not_take() -> None:
    with pytest.raises(DataError, match="leave out assume="):
        tv.estimate(drawn.survey(), tally(), assume="cells")
    with pytest.raises(DataError, match="no field of this release has one"):
        tv.estimate(drawn.survey(), tally(), candidates={"plan": ["Basic"]})
    with pytest.raises(DataError, match=r"tv\.estimate"):
        drawn.survey().decode(np.zeros((1, 1), dtype=np.int64))


def test_a_share_that_no_volunteer_has_cannot_become_less_frequent() -> None:
    volunteers = pd.DataFrame({"plan": ["a", "b"] * 200})
    schema = tv.Schema({"plan": tv.Category(["a", "b"])})
    veil = tv.design(volunteers, tv.SurveyTask(), epsilon=4.0, schema=schema)
    (question,) = questions(veil)
    other, first, second = question.chances().argmax(axis=1)
    # Far fewer reports of a value that is not listed than noise makes, so its unbiased share is far below 0.
    codes = np.array([[first], [second]] * 10_000)
    codes[:200] = other
    e = tv.estimate(veil, codes)
    assert e.shares["plan"][OTHER].high == 0.0
    assert not e.drift.raised, e.drift.words
    codes[:3000] = other
    assert tv.estimate(veil, codes).drift.moved[0] == "plan not listed"  # more frequent is a change


def test_more_bins_than_are_fitted_one_by_one_have_smooth_shares_too() -> None:
    edges = [0.0, *np.linspace(2.0, 98.0, 289).tolist(), 100.0]
    task = tv.SurveyTask(["income"], histograms={"income": edges})
    veil = tv.design(drawn.people(2000, 0), task, epsilon=4.0, schema=drawn.SCHEMA)
    survey = Survey.of(veil, drawn.Drawn.of(veil, PEOPLE[:2000]).reports(5_000, np.random.default_rng(0)))
    bins = [one for one in statistics(veil, survey.questions) if one.kind == "histograms"]
    likely = survey.likely("income", bins)
    assert likely is not None
    assert len(likely) == len(bins) == 290
    assert likely.min() > 0.0
    assert likely.sum() == pytest.approx(1.0)
    truth = np.histogram(PEOPLE["income"].dropna()[:2000], edges)[0]
    assert np.abs(np.cumsum(likely - truth / truth.sum())).mean() < 0.03
