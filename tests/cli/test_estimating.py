"""`taskveil estimate`: from files of reports to a table that a person reads, and to files that programs read."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from cli.running import one_line, run
from taskveil.estimates.labels import Label


def people(count: int, seed: int, *, more: float = 0.0) -> pd.DataFrame:
    """A category, a number with missing values and a date; some have `more` income."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "country": rng.choice(["France", "Ghana", "Peru"], count, p=[0.5, 0.3, 0.2]),
        "income": np.where(rng.random(count) < 0.2, np.nan, rng.normal(30 + more, 8, count)),
        "since": np.datetime64("2018-01-01") + rng.integers(0, 1500, count),
    })  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, and the reports of two rounds."""
    folder = tmp_path_factory.mktemp("estimate")
    volunteers = people(300, 0)
    income, since = (
        tv.Number(0, 100, "k€", missing=True, fill=90),
        tv.Date("2018-01-01", "2022-03-01", cycles=("year",)),
    )
    schema = tv.Schema.of(volunteers).replace(income=income, since=since)
    weights = 1.0 / schema.expand(volunteers).std(axis=0)
    veil = tv.design(volunteers, tv.MeanTask(np.diag(weights)), epsilon=8.0, schema=schema)
    veil.save(folder / "release")
    veil.save(folder / "bare", volunteers=False)
    for name, table in {"first": people(6000, 1), "second": people(6000, 2, more=6.0), "few": people(9, 3)}.items():
        table.to_parquet(folder / "people.parquet")
        run("privatize", folder / "people.parquet", folder / f"{name}.parquet", "--release", folder / "release")
    return folder


def row_of(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (row,) = [row for row in rows if row["name"] == name]
    return row


def is_near(row: dict[str, Any], truth: float) -> bool:
    """Within six standard errors: reports are drawn anew in every run, and must not fail it."""
    return row["low"] < row["mean"] < row["high"] and abs(row["mean"] - truth) < 1.5 * (row["high"] - row["low"])


def test_a_table_for_people_and_json_for_programs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    files = ("--json", tmp_path / "e.json", "--plot", tmp_path / "e.png")
    said = run("estimate", home / "second.parquet", "--release", home / "release", *files)
    assert max(map(len, said.splitlines()[:12])) <= 80  # the table; files have names of their own length
    assert said.splitlines()[0].strip() == "Measured"
    assert "Assumed" not in said
    assert "1% forged" in said
    assert "6,000 reports of ε = 8." in said
    assert "income [k€]" in said
    assert "income is " in said
    assert "cos" not in said.split("6,000 reports")[0]  # places in the year are not for reading
    assert "answer" not in said  # an attribute times its weight says nothing new
    assert "People differ from the volunteers" in said
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")

    content = json.loads((tmp_path / "e.json").read_text(), parse_constant=pytest.fail)
    assert content["format"] == "taskveil.estimate.2"
    assert content["reports"] == 6000
    assert content["releases"] == [tv.Veil.load(home / "release").release_id]
    income, france = (row_of(content["attributes"], name) for name in ("income", "country=France"))
    assert is_near(income, 36)  # of those who have one
    assert income["high"] < 40  # with 90 for a missing one it would be 46.8
    assert is_near(france, 0.5)
    assert 0 <= france["low"] < france["high"] <= 1
    assert france["assumes"] is None
    assert france["forged"] > 0
    assert content["drift"]["moved"][0] == "income"  # one test in twenty names another too
    assert content["changes"] == {}
    for row, kind in ((income, "number"), (france, "share")):
        cells = Label("", kind).interval(row["mean"], row["low"], row["high"])
        assert re.search(rf" {cells[0]} +{cells[1]} ", said)
    (date,) = [row for row in content["attributes"] if row["kind"] == "date"]
    assert str(np.datetime64("1970-01-01") + int(date["mean"])) in said
    assert 17_532 < date["volunteers"] < 19_032


def test_what_changed_since_an_earlier_round(home: Path, tmp_path: Path) -> None:
    rounds = (home / "second.parquet", "--since", home / "first.parquet", "--release", home / "release")
    said = run("estimate", *rounds, "--json", tmp_path / "e.json")
    changes = json.loads((tmp_path / "e.json").read_text())["changes"]
    income, france = (row_of(changes["attributes"], name) for name in ("income", "country=France"))
    assert is_near(income, 6)
    assert income["low"] > 0
    assert is_near(france, 0)
    assert " points" in said
    assert " days" in said


def test_a_line_over_the_rounds_as_csv_json_and_picture(home: Path, tmp_path: Path) -> None:
    rounds = [home / f"{name}.parquet" for name in ("first", "second", "few")]
    asked = ("--release", home / "release", "--series", tmp_path / "line.csv")
    files = ("--json", tmp_path / "line.json", "--plot", tmp_path / "line.png")
    said = run("estimate", *rounds, *asked, "--planned-rounds", "52", *files)
    assert "95% at all 52 rounds" in said
    assert "Round few: 9 reports are too few" in " ".join(said.split())
    assert (tmp_path / "line.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "line.json").read_text(), parse_constant=pytest.fail)
    assert [(one["round"], one["reports"]) for one in content["rounds"]] == [
        ("first", 6000),
        ("second", 6000),
        ("few", 9),
    ]
    table = pd.read_csv(tmp_path / "line.csv")
    one = table[(table["name"] == "income") & (table["round"] == "second")].iloc[0]
    row = row_of(content["rows"], "income")
    assert (one["mean"], one["low"], one["high"]) == (row["mean"][1], row["low"][1], row["high"][1])
    assert is_near(dict(one), 36)
    run(
        "estimate",
        rounds[1],
        "--release",
        home / "release",
        "--json",
        tmp_path / "e.json",
        "--confidence",
        1 - 0.05 / 52,
    )
    alone = row_of(json.loads((tmp_path / "e.json").read_text())["attributes"], "income")
    assert (alone["low"], alone["high"]) == (row["low"][1], row["high"][1])
    assert "two of these files have one name" in one_line("estimate", rounds[0], rounds[0], *asked)
    assert "without --since" in one_line("estimate", rounds[0], *asked, "--since", rounds[1])
    assert "add --series" in one_line("estimate", rounds[0], *asked[:2], "--planned-rounds", "9")
    assert "at least 3; got 2" in one_line("estimate", *rounds, *asked, "--planned-rounds", "2")


def test_confidence_and_anytime_say_how_often_intervals_hold(home: Path, tmp_path: Path) -> None:
    def width(*options: object) -> tuple[str, float]:
        files = (home / "first.parquet", "--release", home / "release", "--json", tmp_path / "e.json")
        said = run("estimate", *files, *options)
        row = row_of(json.loads((tmp_path / "e.json").read_text())["attributes"], "country=France")
        return said, row["high"] - row["low"]

    said, usual = width()
    assert "95% interval" in said
    narrow, always = width("--confidence", "0.8"), width("--anytime")
    assert "80% interval" in narrow[0]
    assert "95% at all times" in always[0]
    assert narrow[1] < usual < always[1] < 3 * usual


def churn(count: int, seed: int) -> pd.DataFrame:
    """Whether people renewed, and the number of their tickets, of which it depends."""
    rng = np.random.default_rng(seed)
    tickets = rng.normal(0, 1, count)
    return pd.DataFrame({"tickets": tickets, "renewed": np.where(tickets + rng.normal(0, 1, count) > 0, "yes", "no")})


def test_assumed_rows_stand_apart_and_carry_their_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    volunteers, others = churn(600, 0), churn(3000, 1)
    model = LogisticRegression().fit(volunteers[["tickets"]], volunteers["renewed"])
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    reading = f"pickle.loads(pathlib.Path({str(tmp_path / 'model.pkl')!r}).read_bytes())"
    (tmp_path / "renewals.py").write_text(f"import pathlib, pickle\nmodel = {reading}\n")
    volunteers.to_csv(tmp_path / "v.csv", index=False)
    others.to_csv(tmp_path / "p.csv", index=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    run(
        "design", tmp_path / "v.csv", tmp_path / "r", "--target", "renewed", "--model", "renewals:model",
        "--loss", "cross_entropy", "--epsilon", 3, "--encoder", "linear", "--unjudged",
    )  # fmt: skip
    run("privatize", tmp_path / "p.csv", tmp_path / "p.parquet", "--release", tmp_path / "r")
    reports = (tmp_path / "p.parquet", "--release", tmp_path / "r")
    alone = run("estimate", *reports)
    assert "(renewed = yes, " in alone  # the column's name, and the class's
    assert "tickets" not in alone
    for assume, words in (("cells", "covariate shift"), ("labels", "label shift")):
        said = run("estimate", *reports, "--assume", assume, "--json", tmp_path / "e.json")
        # One collection in twenty contradicts a true assumption at the 5% level, and the heading then says so.
        measured, assumed = re.split("Assumed(?:  |: the reports contradict it)", said)
        assert "code 0" in measured
        assert "tickets" not in measured
        assert "share of labels: " in assumed
        assert words in assumed
        content = json.loads((tmp_path / "e.json").read_text())
        assert all(words in row["assumes"] for row in content["shares"])
        assert [row["name"] for row in content["attributes"]] == (["tickets"] if assume == "cells" else [])
        assert {row["assumes"] for row in content["frequencies"]} == {None}
    assert "leave out --anytime" in one_line("estimate", *reports, "--assume", "cells", "--anytime")
    assert "assume is" in one_line("estimate", *reports, "--assume", "everything")


def test_files_of_one_release_are_one_collection_and_releases_are_pooled(home: Path, tmp_path: Path) -> None:
    volunteers = people(300, 0)[["income"]].fillna(30.0)
    veil = tv.design(volunteers, tv.LinearTask(np.eye(1)), epsilon=2.0, method="codebook")
    veil.save(tmp_path / "r")
    people(4000, 4).fillna(30.0).to_parquet(tmp_path / "p.parquet")
    for name in ("a.parquet", "b.parquet"):
        run("privatize", tmp_path / "p.parquet", tmp_path / name, "--release", tmp_path / "r")
    both = (tmp_path / "a.parquet", tmp_path / "b.parquet", "--release", tmp_path / "r")
    assert "8,000 reports" in run("estimate", *both, "--json", tmp_path / "e.json")
    shares = json.loads((tmp_path / "e.json").read_text())["frequencies"]
    assert len(shares) > 1
    said = run("estimate", home / "first.parquet", *both, "--release", home / "release")
    words = " ".join(said.split())
    assert "8,000 reports of ε = 2" in words
    assert "6,000 reports of ε = 8" in words
    assert "a person who sent one of each has spent ε = 10" in words
    assert "country=France" in said
    assert "code 0" in said


def test_what_cannot_be_said_is_one_line(home: Path, tmp_path: Path) -> None:
    release = ("--release", home / "release")
    assert "9 reports are too few" in one_line("estimate", home / "few.parquet", *release)
    bare = run("estimate", home / "first.parquet", "--release", home / "bare")
    assert "keeps no sums over its volunteers" in bare.replace("\n", " ")
    assert "country=France" in bare  # which is measured without any volunteer
    assert "cannot read" in one_line("estimate", tmp_path / "nowhere.parquet", *release)
    (tmp_path / "reports.csv").write_text("report_0\n3\n")
    assert "holds no reports" in one_line("estimate", tmp_path / "reports.csv", *release)
    assert "list of codes" in one_line("estimate", home / "first.parquet", *release, "--assume", "cells")
    folder = tmp_path / "nowhere" / "e.json"
    assert "nowhere" in run("estimate", home / "first.parquet", *release, "--json", folder, code=2)


def test_reports_for_means_are_not_decoded_one_by_one(home: Path, tmp_path: Path) -> None:
    """Every row would be nearly the same, and nothing would say why."""
    first, release = home / "first.parquet", home / "release"
    for more in ((), ("--predict",)):
        said = one_line("decode", first, tmp_path / "rows.parquet", "--release", release, *more)
        assert f"taskveil estimate {first} --release {release}" in said
    assert not list(tmp_path.iterdir())


def test_candidates_of_a_large_vocabulary_come_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zip code": rng.choice(["01067", "80331"], 600)})
    schema = tv.Schema({"zip code": tv.Words(101)})
    tv.design(table, tv.SurveyTask(), epsilon=4.0, schema=schema).save(tmp_path / "r")
    table.to_parquet(tmp_path / "people.parquet")
    run("privatize", tmp_path / "people.parquet", tmp_path / "reports.parquet", "--release", tmp_path / "r")
    asked = ("estimate", tmp_path / "reports.parquet", "--release", tmp_path / "r")
    assert "pass --candidates 'zip code=FILE'" in " ".join(run(*asked).split())
    (tmp_path / "words.txt").write_text("01067\n80331\n\n10115\n", encoding="utf-8")
    run(*asked, "--candidates", f"zip code={tmp_path / 'words.txt'}", "--json", tmp_path / "e.json")
    found = {
        row["name"]: row["mean"] for row in json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["shares"]
    }
    assert set(found) == {"zip code=01067", "zip code=80331", "zip code=10115"}
    assert found["zip code=01067"] > 0.3 > found["zip code=10115"]
    assert "cannot read" in one_line(*asked, "--candidates", "zip code=none.txt")
    assert "with a name of zip code" in one_line(*asked, "--candidates", "zip=words.txt")


def test_shares_add_up_on_request(home: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"plan": rng.choice(["Basic", "Plus"], 400), "owner": rng.random(400) < 0.3})
    schema = tv.Schema({"plan": tv.Category(["Basic", "Plus"]), "owner": tv.Flag()})
    tv.design(table, tv.SurveyTask(pairs=[("plan", "owner")]), epsilon=1.0, schema=schema).save(tmp_path / "r")
    table.to_parquet(tmp_path / "people.parquet")
    run("privatize", tmp_path / "people.parquet", tmp_path / "reports.parquet", "--release", tmp_path / "r")
    asked = ("estimate", tmp_path / "reports.parquet", "--release", tmp_path / "r")
    said = run(*asked, "--consistent", "--json", tmp_path / "e.json")
    assert "Shares are projected" in said
    assert "projected" not in run(*asked)
    rows = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert sum(row["mean"] for row in rows["shares"] if row["of"][0] == "plan") == pytest.approx(1.0)
    assert sum(row["mean"] for row in rows["pairs"]) == pytest.approx(1.0)
    assert min(row["mean"] for row in rows["pairs"]) >= 0.0
    means = ("estimate", home / "first.parquet", "--release", home / "release", "--consistent")
    assert "--consistent is for surveys" in one_line(*means)
    assert "without --since and --consistent" in one_line(*means, "--series", tmp_path / "line.csv")
