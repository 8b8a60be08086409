"""All arguments of a command are checked before anything is read or designed, and an error names what is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import taskveil as tv
from cli.running import one_line, run
from taskveil.jobs.tables import TableFile


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table that no command may read."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the table was read before the arguments were checked")

    monkeypatch.setattr(TableFile, "open", read)
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("a,b\n1,2\n")
    return Path("people.csv")


DESIGN = ("design", "people.csv", "r", "--epsilon")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*DESIGN, "0"), "--epsilon takes finite numbers above zero, got 0"),
        ((*DESIGN, "-1"), "--epsilon takes finite numbers above zero, got -1"),
        ((*DESIGN, "nan"), "--epsilon takes finite numbers above zero, got nan"),
        ((*DESIGN, "inf"), "--epsilon takes finite numbers above zero, got inf"),
        ((*DESIGN, "1", "--delta", "1"), "delta is the probability with which epsilon may fail: 0, or a number"),
        ((*DESIGN, "1", "--delta", "nan"), "delta is the probability with which epsilon may fail: 0, or a number"),
        ((*DESIGN, "1", "--method", "magic"), "method must be one of"),
        ((*DESIGN, "1", "--device", "gpu"), "--device takes cpu or cuda, got 'gpu'"),
        ((*DESIGN, "1", "--encoder", "huge"), "encoder must be one of"),
        ((*DESIGN, "1", "--answers", "all"), "--answers takes direct or record"),
        ((*DESIGN, "1", "--model", "x:y", "--loss", "hinge"), "--loss is mse, cross_entropy, zero_one; got 'hinge'"),
        ((*DESIGN, "1", "--model", "nowhere_at_all:y"), "--model nowhere_at_all:y cannot be loaded"),
        ((*DESIGN, "1", "--schema", "nope.json"), "nope.json"),
        ((*DESIGN, "1", "--like", "nope.json"), "nope.json"),
        ((*DESIGN, "1", "--weight", "a"), "--weight takes name=weight; got 'a'"),
        ((*DESIGN, "1", "--weight", "a=much"), "--weight takes numbers, got 'much'"),
        ((*DESIGN, "1", "--weight", "a=nan"), "--weight takes a finite number; got 'a=nan'"),
        ((*DESIGN, "1", "--domain", "a=5"), "--domain takes column=low:high; got 'a=5'"),
        ((*DESIGN, "1", "--by", "a"), "--by is about a survey"),
        ((*DESIGN, "1", "--sep", "::"), "--sep is one character"),
        ((*DESIGN, "1", "--decimal", ","), "--decimal is . or ,"),
        ((*DESIGN, "1", "--date-format", "DD.MM.YYYY"), "such as %d.%m.%Y for 04.03.2021"),
        (("sweep", "people.csv", "--epsilons", "1,0"), "--epsilons takes finite numbers above zero, got 0"),
        (("sweep", "people.csv", "--epsilons", "1,x"), "--epsilons takes numbers separated by commas"),
        (("sweep", "people.csv", "--methods", "codebook,magic"), "method must be one of"),
        (
            ("sweep", "people.csv", "--delta", "-1"),
            "delta is the probability with which epsilon may fail: 0, or a number",
        ),
        (
            ("sweep", "people.csv", "--engine", "ray", "--device", "cuda"),
            "see a GPU only if they reserve one: pass --gpus",
        ),
        (("sweep", "people.csv", "--engine", "spark"), "engine must be"),
        (("sweep", "people.csv", "--survey", "--people", "9", "--margin", "0"), "--margin is a number above 0"),
        (("plan", "people.csv", "--people", "9", "--epsilons", "nan"), "--epsilons takes finite numbers above zero"),
        (("plan", "people.csv", "--people", "9", "--margin", "0.1"), "--margin is about margins of statistics"),
        (("schema", "people.csv", "-o", "none/schema.json"), "there is no folder none"),
        (("schema", "people.csv", "--date-format", "%"), "such as %d.%m.%Y for 04.03.2021"),
    ],
)
@pytest.mark.usefixtures("people")
def test_bad_arguments_are_refused_before_anything_is_read(arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line(*arguments)
    assert os.listdir() == ["people.csv"]


@pytest.mark.parametrize("command", ["schema", "sweep", "plan --people 9", "design --epsilon 1"])
@pytest.mark.usefixtures("people")
def test_a_missing_file_is_named_and_not_the_output(command: str) -> None:
    Path("schema.json").write_text("{}")
    Path("r").mkdir()
    name, *options = command.split()
    folder = ["other"] if name == "design" else []
    assert "cannot read 'nope.csv': there is no such file" in one_line(name, "nope.csv", *folder, *options)


def test_bad_arguments_about_reports_are_refused_before_any_is_read(
    veil: tv.Veil, people: Path, tmp_path: Path
) -> None:
    veil.save(tmp_path / "r")
    reports = ("estimate", people, "--release", "r")
    assert "--confidence takes a number from 0.5" in one_line(*reports, "--confidence", "nan")
    assert "leave out --anytime" in one_line(*reports, "--assume", "cells", "--anytime")
    assert "there is no folder none" in one_line(*reports, "--json", "none/x.json")
    assert "there is no folder none" in one_line(*reports, "--plot", "none/x.png")
    assert "--confidence is a number above 0 and below 1" in one_line("audit", "r", "--confidence", "1")
    assert "there is no folder none" in one_line("audit", "r", "--picture", "none/x.png")
    assert "--sep is one character" in one_line("privatize", people, "o.parquet", "--release", "r", "--sep", "")


def test_a_slip_in_the_target_is_refused_by_schema_as_by_design(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a,churned\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    said = [
        one_line("schema", path, "-o", tmp_path / "s.json", "--target", "Churned"),
        one_line("design", path, tmp_path / "r", "--epsilon", "1", "--target", "Churned"),
    ]
    assert said[0] == said[1]
    assert "has no column 'Churned', only a, churned" in said[0]
    assert not (tmp_path / "s.json").exists()
    run("schema", path, "-o", tmp_path / "s.json", "--target", "churned")
    path.write_text(path.read_text() + "abc,1\n")  # a cell that is refused too: the argument comes first
    assert "column 'a' holds numbers" in one_line("schema", path, "--json", "--target", "churned")
    assert "has no column 'Churned'" in one_line("schema", path, "--json", "--target", "Churned")
