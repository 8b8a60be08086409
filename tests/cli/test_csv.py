"""CSV as it is written elsewhere: `--sep`, `--decimal`, `--date-format` and `--missing`, and CSV as output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import one_line, run
from taskveil.client import entropy
from taskveil.jobs.csv_format import CsvFormat
from taskveil.jobs.tables import TableFile

GERMAN = ("--sep", ";", "--decimal", ",", "--date-format", "%d.%m.%Y", "--missing", "-99", "--missing", "k. A.")


def usual(seed: int, count: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = np.datetime64("2019-01-01") + rng.integers(0, 900, count)
    return pd.DataFrame({
        "city": rng.choice(["Bonn", "Köln"], count),
        "litres": (rng.gamma(3.0, 2.0, count) + 1.25).round(2),
        "since": days.astype("datetime64[D]").astype(str),
        "age": rng.integers(18, 80, count),
    })  # fmt: skip


def write_german(table: pd.DataFrame, path: Path) -> None:
    """The same table as a German spreadsheet writes it; the ages of two people and a city are missing."""
    dates = pd.to_datetime(table["since"]).dt.strftime("%d.%m.%Y")
    table = table.assign(since=dates, age=table["age"].astype(str), city=table["city"].copy())
    table.loc[[3, 5], "age"] = "-99"
    table.loc[[4], "city"] = "k. A."
    table.to_csv(path, sep=";", decimal=",", index=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table in two forms, and a release."""
    folder = tmp_path_factory.mktemp("csv")
    table = usual(0, 300)
    write_german(table, folder / "german.csv")
    table["age"] = table["age"].astype("Int64")
    table.loc[[3, 5], "age"] = pd.NA
    table.loc[[4], "city"] = None
    table.to_csv(folder / "usual.csv", index=False)
    run("schema", folder / "usual.csv", "-o", folder / "schema.json")
    options = ("--schema", folder / "schema.json", "--epsilon", "3", "--method", "codebook", "--unjudged")
    run("design", folder / "usual.csv", folder / "release", *options)
    return folder


def test_the_schema_of_a_table_does_not_depend_on_how_it_is_written(home: Path) -> None:
    found = tv.Schema.from_json(run("schema", home / "german.csv", *GERMAN, "--json"))
    assert found == tv.Schema.from_json(run("schema", home / "usual.csv", "--json"))
    assert [type(found[name]).__name__ for name in found] == ["Category", "Number", "Date", "Count"]


def test_every_command_that_reads_csv_has_the_options(home: Path, tmp_path: Path) -> None:
    survey = ("--survey", "--people", "1000", "--epsilons", "2", "--json")
    assert run("plan", home / "german.csv", *GERMAN, *survey) == run("plan", home / "usual.csv", *survey)
    assert run("sweep", home / "german.csv", *GERMAN, *survey, "--folder", tmp_path / "a") == run(
        "sweep", home / "usual.csv", *survey, "--folder", tmp_path / "b"
    )
    options = ("--epsilon", "3", "--method", "task_aware", "--unjudged")
    run("design", home / "german.csv", tmp_path / "german", *GERMAN, *options)
    run("design", home / "usual.csv", tmp_path / "usual", *options)
    assert tv.Veil.load(tmp_path / "german").release_id == tv.Veil.load(tmp_path / "usual").release_id


@pytest.fixture
def same_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command draws the same bytes: reports are the same if the records are."""

    def restarted(*arguments: object, **options: object) -> str:
        stream = np.random.default_rng(7)
        monkeypatch.setattr(entropy, "system_bytes", stream.bytes)
        return run(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setitem(globals(), "restarted", restarted)


restarted = run


@pytest.mark.usefixtures("same_entropy")
def test_reports_of_a_table_do_not_depend_on_how_it_is_written(home: Path, tmp_path: Path) -> None:
    release = ("--release", home / "release")
    restarted("privatize", home / "usual.csv", tmp_path / "usual.parquet", *release)
    restarted("privatize", home / "german.csv", tmp_path / "german.parquet", *release, *GERMAN)
    restarted("privatize", home / "german.csv", tmp_path / "other.parquet", *release, *GERMAN[:2])
    usual, german, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("usual", "german", "other"))
    assert usual.equals(german)
    assert not usual.equals(other)  # without the other options, the values are other ones


def test_dates_become_what_the_field_of_a_device_accepts(home: Path) -> None:
    file = TableFile.open(home / "german.csv", csv=CsvFormat(separator=";", dates="%d.%m.%Y"))
    texts = [file.csv.date(text) for text in file.read().column("since").to_pylist()]
    assert texts == usual(0, 300)["since"].tolist()
    field = tv.Schema.from_json(home / "schema.json")["since"]
    assert field.outside(texts) == (0, 0)
    assert CsvFormat(dates="%d.%m.%Y %H:%M").date("04.03.2021 13:45") == "2021-03-04 13:45:00"
    assert CsvFormat(dates="%m/%d/%Y").date("31/12/2021") is None


def test_dates_without_separators_are_dates_and_other_whole_numbers_stay(tmp_path: Path) -> None:
    rows = [f"{i % 28 + 1:02d}032021,{i}\n" for i in range(60)]
    (tmp_path / "p.csv").write_text("day,n\n" + "".join(rows))
    found = tv.Schema.from_json(run("schema", tmp_path / "p.csv", "--json", "--date-format", "%d%m%Y"))
    assert [type(found[name]).__name__ for name in found] == ["Date", "Count"]


def test_a_wrong_form_of_dates_is_an_error_with_an_example(home: Path, tmp_path: Path) -> None:
    said = one_line("schema", home / "german.csv", "--sep", ";", "--date-format", "%m/%d/%Y", "--json")
    assert "writes the fourth of March 2021 as 03/04/2021" in said
    rows = [f"0{1 + i % 9}.03.2021,{i}\n" for i in range(60)] + ["nie,5\n"]
    (tmp_path / "p.csv").write_text("day,n\n" + "".join(rows))
    said = one_line("schema", tmp_path / "p.csv", "--json", "--date-format", "%d.%m.%Y")
    assert (
        "line 62: column 'day' holds dates like 04.03.2021, but here something else. Correct it, pass --missing" in said
    )
    assert "nie" not in said
    run("schema", tmp_path / "p.csv", "--json", "--date-format", "%d.%m.%Y", "--missing", "nie")
    schema = tmp_path / "s.json"
    tv.Schema({"day": tv.Date("2021-01-01", "2021-12-31", missing=True), "n": tv.Count(0, 60)}).to_json(schema)
    options = ("--schema", schema, "--epsilon", "3", "--method", "task_aware", "--unjudged")
    said = run("design", tmp_path / "p.csv", tmp_path / "r", "--date-format", "%d.%m.%Y", *options)
    assert "column 'day': cells that are no dates like 04.03.2021 count as missing: 1." in said


def test_a_point_is_no_decimal_sign_where_a_comma_is(tmp_path: Path) -> None:
    """1.234 may mean 1,234 there: it must not become 1.234."""
    (tmp_path / "p.csv").write_text("a;b\n" + "".join(f"{i},5;{i}\n" for i in range(60)) + "1.234;5\n")
    said = one_line("schema", tmp_path / "p.csv", "--json", "--sep", ";", "--decimal", ",")
    assert "line 62: column 'a' holds numbers, but here something else" in said


@pytest.mark.filterwarnings("default")
def test_separators_of_thousands_are_named_where_decimal_commas_are_read(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a;b\n" + "".join(f"1.{i:03d},5;{i % 7}\n" for i in range(60)))
    said = run("schema", tmp_path / "p.csv", "-o", tmp_path / "s.json", "--sep", ";", "--decimal", ",")
    assert "without units and separators of thousands (for decimal commas pass --decimal ,)" in said


def test_the_options_are_about_csv_alone(home: Path, tmp_path: Path) -> None:
    usual(0, 60).to_parquet(tmp_path / "p.parquet")
    assert "p.parquet is Parquet: --sep" in one_line("schema", tmp_path / "p.parquet", "--json", "--sep", ";")
    (tmp_path / "people").mkdir()
    usual(0, 60).to_parquet(tmp_path / "people" / "0.parquet")
    said = one_line("privatize", tmp_path / "people", tmp_path / "o", "--release", home / "release", *GERMAN)
    assert "a folder holds Parquet" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("city;litres;since;age\nBonn;1,5;2019-01-01;20\n", "semicolons between its columns: pass --sep ';'"),
        ("city\tlitres\tsince\tage\nBonn\t1\t2019-01-01\t20\n", "tabs between its columns: pass --sep tab"),
        ("", "needs a header and at least one record"),
        ("city,litres,since,age\n", "needs a header and at least one record"),
    ],
)
def test_unreadable_tables_are_explained_by_privatize_as_by_schema(
    home: Path, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "bad.csv").write_text(text)
    assert says in one_line("schema", tmp_path / "bad.csv", "--json")
    said = one_line("privatize", tmp_path / "bad.csv", tmp_path / "o.parquet", "--release", home / "release")
    assert says in said
    assert not (tmp_path / "o.parquet").exists()


@pytest.mark.usefixtures("same_entropy")
def test_csv_as_output_has_the_same_reports_and_estimates_as_parquet(home: Path, tmp_path: Path) -> None:
    release = ("--release", home / "release")
    for name in ("reports.csv", "reports.parquet"):
        restarted("privatize", home / "usual.csv", tmp_path / name, *release)
    text, binary = pyarrow.csv.read_csv(tmp_path / "reports.csv"), pq.read_table(tmp_path / "reports.parquet")
    assert text.column_names == ["release", *binary.column_names]
    assert set(text.column("release").to_pylist()) == {tv.Veil.load(home / "release").release_id}
    assert text.drop_columns("release").to_pydict() == binary.to_pydict()
    for source, target in (("reports.csv", "estimates.csv"), ("reports.parquet", "estimates.parquet")):
        run("decode", tmp_path / source, tmp_path / target, *release, "--probabilities")
    estimates = pd.read_csv(tmp_path / "estimates.csv")
    expected = pq.read_table(tmp_path / "estimates.parquet").to_pandas()
    pd.testing.assert_frame_equal(estimates, expected, check_dtype=False)
    found = []
    for name in ("reports.csv", "reports.parquet"):
        run("estimate", tmp_path / name, *release, "--json", tmp_path / "e.json")
        found.append(json.loads((tmp_path / "e.json").read_text()))
    assert found[0] == found[1]
    assert found[0]["reports"] == 300


def test_csv_of_reports_that_is_none_is_refused(home: Path, tmp_path: Path) -> None:
    release = ("--release", home / "release")
    run("privatize", home / "usual.csv", tmp_path / "r.csv", *release, "--quiet")
    lines = (tmp_path / "r.csv").read_text().splitlines()
    for name, text, says in (
        ("mixed", [*lines, f'"{"0" * 64}",1'], "reports of several releases"),
        ("fraction", [*lines, lines[1].rpartition(",")[0] + ",1.5"], "no whole numbers"),
        ("other", [lines[0], f'"{"0" * 64}",1'], "not of"),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join(text) + "\n")
        assert says in one_line("decode", tmp_path / f"{name}.csv", tmp_path / "o.csv", *release)
        assert not (tmp_path / "o.csv").exists()
    assert "holds no reports" in one_line("estimate", home / "usual.csv", *release)
    assert "named twice" in one_line("estimate", tmp_path / "r.csv", tmp_path / "r.csv", *release)
