"""docs/guides/families.md: its code and its commands run from top to bottom, and print what the page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from families import means, people
from pages import Shell, blocks, run_code
from taskveil.veil.volunteers import FEWEST

PAGE = Path(__file__).parents[1] / "docs/guides/families.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_and_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_code(PAGE)
    printed = capsys.readouterr().out
    assert "<Family drawn: answers 90% (ε = 2), survey 10% (ε = 2)>" in printed
    assert "True\n" in printed
    assert "age is higher" in names["estimate"].drift.words
    assert "The choice itself is visible" in printed
    assert "{'0.5': 0.5, '2': 0.5}" in printed
    assert 26_500 < len(names["answers"]) < 27_500
    assert {row.name for row in names["alone"].attributes} >= {"age", "tickets"}
    pd.DataFrame(names["people"]).head(3_000).to_csv("people.csv", index=False)
    shell = Shell(tmp_path)
    for language, code in blocks(TEXT):
        if language == "sh":
            shell.type(code)
    made = pd.read_parquet("answers.parquet")
    assert made[made["member"]].notna().all().all()
    assert made[~made["member"]].drop(columns="member").isna().all().all()
    tv.Family.load("both", verify_key="public.pem")


def test_the_page_says_what_the_choice_must_not_do() -> None:
    said = " ".join(TEXT.split())
    assert "**The choice of ε is visible to the collector, and must not depend on the record.**" in said
    assert f"fewer than {FEWEST} people" in said


def test_by_precision_a_group_of_a_small_epsilon_would_weigh_less_than_a_tenth() -> None:
    assert "would weigh less than .1 and more than .9" in " ".join(TEXT.split())
    X = people(60_000, seed=6)
    width = []
    for epsilon in (0.5, 2.0):
        row = tv.estimate(means(epsilon), means(epsilon).privatize(X)).attributes[0]
        width.append(row.high - row.low)
    assert 0.03 < width[1] ** 2 / (width[0] ** 2 + width[1] ** 2) < 0.1  # .06


def test_means_of_people_who_have_a_value_are_not_combined_over_choices() -> None:
    assert "are not combined, because the numbers of such people may differ" in " ".join(TEXT.split())
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": np.where(rng.random(400) < 0.2, np.nan, rng.normal(size=400)), "b": rng.normal(size=400)})
    schema = tv.Schema.of(X)
    budgets = {e: tv.design(X, tv.MeanTask(), epsilon=e, schema=schema) for e in (0.5, 2.0)}
    reports = {"0.5": budgets[0.5].privatize(X[:200]), "2": budgets[2.0].privatize(X[200:])}
    rows = [row.name for row in tv.estimate(tv.Family.of_budgets(budgets), reports).attributes]
    assert rows == ["0.5: a", "2: a", "a is missing", "b"]
