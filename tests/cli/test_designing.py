from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import taskveil as tv
from cli.running import one_line, run
from taskveil.cli.app import app


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
    assert veil.task.K[0, 0] == pytest.approx(3 * veil.task.K[1, 1])
    assert veil.columns == tuple("abcdef")
    assert veil.units is None


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", [("design", "r", "--epsilon", "2"), ("sweep", "--epsilons", "2", "--folder", "r")])
def test_a_warning_is_one_line_that_names_the_column(csv: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    values = np.loadtxt(csv, delimiter=",", skiprows=1)
    values[7, 2] = 1e9
    np.savetxt(csv, values, delimiter=",", header="a,b,c,d,e,f", comments="")
    name, *rest = (str(tmp_path / word) if word == "r" else word for word in command)
    result = CliRunner().invoke(app, [name, str(csv), *rest])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if "Check their units; domain" in line]
    assert line.startswith("warning: ")
    assert "row 7, column 'c'" in line
    assert ".py" not in result.stderr


def test_design_says_what_it_chose_from(csv: Path, tmp_path: Path) -> None:
    shown = run("design", str(csv), str(tmp_path / "r"), "--epsilon", "2")
    considered = tv.Veil.load(tmp_path / "r").considered
    assert f"Expected task loss on volunteers held out: {considered[0].held_out_loss:.6g}" in shown
    lines = [line for line in shown.splitlines() if "(chosen)" in line or "±" in line]
    assert [line.split()[0] for line in lines] == [f"{entry.method}:" for entry in considered]
    assert "(chosen)" in lines[0]
    assert all("±" in line for line in lines[1:])


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
    ],
)
def test_mistakes_are_explained(csv: Path, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line("design", csv, tmp_path / "r", *arguments)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--epsilons", "1,two"), "--epsilons takes numbers with commas between, got '1,two'"),
        (("--target", "zzz"), "no column 'zzz', only a, b, c, d, e, f"),
        (("--methods", "magic"), "magic"),
    ],
)
def test_mistakes_in_sweeps_are_explained(csv: Path, tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line("sweep", csv, "--folder", tmp_path / "o", *arguments)


def test_signing_with_what_is_no_key(csv: Path, tmp_path: Path) -> None:
    run("design", csv, tmp_path / "r", "--epsilon", "1", "--method", "task_aware")
    assert "no unencrypted PEM private key" in one_line("sign", tmp_path / "r", "--key", csv)
