from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge

from fits import CLASSES, VALUES, designed, evidence_of
from taskveil.client.latent_encoders import HiddenEncoder, LinearEncoder
from taskveil.designs.predictors import light
from taskveil.designs.predictors.light import PENALTIES, Linear, _logistic, _ridge, affine_encoder

RNG = np.random.default_rng(1)
X = RNG.normal(size=(400, 6)) * [1, 10, 0.1, 1, 1, 1e6] + [0, 5, 0, 0, 0, 1e7]
STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)
SCORE = STANDARD @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.7]
SCORE /= SCORE.std()
LABEL = np.digitize(2 * SCORE + RNG.logistic(size=400), [-1.0, 1.0])


def loss(logits: np.ndarray, truth: np.ndarray) -> float:
    return float(-(truth * log_softmax(logits, axis=1)).sum(axis=1).mean())


def test_ridge_is_scikit_learns_with_every_penalty() -> None:
    truth = np.column_stack([300.0 + 20.0 * SCORE + 10.0 * RNG.normal(size=400), RNG.normal(size=400)])
    found = _ridge(X, truth).outputs(X)
    for place, penalty in enumerate(PENALTIES):
        referee = Ridge(penalty, solver="svd").fit(STANDARD, truth).predict(STANDARD)
        np.testing.assert_allclose(found[place], referee, rtol=1e-7, atol=1e-6)
    assert all(np.ptp(less) < np.ptp(more) for less, more in pairwise(found[:, :, 0]))


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_is_scikit_learns_with_every_penalty(classes: int) -> None:
    """A binary model of scikit-learn has one weight w where ours has ±w/2: its penalty is half as strong."""
    label = np.minimum(LABEL, classes - 1)
    truth = np.eye(classes)[label]
    found = _logistic(X, truth, 0).outputs(X)
    for place, penalty in enumerate(PENALTIES):
        strength = 1.0 / penalty if classes > 2 else 2.0 / penalty
        referee = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(STANDARD, label)
        logits = np.asarray(referee.decision_function(STANDARD))
        logits = logits if classes > 2 else np.column_stack([0 * logits, logits])
        assert loss(found[place], truth) == pytest.approx(loss(logits, truth), abs=1e-3)
        np.testing.assert_allclose(log_softmax(found[place], axis=1), log_softmax(logits, axis=1), atol=0.1)


def test_soft_truths_are_learnt_as_they_are() -> None:
    chance = 1 / (1 + np.exp(-2 * SCORE))
    found = _logistic(X, np.column_stack([1 - chance, chance]), 0).outputs(X)[-1]
    assert np.exp(log_softmax(found, axis=1))[:, 1] == pytest.approx(chance, abs=0.01)


def test_classes_that_nobody_has_stay_possible() -> None:
    found = designed(Linear(), evidence_of(X, np.eye(5)[LABEL], CLASSES))
    for answers in (found.held_out, found.encoder(X)):
        assert answers.sum(axis=1) == pytest.approx(np.ones(400))
        assert answers[:, 3:].min() > 0
        assert answers[:, 3:].max() < 0.05


@pytest.mark.parametrize("kind", ["values", "classes"])
def test_the_device_says_what_was_fitted(kind: str) -> None:
    truth, cost = (300 + 20 * SCORE[:, None], VALUES) if kind == "values" else (np.eye(3)[LABEL], CLASSES)
    found = designed(Linear(), evidence_of(X, truth, cost))
    assert isinstance(found.encoder, LinearEncoder if kind == "values" else HiddenEncoder)
    assert found.encoder(X) == pytest.approx(found.on_device(X, cost), abs=1e-3)


def test_held_out_predictions_are_as_good_as_scikit_learns_in_any_unit() -> None:
    truth = 300.0 + 20.0 * SCORE + 10.0 * RNG.normal(size=400)
    given = evidence_of(X, truth[:, None], VALUES)
    referee = np.empty(400)
    for part in range(5):
        held = given.fold == part
        referee[held] = Ridge(1.0).fit(STANDARD[~held], truth[~held]).predict(STANDARD[held])
    mine, theirs = (np.square(said - truth).mean() for said in (designed(Linear(), given).held_out[:, 0], referee))
    assert mine <= 1.01 * theirs


def test_noise_is_answered_with_the_mean() -> None:
    noise = RNG.normal(size=(400, 1))
    held_out = designed(Linear(), evidence_of(X, noise, VALUES)).held_out
    assert 0.99 * noise.var() < np.square(held_out - noise).mean() < 1.03 * noise.var()


@pytest.mark.parametrize("kind", ["values", "classes"])
def test_constant_attributes_say_nothing(kind: str) -> None:
    truth, cost = (SCORE[:, None], VALUES) if kind == "values" else (np.eye(3)[LABEL], CLASSES)
    moving = designed(Linear(), evidence_of(X, truth, cost))
    still = designed(Linear(), evidence_of(np.column_stack([X, np.full(400, 3.0), np.zeros(400)]), truth, cost))
    assert still.held_out == pytest.approx(moving.held_out, abs=1e-6)


def test_logistic_learns_from_some_of_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "_LEARNT_FROM", 100)
    truth = np.eye(3)[LABEL]
    some, again, other = (_logistic(X, truth, seed) for seed in (0, 0, 1))
    assert np.array_equal(some.slopes, again.slopes)
    assert not np.array_equal(some.slopes, other.slopes)
    assert loss(some.outputs(X)[2], truth) < 0.9 * loss(np.zeros((400, 3)), truth)


def test_the_encoder_is_the_map() -> None:
    weights, offset = RNG.normal(size=(3, 6)), RNG.normal(size=3)
    encoder = affine_encoder(X.min(axis=0), X.max(axis=0), weights / X.std(axis=0), offset, softmax=False)
    expected = X @ (weights / X.std(axis=0)).T + offset
    assert encoder(X) == pytest.approx(expected, abs=1e-4)
    soft = affine_encoder(X.min(axis=0), X.max(axis=0), weights / X.std(axis=0), offset, softmax=True)
    assert soft(X) == pytest.approx(np.exp(log_softmax(expected, axis=1)), abs=1e-4)
