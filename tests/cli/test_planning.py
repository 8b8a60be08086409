"""`taskveil plan`, and surveys in `design` and `sweep`: what they print, write and refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.running import one_line, run

import taskveil as tv

RNG = np.random.default_rng(9)
COUNT = 600


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.csv"
    table = pd.DataFrame(
        {
            "region": RNG.choice(["North", "South"], COUNT, p=[0.7, 0.3]),
            "plan": RNG.choice(["Basic", "Plus"], COUNT),
            "income": np.round(np.clip(RNG.gamma(3.0, 12.0, COUNT), 0, 150), 1),
        }
    )
    table.to_csv(path, index=False)
    return path


def test_a_plan_has_margins_in_the_units_of_the_columns(people: Path, tmp_path: Path) -> None:
    arguments = ["plan", people, "--survey", "--people", 40_000, "--epsilons", "0.5,1,2", "--by", "region",
                 "--pairs", "plan,region", "--unit", "income=k€"]  # fmt: skip
    printed = run(*arguments[:-2], "--folder", tmp_path / "out")
    assert "95% margins with 40,000 people" in printed
    assert "ε = 0.5" in printed
    assert "plan=Basic, region=North" in printed
    assert "income" in printed
    assert "points" in printed
    assert "600 volunteers" in printed
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table.txt", "plan.json", "plan.png"}
    assert (tmp_path / "out" / "table.txt").read_text(encoding="utf-8").splitlines()[1] in printed


def test_a_margin_names_a_budget_or_a_number_of_people(people: Path) -> None:
    arguments = ["plan", people, "--survey", "--fields", "plan,region", "--epsilons", "0.5,1,2,4"]
    assert "is the smallest budget of the plan" in run(*arguments, "--people", 40_000, "--margin", 0.03)
    assert "No budget of the plan is enough" in run(*arguments, "--people", 400, "--margin", 0.001)


def test_a_plan_as_json_and_from_a_schema_alone(people: Path, tmp_path: Path) -> None:
    found = json.loads(run("plan", people, "--survey", "--people", 1_000, "--epsilons", "1", "--json"))
    assert found["people"] == 1_000
    assert {"name", "epsilon", "margin", "unit"} <= set(found["rows"][0])
    schema = tmp_path / "schema.json"
    run("schema", people, "--output", schema)
    assert "even shares" in run("plan", schema, "--survey", "--people", 1_000, "--epsilons", "1")
    assert "pass --survey" in one_line("plan", schema, "--people", 1_000)


def test_means_and_models_have_plans(people: Path) -> None:
    assert "± " not in run("plan", people, "--means", "--people", 1_000, "--epsilons", "2", "--columns", "income")
    linear = run("plan", people, "--people", 1_000, "--epsilons", "4", "--columns", "income")
    assert "share of the signal kept" in linear


def test_a_survey_is_designed_with_its_margins(people: Path, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    printed = run("design", people, folder, "--survey", "--epsilon", 2, "--fields", "plan,income", "--by", "region",
                  "--pairs", "plan,region", "--histogram", "income=0,20,40,60,150", "--weight", "income=2")  # fmt: skip
    assert "Task: a survey" in printed
    assert "95% margins with 10,000 people" in printed
    veil = tv.Veil.load(folder)
    task = veil.task
    assert isinstance(task, tv.SurveyTask)
    assert task.by == ("region",)
    assert [tuple(pair) for pair in task.pairs] == [("plan", "region")]
    assert task.weight("income") == 2.0
    assert task.edges("income") is not None
    assert veil.guarantee.epsilon <= 2.0
    found = json.loads(run("design", people, tmp_path / "other", "--survey", "--epsilon", 2, "--json"))
    assert found["margins"][0]["margin"] > 0


def test_a_survey_is_designed_from_a_schema_alone(tmp_path: Path) -> None:
    schema, folder = tmp_path / "schema.json", tmp_path / "release"
    tv.Schema({"income": tv.Number(0, 100), "plan": tv.Category(["Basic", "Plus"])}).to_json(schema)
    printed = run("design", schema, folder, "--survey", "--epsilon", 2, "--by", "plan")
    assert "income, plan=Plus" in printed
    assert "volunteers" not in printed  # there are none
    assert tv.Veil.load(folder).volunteers is None
    assert "pass --survey" in one_line("design", schema, tmp_path / "other", "--epsilon", 2)


def test_a_sweep_of_a_survey_or_of_means_names_a_budget(people: Path, tmp_path: Path) -> None:
    arguments = ["sweep", people, "--epsilons", "0.5,1,2,4", "--folder", tmp_path / "out"]
    schema = tmp_path / "schema.json"
    tv.Schema({
        "region": tv.Category(["North", "South"]), "plan": tv.Category(["Basic", "Plus"]),
        "income": tv.Number(0, 150, "k€"),
    }).to_json(schema)  # fmt: skip
    printed = run(*arguments, "--survey", "--people", 40_000, "--margin", 0.05, "--schema", schema)
    assert "is the smallest budget of the plan" in printed
    (said,) = re.findall(r"In the columns' units: income \[k€\] ±([\d.]+)\.", " ".join(printed.split()))
    assert 0 < float(said) <= 0.05 * 150
    assert (tmp_path / "out" / "plan.png").exists()
    means = [*arguments[:-1], tmp_path / "means", "--means", "--columns", "income"]
    assert "No budget can be named" in run(*means)
    assert "--people N" in run(*means)
    printed = run(*means, "--people", 40_000, "--margin", 0.02)
    assert "is the smallest budget of the plan" in printed
    assert "No budget can be named" not in printed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--by", "planet"], "--by: there is no column 'planet', only region, plan, income"),
        (["--fields", "plan,planet"], "--fields: there is no column 'planet'"),
        (["--pairs", "plan,planet"], "--pairs: there is no column 'planet'"),
        (["--pairs", "plan"], "--pairs takes two columns"),
        (["--histogram", "planet=1,2,3"], "--histogram takes name="),
        (["--weight", "planet=1"], "--weight takes name="),
        (["--by", "income"], "Give bins: --histogram 'income=edge,edge,edge'"),
        (["--margin", "0"], "--margin is a number above 0"),
        (["--margin", "nan"], "--margin is a number above 0"),
        (["--means"], "leave out --model, --means and --target"),
        (["--target", "plan"], "leave out --model, --means and --target"),
    ],
)
def test_mistakes_about_surveys_are_explained(people: Path, options: list[str], says: str) -> None:
    assert says in one_line("plan", people, "--survey", "--people", 100, *options)


def test_options_of_surveys_need_a_survey_and_people(people: Path, tmp_path: Path) -> None:
    assert "--by is about a survey: pass --survey too" in one_line("plan", people, "--people", 10, "--by", "region")
    assert "pass --people" in one_line("sweep", people, "--survey", "--folder", tmp_path / "o")
    assert "pass --survey or --means" in one_line("sweep", people, "--people", 10, "--folder", tmp_path / "o")
    for unused in (("--methods", "codebook"), ("--segment", "region"), ("--releases", tmp_path / "s")):
        asked = one_line("sweep", people, "--survey", "--people", 10, *unused, "--folder", tmp_path / "o")
        assert f"leave out {unused[0]}" in asked
    assert "pass --survey or --means" in one_line("plan", people, "--people", 10, "--margin", 0.02)
    assert "--pairs is about a survey" in one_line(
        "design", people, tmp_path / "r", "--epsilon", 1, "--pairs", "plan,region"
    )


def test_plan_over_time_says_the_margins_of_a_round_and_of_a_change(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    tv.Schema({"plan": tv.Category(["Basic", "Pro"])}).to_json(schema)
    shown = run("plan", schema, "--survey", "--people", 20_000, "--lifetime", 4, "--rounds", 52)
    assert "ε = 4 in 1 of 52 rounds" in shown
    assert "change between rounds" in shown
    shown = run(
        "plan", schema, "--survey", "--people", 20_000, "--lifetime", 4, "--rounds", 52, "--per-report", 1,
        "--epsilons", "1",
    )  # fmt: skip
    assert "change within a block" in shown
    assert "ε = 1 in 4 of 52 rounds" in shown
    assert "--lifetime goes with --rounds" in one_line("plan", "none.json", "--survey", "--people", 9, "--lifetime", 4)
