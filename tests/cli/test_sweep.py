"""`taskveil sweep`: what it writes, and how it explains mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from taskveil.cli.app import app
from taskveil.designs.learned.gradient import Settings

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = Settings(steps=150, folds=2, checkpoints=5)
    monkeypatch.setattr(Settings, "for_size", classmethod(lambda cls, records: settings))


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
    names = {"table.txt", "frontier.json", "frontier.png", "frontier.html", "finished.json"}
    assert {path.name for path in folder.iterdir()} == names
    shown = names - {"finished.json", "frontier.png"}  # nothing of single records is in what is made to be shown
    assert not any("per_record" in (folder / name).read_text(encoding="utf-8") for name in shown)
    again = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(again.output)["clear"] == pytest.approx(0.0, abs=1e-9)


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
