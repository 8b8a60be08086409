from __future__ import annotations

from pathlib import Path

import pytest

import taskveil as tv
from cli.running import one_line, run

TEXT = "origin,power,since,electric,id\n" + "".join(
    f"{'USA' if i % 3 else 'Japan'},{i if i % 7 else ''},2021-03-{1 + i % 28:02},{'true' if i % 2 else 'false'},p{i}\n"
    for i in range(60)
)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(TEXT)
    return tmp_path / "people.csv"


@pytest.mark.filterwarnings("default")
def test_a_schema_is_inferred_shown_and_written(csv: Path, tmp_path: Path) -> None:
    said = run("schema", csv, "-o", tmp_path / "schema.json")
    schema = tv.Schema.from_json(tmp_path / "schema.json")
    assert schema.names == ("origin", "power", "since", "electric")
    assert [type(schema[name]).__name__ for name in schema] == ["Category", "Count", "Date", "Flag"]
    assert schema["power"].missing
    assert [line for line in said.splitlines() if line.startswith("warning: column 'id' is left out")]
    (row,) = [line for line in said.splitlines() if "power" in line]
    assert [cell.strip() for cell in row.split("│")][-3:-1] == ["9", "0"]  # missing, outside
    assert "exists already" in one_line("schema", csv, "-o", tmp_path / "schema.json")
    assert tv.Schema.from_json(run("schema", csv, "--json", "--drop", "id")) == schema


def test_the_target_is_no_field(csv: Path) -> None:
    assert tv.Schema.from_json(
        run("schema", csv, "--json", "--target", "origin", "--columns", "power,since")
    ).names == (
        "power",
        "since",
    )


@pytest.mark.filterwarnings("default")
def test_values_outside_are_counted(tmp_path: Path) -> None:
    rows = [f"{i},{'abc'[i % 3]}" for i in range(98)] + ["1000000,rare", "3,rarer"]
    (tmp_path / "p.csv").write_text("n,c\n" + "\n".join(rows) + "\n")
    said = run("schema", tmp_path / "p.csv", "-o", tmp_path / "s.json")
    assert [
        line for line in said.splitlines() if line.startswith("warning: of the volunteers' values in column 'n', 1")
    ]
    counts = [
        [cell.strip() for cell in line.split("│")][-4:-1] for line in said.splitlines() if "(" in line and "│" in line
    ]
    assert counts == [["99", "0", "1"], ["5", "0", "2"]]  # different, missing, outside


@pytest.mark.filterwarnings("default")
def test_a_code_for_no_value_is_named_with_the_option_that_reads_it(tmp_path: Path) -> None:
    rows = [f"{-99 if i % 20 == 0 else 18 + i % 60},{'ab'[i % 2]}" for i in range(200)]
    (tmp_path / "p.csv").write_text("age,c\n" + "\n".join(rows) + "\n")
    said = run("schema", tmp_path / "p.csv", "-o", tmp_path / "s.json")
    (warning,) = [line for line in said.splitlines() if line.startswith("warning:")]
    assert "column 'age' is -99 for 10 of 200 volunteers, far from all others." in warning
    assert warning.endswith("If this stands for no value, pass --missing -99.")
    run("schema", tmp_path / "p.csv", "-o", tmp_path / "t.json", "--missing", "-99")
    assert tv.Schema.from_json(tmp_path / "t.json")["age"].missing


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", [("plan", "--people", "900", "--epsilons", "1"), ("design", "--epsilon", "1")])
def test_values_that_a_schema_from_a_file_does_not_have_are_counted(command: tuple[str, ...], tmp_path: Path) -> None:
    """The options about CSV were forgotten: dates in another form, a code for no value, a text for no value."""
    rows = [
        f"{1 + i % 28:02d}.03.2021;{-99 if i % 20 == 0 else 18 + i % 60};{'-' if i % 50 == 0 else 'ab'[i % 2]}"
        for i in range(200)
    ]
    (tmp_path / "p.csv").write_text("since;age;c\n" + "\n".join(rows) + "\n")
    options = ("--sep", ";", "--date-format", "%d.%m.%Y", "--missing", "-99", "--missing", "-")
    run("schema", tmp_path / "p.csv", "-o", tmp_path / "s.json", *options)
    name, *rest = command
    given = [name, tmp_path / "p.csv", *([tmp_path / "r"] if name == "design" else []), *rest]
    given += ["--schema", tmp_path / "s.json", "--survey", "--sep", ";"]
    said = run(*given)
    assert "note: values that --schema does not have, in 200 rows: age 10, c 4." in said
    assert "column 'since': 200 of 200 values of volunteers do not fit its tv.Date" in said
    assert "pass --date-format" in said
    if name == "plan":
        assert "note" not in run(*given, *options[2:])
