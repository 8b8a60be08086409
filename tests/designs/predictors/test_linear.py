from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from taskveil.designs.predictors.predictor import Evidence

from taskveil.designs.predictors.linear import affine_encoder, fit_linear
from taskveil.tasks.costs import CrossEntropy, Learnable, SquaredError

RNG = np.random.default_rng(1)
X = RNG.normal(size=(400, 6)) * [1, 10, 0.1, 1, 1, 1e6] + [0, 5, 0, 0, 0, 1e7]
SCORE = (X / X.std(axis=0)) @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.7]
SCORE = (SCORE - SCORE.mean()) / SCORE.std()


def evidence(truth: np.ndarray, cost: Learnable) -> Evidence:
    return Evidence(
        X=X,
        truth=truth,
        cost=cost,
        fold=np.arange(400) % 5,
        low=X.min(axis=0),
        high=X.max(axis=0),
        seed=0,
        most_bytes=2**19,
    )


def test_values_as_well_as_ridge_regression_in_any_unit() -> None:
    truth = 300.0 + 20.0 * SCORE + 10.0 * RNG.normal(size=400)
    found = fit_linear(evidence(truth[:, None], SquaredError()))
    referee = np.empty(400)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    for part in range(5):
        held = np.arange(400) % 5 == part
        referee[held] = Ridge(1.0).fit(standard[~held], truth[~held]).predict(standard[held])
    mine, theirs = (np.square(said - truth).mean() for said in (found.held_out[:, 0], referee))
    assert mine <= 1.01 * theirs
    assert found.encoder(X)[:, 0] == pytest.approx(found.held_out[:, 0], abs=3.0)


def test_classes_as_well_as_logistic_regression() -> None:
    label = (2 * SCORE + RNG.logistic(size=400) > 0).astype(int)
    found = fit_linear(evidence(np.eye(2)[label], CrossEntropy()))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    referee = np.empty(400)
    for part in range(5):
        held = np.arange(400) % 5 == part
        model = LogisticRegression().fit(standard[~held], label[~held])
        referee[held] = model.predict_proba(standard[held])[np.arange(held.sum()), label[held]]
    assert -np.log(found.held_out[np.arange(400), label]).mean() <= -1.02 * np.log(referee).mean()
    assert found.encoder(X).sum(axis=1) == pytest.approx(np.ones(400))


def test_noise_is_answered_with_the_mean() -> None:
    noise = RNG.normal(size=(400, 1))
    assert np.square(fit_linear(evidence(noise, SquaredError())).held_out - noise).mean() < 1.03 * noise.var()


def test_constant_attributes_say_nothing() -> None:
    still = evidence(SCORE[:, None], SquaredError())
    still = Evidence(**{**vars(still), "X": np.column_stack([X[:, :5], np.full(400, 3.0)])})
    assert np.isfinite(fit_linear(still).held_out).all()


def test_the_encoder_is_the_map() -> None:
    weights, offset = RNG.normal(size=(3, 6)), RNG.normal(size=3)
    encoder = affine_encoder(X.min(axis=0), X.max(axis=0), weights / X.std(axis=0), offset, softmax=False)
    expected = X @ (weights / X.std(axis=0)).T + offset
    assert encoder(X) == pytest.approx(expected, abs=1e-4)
    soft = affine_encoder(X.min(axis=0), X.max(axis=0), weights / X.std(axis=0), offset, softmax=True)
    shares = np.exp(expected - expected.max(axis=1, keepdims=True))
    assert soft(X) == pytest.approx(shares / shares.sum(axis=1, keepdims=True), abs=1e-4)
