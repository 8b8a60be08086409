"""Where torch cannot be imported, all that needs none runs, and what needs it says in one line what to type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import pages
from onnx_files import answers_of_the_runtime, onnx_file

RNG = np.random.default_rng(0)

HIDE = """
import sys
from importlib.abc import MetaPathFinder

class NoTorch(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""

START = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import taskveil as tv
from taskveil.client import Client

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
number = X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * rng.normal(size=120)
label = np.digitize(number, [-1.0, 1.0])

def whole_way(task, y=None):
    veil = tv.design(X, task, y=y, epsilon=4.0)
    print(round(veil.guarantee.epsilon, 6), np.isfinite(veil.loss(X, y).mean))
    veil.save("release", overwrite=True)
    server = tv.Veil.load("release")
    with Client.load("release", ledger=server.release_id, cap=4.0) as client:
        received = server.receive(client.report(X[0]).to_bytes())
    print(len(received.reports), len(server.predict(received.reports)))
    print(tv.estimate(server, server.privatize(X)).reports)
    frontier = tv.sweep(X, task, y=y, epsilons=[1.0, 4.0], methods=["auto"], seeds=[0])
    print(len(frontier.points), "torch" in sys.modules)
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=False, cwd=folder)


def last_line(code: str, folder: Path) -> str:
    """What the process says as it fails: the last line of its error."""
    done = run(START + code, folder)
    assert done.returncode == 1, done.stderr
    return done.stderr.strip().splitlines()[-1]


TASKS = {
    "matrix": "tv.LinearTask(np.diag([1.0, 2.0, 1.0, 0.0]))",
    "means": "tv.MeanTask(np.eye(4))",
    "forest": "tv.ModelTask(RandomForestClassifier(20, random_state=0).fit(X, label), loss='cross_entropy'), label",
    "regression": "tv.ModelTask(LinearRegression().fit(X, number)), number",
    "network": "tv.ModelTask(MLPRegressor(max_iter=2000, random_state=0).fit(X, number)), number",
    "own loss": "tv.ModelTask(LinearRegression().fit(X, number), loss=lambda out, y: abs(out[:, 0] - y)), number",
}


@pytest.mark.parametrize(
    "tasks",
    [("matrix", "forest"), pytest.param(("means", "regression", "network", "own loss"), marks=pytest.mark.slow)],
)
def test_the_whole_way(tasks: tuple[str, ...], tmp_path: Path) -> None:
    """Several tasks in one process, which takes seconds to start."""
    done = run("\n".join([START, *(f"whole_way({TASKS[task]})" for task in tasks)]), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["4.0 True", "1 1", "120", "2 False"] * len(tasks)


def test_the_usual_methods_are_those_that_need_no_torch(tmp_path: Path) -> None:
    code = """
task = tv.ModelTask(LinearRegression().fit(X, number))
frontier = tv.sweep(X, task, y=number, epsilons=[4.0], seeds=[0])
print({point.method for point in frontier.points}, "torch" in sys.modules)
"""
    done = run(START + code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "{'auto'} False\n"), done.stderr


def test_a_network_on_the_device_and_answers_for_records(tmp_path: Path) -> None:
    code = """
model = MLPRegressor(max_iter=2000, random_state=0).fit(X, number)
for answering, chosen in (("direct", tv.OnDevice(share_model=True, encoder="own")), ("record", None)):
    task = tv.ModelTask(model, answering=answering)
    print(tv.design(X, task, y=number, epsilon=4.0, on_device=chosen).guarantee.epsilon > 3.999)
print("torch" in sys.modules)
"""
    done = run(START + code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\nFalse\n"), done.stderr


@pytest.mark.parametrize("budgets", ["(2.0,)", pytest.param("demo.EPSILONS", marks=pytest.mark.slow)])
def test_the_demo(budgets: str, tmp_path: Path) -> None:
    code = f"from taskveil.experiments import demo; demo.EPSILONS = {budgets}\n"
    code += "sys.argv = ['taskveil', 'demo', '--json', '--picture', 'demo.png']\n"
    code += "import atexit; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
    done = run(code + "from taskveil.cli import main; main()", tmp_path)
    assert (done.returncode, done.stderr) == (0, "False\n")
    assert (tmp_path / "demo.png").exists()


def test_the_first_examples_of_the_readme(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    survey, model, *_ = (code for language, code in pages.blocks(text) if language == "python")
    code = f"import warnings; warnings.simplefilter('ignore')\n{survey}\n{model}\nprint('torch' in sys.modules)"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"


def test_estimators_need_no_torch(tmp_path: Path) -> None:
    code = """
for model in (LinearRegression(), make_pipeline(StandardScaler(), MLPRegressor(max_iter=2000, random_state=0))):
    task = tv.ModelTask(model.fit(X, number))
    assert np.allclose(task.predict(X)[:, 0], model.predict(X))
    print(task.differentiable, task.lines is not None, task.frozen.relu_layers is not None)
"""
    done = run(START + code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "True True False\nTrue False True\n"), done.stderr


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "tv.LinearTask(np.eye(4)).torch_module",
            "torch_module needs torch: pip install 'taskveil[torch]'",
        ),
        (
            "tv.ModelTask(LinearRegression().fit(X, number)).torch_module",
            "torch_module needs torch: pip install 'taskveil[torch]'",
        ),
        (
            "tv.design(X, tv.ModelTask(LinearRegression().fit(X, number)), y=number, epsilon=1.0, method='task_aware')",
            "pip install 'taskveil[torch]'",
        ),
        (
            "tv.ModelTask(LinearRegression().fit(X, number), loss=lambda out, y: (out[:, 0] - y).abs())"
            ".losses(X, X, number)",
            "your loss does not take numpy arrays ('numpy.ndarray' object has no attribute 'abs'). Write it for numpy, "
            "or if it is written for torch: pip install 'taskveil[torch]'",
        ),
        (
            "import onnx\n"
            "from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info as info\n"
            "same = make_node('Identity', ['x'], ['y'])\n"
            "onnx.save(make_model(make_graph([same], 'g', [info('x', 1, [4])], [info('y', 1, [4])])), 'model.onnx')\n"
            "sys.modules['onnxruntime'] = None; tv.ModelTask('model.onnx')",
            "ONNX files need onnxruntime or torch: pip install 'taskveil[onnx]' runs ONNX files, pip install "
            "'taskveil[torch]' gives their gradients too",
        ),
    ],
)
def test_what_needs_torch_says_what_to_type(code: str, says: str, tmp_path: Path) -> None:
    assert last_line(code, tmp_path).endswith(says)


def test_a_command_that_needs_torch_says_what_to_type(tmp_path: Path) -> None:
    code = "sys.argv = ['taskveil', 'reproduce', 'mnist']; from taskveil.cli import main; main()"
    done = run(code, tmp_path)
    assert done.returncode == 2
    assert done.stderr.replace("\n", " ").strip() == "error: this command needs torch: pip install 'taskveil[torch]'"


def test_an_onnx_file_is_run_by_onnxruntime(tmp_path: Path) -> None:
    weights = {"A": RNG.normal(size=(4, 6)).astype("f4"), "B": RNG.normal(size=(6, 3)).astype("f4")}
    nodes = [
        helper.make_node("MatMul", ["x", "A"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "B"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    path = onnx_file(tmp_path / "model.onnx", nodes, weights, [4], 3)
    code = """
task = tv.ModelTask("model.onnx", loss="cross_entropy")
print(task.differentiable, task.torch_module, task.lines, task.outputs)
np.save("said.npy", task.answers(X))
np.save("records.npy", X)
"""
    done = run(START + code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "False None None 3\n"), done.stderr
    wanted = answers_of_the_runtime(path, np.load(tmp_path / "records.npy").astype("f4"))
    assert np.load(tmp_path / "said.npy") == pytest.approx(wanted, abs=1e-5)
