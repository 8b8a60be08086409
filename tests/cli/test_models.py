"""Models by name: imported, never unpickled, and judged by what they are."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from cli.running import one_line, run
from taskveil.cli.inputs import as_task, load_model, with_loss
from taskveil.errors import TaskError

MODULE = """
import numpy as np, torch
from sklearn.linear_model import LinearRegression, LogisticRegression

X = np.random.default_rng(0).normal(size=(60, 3))
regression = LinearRegression().fit(X, X[:, 0])
def classifier():
    return LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
network = torch.nn.Linear(3, 2)
unfitted = LogisticRegression()
number = 7
class Inner:
    network = network
def broken():
    raise RuntimeError("there is no such file")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a module of a name that no other test has imported."""
    (tmp_path / f"{tmp_path.name}_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("regression", "mse"),
        ("classifier", "cross_entropy"),
        ("network", "cross_entropy"),
        ("Inner.network", "cross_entropy"),
    ],
)
def test_an_object_or_a_function_that_returns_one(folder: Path, name: str, loss: str) -> None:
    task = as_task(load_model(f"{folder.name}_models:{name}"), None)
    assert with_loss(task, None, tv.Schema.numbers(3)).loss == loss


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{}:nothing", "AttributeError"),
        ("{}:broken", "RuntimeError"),
        ("nowhere_at_all:model", "ModuleNotFoundError"),
        ("{}", "package.module:object"),
        ("model.pkl", "are not opened"),
        ("folder/model.joblib", "are not opened"),
        ("{}:number", "a model must be"),
        ("{}:unfitted", "fit the model first"),
        ("nowhere.onnx", "no file"),
    ],
)
def test_what_is_no_model_is_explained(folder: Path, name: str, says: str) -> None:
    (folder / "people.csv").write_text("a,b,c\n" + "1,2,3\n4,5,7\n" * 20)
    model = name.format(f"{folder.name}_models")
    assert says in one_line("design", "people.csv", "r", "--epsilon", "1", "--model", model)
    assert not (folder / "r").exists()


def test_nothing_is_unpickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle that would run code, under every name that one might try."""

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit('opened')",)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("something was unpickled")

    for ending in (".pkl", ".joblib", ".pt", ".pth", ".onnx", ".pickle"):
        (folder / f"trap{ending}").write_bytes(pickle.dumps(Trap()))
        for loader in (pickle, torch):
            monkeypatch.setattr(loader, "load", refused)
        monkeypatch.setattr(pickle, "loads", refused)
        with pytest.raises(TaskError):
            as_task(load_model(f"trap{ending}"), None)


def test_torch_onnx_files_and_scikit_learn_from_csv_to_probabilities(folder: Path) -> None:
    """The same classifier as a file and by name: the same kind of answers, named where the model names them."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", "b", "c"])
    y = np.where(X["a"] + 0.3 * rng.normal(size=240) > 0, 1, 0)
    X.assign(y=y).to_csv(folder / "people.csv", index=False)
    fitted = LogisticRegression().fit(X, y)
    network = torch.nn.Linear(3, 2)
    with torch.no_grad():
        network.weight.copy_(torch.tensor(np.vstack([np.zeros(3), fitted.coef_[0]])))
        network.bias.copy_(torch.tensor([0.0, fitted.intercept_[0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        axes = {"x": {0: "n"}}
        torch.onnx.export(
            network, (torch.zeros(2, 3),), "model.onnx", input_names=["x"], dynamic_axes=axes, dynamo=False
        )
    options = ("--target", "y", "--epsilon", "3", "--method", "codebook", "--encoder", "linear", "--json")
    found = json.loads(run("design", "people.csv", "r", "--model", "model.onnx", *options))
    assert found["columns"] == ["a", "b", "c"]
    assert found["no_privacy"] < found["loss"] < found["nothing_sent"]
    assert found["accuracy"] > 0.7
    run("privatize", "people.csv", "reports.parquet", "--release", "r")
    said = run("decode", "reports.parquet", "answers.parquet", "--release", "r", "--predict")
    assert "p0, p1" in said
    answers = pd.read_parquet("answers.parquet")
    assert list(answers) == ["p0", "p1"]
    np.testing.assert_allclose(answers.sum(axis=1), 1.0)
    assert ((answers["p1"] > 0.5) == (y == 1)).mean() > 0.7
    module = folder / f"{folder.name}_fitted.py"
    module.write_text(
        "import pandas as pd\nfrom sklearn.linear_model import LogisticRegression\n"
        "people = pd.read_csv('people.csv')\n"
        "model = LogisticRegression().fit(people[['a', 'b', 'c']], people['y'].map({0: 'no', 1: 'yes'}))\n"
    )
    named = ("--release", "r", "--predict", "--overwrite", "--model", f"{folder.name}_fitted:model")
    run("decode", "reports.parquet", "answers.parquet", *named)
    again = pd.read_parquet("answers.parquet")
    assert list(again) == ["p(no)", "p(yes)"]
    X.assign(y=np.where(y == 1, "yes", "no")).to_csv(folder / "words.csv", index=False)
    with_names = ("--model", f"{folder.name}_fitted:model", *options, "--overwrite")
    run("design", "words.csv", "named", *with_names)
    run("privatize", "words.csv", "named.parquet", "--release", "named")
    said = run("decode", "named.parquet", "named.csv", "--release", "named", "--predict")
    assert "p0" not in said
    assert "y0" not in said  # the columns are probabilities, not logits
    assert list(pd.read_csv("named.csv")) == ["p(no)", "p(yes)"]  # the release names its classes
    np.testing.assert_allclose(again.to_numpy(), answers.to_numpy())
    assert tv.Veil.load("r").schema.unbounded
