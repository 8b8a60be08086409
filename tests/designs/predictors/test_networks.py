from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fits import CLASSES, VALUES, Designed, designed, evidence_of
from taskveil.client.networks import LayeredEncoder
from taskveil.designs.predictors import networks
from taskveil.designs.predictors.networks import Architecture
from taskveil.designs.selection import MANIFEST
from taskveil.errors import TaskError

FOLD = np.arange(400) % 3


def strokes(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of 6 × 6 with a stroke across, downwards or none, somewhere, under noise; and which."""
    rng = np.random.default_rng(0)
    pictures, kind, place = 0.3 * rng.random((count, 6, 6)), rng.integers(0, 3, count), rng.integers(0, 6, count)
    for picture, which, line in zip(pictures, kind, place, strict=True):
        if which:
            picture[(line, slice(1, 5)) if which == 1 else (slice(1, 5), line)] += 0.5
    return pictures.reshape(count, 36), np.eye(3)[kind]


def architecture() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(54, 3),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LOOKS", (30, 60, 120))


def fitted(module: nn.Module, X: np.ndarray, truth: np.ndarray, **options: Any) -> Designed:
    given = evidence_of(X, truth, **{"cost": CLASSES, "fold": FOLD[: len(X)], **options})
    return designed(Architecture.of(module, given), given)


def test_an_architecture_is_learned_anew_and_runs_in_whole_numbers() -> None:
    X, truth = strokes()
    module = architecture()
    before = [p.detach().clone() for p in module.parameters()]
    found = fitted(module, X[:300], truth[:300])
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))
    held_out = -(truth[:300] * np.log(found.held_out)).sum(axis=1).mean()
    strangers = found.encoder(X[300:])
    assert strangers.sum(axis=1) == pytest.approx(1.0)
    loss = -(truth[300:] * np.log(strangers)).sum(axis=1).mean()
    constant = CLASSES.least_scores(truth[:300].mean(axis=0)[None])[0]
    assert held_out < 0.5 * constant
    assert loss < 0.6 * constant
    # Three copies side by side, which share the record.
    assert isinstance(found.encoder, LayeredEncoder)
    assert found.encoder.layers[0].outputs == 3 * 6 * 36  # type: ignore[union-attr]
    assert found.encoder(X) == pytest.approx(found.on_device(X, CLASSES), abs=0.03)


def test_a_seed_decides_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LOOKS", (5, 10))
    X, truth = strokes(100)
    module = architecture()
    state = torch.random.get_rng_state()
    first, again, other = (fitted(module, X, truth, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(first.held_out, again.held_out)
    assert np.array_equal(first.encoder(X), again.encoder(X))
    assert not np.array_equal(first.held_out, other.held_out)


def test_a_small_client_gets_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LOOKS", (5, 10))
    X, truth = strokes(100)
    full = fitted(architecture(), X, truth)
    assert isinstance(full.encoder, LayeredEncoder)
    small = fitted(architecture(), X, truth, most_bytes=full.bytes + MANIFEST - 1)
    assert isinstance(small.encoder, LayeredEncoder)
    assert small.bytes < full.bytes
    assert small.encoder.layers[0].outputs == 6 * 36
    assert np.array_equal(small.held_out, full.held_out)


def test_labels_without_a_cause_are_not_predicted() -> None:
    """Held-out predictions of noise must not be better than the constant, and hardly worse after calibration."""
    X, _ = strokes()
    truth = np.eye(3)[np.random.default_rng(5).integers(0, 3, len(X))]
    held_out = fitted(architecture(), X, truth).held_out
    loss = -(truth * np.log(held_out)).sum(axis=1).mean()
    assert np.log(3) - 0.02 < loss < np.log(3) + 0.05


def test_values_are_learned_in_their_own_unit() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) * [1.0, 1000.0, 0.01] + [0.0, 5000.0, 0.0]
    value = np.abs(X[:, 0]) + (X[:, 1] - 5000.0) / 1000.0
    truth = np.column_stack([1e4 + 50 * value, 0.002 * value])
    module = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    found = fitted(module, X, truth, cost=VALUES)
    explained = 1 - ((found.held_out - truth) ** 2).mean(axis=0) / truth.var(axis=0)
    assert (explained > 0.8).all()
    running = 1 - ((found.encoder(X) - truth) ** 2).mean(axis=0) / truth.var(axis=0)
    assert (running > 0.8).all()


@pytest.mark.parametrize("kind", ["values", "classes"])
def test_awkward_volunteers(kind: str) -> None:
    """An attribute that never changes, and a class that one fold alone has, or nobody."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(200, 3)), np.full(200, 7.0)])
    truth = X[:, :1] if kind == "values" else np.eye(4)[(X[:, 0] > 0).astype(int)]
    if kind == "classes":
        truth[FOLD[:200] == 0] = np.eye(4)[2]
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, truth.shape[1]))
    found = fitted(module, X, truth, cost=VALUES if kind == "values" else CLASSES)
    for answers in (found.held_out, found.encoder(X)):
        assert np.isfinite(answers).all()
        assert kind == "values" or answers.min() > 0


def test_every_look_is_a_setting() -> None:
    X, truth = strokes(100)
    given = evidence_of(X, truth, CLASSES)
    (fit,) = Architecture.of(architecture(), given).fit(given, [np.arange(80)])
    assert fit.outputs(X).shape == (3, 100, 3)


class Own(nn.Module):
    """Weights that nobody knows how to draw."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(36, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix


@pytest.mark.parametrize("module", [Own(), nn.Sequential(nn.Linear(36, 3), nn.Tanh())], ids=["own weights", "tanh"])
def test_other_architectures_are_refused(module: nn.Module) -> None:
    X, truth = strokes(50)
    with pytest.raises(TaskError, match="trained anew"):
        fitted(module, X, truth)


def test_networks_for_another_task_are_refused_before_they_learn() -> None:
    X, truth = strokes(50)
    with pytest.raises(TaskError, match="4 outputs where 3"):
        fitted(nn.Linear(36, 4), X, truth)
    with pytest.raises(TaskError, match="cannot run on devices"):
        fitted(nn.Sequential(nn.Linear(36, 3), nn.LogSoftmax(dim=1)), X, truth, cost=VALUES)
