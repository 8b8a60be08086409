"""Sweeps: what is measured, what helps to choose ε, and that an interruption costs little."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from typer.testing import CliRunner

import taskveil as tv
from taskveil.cli.app import app
from taskveil.designs import sweeps
from taskveil.designs.frontier import Frontier, Point
from taskveil.designs.laplace import baselines
from taskveil.designs.learned.gradient import Settings
from taskveil.errors import BudgetError, DataError, TaskError

RNG = np.random.default_rng(8)
X = RNG.normal(size=(120, 3)) @ RNG.normal(size=(3, 3))
Y = np.tanh(X[:, 0] + 0.5 * X[:, 1])
LINEAR = tv.LinearTask(np.diag([2.0, 1.0, 0.5]))


def point(method: str, epsilon: float, seed: int, loss: float) -> Point:
    return Point(method=method, epsilon=epsilon, seed=seed, loss=loss, low=loss, high=loss)


FRONTIER = Frontier(
    points=(
        point("task_aware", 1.0, 0, 0.8),
        point("task_aware", 1.0, 1, 0.6),
        point("task_aware", 4.0, 0, 0.2),
        point("task_aware", 4.0, 1, 0.3),
        point("task_agnostic", 1.0, 0, 1.0),
        point("task_agnostic", 4.0, 0, 0.6),
    ),
    clear=0.1,
    constant=1.1,
)


def test_the_share_kept_and_the_budget_for_it() -> None:
    assert FRONTIER.kept("task_aware", 4.0) == pytest.approx(0.85)
    assert FRONTIER.epsilon_for(kept=0.85) == 4.0
    assert FRONTIER.epsilon_for(kept=0.4) == 1.0
    assert FRONTIER.epsilon_for(kept=0.4, method="task_agnostic") == 4.0
    with pytest.raises(BudgetError, match=r"the most is 85.0% at ε = 4"):
        FRONTIER.epsilon_for(kept=0.95)
    with pytest.raises(BudgetError, match="share"):
        FRONTIER.epsilon_for(kept=95)
    with pytest.raises(TaskError, match="no method 'magic'"):
        FRONTIER.epsilon_for(0.5, method="magic")
    with pytest.raises(TaskError, match="no point"):
        FRONTIER.loss("task_aware", 9.0)


def test_all_forms_of_a_frontier(tmp_path: Path) -> None:
    table = FRONTIER.table()
    assert "0.25 (85%)" in table
    assert "constant answer: 1.1" in table
    assert FRONTIER.plot(tmp_path / "a" / "f.png").read_bytes().startswith(b"\x89PNG")
    assert Frontier.from_json(FRONTIER.to_json(tmp_path / "f.json")) == FRONTIER
    content = json.loads((tmp_path / "f.json").read_text())
    assert content["rows"][0] == {
        "method": "task_aware", "epsilon": 1.0, "loss": 0.7, "least": 0.6, "greatest": 0.8, "seeds": 2,
        "kept": pytest.approx(0.4),
    }  # fmt: skip


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    nasty = Frontier(points=(point("</script><b>", 1.0, 0, 0.5),), clear=0.0, constant=1.0)
    page = nasty.to_html(tmp_path / "p.html", title="<i>title</i>").read_text()
    assert not re.search(r"https?://|<link|@import", page)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', page))
    assert "<b>" not in page
    assert "<i>" not in page
    data = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert json.loads(data[1])["points"][0]["method"] == "</script><b>"
    assert "ε = 1 keeps 50%" in page


def test_a_linear_sweep_is_the_designs_one_by_one() -> None:
    test = X[:40] + 0.1
    frontier = tv.sweep(X, LINEAR, epsilons=[4, 1], methods=["task_aware", "matrix_factorization"], X_test=test)
    assert frontier.epsilons == [1.0, 4.0]
    assert len(frontier.points) == 4
    assert frontier.loss("task_aware", 4.0) == tv.design(X, LINEAR, epsilon=4.0, method="task_aware").loss(test).mean
    assert frontier.clear == 0.0
    assert frontier.constant == pytest.approx(LINEAR.losses(np.tile(X.mean(0), (40, 1)), test).mean())


def test_without_test_records_some_are_held_out() -> None:
    frontier = tv.sweep(X, LINEAR, epsilons=[2.0], methods=["task_agnostic"])
    everything = tv.design(X, LINEAR, epsilon=2.0, method="task_agnostic").loss(X).mean
    assert frontier.points[0].loss != everything


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"epsilons": [1.0, 2.0, 4.0], "methods": ["task_agnostic"], "resume": tmp_path / "log" / "sweep.json"}
    original, calls = baselines.task_agnostic, []

    def task_agnostic(X: np.ndarray, task: tv.LinearTask, epsilon: float, domain: object) -> tv.Veil:
        calls.append(epsilon)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(X, task, epsilon, domain)

    monkeypatch.setattr(baselines, "task_agnostic", task_agnostic)
    with pytest.raises(KeyboardInterrupt):
        tv.sweep(X, LINEAR, **options)
    resumed = tv.sweep(X, LINEAR, **options)
    assert calls == [1.0, 2.0, 4.0, 4.0]
    monkeypatch.setattr(baselines, "task_agnostic", original)
    assert resumed == tv.sweep(X, LINEAR, **{**options, "resume": None})
    with pytest.raises(DataError, match="other data or another task"):
        tv.sweep(X + 1.0, LINEAR, **options)
    with pytest.raises(DataError, match="other data or another task"):
        tv.sweep(X, tv.LinearTask(np.eye(3)), **options)
    options["resume"].write_text("{}")
    with pytest.raises(DataError, match="keeps no sweep"):
        tv.sweep(X, LINEAR, **options)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it matters that something is learned, not how well."""
    settings = Settings(steps=150, folds=2, checkpoints=5)
    monkeypatch.setattr(Settings, "for_size", classmethod(lambda cls, records: settings))


@pytest.mark.usefixtures("quick")
def test_models_are_swept_at_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    task = tv.ModelTask(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)))
    log = tmp_path / "log.json"
    options = {"epsilons": [1.0, 30.0], "methods": ["task_aware"], "y": Y, "resume": log}
    frontier = tv.sweep(X, task, seeds=2, **options)
    assert len(frontier.points) == 4
    assert frontier.loss("task_aware", 30.0) < frontier.loss("task_aware", 1.0)
    again = tv.sweep(X, task, seeds=[0], **options)
    assert again.points == tuple(p for p in frontier.points if p.seed == 0)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"epsilons": []}, TaskError, "0 budgets"),
        ({"epsilons": [1.0], "methods": ["magic"]}, TaskError, "magic"),
        ({"epsilons": [1.0], "seeds": 0}, TaskError, "0 seeds"),
        ({"epsilons": [-1.0]}, BudgetError, "above zero"),
        ({"epsilons": [1.0], "X_test": X[:, :2]}, DataError, "made for 3"),
    ],
)
def test_sweeps_that_make_no_sense(options: dict, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        tv.sweep(X, LINEAR, **options)


def test_the_name_is_always_the_function() -> None:
    assert tv.sweep is sweeps.sweep
    assert callable(tv.sweep)


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
    names = {"table.txt", "frontier.json", "frontier.png", "frontier.html", "finished.json"}
    assert {path.name for path in folder.iterdir()} == names
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
