from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from torch import Tensor, nn

import taskveil as tv
from onnx_files import ints, onnx_file
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.experiments.mnist import network
from taskveil.tasks.models.modules import rows_of
from taskveil.tasks.models.onnx_reader import read_onnx

RNG = np.random.default_rng(0)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(72, 72)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x).relu()


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if float(x.sum()) > 0 else -x


class Swapped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, 8, 9).transpose(1, 2).reshape(-1, 72)


class Resized(nn.Module):
    """Only changes shapes, and moves axes of length one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), 1, 6, 12).permute(0, 2, 1, 3).squeeze(2).unsqueeze(1)


def pictures(*layers: nn.Module, channels: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Unflatten(1, (channels, 72 // channels // 6, 6)), *layers)


MADE_OF_LAYERS: dict[str, nn.Module] = {
    "one linear layer": nn.Linear(72, 3),
    "in place": nn.Sequential(nn.Linear(72, 8), nn.ReLU(inplace=True), nn.Linear(8, 1), nn.Flatten(0)),
    "dense": nn.Sequential(nn.Linear(72, 8), nn.ReLU(), nn.Dropout(), nn.Identity(), nn.Linear(8, 1)),
    "linear after linear": nn.Sequential(nn.Linear(72, 2), nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 4)),
    "batch normalisation": nn.Sequential(nn.BatchNorm1d(72), nn.Linear(72, 5), nn.BatchNorm1d(5), nn.ReLU(),
                                         nn.BatchNorm1d(5), nn.Linear(5, 2)),
    "convolutions": pictures(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2),
                             nn.Conv2d(4, 6, (1, 3), groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    "normalised before padding": pictures(nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
                                          nn.Flatten(), nn.Linear(36, 2)),
    "strides and dilation": pictures(nn.Conv2d(2, 3, 2, stride=(1, 2), dilation=(2, 1), padding=(1, 0)), nn.ReLU(),
                                     nn.MaxPool2d(3, stride=1, padding=1), nn.Flatten(), nn.Linear(54, 2)),
    "a series": nn.Sequential(nn.Unflatten(1, (1, 72)), nn.Conv1d(1, 4, 5, stride=2, padding=2), nn.ReLU(),
                              nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)),
    "pooled first": pictures(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(18, 2)),
    "log-softmax": nn.Sequential(nn.Linear(72, 4), nn.LogSoftmax(dim=1)),
    "changes of shape": nn.Sequential(Resized(), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(80, 2)),
    "a module of its own": nn.Sequential(nn.Sequential(nn.Linear(72, 4)), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))),
}  # fmt: skip

OTHERS: dict[str, nn.Module] = {
    "tanh": nn.Sequential(nn.Linear(72, 4), nn.Tanh(), nn.Linear(4, 2)),
    "softmax": nn.Sequential(nn.Linear(72, 4), nn.Softmax(dim=1)),
    "a residual": nn.Sequential(Residual(), nn.Linear(72, 2)),
    "a branch": nn.Sequential(Branching(), nn.Linear(72, 2)),
    "axes in another order": nn.Sequential(Swapped(), nn.Linear(72, 2)),
    "layer normalisation": nn.Sequential(nn.LayerNorm(72), nn.Linear(72, 2)),
    "ReLU of the record": nn.Sequential(nn.ReLU(), nn.Linear(72, 2)),
    "a limit of six": nn.Sequential(nn.Linear(72, 4), nn.ReLU6(), nn.Linear(4, 2)),
    "no weights": nn.Flatten(),
    "windows beyond the edge": pictures(nn.Conv2d(2, 4, 2), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten(),
                                        nn.Linear(36, 2)),
    "means with padding": pictures(nn.Conv2d(2, 4, 3), nn.AvgPool2d(2, padding=1), nn.Flatten(), nn.Linear(36, 2)),
    "records of another width": nn.Linear(71, 2),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _seen_before() -> None:
    """Statistics of batch normalisation that say something."""
    torch.manual_seed(0)
    for module in MADE_OF_LAYERS.values():
        with torch.no_grad():
            module.train()(3 * torch.randn(64, 72) + 1)
        module.eval()


@pytest.mark.parametrize("name", MADE_OF_LAYERS)
def test_modules_of_layers_are_taken_exactly(name: str) -> None:
    module = MADE_OF_LAYERS[name]
    layers = as_layers(module, 72)
    assert layers is not None
    X = 5 * RNG.normal(size=(40, 72))
    with torch.no_grad():
        theirs = rows_of(module(torch.from_numpy(X).float())).double().numpy()
    mine = layers(X)
    if layers.shifted:
        mine = torch.from_numpy(mine).log_softmax(1).numpy()
    assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-4 * np.abs(theirs).max())
    assert layers.outputs == theirs.shape[1]


@pytest.mark.parametrize("name", OTHERS)
def test_whatever_else_is_not_taken(name: str) -> None:
    assert as_layers(OTHERS[name].eval(), 72) is None


def test_the_network_of_the_digits_is_taken() -> None:
    layers = as_layers(network(), 784)
    assert layers is not None
    assert layers.weights == 28_880  # and 58 offsets
    assert layers.sees_pictures


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), None], ids=str)
def test_estimators_of_layers_are_taken(scaler: object) -> None:
    X = np.random.default_rng(6).normal(size=(200, 5)) * [1, 10, 100, 1e-3, 1] + [0, 5, 1e4, 0, 1]
    y = (X[:, 0] > 0).astype(int)
    models = [
        (LogisticRegression(), y, "cross_entropy"),
        (LogisticRegression(), np.digitize(X[:, 0], [-0.5, 0.5]), "cross_entropy"),
        (MLPClassifier(hidden_layer_sizes=(8,), max_iter=5, random_state=0), y, "cross_entropy"),
        (MLPRegressor(hidden_layer_sizes=(6, 4), max_iter=5, random_state=0), X[:, 0], "mse"),
        (LinearRegression(), X[:, 0], "mse"),
    ]
    for model, labels, loss in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # five steps are not enough, and need not be
            fitted = make_pipeline(scaler, model).fit(X, labels) if scaler else model.fit(X, labels)
        task = tv.ModelTask(fitted, loss=loss)
        assert task.frozen.module is not None
        layers = as_layers(task.frozen.module, 5)
        assert layers is not None
        theirs = task.frozen(X)
        assert layers(X) == pytest.approx(theirs, rel=1e-6, abs=1e-6 * np.abs(theirs).max())
        encoder = layers.encoder(X.min(axis=0), X.max(axis=0), X, softmax=False)
        assert np.abs(encoder(X) - theirs).max() < 1e-2 * np.abs(theirs).max()


def weights(*shape: int) -> np.ndarray:
    return 0.3 * RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("batch", ["N", 1])
def test_onnx_files_of_layers_are_taken(tmp_path: Path, batch: str | int) -> None:
    path = onnx_file(
        tmp_path / "m.onnx",
        [
            helper.make_node("Sub", ["x", "m"], ["x0"]),
            helper.make_node("Reshape", ["x0", "s"], ["a"]),
            helper.make_node("Conv", ["a", "W", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["d"]),
            helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Flatten", ["e"], ["f"]),
            helper.make_node("Gemm", ["f", "V", "v"], ["y"]),
        ],
        {"m": np.float32(0.5), "s": ints(-1, 1, 6, 6), "W": weights(4, 1, 3, 3), "b": weights(4), "V": weights(36, 3),
         "v": weights(3)},
        [36],
        3,
        batch=batch,
    )  # fmt: skip
    module, width = read_onnx(onnx.load(path), logits=False)
    assert width == 36
    layers = as_layers(module, 36)
    assert layers is not None
    X = RNG.normal(size=(30, 36))
    with torch.no_grad():
        assert layers(X) == pytest.approx(module(torch.from_numpy(X)).numpy(), abs=1e-5)
