"""The dossier of a release over time: what its reports add up to, and what it takes for that to hold."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from dossiers import Reader
from taskveil.errors import DataError

PEOPLE = pd.DataFrame({"plan": ["Basic", "Pro", "Pro", "Team"] * 50})
SCHEMA = tv.Schema({"plan": tv.Category(["Basic", "Pro", "Team"])})
WEEKS = tv.OverTime(lifetime=3.0, rounds=52, start="2026-11-16", per_report=1.5)


def survey(over_time: tv.OverTime | float = WEEKS) -> tv.Veil:
    return tv.design(PEOPLE, tv.SurveyTask(), epsilon=over_time, schema=SCHEMA)


def test_the_reports_of_a_person_are_added_up_and_not_the_rounds() -> None:
    veil = survey()
    made = tv.dossier(veil, people=26_000)
    total = json.loads(made.to_json())["total"]
    assert total["epsilon"] == veil.guarantee.lifetime <= 3.0
    assert total["panel"] == {"rounds": 52, "reports": 2, "days": 7}
    assert "in 2 of 52 rounds (the first is 2026-11-16, the last 2027-11-08)" in total["words"]
    assert "2 reports of ε = 1.5 cost ε = 3 together" in total["words"]
    page = Reader(made.html()).text
    assert "2 of 52 rounds: ε = 3" in page
    assert "When a device joins, and when it is on, does not depend on its records." in page
    assert "A device that is off because of what its record would be" in page
    assert "By default the limit is ε = 3, that of all planned reports." in page
    assert "by default it allows one report" not in page


def test_margins_are_those_of_the_people_who_report_in_a_round() -> None:
    (found,) = tv.dossier(survey(), people=26_000).content["utility"]
    (once,) = tv.dossier(survey(1.5), people=1_000).content["utility"]
    (crowd,) = tv.dossier(survey(), people=26_000).content["crowd"]
    assert crowd["reports"] == 1_000
    assert "of whom about 1,000 report in a round" in found["words"]
    for row, other in zip(found["margins"], once["margins"], strict=True):
        assert row["share_of_range"] == pytest.approx(other["share_of_range"])


def test_blocks_of_two_lengths_count_the_people_of_the_longer_one() -> None:
    """Three rounds and two reports: a block of one round, in which all report, and one of two, in which half do."""
    veil = survey(tv.OverTime(lifetime=3.0, rounds=3, per_report=1.5))
    content = tv.dossier(veil, people=2_001).content
    assert content["crowd"][0]["reports"] == 1_000
    assert "of whom about 1,000 report in a round" in content["utility"][0]["words"]


def test_a_smaller_cap_stops_devices_early() -> None:
    page = Reader(tv.dossier(survey(), cap=2.0).html()).text
    assert "1 of 52 rounds: ε = 2" in page
    assert "they make 1 of the 2 reports" in page


def test_rounds_that_the_release_plans_are_not_stated_again() -> None:
    with pytest.raises(DataError, match="a person reports in 2 of 52 rounds: leave rounds out"):
        tv.dossier(survey(), rounds=52)


def test_a_family_over_time_counts_its_largest_budget() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    over_time = tv.OverTime(lifetime=3.0, rounds=6, per_report=1.0)
    veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=over_time, method="task_aware")
    means = tv.design(X, tv.MeanTask(), epsilon=tv.OverTime(lifetime=1.5, rounds=6, per_report=0.5))
    family = tv.Family({"answers": (veil, 9), "means": (means, 1)})
    content = tv.dossier(family, people=600).content
    assert content["total"]["epsilon"] == family.guarantee.lifetime == 3.0
    assert "cost ε = 3 together" in content["total"]["words"]
