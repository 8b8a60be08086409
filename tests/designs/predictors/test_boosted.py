from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from taskveil.designs.predictors.predictor import Evidence, Predictor

from taskveil.client.trees import TreeEncoder
from taskveil.designs.on_device import MANIFEST
from taskveil.designs.predictors import boosted
from taskveil.designs.predictors.boosted import MOST_LEAVES, fit_boosted
from taskveil.tasks.costs import CrossEntropy, Learnable, SquaredError

VALUES, CLASSES = SquaredError(), CrossEntropy()


def table(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Records, and what decides: a step in one attribute and the sign of another."""
    X = np.random.default_rng(seed).normal(size=(count, 6)).round(2)
    return X, 2.0 * (X[:, 0] > 0.5) + np.sign(X[:, 1])


def fitted(
    X: np.ndarray, truth: np.ndarray, cost: Learnable, *, fold: np.ndarray | None = None, most_bytes: int = 2**19
) -> Predictor:
    fold = np.random.default_rng(1).permutation(len(X)) % 5 if fold is None else fold
    box = {"low": X.min(axis=0), "high": X.max(axis=0)}
    return fit_boosted(Evidence(X=X, truth=truth, cost=cost, fold=fold, **box, seed=0, most_bytes=most_bytes))


def entropy(answers: np.ndarray, truth: np.ndarray) -> float:
    return float(-(truth * np.log(answers)).sum(axis=1).mean())


def test_values_are_predicted_and_held_out_predictions_are_honest() -> None:
    X, signal = table(600)
    noise = np.random.default_rng(2).normal(size=(600, 2))
    truth = np.c_[signal, 100 - 10 * signal] + noise * [1, 10]
    predictor = fitted(X[:300], truth[:300], VALUES)
    assert isinstance(predictor.encoder, TreeEncoder)
    assert predictor.name == "trees"
    seen, held, new = (
        np.mean((found - wanted) ** 2, axis=0)
        for found, wanted in (
            (predictor.encoder(X[:300]), truth[:300]),
            (predictor.held_out, truth[:300]),
            (predictor.encoder(X[300:]), truth[300:]),
        )
    )
    assert (new < 0.55 * truth[300:].var(axis=0)).all()  # the noise alone is a third of the variance
    # Of records it learnt from, the encoder knows too much; of those held out, no more than of new ones.
    assert (seen < held).all()
    assert held == pytest.approx(new, rel=0.25)


def test_classes_are_predicted_with_honest_probabilities() -> None:
    X, signal = table(900)
    label = np.digitize(signal + np.random.default_rng(3).normal(size=900), [-0.5, 1.5])
    truth = np.eye(3)[label]
    predictor = fitted(X[:400], truth[:400], CLASSES)
    new = predictor.encoder(X[400:])
    assert new.sum(axis=1) == pytest.approx(1.0)
    constant = np.tile(truth[:400].mean(axis=0), (500, 1))
    assert entropy(new, truth[400:]) < 0.8 * entropy(constant, truth[400:])
    assert entropy(predictor.held_out, truth[:400]) == pytest.approx(entropy(new, truth[400:]), rel=0.15)
    assert np.abs(new.mean(axis=0) - truth[400:].mean(axis=0)).max() < 0.06


def test_soft_truths_teach_what_hard_ones_do() -> None:
    X, signal = table(600)
    chance = 1 / (1 + np.exp(-1.5 * signal))
    truth = np.c_[1 - chance, chance]
    predictor = fitted(X[:300], truth[:300], CLASSES)
    assert np.abs(predictor.encoder(X[300:]) - truth[300:]).mean() < 0.05
    assert np.abs(predictor.held_out - truth[:300]).mean() < 0.05


@pytest.mark.parametrize("count", [40, 120])
def test_what_cannot_be_predicted_is_not_memorised(count: int) -> None:
    rng = np.random.default_rng(4)
    X, losses = rng.normal(size=(count + 2000, 8)), []
    for cost, truth in ((VALUES, rng.normal(size=(len(X), 1))), (CLASSES, np.eye(3)[rng.integers(0, 3, len(X))])):
        predictor = fitted(X[:count], truth[:count], cost)
        new, mean = truth[count:], truth[:count].mean(axis=0, keepdims=True)
        ours = cost.scores(predictor.encoder(X[count:]), new).diagonal()  # every answer for its own record
        losses.append(ours.mean() - cost.scores(mean, new).mean())
    assert max(losses) < 0.05


def test_no_fold_sees_what_it_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, signal = table(120)
    fold, seen, real = np.arange(120) % 4, [], boosted._fit

    def watched(X: np.ndarray, truth: np.ndarray, *rest: Any) -> Any:
        seen.append((X, truth))
        model = real(X, truth, *rest)
        monkeypatch.setattr(type(model), "staged", lambda self, X, looks: asked(self, X, looks))
        return model

    def asked(model: Any, X: np.ndarray, looks: np.ndarray) -> np.ndarray:
        predicted.append(X)
        return np.zeros((len(looks), len(X), 1))

    predicted: list[np.ndarray] = []
    monkeypatch.setattr(boosted, "_fit", watched)
    fitted(X, signal[:, None], VALUES, fold=fold)
    assert len(seen) == len(predicted) >= 8
    for place, ((learnt, truth), asked_for) in enumerate(zip(seen, predicted, strict=True)):
        others = fold != place % 4
        assert np.array_equal(learnt, X[others])
        assert np.array_equal(truth[:, 0], signal[others])
        assert np.array_equal(asked_for, X[~others])


def test_classes_that_a_fold_or_everybody_lacks_stay_possible() -> None:
    X, signal = table(160)
    label = (signal > 0).astype(int)
    label[:3] = 2  # all in one fold: the model that predicts it has never seen the class
    fold = np.maximum(np.arange(160) % 4, (np.arange(160) < 3) * 3)
    fold[:3] = 0
    truth = np.eye(4)[label]  # of the fourth class there is nobody
    predictor = fitted(X, truth, CLASSES, fold=fold)
    for answers in (predictor.held_out, predictor.encoder(X)):
        assert np.isfinite(answers).all()
        assert answers.min() > 1e-7
        assert answers.sum(axis=1) == pytest.approx(1.0)
        assert answers[:, 3].mean() < 0.05


def test_one_class_and_constant_values_give_constants() -> None:
    X, _ = table(60)
    one = fitted(X, np.eye(2)[np.zeros(60, int)], CLASSES)
    assert np.ptp(one.encoder(X), axis=0) == pytest.approx(0.0)
    assert (one.encoder(X)[:, 0] > 0.9).all()
    same = fitted(X, np.full((60, 1), 7.0), VALUES)
    assert same.encoder(X) == pytest.approx(7.0)
    assert same.held_out == pytest.approx(7.0)


def test_encoders_fit_into_what_devices_store() -> None:
    X, signal = table(500)
    knots = 8 * 67 * 6
    sizes = []
    for room in (2**19, knots + 6000, knots + 1200):
        predictor = fitted(X, signal[:, None], VALUES, most_bytes=MANIFEST + room)
        assert predictor.bytes <= room
        assert len(predictor.encoder.values) <= MOST_LEAVES
        held = np.mean((predictor.held_out[:, 0] - signal) ** 2)
        # What is said of strangers is what an encoder of that size says.
        assert held == pytest.approx(np.mean((predictor.encoder(X)[:, 0] - signal) ** 2), abs=0.1 * signal.var())
        assert held < 0.6 * signal.var()
        sizes.append(predictor.bytes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    nothing = fitted(X, signal[:, None], VALUES, most_bytes=0)
    assert nothing.bytes < 2000 + knots


def test_large_tables_are_learnt_from_some_of_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    X, signal = table(2400)
    monkeypatch.setattr(boosted, "_CELLS", 6000)  # a thousand of six attributes
    predictor = fitted(X, signal[:, None], VALUES)
    assert predictor.held_out.shape == (2400, 1)
    assert np.mean((predictor.held_out[:, 0] - signal) ** 2) < 0.1 * signal.var()
    monkeypatch.setattr(boosted, "_WORK", 1)  # as pictures have it: the smallest trees alone
    assert np.bincount(fitted(X, signal[:, None], VALUES).encoder._walk.leaves).argmax() == 3
