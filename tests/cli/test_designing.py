from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import taskveil as tv
from cli.running import one_line, run
from taskveil.cli import designing
from taskveil.cli.app import app
from taskveil.veil.losses import Considered


@pytest.fixture
def csv(tmp_path: Path, volunteers: np.ndarray) -> Path:
    path = tmp_path / "people.csv"
    np.savetxt(path, volunteers, delimiter=",", header="a,b,c,d,e,f", comments="")
    return path


def test_design_writes_a_release(csv: Path, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    result = json.loads(
        run("design", str(csv), str(folder), "--epsilon", "2", "--weight", "a=3", "--method", "task_aware", "--json")
    )
    veil = tv.Veil.load(folder)
    assert result["epsilon"] == veil.guarantee.epsilon
    spreads = np.loadtxt(csv, delimiter=",", skiprows=1).std(axis=0)
    np.testing.assert_allclose(np.diag(veil.task.K) * spreads, [3, 1, 1, 1, 1, 1], rtol=1e-9)
    assert veil.columns == tuple("abcdef")
    assert veil.units is None


def test_delta_is_in_the_release_and_in_the_result(csv: Path, tmp_path: Path) -> None:
    options = ("--epsilon", "2", "--delta", "1e-6", "--method", "gaussian")
    result = json.loads(run("design", str(csv), str(tmp_path / "r"), *options, "--json"))
    assert (result["delta"], result["method"]) == (1e-6, "gaussian")
    assert tv.Veil.load(tmp_path / "r").guarantee.delta == 1e-6
    shown = run("design", str(csv), str(tmp_path / "again"), *options)
    assert "except with probability δ = 1e-06 (1 in 1,000,000)" in " ".join(shown.split())
    asked = ("--epsilons", "8", "--delta", "1e-6", "--methods", "gaussian,task_aware", "--folder", str(tmp_path / "s"))
    assert "gaussian" in run("sweep", str(csv), *asked)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", [("design", "r", "--epsilon", "2"), ("sweep", "--epsilons", "2", "--folder", "r")])
def test_a_warning_is_one_line_that_names_the_column(csv: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    values = np.loadtxt(csv, delimiter=",", skiprows=1)
    values[7, 2] = 1e9
    np.savetxt(csv, values, delimiter=",", header="a,b,c,d,e,f", comments="")
    name, *rest = (str(tmp_path / word) if word == "r" else word for word in command)
    result = CliRunner().invoke(app, [name, str(csv), *rest])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "Check their units; --domain" in line]
    assert line.startswith("warning: ")
    assert "row 8, column 'c'" in line  # people count from one
    assert ".py" not in result.stderr


def test_design_says_what_it_chose_from_and_what_it_is_worth(csv: Path, tmp_path: Path) -> None:
    shown = run("design", str(csv), str(tmp_path / "r"), "--epsilon", "2")
    first, *others = tv.Veil.load(tmp_path / "r").considered
    assert f"Method: {first.method}\n" in shown
    table = shown[shown.index("held-out loss") :]
    rows = [line.split() for line in table.splitlines() if re.match(r"  \w+  +\S+  +\S", line)]
    assert [row[0] for row in rows] == list(dict.fromkeys(entry.method for entry in (first, *others)))
    assert float(rows[0][2]) == pytest.approx(first.held_out_loss, rel=1e-3)
    assert f"{len(others) + 1 - len(rows)} more designs of the same methods and encoders" in shown
    assert max(len(line) for line in table.splitlines()[: len(rows) + 2]) <= 80
    assert re.search(r"loss on 75 volunteers held out: \S+ \(\S+ to \S+\); \d+% of the usable signal is kept", shown)
    assert "weighed by 1/spread" in shown


def test_columns_that_reports_say_nothing_about_are_counted(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(400, 2))
    np.savetxt(tmp_path / "two.csv", values, delimiter=",", header="a,b", comments="")
    options = ("--epsilon", "4", "--method", "task_aware", "--weight", "b=0.0001")
    said = run("design", str(tmp_path / "two.csv"), str(tmp_path / "r"), *options)
    assert "almost no information (1% of the variance at most) about 1 of 2 columns: b. " in said


def test_the_table_of_designs_fits_80_columns_whatever_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(method: str, encoder: str, loss: float, error: float) -> Considered:
        return Considered(
            method=method, encoder=encoder, held_out_loss=loss, standard_error=error, bytes=524_288, operations=987_654
        )

    stream = io.StringIO()
    monkeypatch.setattr(designing, "console", Console(file=stream, width=80))
    chosen = entry("codebook", "linear and light and trees and own", 0.12345678, 0.0)
    considered = (chosen, entry("task_aware", "hidden", 123456.7, 0.00123456), entry("constant", "linear", 2.0, 1e-12))
    designing.print_considered("codebook", considered)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(("  codebook ", "  task_aware ", "  constant ")) for line in lines) == 3
    assert "…" not in stream.getvalue()
    assert re.search(r"constant +– +2 +1e-12 +524 kB +988 thousand", stream.getvalue())
    assert re.search(r"0\.1235 +524 kB", stream.getvalue())  # of the chosen one there is no difference


def test_the_loss_stands_between_nothing_sent_and_no_privacy(csv: Path, tmp_path: Path) -> None:
    found = json.loads(run("design", csv, tmp_path / "r", "--epsilon", "4", "--method", "codebook", "--json"))
    assert found["no_privacy"] == 0 < found["loss"] < found["nothing_sent"]
    assert found["low"] < found["loss"] < found["high"]
    assert found["kept"] == pytest.approx(1 - found["loss"] / found["nothing_sent"])
    assert found["nothing_sent"] == pytest.approx(6, rel=0.6)  # a column's spread is its unit, and there are six


def test_few_volunteers_are_not_judged(csv: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("".join(csv.read_text().splitlines(keepends=True)[:30]))
    arguments = ("--epsilon", "4", "--method", "task_aware")
    assert "was not measured (fewer than 40 volunteers" in run("design", few, tmp_path / "few", *arguments)
    said = run("design", csv, tmp_path / "unjudged", *arguments, "--unjudged")
    assert "was not measured (no volunteers were held out)" in said


def test_sums_over_volunteers_are_kept_with_a_word_about_it_or_not_at_all(csv: Path, tmp_path: Path) -> None:
    arguments = ("--epsilon", "4", "--method", "task_aware", "--unjudged")
    said = run("design", csv, tmp_path / "with", *arguments)
    assert f"{tmp_path / 'with' / 'server'} holds sums over groups of at least 10 of the 300 volunteers" in said
    kept = tv.Veil.load(tmp_path / "with").volunteers
    assert kept is not None
    assert kept.count == 300
    assert "holds sums" not in run("design", csv, tmp_path / "without", *arguments, "--no-volunteers")
    assert tv.Veil.load(tmp_path / "without").volunteers is None


def test_a_column_that_reports_tell_nothing_of_is_listed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=(400, 1))
    values = np.column_stack([common + 0.1 * rng.normal(size=(400, 5)), rng.normal(size=400)])
    path = tmp_path / "people.csv"
    np.savetxt(path, values, delimiter=",", header="a,b,c,d,e,alone", comments="")
    found = json.loads(run("design", path, tmp_path / "r", "--epsilon", "1", "--method", "codebook", "--json"))
    assert found["no_signal"] == ["alone"]
    heavy = ("--weight", "alone=20", "--json")
    found = json.loads(run("design", path, tmp_path / "s", "--epsilon", "1", "--method", "codebook", *heavy))
    assert "alone" not in found["no_signal"]


def test_design_writes_units(csv: Path, tmp_path: Path) -> None:
    run("design", str(csv), str(tmp_path / "r"), "--epsilon", "2", "--unit", "a=kW", "--unit", "c=m3")
    assert tv.Veil.load(tmp_path / "r").units == ("kW", "", "m3", "", "", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--epsilon", "-1"), "above zero"),
        (("--epsilon", "1", "--weight", "zzz=2"), "name=weight"),
        (("--epsilon", "1", "--weight", "a=abc"), "--weight takes numbers, got 'abc'"),
        (("--epsilon", "1", "--method", "magic"), "method must be one of"),
        (("--epsilon", "1", "--encoder", "own"), "pass --share-model"),
        (("--epsilon", "1", "--columns", "a,zzz"), "--columns: there is no column 'zzz'"),
        (("--epsilon", "1", "--drop", "a,b,c,d,e,f"), "no column is left"),
        (("--epsilon", "1", "--domain", "a=5:1"), "the lower bound must come first"),
        (("--epsilon", "1", "--domain", "a=low:high"), "--domain a=low:high: bounds must be two numbers"),
        (("--epsilon", "1", "--loss", "mse"), "pass --model too"),
        (("--epsilon", "1", "--model", "m.onnx", "--weight", "a=2"), "With --model, the model is the task"),
    ],
)
def test_mistakes_are_explained(csv: Path, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line("design", csv, tmp_path / "r", *arguments)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--epsilons", "1,two"), "--epsilons takes numbers separated by commas, got '1,two'"),
        (("--target", "zzz"), "no column 'zzz', only a, b, c, d, e, f"),
        (("--methods", "magic"), "magic"),
    ],
)
def test_mistakes_in_sweeps_are_explained(csv: Path, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line("sweep", csv, "--folder", tmp_path / "o", *arguments)


def test_columns_bounds_and_units_become_the_release(csv: Path, tmp_path: Path) -> None:
    options = ("--drop", "b,d", "--domain", "a=-50:50", "--unit", "a=kW", "--method", "task_aware", "--unjudged")
    run("design", csv, tmp_path / "r", "--epsilon", "2", *options)
    veil = tv.Veil.load(tmp_path / "r")
    assert veil.columns == ("a", "c", "e", "f")
    assert veil.units == ("kW", "", "", "")
    assert (veil.schema["a"].low, veil.schema["a"].high) == (-50, 50)


def test_signing_with_what_is_no_key(csv: Path, tmp_path: Path) -> None:
    run("design", csv, tmp_path / "r", "--epsilon", "1", "--method", "task_aware")
    assert "no unencrypted PEM private key" in one_line("sign", tmp_path / "r", "--key", csv)


def test_what_is_no_release_cannot_be_audited(tmp_path: Path) -> None:
    assert "Is this a taskveil release?" in one_line("audit", tmp_path)


def test_design_over_time_chooses_the_number_of_reports(csv: Path, tmp_path: Path) -> None:
    weeks = ("--lifetime", "6", "--rounds", "4", "--first-round", "2026-11-16")
    shown = run("design", csv, tmp_path / "r", "--means", *weeks)
    veil = tv.Veil.load(tmp_path / "r")
    assert veil.panel is not None
    assert (veil.panel.rounds[:2], veil.panel.days) == (("2026-11-16", "2026-11-23"), 7)
    assert veil.guarantee.lifetime <= 6.0
    assert veil.considered_panels[0].reports == veil.panel.reports
    assert "in 4 rounds (every 7 days)" in shown
    assert "Reports of a person in 4 rounds; the first was chosen" in shown
    assert "variance of a round × people" in shown


def test_design_over_time_with_a_budget_of_each_report(csv: Path, tmp_path: Path) -> None:
    given = ("--lifetime", "6", "--rounds", "4", "--per-report", "2.5", "--method", "task_aware", "--json")
    result = json.loads(run("design", csv, tmp_path / "r", *given))
    assert (result["reports"], result["rounds"]) == (2, ["1", "2", "3", "4"])
    assert (result["epsilon"], result["lifetime"], result["considered_panels"]) == (2.5, 5.0, [])
    said = run("privatize", csv, tmp_path / "reports.parquet", "--release", tmp_path / "r")
    assert "every row got a report. Of this release a person reports in 2 of 4 rounds;" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "pass --epsilon, the budget of one report, or --lifetime and --rounds"),
        (("--epsilon", 1, "--lifetime", 4, "--rounds", 9), "pass --epsilon, the budget of one report, or --lifetime"),
        (("--lifetime", 4), "--lifetime goes with --rounds"),
        (("--epsilon", 1, "--rounds", 4), "--rounds goes with --lifetime"),
        (("--lifetime", 4, "--rounds", 9, "--days", 1), "--days goes with --first-round"),
        (("--lifetime", 4, "--rounds", 9, "--first-round", "soon"), "rounds begin on a date such as 2026-11-16"),
        (("--lifetime", 4, "--rounds", 9, "--per-report", 5), "one report of ε = 5 costs more than the lifetime of 4"),
        (("--lifetime", -1, "--rounds", 9), "above zero"),
        (("--lifetime", 4, "--rounds", 10**6), "between 1 and 32,768 rounds"),
    ],
)
def test_budgets_over_time_are_checked_before_anything_is_read(
    tmp_path: Path, options: tuple[object, ...], says: str
) -> None:
    assert says in one_line("design", tmp_path / "missing.csv", tmp_path / "r", *options)
