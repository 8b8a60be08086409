"""Series: estimates of several rounds, with bands that hold at all planned rounds at once."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

import collections_drawn as drawn
import families
import surveys_drawn
import taskveil as tv
from taskveil.client.panels import Panel, dated
from taskveil.errors import DataError, TooFewReportsError
from taskveil.estimates import Tally, tally

NAMES = tuple(dated("2026-11-16", 7, 8))
PANEL = Panel(reports=2, rounds=NAMES, days=7)
CODES = drawn.with_volunteers(drawn.codebook_veil(3.0), drawn.records(500, np.random.default_rng(1)))
VEIL = replace(CODES, panel=PANEL)
RNG = np.random.default_rng(3)
ROUNDS = {name: VEIL.privatize(drawn.records(300 + 10 * place, RNG)) for place, name in enumerate(NAMES[:4])}
FALSE_ALARM = 1e-7


def test_every_round_has_its_share_of_the_error_probability() -> None:
    series = tv.estimate(VEIL, dict(reversed(ROUNDS.items())))
    assert series.rounds == NAMES[:4]  # in the order of the panel
    assert (series.planned, series.confidence, series.anytime) == (8, 0.95, False)
    for name, reports in ROUNDS.items():
        alone = tv.estimate(VEIL, reports, confidence=1 - 0.05 / 8)
        assert series.estimates[name].frequencies == alone.frequencies
        row = alone.frequencies[2]
        assert series.line(row.name)[name] == row
    always = tv.estimate(VEIL, ROUNDS, anytime=True, confidence=0.9)
    expected = tv.estimate(VEIL, ROUNDS[NAMES[1]], anytime=True, confidence=1 - 0.1 / 8)
    assert always.estimates[NAMES[1]].frequencies == expected.frequencies
    assert "90% at all 8 rounds and times" in always.table()
    assert "at least 95% that the intervals contain its value in all 8 planned rounds at once." in series.table()


def test_without_a_panel_the_caller_says_how_many_rounds_there_will_be() -> None:
    some = dict.fromkeys("ba", replace(tally(VEIL, ROUNDS[NAMES[0]]), release=CODES.release_id))
    assert (tv.estimate(CODES, some).planned, tv.estimate(CODES, some).rounds) == (2, ("b", "a"))
    assert tv.estimate(CODES, some, planned_rounds=52).planned == 52
    for wrong in (1, 0, 2.0, True):
        with pytest.raises(DataError, match="planned_rounds is how many rounds there will be in all"):
            tv.estimate(CODES, some, planned_rounds=wrong)  # type: ignore[call-overload]
    with pytest.raises(DataError, match="leave out planned_rounds"):
        tv.estimate(VEIL, ROUNDS, planned_rounds=8)
    with pytest.raises(DataError, match="'2027-02-01' is not one of the 8 rounds that the release plans"):
        tv.estimate(VEIL, {**ROUNDS, "2027-02-01": ROUNDS[NAMES[0]]})
    with pytest.raises(DataError, match="there are no rounds"):
        tv.estimate(VEIL, {})
    with pytest.raises(DataError, match="planned_rounds is for several rounds"):
        tv.estimate(VEIL, ROUNDS[NAMES[0]], planned_rounds=3)  # type: ignore[call-overload]


def test_a_round_with_too_few_reports_has_no_interval() -> None:
    series = tv.estimate(VEIL, {**ROUNDS, NAMES[4]: ROUNDS[NAMES[0]][:3]})
    assert series.rounds == NAMES[:5]
    assert list(series.estimates) == list(NAMES[:4])
    assert series.notes[-1].startswith(f"Round {NAMES[4]}: 3 reports are too few")
    assert series.response()[-1] == (NAMES[4], 3, None, None, None, None)
    content = series.content()
    assert all(row["low"][4] is None and row["low"][3] is not None for row in content["rows"])
    with pytest.raises(TooFewReportsError, match="no round has enough reports"):
        tv.estimate(VEIL, {NAMES[4]: ROUNDS[NAMES[0]][:3]})


def test_surveys_assumed_rows_pairs_and_families_have_lines(tmp_path: Path) -> None:
    survey = surveys_drawn.survey()
    reports = [survey.privatize(surveys_drawn.people(600, seed)) for seed in range(2)]
    series = tv.estimate(survey, dict(zip("ab", reports, strict=True)), planned_rounds=4)
    expected = tv.estimate(survey, reports[1], confidence=1 - 0.05 / 4)
    assert isinstance(expected, tv.estimates.SurveyEstimate)
    assert series.line("income")["b"] == expected.means["income"]
    assert {line.kind for line in series.lines} >= {"means", "shares"}

    assumed = tv.estimate(VEIL, ROUNDS, assume="cells")
    titles = [title for title, _ in assumed.sections()]
    assert any(title.endswith("(assumed)") for title in titles)
    assert not titles[0].endswith("(assumed)")

    both = tv.estimate([CODES, survey], {name: [CODES.privatize(drawn.records(200, RNG)), reports[0]] for name in "ab"})
    assert both.counts == {"a": 800, "b": 800}

    family = families.drawn(0.5)
    people = families.people(600)
    own = {name: one.privatize(people) for name, one in family.members.items()}
    together = tv.estimate(family, {"a": own, "b": own}, planned_rounds=10)
    alone = tv.estimate(family, own, confidence=1 - 0.05 / 10)
    assert together.estimates["b"].attributes == alone.attributes
    assert together.counts["a"] == 1200
    planned = replace(CODES, panel=PANEL)
    with pytest.raises(DataError, match="plan different rounds"):
        tv.estimate([planned, survey], {"a": [ROUNDS[NAMES[0]], reports[0]]})


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    series = tv.estimate(VEIL, ROUNDS)
    content = json.loads(series.to_json(tmp_path / "series.json", people=5000).read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(series.content(people=5000)))
    assert content["format"] == "taskveil.series.1"
    assert [one["name"] for one in content["rows"]] == [line.label.name for line in series.lines]
    assert content["rows"][0]["mean"] == [one.mean for one in series.line(content["rows"][0]["name"]).values()]
    table = series.to_pandas()
    assert len(table) == 4 * len(series.lines)
    assert table["reports"].tolist()[:4] == [300, 310, 320, 330]
    assert "95% at all 8 rounds" in series._repr_html_()
    assert series.plot(tmp_path / "series.png", smooth=True, rows=[series.lines[0].label.name]).stat().st_size > 5000
    with pytest.raises(DataError, match="there is no row 'age': the rows are"):
        series.plot(rows=["age"])


# Changes

FLAGS = pd.DataFrame({"ill": np.arange(400) % 2 == 0})
ASKED = tv.design(FLAGS, tv.SurveyTask(), epsilon=6.0)


@lru_cache
def found(count: int, yes: int, confidence: float) -> tv.Estimate:
    """The estimate of so many reports, of which so many say yes."""
    none = np.zeros((0, 0))
    codes = np.array([count - yes, yes])
    return tv.estimate(
        ASKED,
        Tally(release=ASKED.release_id, count=count, codes=codes, total=none.ravel(), square=none),
        confidence=confidence,
    )


def opposite_answers(confidence: float, collections: int, different_people: bool) -> int:
    """In how many collections the interval of a change misses. 400 people, drawn anew each time, report twice: those
    who are ill the first time are well the second time. Half of everybody is ill each time: nothing changed."""
    rng, missed = np.random.default_rng(11), 0
    kept = 1 / (1 + np.exp(-6.0))
    for _ in range(collections):
        ill = rng.random(400) < 0.5
        yes = [int((rng.random(400) < np.where(now, kept, 1 - kept)).sum()) for now in (ill, ~ill)]
        then, now = (found(400, one, confidence) for one in yes)
        (row,) = now.minus(then, different_people=different_people)["means"]
        missed += not row.low <= 0.0 <= row.high
    return missed


def test_changes_hold_when_the_same_people_answer_the_opposite() -> None:
    """The rule for different people would be wrong in a sixth of collections."""
    collections = 1000
    most = int(binom.isf(FALSE_ALARM, collections, 0.05))
    assert opposite_answers(0.95, collections, different_people=False) <= most
    assert opposite_answers(0.975, collections, different_people=False) <= most
    assert opposite_answers(0.95, collections, different_people=True) > most


def test_changes_are_refused_in_words() -> None:
    """ "no" is not False: the intervals would be those of different people."""
    now, then = (tv.estimate(VEIL, ROUNDS[name]) for name in NAMES[:2])
    with pytest.raises(DataError, match="different_people is True or False, got 'no'"):
        now.minus(then, different_people="no")  # type: ignore[arg-type]
    series = tv.estimate(VEIL, ROUNDS)
    with pytest.raises(DataError, match="the estimate of another round, got Series"):
        now.minus(series)  # type: ignore[arg-type]
    for name in ("2027-02-01", 1, [NAMES[0]], None):
        with pytest.raises(DataError, match="there is no round"):
            series.minus(name, NAMES[0])  # type: ignore[arg-type]


def test_reports_of_all_rounds_are_about_the_people_who_take_part() -> None:
    """Four reports of each of 300 people, whose values do not change, and who are a sample of a population of halves:
    intervals of all reports hold for these people, and hardly more than two in three for the population."""
    collections, rng = 250, np.random.default_rng(8)
    most = int(binom.isf(FALSE_ALARM, collections, 0.05))
    table = pd.DataFrame({"value": ["yes", "no"] * 50})
    veil = tv.design(table, tv.SurveyTask(), epsilon=tv.OverTime(lifetime=32.0, rounds=4, per_report=8.0))
    missed = np.zeros(3, dtype=int)
    for _ in range(collections):
        values = rng.random(300) < 0.5
        reports = veil.privatize(pd.DataFrame({"value": np.where(np.tile(values, 4), "yes", "no")}))
        every, one = (tv.estimate(veil, some).shares["value"]["yes"] for some in (reports, reports[:300]))
        truths = (values.mean(), every), (0.5, every), (0.5, one)
        missed += [not row.low <= truth <= row.high for truth, row in truths]
    of_these, of_population, of_population_in_a_round = missed
    assert max(of_these, of_population_in_a_round) <= most
    assert of_population > most


def test_a_change_within_a_block_is_of_different_people() -> None:
    series = tv.estimate(VEIL, ROUNDS | {NAMES[5]: ROUNDS[NAMES[0]]})
    assert [series.are_apart(NAMES[0], other) for other in NAMES[:6]] == [False, True, True, True, False, False]
    for other, each, apart in ((NAMES[0], 0.95, True), (NAMES[5], 0.975, False)):
        now, then = (tv.estimate(VEIL, ROUNDS[name], confidence=each) for name in (NAMES[3], NAMES[0]))
        expected = now.minus(then, different_people=apart)
        assert series.minus(NAMES[3], other) == expected
    always = tv.estimate(VEIL, ROUNDS, anytime=True)
    now, then = (tv.estimate(VEIL, ROUNDS[name], confidence=0.975, anytime=True) for name in (NAMES[3], NAMES[0]))
    assert always.minus(NAMES[3], NAMES[0]) == now.minus(then)
    free = tv.estimate(CODES, {name: CODES.privatize(drawn.records(200, RNG)) for name in "ab"})
    assert not free.are_apart("a", "b")
    with pytest.raises(DataError, match="no round 'c'"):
        free.minus("a", "c")


def test_margins_are_added_unless_people_differ() -> None:
    now, then = (tv.estimate(VEIL, ROUNDS[name]) for name in (NAMES[3], NAMES[0]))
    for row, old, added, apart in zip(
        now.frequencies,
        then.frequencies,
        now.minus(then)["frequencies"],
        now.minus(then, different_people=True)["frequencies"],
        strict=True,
    ):
        raw, before = (
            next(one for one in found.groups["frequencies"] if one.label.name == row.name) for found in (now, then)
        )
        assert (added.low, added.high) == pytest.approx((raw.low - before.high, raw.high - before.low))
        assert added.mean == apart.mean == row.mean - old.mean
        assert added.low < apart.low < apart.high < added.high


# The smoothed line


def test_a_smoothed_line_is_assumed_and_says_what_it_conditions_on() -> None:
    series = tv.estimate(VEIL, ROUNDS)
    name = series.lines[0].label.name
    line = series.smoothed(name)
    assert list(line.line) == list(NAMES[:4])
    assert line.change >= 0
    for one in line.line.values():
        assert one.assumes == line.assumes
        assert one.low <= one.mean <= one.high
    assert "Local level model" in line.assumes
    assert "they do not include how uncertain it is" in line.assumes
    widths = [one.high - one.low for one in line.line.values()]
    assert max(widths) < max(one.high - one.low for one in series.line(name).values())
    with pytest.raises(DataError, match="at least three rounds"):
        tv.estimate(VEIL, {name: ROUNDS[name] for name in NAMES[:2]}).smoothed(name)


def test_rounds_without_reports_keep_their_place() -> None:
    """So that twice as much may change over a round that is left out."""
    series = tv.estimate(VEIL, {name: ROUNDS[name] for name in (NAMES[0], NAMES[1], NAMES[3])})
    assert list(series._places().values()) == [0, 1, 3]


def test_limits_at_all_times_do_not_change_the_smoothed_line() -> None:
    name = tv.estimate(VEIL, ROUNDS).lines[0].label.name
    once, always = (tv.estimate(VEIL, ROUNDS, anytime=anytime).smoothed(name) for anytime in (False, True))
    assert once == always


def test_smoothed_lines_hold_where_the_model_does() -> None:
    """Shares that move as the model says; the true variance of the change is near the likeliest one, because there are
    many rounds. Of all collections the line of at most 5% should miss anywhere; we allow what has a chance of 1e-7, and
    a tenth more for the estimated variance."""
    rng, missed, collections = np.random.default_rng(5), 0, 60
    kept = 1 / (1 + np.exp(-6.0))
    for _ in range(collections):
        share = np.clip(0.5 + np.cumsum(rng.normal(0, 0.02, 30)), 0, 1)
        none = np.zeros((0, 0))
        yes = rng.binomial(400, share * kept + (1 - share) * (1 - kept))
        tallies = {
            str(place): Tally(
                release=ASKED.release_id,
                count=400,
                codes=np.array([400 - one, one]),
                total=none.ravel(),
                square=none,
            )
            for place, one in enumerate(yes.tolist())
        }
        line = tv.estimate(ASKED, tallies).smoothed("ill").line.values()
        missed += not all(one.low <= true <= one.high for one, true in zip(line, share.tolist(), strict=True))
    assert missed <= int(binom.isf(FALSE_ALARM, collections, 0.15))


# Response


def test_the_response_is_binomial_with_the_limits_of_clopper_and_pearson() -> None:
    series = tv.estimate(VEIL, ROUNDS)
    first = series.response(people=2000)[0]
    assert (first.round, first.reports, first.expected, first.rate) == (NAMES[0], 300, 500.0, 0.6)
    expected = [4 * beta.ppf(0.025, 300, 1701), 4 * beta.ppf(0.975, 301, 1700)]
    assert [first.low, first.high] == pytest.approx(expected, rel=1e-5)
    some = series.response(people={NAMES[1]: 1000})
    assert (some[0].expected, some[1].expected) == (None, 250.0)
    for wrong in (299, 0, 1e4, True):
        with pytest.raises(DataError, match="people is how many take part"):
            series.response(people=wrong)  # type: ignore[arg-type]
