"""`taskveil sweep`: what it writes, and how it explains mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.cli.running import one_line, run
from typer.testing import CliRunner

import terminals
from taskveil.cli.app import app
from taskveil.designs.laplace.gradient import LearningSettings
from taskveil.sweeps.frontier import Frontier

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = LearningSettings(steps=150, folds=2, checkpoints=5, warm_up=60, inverse_steps=120)
    monkeypatch.setattr(LearningSettings, "for_size", classmethod(lambda cls, records: settings))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    table, model = tmp_path / "people.csv", tmp_path / "model.onnx"
    np.savetxt(table, np.column_stack([X, Y]), delimiter=",", header="a,b,c,y", comments="")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "W"], ["h"], transB=1), helper.make_node("Tanh", ["h"], ["out"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", 1])],
        [numpy_helper.from_array(np.array([[1.0, 0.5, 0.0]], dtype=np.float32), "W")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    return table, model


@pytest.mark.usefixtures("quick")
def test_the_command_writes_table_json_picture_and_page(files: tuple[Path, Path], tmp_path: Path) -> None:
    table, model = files
    folder = tmp_path / "out"
    arguments = ["sweep", str(table), "--target", "y", "--model", str(model), "--epsilons", "1,20", "--seeds", "1",
                 "--methods", "task_aware", "--folder", str(folder)]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "task_aware" in result.output
    assert "ε = 20" in result.output
    assert "95% of the usable signal" in result.output  # what to choose, in words
    names = {"table.txt", "frontier.json", "frontier.png", "frontier.html", "finished.json", "frontier-losses.json"}
    assert {path.name for path in folder.iterdir()} == names
    shown = names - {
        "finished.json",
        "frontier-losses.json",
        "frontier.png",
    }  # nothing of single records is in what is made to be shown
    assert not any("per_record" in (folder / name).read_text(encoding="utf-8") for name in shown)
    again = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(again.output)["clear"] == pytest.approx(0.0, abs=1e-9)
    assert "per_record" not in again.output


def test_what_a_sweep_wrote_reloads_with_all_that_a_budget_needs(tmp_path: Path) -> None:
    table, folder = tmp_path / "people.csv", tmp_path / "out"
    np.savetxt(table, X, delimiter=",", header="a,b,c", comments="")
    run("sweep", table, "--epsilons", "1,20", "--methods", "task_aware", "--folder", folder)
    frontier = Frontier.from_json(folder / "frontier.json")
    budget = frontier.epsilon_for(0.3)
    assert budget == 20
    assert budget.method == "task_aware"
    assert (folder / "frontier-losses.json").stat().st_mode & 0o077 == 0  # losses of single people: its owner's alone
    again = Frontier.from_json(frontier.to_json(tmp_path / "again.json"))
    assert again.epsilon_for(0.3).statement == budget.statement
    # Losses of another sweep are not taken, and without any no budget is promised.
    other = json.loads((folder / "frontier-losses.json").read_text())
    other["clear"] = 1.0
    (folder / "frontier-losses.json").write_text(json.dumps(other))
    assert "No budget can be promised" in Frontier.from_json(folder / "frontier.json").epsilon_for(0.3).statement


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--target", "z"], "no column 'z'"), (["--epsilons", "a"], "commas"), (["--model", "nowhere.onnx"], "no file")],
)
def test_mistakes_are_explained(files: tuple[Path, Path], options: list[str], says: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sweep", str(files[0]), "--folder", str(tmp_path / "o"), *options])
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_weights_make_another_sweep(files: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = ["sweep", str(files[0]), "--epsilons", "2", "--methods", "task_aware", "--folder", str(tmp_path / "o")]
    assert "weighed by 1/spread" in CliRunner().invoke(app, arguments).output
    again = CliRunner().invoke(app, [*arguments, "--weight", "a=9"])
    assert again.exit_code == 2
    assert "Pass another --folder" in again.output


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """People of two countries and of one that is hardly there; a row has no target, one no country."""
    rows = [f"{a},{b},{'NZ' if a > 0 else 'AU'},{a > b}" for a, b in X[:, :2].round(3)]
    rows[3] = rows[3].rpartition(",")[0] + ","
    rows[4] = "1.5,2.5,,True"
    rows[5] = "1.5,2.5,Tuvalu,True"
    (tmp_path / "people.csv").write_text("a,b,country,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path / "people.csv"


def test_segments_have_a_table_and_releases(people: Path, tmp_path: Path) -> None:
    """The column that says the segment need not be part of the record."""
    arguments = ["sweep", people, "--columns", "a,b", "--target", "y", "--epsilons", "2", "--methods", "task_aware",
                 "--segment", "country", "--folder", tmp_path / "out", "--releases", tmp_path / "releases"]  # fmt: skip
    printed = run(*arguments)
    table = (tmp_path / "out" / "table.txt").read_text(encoding="utf-8")
    assert all(line in printed for line in table.splitlines())
    assert "Tuvalu" in table
    assert "no privacy" in table
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        *("table.txt", "frontier.json", "segments.json", "frontier.png", "frontier.html"),
        *("finished.json", "frontier-losses.json"),
    }
    shown = (tmp_path / "out" / "segments.json").read_text(encoding="utf-8")
    assert "per_record" not in shown
    assert json.loads(shown)["people"]["Tuvalu"] in ([1, 0], [0, 1])
    found = {str(path.relative_to(tmp_path / "releases")) for path in (tmp_path / "releases").glob("*/*")}
    assert found <= {"common/task_aware-2", "NZ/task_aware-2", "AU/task_aware-2"}
    assert "common/task_aware-2" in found
    assert run(*arguments, "--json").endswith(shown)  # once more: it goes on from there
    fresh = [*arguments[:-4], "--folder", tmp_path / "other", *arguments[-2:]]
    assert "task_aware-2 exists already" in run(*fresh, code=2)


def test_mistakes_about_segments_and_engines_are_explained(people: Path, tmp_path: Path) -> None:
    arguments = ("sweep", people, "--columns", "a,b", "--methods", "task_aware", "--folder", tmp_path / "out")
    assert "--segment: " in one_line(*arguments, "--segment", "planet")
    assert "has no column 'planet', only a, b, country, y" in one_line(*arguments, "--segment", "planet")
    assert "would reveal the label" in one_line(*arguments, "--target", "y", "--segment", "y")
    assert 'engine must be "plain" or "ray"' in one_line(*arguments, "--engine", "spark")
    assert "pass --engine ray too" in one_line(*arguments, "--workers", "2")
    assert "pass --gpus 1 too" in one_line(*arguments, "--engine", "ray", "--device", "cuda")
    assert "no Ray cluster answers at 127.0.0.1:1" in one_line(
        *arguments, "--engine", "ray", "--address", "127.0.0.1:1"
    )


PROGRAM = """
from taskveil import progress
from taskveil.cli.app import app
progress.BAR_AFTER_SECONDS = 0.0
app({arguments!r})
"""


def test_a_terminal_sees_which_designs_are_made_and_how_many_are_left(files: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = ["sweep", str(files[0]), "--columns", "a,b,c", "--epsilons", "1,2", "--folder", str(tmp_path / "out")]
    found = terminals.run(PROGRAM.format(arguments=arguments), terminal=True)
    assert found.code == 0, found.err
    assert "codebook" in found.out
    # Which frames are drawn depends on how quick the machine is; the bar ends with all designs made.
    assert re.search(r"codebook|task_a\w+", found.err)
    assert re.search(r"100%", found.err)
    assert terminals.screen(found.err) == ""


def test_no_bar_stays_above_an_error(files: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = ["design", str(files[0]), str(tmp_path / "out"), "--columns", "a,b,c", "--epsilon", "1",
                 "--method", "means"]  # fmt: skip
    found = terminals.run(PROGRAM.format(arguments=arguments), terminal=True)
    assert found.code == 2
    assert "\x1b[?25l" in found.err  # a bar was drawn; which frames of it depends on how quick the machine is
    assert terminals.screen(found.err, columns=2000).startswith("error: means ")
