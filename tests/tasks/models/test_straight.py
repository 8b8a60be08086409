"""Models that are linear are found by asking them, and no other is taken for one."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import Tensor, nn

import taskveil as tv
from taskveil.tasks.models.layered import probed_lines

RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 5))
SINGLE = float(np.finfo(np.float32).eps)


def known(task: tv.ModelTask, width: int = 5) -> tv.ModelTask:
    task.check_width(width)
    return task


class Far(nn.Module):
    """Bends in one attribute alone, where records lie in thousands."""

    def __init__(self, place: float) -> None:
        super().__init__()
        self.linear, self.place = nn.Linear(5, 1), place

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + torch.relu(x[:, 2:3] - self.place)


class LogSoftmax(nn.Module):
    """A linear classifier's logits, shifted to be logarithms of probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).log_softmax(-1)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 3000.0])
@pytest.mark.parametrize("width", [1, 5, 300])
def test_a_linear_module(kind: torch.dtype, offset: float, width: int) -> None:
    torch.manual_seed(0)
    model = nn.Linear(width, 2).to(kind)
    with torch.no_grad():
        model.bias += offset
    task = known(tv.ModelTask(model.eval()), width)
    assert task.lines is not None
    assert task.lines[0] == pytest.approx(model.weight.detach().numpy(), rel=1e-3, abs=1e-5)
    assert task.lines[1] == pytest.approx(model.bias.detach().numpy(), rel=1e-6)


def test_linear_parts_one_after_the_other() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).double().eval()
    task = known(tv.ModelTask(model))
    weights, offset = task.lines
    assert X @ weights.T + offset == pytest.approx(task.predict(X))


def test_logits_count_up_to_a_shift_and_values_do_not() -> None:
    torch.manual_seed(0)
    model = LogSoftmax().eval()
    task = known(tv.ModelTask(model, loss="cross_entropy"))
    weights, offset = task.lines
    logits = X @ weights.T + offset
    said = task.predict(X)
    assert logits - logits[:, :1] == pytest.approx(said - said[:, :1], abs=1e-4)
    assert known(tv.ModelTask(model)).lines is None
    assert known(tv.ModelTask(model, loss=lambda out, y: out[:, 0])).lines is None


@pytest.mark.parametrize("place", [0.5, 2000.0, -3e6])
def test_a_bend_anywhere_is_seen(place: float) -> None:
    torch.manual_seed(0)
    assert known(tv.ModelTask(Far(place).eval())).lines is None


@pytest.mark.parametrize("bend", [nn.ReLU(), nn.Tanh(), nn.LeakyReLU(0.9), nn.Hardtanh(-1e4, 1e4), nn.Softplus()])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_networks_are_not_linear(bend: nn.Module, size: float) -> None:
    """Also those whose attributes are so large that they bend far from zero."""
    torch.manual_seed(0)
    first = nn.Linear(5, 8)
    with torch.no_grad():
        first.weight /= size
        first.bias += 3.0
    assert known(tv.ModelTask(nn.Sequential(first, bend, nn.Linear(8, 2)).eval())).lines is None


def test_a_model_that_says_the_same_of_all_has_no_lines() -> None:
    assert probed_lines(lambda X: np.ones((len(X), 1)), 3, SINGLE) is None


def test_a_model_without_a_known_width_has_none_yet() -> None:
    class Own(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(dim=1)

    task = tv.ModelTask(Own())
    assert task.lines is None
    assert known(task).lines[0].tolist() == [[1.0] * 5]


@pytest.mark.parametrize(
    ("model", "straight"),
    [
        (LinearRegression(), True),
        (make_pipeline(StandardScaler(), LinearRegression()), True),
        (RandomForestRegressor(5, random_state=0), False),
        (MLPRegressor(hidden_layer_sizes=(4,), max_iter=2000, random_state=0), False),
        (MLPRegressor(hidden_layer_sizes=(4,), activation="tanh", max_iter=2000, random_state=0), False),
        (GaussianProcessRegressor(RBF(100.0), alpha=1e-3, optimizer=None), False),
    ],
)
@pytest.mark.parametrize("far", [0.0, 4000.0])
def test_onnx_files_that_onnxruntime_runs(
    model: object, straight: bool, far: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    records = (X + far).astype(np.float32)
    model.fit(records, X @ [1.0, -2.0, 0.5, 0.0, 0.3])
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, records[:1]).SerializeToString())
    without_torch(monkeypatch)
    task = tv.ModelTask(path)
    assert not task.differentiable
    assert (task.lines is not None) == straight
    if straight:
        weights, offset = task.lines
        assert records @ weights.T + offset == pytest.approx(task.predict(records), abs=1e-2)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("model", "straight"),
    [
        (LogisticRegression(), True),
        (make_pipeline(StandardScaler(), LogisticRegression(C=100.0)), True),
        (LinearDiscriminantAnalysis(), True),
        (OneVsRestClassifier(LogisticRegression()), False),
        (GaussianNB(), False),
        (RandomForestClassifier(5, random_state=0), False),
        (MLPClassifier(hidden_layer_sizes=(4,), max_iter=2000, random_state=0), False),
        (MLPClassifier(hidden_layer_sizes=(4,), activation="tanh", max_iter=2000, random_state=0), False),
        (SVC(probability=True, random_state=0), False),
    ],
)
def test_classifiers_that_onnxruntime_runs(model: object, straight: bool, classes: int, tmp_path: Path) -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    records = (X * [1.0, 0.01, 30.0, 1.0, 1.0]).astype(np.float32)
    value = X @ [1.0, -2.0, 0.5, 0.0, 0.3] + RNG.logistic(size=len(X))
    y = np.digitize(value, np.quantile(value, np.arange(1, classes) / classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(records, y)
        content = skl2onnx.to_onnx(model, records[:1], options={"zipmap": False}).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    task = tv.ModelTask(path, loss="cross_entropy")
    assert task.torch_module is None
    assert (task.lines is not None) == straight
    if straight:
        weights, offset = task.lines
        assert task.cost.answers(records @ weights.T + offset) == pytest.approx(task.answers(records), abs=1e-3)
        assert tv.ModelTask(path, loss=lambda out, y: out[:, 0]).lines is None


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports of torch fail from here on, as where it is not installed."""
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
