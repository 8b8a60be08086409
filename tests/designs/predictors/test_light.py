"""The light predictor: predicts records it never saw, in any unit, and runs on a device as it was trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from taskveil.designs.predictors.predictor import Evidence

from taskveil.arrays import Floats
from taskveil.designs.folds import folds_of, people
from taskveil.designs.predictors import light
from taskveil.designs.predictors.light import Network, fit_network, magnitudes
from taskveil.tasks.costs import CrossEntropy, LinearInTruth, SquaredError

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
VALUE = (X @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * RNG.normal(size=320))[:, None]
LABEL = np.eye(2)[(np.median(VALUE) < VALUE[:, 0]).astype(int)]


def fit_predictor(X: Floats, truth: Floats, *, cost: LinearInTruth, seed: int) -> Network:
    """The light network for records anywhere among these."""
    return fit_network(
        Evidence(
            X=X,
            truth=truth,
            cost=cost,
            fold=folds_of(people(X), 5, np.random.default_rng(seed)),
            low=X.min(axis=0),
            high=X.max(axis=0),
            seed=seed,
            most_bytes=2**20,
        )
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "STEPS", 300)


def test_values_are_predicted_for_records_that_were_not_seen() -> None:
    found = fit_predictor(X, 100.0 + VALUE, cost=SquaredError(), seed=0)
    assert np.square(found.said - 100.0 - VALUE).mean() < 0.1 * VALUE.var()
    assert not found.logits


def test_classes_are_predicted_with_probabilities() -> None:
    found = fit_predictor(X, LABEL, cost=CrossEntropy(), seed=0)
    assert CrossEntropy().losses(found.said, LABEL).mean() < 0.35 < np.log(2)
    assert found.logits


def test_labels_that_mean_nothing_are_not_memorised() -> None:
    """What codebooks are calibrated on must not have seen its own label: for noise the best prediction is the mean."""
    noise = RNG.normal(size=(320, 1))
    found = fit_predictor(X, noise, cost=SquaredError(), seed=0)
    assert np.square(found.said - noise).mean() > 0.95 * noise.var()


def test_copies_of_a_record_are_not_seen_either() -> None:
    noise = RNG.normal(size=(32, 1)).repeat(10, axis=0)
    found = fit_predictor(X[:32].repeat(10, axis=0), noise, cost=SquaredError(), seed=0)
    assert np.square(found.said - noise).mean() > 0.95 * noise.var()


@pytest.mark.parametrize("kind", ["values", "classes"])
def test_the_device_computes_what_was_trained(kind: str) -> None:
    truth, cost = (VALUE, SquaredError()) if kind == "values" else (LABEL, CrossEntropy())
    found = fit_predictor(X, truth, cost=cost, seed=0)
    encoder = found.encoder(X.min(axis=0), X.max(axis=0))
    hidden = np.maximum(X @ found.hidden_weights.T + found.hidden_offset, 0.0)
    outputs = hidden @ found.weights.T + found.offset
    expected = outputs if kind == "values" else softmax(outputs, axis=1)
    assert encoder(X) == pytest.approx(expected, abs=2e-3)


def test_a_seed_gives_the_same_predictor_twice_and_another_gives_another() -> None:
    first, second, other = (fit_predictor(X, VALUE, cost=SquaredError(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.said, second.said)
    assert np.array_equal(first.hidden_weights, second.hidden_weights)
    assert not np.array_equal(first.said, other.said)


def test_magnitudes_are_powers_of_ten() -> None:
    spans = np.array([1e-3, 1.0, 1e4, 10.0, 1e-2])
    assert magnitudes(np.column_stack([X * spans, np.ones(320)])).tolist() == [*spans.tolist(), 1.0]


def test_one_thread_while_training_and_the_callers_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watching(SquaredError):
        def tensor_losses(self, outputs: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
            seen.append(torch.get_num_threads())
            return super().tensor_losses(outputs, truth)

    monkeypatch.setattr(light, "STEPS", 3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_predictor(X, VALUE, cost=Watching(), seed=0)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def skewed(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Attributes e^2z, and the class that a linear rule of z gives."""
    z = np.random.default_rng(3).normal(size=(count, 5))
    return np.exp(2 * z), np.eye(2)[(z @ [1.0, -1.0, 0.5, 0.5, 0.0] > 0).astype(int)]


def test_heavy_tails_are_seen_on_the_scale_that_predicts_best(monkeypatch: pytest.MonkeyPatch) -> None:
    records, label = skewed()
    found = fit_predictor(records, label, cost=CrossEntropy(), seed=0)
    assert found.tables is not None
    loss = CrossEntropy().losses(found.said, label)
    assert loss.mean() < 0.3
    device = found.encoder(records.min(axis=0), records.max(axis=0))
    hidden = np.maximum(found.tables(records) @ found.hidden_weights.T + found.hidden_offset, 0.0)
    assert device(records) == pytest.approx(softmax(hidden @ found.weights.T + found.offset, axis=1), abs=2e-3)
    monkeypatch.setattr(light, "scales", lambda _: {})
    assert fit_predictor(records, label, cost=CrossEntropy(), seed=0).losses.mean() > loss.mean() + 0.1


def test_a_rule_that_is_linear_in_a_heavy_tail_keeps_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    records = RNG.exponential(size=(400, 4)) ** 1.5
    truth = (records @ [1.0, -1.0, 0.5, 0.0])[:, None]
    found = fit_predictor(records, truth, cost=SquaredError(), seed=0)
    monkeypatch.setattr(light, "scales", lambda _: {})
    as_it_is = fit_predictor(records, truth, cost=SquaredError(), seed=0)
    assert found.tables is None
    assert np.array_equal(found.hidden_weights, as_it_is.hidden_weights)


def test_of_many_records_some_decide_on_the_scale_and_all_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "_JUDGES", 200)
    records, label = skewed()
    found = fit_predictor(records, label, cost=CrossEntropy(), seed=0)
    assert found.tables is not None
    assert found.said.shape == label.shape
    assert found.losses.mean() < 0.3
