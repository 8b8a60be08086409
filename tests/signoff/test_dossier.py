"""`tv.dossier`: its content for a model, a survey and a family; what the page and the JSON file have in common."""

from __future__ import annotations

import doctest
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import families
import taskveil as tv
from dossiers import Reader, family, gaussian, model, survey, texts
from taskveil.client.promise import rounded_up
from taskveil.errors import BudgetError, BudgetSpentError, DataError
from taskveil.signoff import dossier
from taskveil.signoff.fields import described
from taskveil.signoff.page import page

RELEASES = {"model": model, "survey": survey, "family": family}


@pytest.mark.parametrize("name", RELEASES)
def test_the_page_says_what_the_json_says(name: str) -> None:
    made = tv.dossier(
        RELEASES[name](), rounds=2, people=40_000, purpose="Plan the calls.", retention="90 days.", stored="Nothing.",
        utility="Checked in May.", title="Spring",
    )  # fmt: skip
    content = json.loads(made.to_json())
    assert content == made.content
    assert page(content) == made.html()
    shown = Reader(made.html()).text
    parts = ("stated", "fields", "report", "total", "people", "collector", "not_protected", "checklist", "roles")
    said = [text for part in parts for text in texts(content[part])] + [content["release"]["id"]]
    said += [text for one in content["crowd"] for text in (one["words"], *one["assumes"])]
    said += [one["words"] for one in content["utility"]] + [content["promise"]["statement"]]
    said += [row["margin"] for one in content["utility"] for row in one["margins"]]
    levels = {"kept", "weak", "none"}  # a mark on the page
    missing = [text for text in said if " ".join(text.split()) not in shown and text not in levels]
    assert missing == []


def test_a_survey_says_which_fields_are_asked_and_how_certain_results_are() -> None:
    content = tv.dossier(survey(), rounds=1, people=40_000).content
    fates = {one["name"]: one["becomes"] for one in content["fields"]}
    assert "Stays on the device" in fates["since"]
    assert all("Asked in" in fates[name] for name in ("age", "bmi", "smokes", "region"))
    values = {one["name"]: one["values"] for one in content["fields"]}
    assert values["age"].startswith("From 18 to 90 years.")
    assert "may be missing" in values["bmi"]
    assert "north, south" in values["region"]
    (found,) = content["utility"]
    margins = {row["name"]: row for row in found["margins"]}
    half = tv.dossier(survey(), people=10_000).content["utility"][0]["margins"]
    wider = {row["name"]: row["share_of_range"] / margins[row["name"]]["share_of_range"] for row in half}
    assert all(ratio == pytest.approx(2.0) for ratio in wider.values())  # a quarter of the people
    assert tv.dossier(survey()).content["utility"][0]["margins"] == []


@pytest.mark.parametrize(
    ("field", "kind", "values"),
    [
        (tv.Number(-0.5, 1e6, "kW"), "number", "From -0.5 to 1,000,000 kW. Others count as the nearest limit."),
        (
            tv.Count(0, 9, missing=True),
            "whole number",
            "From 0 to 9. Others count as the nearest limit. It may be missing.",
        ),
        (
            tv.Category(list("abcdefghij")),
            "one of some values",
            "a, b, c, d, e, f, g, h and 2 more. All others count",
        ),
        (tv.Flag(), "yes or no", "Yes or no."),
        (
            tv.Date("2020-01-01", "2024-12-31"),
            "date",
            "From 2020-01-01 to 2024-12-31. Others count as the",
        ),
        (tv.Words(101), "text", "Any. A hash of the text is used."),
    ],
)
def test_fields_are_described_in_words(field: Any, kind: str, values: str) -> None:
    found = described(field, None)
    assert found[0] == kind
    assert found[1].startswith(values)
    assert described(tv.Number(), (0.0, 2.0))[1].startswith("From 0 to 2.")


@pytest.mark.parametrize("domain", [tv.Box([0, 0, 0], [1, 2, 1]), tv.Ball(2.0)])
@pytest.mark.parametrize("method", ["codebook", "task_aware", "task_agnostic", "privacy_agnostic", "means", "constant"])
def test_no_report_depends_on_a_field_that_stays_on_the_device(method: str, domain: Any) -> None:
    """Some methods report what their task does not need: then the page must not say that it stays."""
    rng = np.random.default_rng(1)
    table = rng.random((200, 3))
    table[:, 1] += table[:, 0]
    K = np.diag([1.0, 1.0, 0.0])
    task = tv.MeanTask(K) if method == "means" else tv.LinearTask(K)
    veil = tv.design(table, task, epsilon=1.0, method=method, domain=domain)
    stays = ["Stays" in one["becomes"] for one in tv.dossier(veil).content["fields"]]
    other = table.copy()
    other[:, stays] = rng.random((200, sum(stays))) * 5
    assert (veil.encode(other) == veil.encode(table)).all()
    if method in ("codebook", "means", "constant"):
        assert stays[2]
    if method == "task_agnostic":
        assert not any(stays)
    if method == "constant":
        assert "Nothing can be learned" in tv.dossier(veil, people=9).content["utility"][0]["words"]


def test_many_shares_are_a_line_for_each_question() -> None:
    """A page of forty shares of one category would hide the other statistics. The JSON file has each of them."""
    towns = [f"town {place:02}" for place in range(40)]
    schema = tv.Schema({"town": tv.Category(towns), "car": tv.Flag(), "since": tv.Date("2015-01-01", "2026-01-01")})
    rng = np.random.default_rng(0)
    table = [{"town": rng.choice(towns), "car": bool(rng.random() < 0.3), "since": "2020-02-03"} for _ in range(300)]
    veil = tv.design(pd.DataFrame(table), tv.SurveyTask(by="car"), epsilon=1.0, schema=schema)
    made = tv.dossier(veil, people=5000)
    (found,) = made.content["utility"]
    lines = {row["name"]: row for row in found["summary"]}
    assert set(lines) == {"town: 41 shares", "car", "since", "town by car: 82 shares", "since, not car", "since, car"}
    shown = Reader(made.html()).text
    assert all(row["name"] + row["expected"] + row["margin"] in shown for row in found["summary"])
    assert f"all {len(found['margins'])} statistics" in shown
    for line, some in (
        (
            lines["town: 41 shares"],
            [row for row in found["margins"] if row["name"].startswith("town") and "," not in row["name"]],
        ),
        (
            lines["town by car: 82 shares"],
            [row for row in found["margins"] if row["name"].endswith("(within the group)")],
        ),
    ):
        assert line["name"].endswith(f": {len(some)} shares")
        widest = max(some, key=lambda row: row["share_of_range"])
        assert line["share_of_range"] == widest["share_of_range"]
        assert line["margin"] == f"at most {widest['margin']}"


def test_a_model_says_what_it_lost_beside_one_answer_for_everybody() -> None:
    made = tv.dossier(model(), rounds=1)
    (found,) = made.content["utility"]
    chosen, *others = found["losses"]
    assert chosen == {
        "method": "codebook", "encoder": "linear", "loss": model().considered[0].held_out_loss, "chosen": True
    }  # fmt: skip
    constant = next(one for one in others if one["method"] == "constant")
    assert chosen["loss"] < constant["loss"]
    assert f"{constant['loss']:.4g}" in Reader(made.html()).text
    assert "training data" in Reader(made.html()).text
    assert "training data" not in Reader(tv.dossier(survey()).html()).text


def test_a_model_among_several_tasks_is_said_to_reveal_its_training_data(tmp_path: Path) -> None:
    """Before and after the release is saved: the files do not say what the task was."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    part = tv.ModelTask(LogisticRegression().fit(X, X[:, 0] > 0), loss="cross_entropy")
    several = tv.MultiTask([(tv.LinearTask([[1.0, 0.0]]), 1.0), (part, 1.0)])
    veil = tv.design(X, several, epsilon=2.0, method="codebook")
    veil.save(tmp_path / "several")
    made, read = tv.dossier(veil).content, tv.dossier(tmp_path / "several").content
    for name in ("not_protected", "report", "promise"):
        assert made[name] == read[name]
    assert made["release"]["members"][0]["task"] == read["release"]["members"][0]["task"]
    assert any("training data" in row["what"] for row in made["not_protected"])


def test_a_family_says_what_each_member_does() -> None:
    made = tv.dossier(family(), rounds=2, people=40_000)
    content = made.content
    assert [(one["name"], one["share"]) for one in content["release"]["members"]] == [("answers", 0.9), ("survey", 0.1)]
    assert [one["people"] for one in content["utility"]] == [36_000, 4_000]
    assert all("answers: " in one["becomes"] and "survey: " in one["becomes"] for one in content["fields"])
    assert content["promise"]["epsilon"] == families.answers().guarantee.epsilon  # the largest
    chosen = tv.dossier(families.chosen(), people=100)
    assert "choose among ε = 0.5, 1, 2" in Reader(chosen.html()).text
    assert "The chosen ε is visible" in Reader(chosen.html()).text
    assert [one["people"] for one in chosen.content["utility"]] == [100, 100, 100]


@pytest.mark.parametrize("rounds", [1, 2, 4, 52])
@pytest.mark.parametrize("name", RELEASES)
def test_rounds_cost_what_compose_says(name: str, rounds: int) -> None:
    release = RELEASES[name]()
    one = (
        tv.Cost.of(release, times=rounds)
        if isinstance(release, tv.Veil)
        else tv.Cost(epsilon=release.epsilon, times=rounds)
    )
    total = tv.compose([one]).epsilon
    found = tv.dossier(release, rounds=rounds).content
    assert found["total"]["epsilon"] == total
    assert [row["after_all"] for row in found["gains"]] == pytest.approx(
        [p * math.exp(total) / (1 - p + p * math.exp(total)) for p in (0.5, 0.1, 0.01)]
    )
    lost = 0.01 * math.exp(total) / (0.99 + 0.01 * math.exp(total)) > 0.99
    assert ("This is no protection." in found["total"]["words"]) is lost
    assert ("No protection" in Reader(tv.dossier(release, rounds=rounds).html()).text) is lost
    assert found["checklist"][2]["holds"] is (not lost)


def test_the_advice_on_rounds_is_the_most_that_fit() -> None:
    total = tv.dossier(survey(), rounds=52).content["total"]
    assert total["within_weak"] == tv.reports_within(tv.Cost.of(survey()), epsilon=5.0)
    assert f"ask a person for {total['within_weak']} reports at most" in total["words"]
    assert "One report already costs more" in tv.dossier(_costly(), rounds=2).content["total"]["words"]


def _costly() -> tv.Veil:
    return families.answers(8.0)


def test_a_cap_limits_what_all_rounds_cost() -> None:
    found = tv.dossier(survey(), rounds=52, cap=3.0).content["total"]
    assert found["epsilon"] == 3.0
    assert "devices stop at ε = 3" in found["words"]
    assert "all reports of a person" in found["words"]  # not 52
    assert tv.dossier(survey(), rounds=2, cap=3.0).content["total"]["epsilon"] == pytest.approx(2.0)
    assert tv.dossier(survey(), cap=3.0).content["total"]["epsilon"] == 3.0
    with pytest.raises(BudgetError, match="allows no report"):
        tv.dossier(survey(), cap=0.5)
    for wrong in (math.nan, 10**400, "three"):
        with pytest.raises(BudgetError):
            tv.dossier(survey(), cap=wrong)  # type: ignore[arg-type]
    assert tv.dossier(survey(), cap="3").content["total"]["cap"] == 3.0  # type: ignore[arg-type]


def test_a_cap_that_stops_devices_early_is_not_shown_as_all_rounds() -> None:
    """At ε = 1 a limit of 3 allows 3 of 52 reports: nothing on the page may be called the state after 52 reports."""
    made = tv.dossier(survey(), rounds=52, cap=3.0)
    shown = Reader(made.html()).text
    assert "they make 3 of the 52 reports" in shown
    assert "3 of 52 rounds: ε = 3" in shown
    assert "after 52 reports" not in shown
    assert "after all reports" in shown
    limits = {one["text"]: one["holds"] for one in made.content["checklist"]}
    assert limits["The limit of the device (cap) allows all planned reports."] is False
    assert "after 52 reports" in Reader(tv.dossier(survey(), rounds=52, cap=60.0).html()).text


def test_a_cap_above_the_plan_says_how_much_more_it_allows() -> None:
    found = tv.dossier(survey(), rounds=2, cap=3.0)
    assert found.content["total"]["epsilon"] == pytest.approx(2.0)
    assert "The limit of ε = 3 allows more: devices that are asked again make 3 reports." in Reader(found.html()).text
    limits = {one["text"]: one["holds"] for one in found.content["checklist"]}
    assert limits["The limit of the device (cap) allows all planned reports."] is True
    assert "allows more" not in Reader(tv.dossier(survey(), rounds=3, cap=3.0).html()).text


def test_a_cap_counts_reports_as_the_ledger_does(tmp_path: Path) -> None:
    veil = tv.design(np.eye(40), tv.MeanTask(), epsilon=0.1, domain=tv.Box([0.0] * 40, [1.0] * 40))
    cap = 3 * veil.guarantee.epsilon
    veil.save(tmp_path / "release")
    with tv.Client.load(tmp_path / "release", ledger=tmp_path / "ledger", cap=cap) as client:
        for round in range(3):
            client.report(np.zeros(40), round=round)
        with pytest.raises(BudgetSpentError):
            client.report(np.zeros(40), round=3)
    assert tv.dossier(veil, rounds=52, cap=cap).content["total"]["allowed"] == 3


def test_with_a_delta_the_limit_of_the_device_is_the_sum_that_its_ledger_counts(tmp_path: Path) -> None:
    """The reports cost less together than the sum of their ε, but a device that stops at less makes fewer of them."""
    made = tv.dossier(gaussian(), rounds=12)
    total = made.content["total"]
    assert total["epsilon"] < 8.0 < 23.9 < total["needs"] <= 24.0
    assert total["delta"] == pytest.approx(12e-6)
    shown = Reader(made.html()).text
    assert "the app must set it to ε = 24: by default it allows one report. Devices add up the ε" in shown
    assert "The app sets the limit of the device (cap) to ε = 24 at most." in shown
    assert f"12 rounds: ε = {rounded_up(total['epsilon'])}, δ = {rounded_up(total['delta'])}" in shown
    assert f"Budget of one reportε = {rounded_up(gaussian().guarantee.epsilon)}, δ = 1e-06" in shown
    gaussian().save(tmp_path / "release")
    with tv.Client.load(tmp_path / "release", ledger=tmp_path / "ledger", cap=24.0) as client:
        for round in range(12):
            client.report(np.zeros(3), round=round)
        with pytest.raises(BudgetSpentError):
            client.report(np.zeros(3), round=12)
    assert "Devices add up" not in Reader(tv.dossier(gaussian(), rounds=1).html()).text


def test_with_a_delta_the_advice_counts_as_the_total_does() -> None:
    def together(rounds: int) -> float:
        return float(tv.dossier(gaussian(), rounds=rounds).content["total"]["epsilon"])

    total = tv.dossier(gaussian(), rounds=12).content["total"]
    most = total["within_weak"]
    assert most > 5.0 // gaussian().guarantee.epsilon
    assert together(most) <= 5.0 < together(most + 1)
    assert f"To stay at ε = 5 or less in total, ask a person for {most} reports at most." in total["words"]


def test_with_a_delta_a_cap_counts_the_reports_that_devices_make() -> None:
    found = tv.dossier(gaussian(), rounds=12, cap=6.0).content["total"]
    three = tv.dossier(gaussian(), rounds=3).content["total"]
    assert found["allowed"] == 3
    assert (found["epsilon"], found["delta"]) == (three["epsilon"], three["delta"])
    assert "they make 3 of the 12 reports" in found["words"]
    assert "This holds except with probability δ = 3e-06" in found["words"]


def test_what_people_choose_adds_up_by_choice() -> None:
    release = families.chosen()
    words = tv.dossier(release, rounds=4).content["total"]["words"]
    totals = [rounded_up(tv.compose([tv.Cost.of(one, times=4)]).epsilon) for one in release.members.values()]
    assert all(f"ε = {total} in total" in words for total in totals)
    assert len(set(totals)) == 3
    limited = tv.dossier(release, rounds=4, cap=3.0).content["total"]["words"]
    assert "ε = 4 in total" not in limited
    assert "ε = 3 in total" in limited
    assert "the largest ε of the family is counted" in tv.dossier(family(), rounds=4).content["total"]["words"]


def test_what_a_promise_assumes_is_not_stated_as_a_fact() -> None:
    shown = Reader(tv.dossier(families.chosen()).html()).text
    assert "This assumes:The choice of ε is visible, and does not depend on the record." in shown
    assert "This assumes:" not in Reader(tv.dossier(survey()).html()).text


def test_the_limits_of_counting_and_of_storing_are_said() -> None:
    shown = Reader(tv.dossier(survey(), rounds=2).html()).text
    assert "It does not know those of another device or browser of the same person" in shown
    assert "In a round that has not ended, they can show the order of arrival." in shown
    assert "Copies of it (backups, exports, old blocks of a disk) must be deleted separately." in shown
    assert "no order of arrival" not in shown
    assert "deleted for good" not in shown


@pytest.mark.parametrize("name", RELEASES)
def test_a_crowd_is_counted_for_each_member(name: str) -> None:
    release = RELEASES[name]()
    found = tv.dossier(release, people=40_000).content["crowd"]
    members = release.members if isinstance(release, tv.Family) else {"": release}
    assert [one["member"] for one in found] == list(members)
    assert sum(one["reports"] for one in found) <= 40_000
    for one, veil in zip(found, members.values(), strict=True):
        own = veil.central(reports=one["reports"], delta=one["delta"])
        assert (one["epsilon"], one["words"]) == (own.epsilon, own.statement)
    assert tv.dossier(release).content["crowd"] == []
    assert "What a crowd adds" not in tv.dossier(release).html()


def test_without_an_audit_none_is_said_to_have_failed() -> None:
    lines = {one["text"]: one["holds"] for one in tv.dossier(survey()).content["checklist"]}
    assert lines["An audit of this release was given."] is False
    assert not any("found nothing" in text for text in lines)


def test_what_nobody_stated_is_not_stated() -> None:
    made = tv.dossier(survey())
    shown = Reader(made.html()).text
    assert shown.count("Not stated.") == 4  # purpose, rounds at the top, retention, what else is stored
    assert "The number of rounds is not stated." in shown
    states = {one["text"]: one["holds"] for one in made.content["checklist"]}
    assert states["The purpose is stated."] is False
    assert states["All planned reports of a person together keep some protection."] is None
    full = tv.dossier(survey(), rounds=2, purpose="x", retention="y").content["checklist"]
    assert [one["holds"] for one in full[:4]] == [True] * 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"rounds": 10**400},
        {"people": 10**400},
        {"rounds": 2.5},
        {"rounds": True},
        {"people": 0},
        {"people": "many"},
        {"purpose": " "},
        {"title": 3},
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        tv.dossier(survey(), **wrong)


def test_only_releases_have_one() -> None:
    with pytest.raises(DataError, match="the folder of one"):
        tv.dossier(42)  # type: ignore[arg-type]


def test_the_example_of_the_docstring_runs() -> None:
    found = doctest.testmod(dossier)
    assert found.attempted >= 5
    assert found.failed == 0


def test_notebooks_get_a_small_table() -> None:
    made = tv.dossier(survey(), rounds=52)
    assert "This is no protection." in made._repr_html_()
    assert len(made._repr_html_()) < 3_000
    assert "ε = 1 a report, ε = 52 in total" in repr(made)
    assert "rounds not stated" in repr(tv.dossier(survey()))
