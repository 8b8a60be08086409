from __future__ import annotations

import numpy as np
import pytest

from fits import CLASSES, VALUES, Designed, designed, evidence_of
from taskveil.client.trees import TreeEncoder
from taskveil.designs.predictors import trees as boosted
from taskveil.designs.predictors.trees import LOOKS, MOST_LEAVES, BoostedTrees
from taskveil.designs.selection import MANIFEST
from taskveil.tasks.costs import Learnable


def table(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Records, and what decides: a step in one attribute and the sign of another."""
    X = np.random.default_rng(seed).normal(size=(count, 6)).round(2)
    return X, 2.0 * (X[:, 0] > 0.5) + np.sign(X[:, 1])


def fitted(X: np.ndarray, truth: np.ndarray, cost: Learnable, **options: object) -> Designed:
    return designed(BoostedTrees(), evidence_of(X, truth, cost, **options))  # type: ignore[arg-type]


def entropy(answers: np.ndarray, truth: np.ndarray) -> float:
    return float(-(truth * np.log(answers)).sum(axis=1).mean())


def test_values_are_predicted_and_held_out_predictions_are_honest() -> None:
    X, signal = table(600)
    noise = np.random.default_rng(2).normal(size=(600, 2))
    truth = np.c_[signal, 100 - 10 * signal] + noise * [1, 10]
    found = fitted(X[:300], truth[:300], VALUES)
    assert isinstance(found.encoder, TreeEncoder)
    seen, held, new = (
        np.mean((said - wanted) ** 2, axis=0)
        for said, wanted in (
            (found.encoder(X[:300]), truth[:300]),
            (found.held_out, truth[:300]),
            (found.encoder(X[300:]), truth[300:]),
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
    found = fitted(X[:400], truth[:400], CLASSES)
    new = found.encoder(X[400:])
    assert new.sum(axis=1) == pytest.approx(1.0)
    constant = np.tile(truth[:400].mean(axis=0), (500, 1))
    assert entropy(new, truth[400:]) < 0.8 * entropy(constant, truth[400:])
    assert entropy(found.held_out, truth[:400]) == pytest.approx(entropy(new, truth[400:]), rel=0.15)
    assert np.abs(new.mean(axis=0) - truth[400:].mean(axis=0)).max() < 0.06


@pytest.mark.parametrize("kind", ["values", "two classes", "three classes", "a class that folds lack"])
def test_the_device_says_what_was_fitted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "MOST_LEAVES", 2**15)  # the models of all folds
    X, signal = table(300)
    fold = np.arange(300) % 5
    if kind == "values":
        truth, cost = np.c_[signal, -10.0 * signal + X[:, 2]], VALUES
    else:
        label = np.digitize(signal + X[:, 2], [0.0] if kind == "two classes" else [-0.5, 1.5])
        truth, cost = np.eye(4 if "lack" in kind else label.max() + 1)[label], CLASSES
        if "lack" in kind:
            truth[:4], fold[:4] = np.eye(4)[3], 0
    found = fitted(X, truth, cost, fold=fold)
    assert found.encoder(X) == pytest.approx(found.on_device(X, cost), abs=1e-6)


def test_every_look_is_a_setting() -> None:
    X, signal = table(200)
    (fit,) = BoostedTrees().fit(evidence_of(X, signal[:, None], VALUES), [np.arange(150)])
    outputs = fit.outputs(X)
    assert outputs.shape == (len(LOOKS), 200, 1)
    errors = np.square(outputs[:, :150, 0] - signal[:150]).mean(axis=1)
    assert (np.diff(errors) < 0).all()  # on what they learnt from, more rounds are better


def test_soft_truths_teach_what_hard_ones_do() -> None:
    X, signal = table(600)
    chance = 1 / (1 + np.exp(-1.5 * signal))
    truth = np.c_[1 - chance, chance]
    found = fitted(X[:300], truth[:300], CLASSES)
    assert np.abs(found.encoder(X[300:]) - truth[300:]).mean() < 0.05
    assert np.abs(found.held_out - truth[:300]).mean() < 0.05


@pytest.mark.parametrize("count", [40, 120])
def test_what_cannot_be_predicted_is_not_memorised(count: int) -> None:
    rng = np.random.default_rng(4)
    X, losses = rng.normal(size=(count + 2000, 8)), []
    for cost, truth in ((VALUES, rng.normal(size=(len(X), 1))), (CLASSES, np.eye(3)[rng.integers(0, 3, len(X))])):
        found = fitted(X[:count], truth[:count], cost)
        new, mean = truth[count:], truth[:count].mean(axis=0, keepdims=True)
        ours = cost.paired_scores(found.encoder(X[count:]), new)
        losses.append(ours.mean() - cost.scores(mean, new).mean())
    assert max(losses) < 0.05


def test_classes_that_a_fold_or_everybody_lacks_stay_possible() -> None:
    X, signal = table(160)
    label = (signal > 0).astype(int)
    label[:3] = 2  # all in one fold: the model that predicts it has never seen the class
    fold = np.maximum(np.arange(160) % 4, (np.arange(160) < 3) * 3)
    fold[:3] = 0
    truth = np.eye(4)[label]  # of the fourth class there is nobody
    found = fitted(X, truth, CLASSES, fold=fold)
    for answers in (found.held_out, found.encoder(X)):
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


def test_constant_columns_say_nothing() -> None:
    X, signal = table(200)
    found = fitted(np.column_stack([X, np.full(200, 3.0)]), signal[:, None], VALUES)
    assert np.mean((found.held_out[:, 0] - signal) ** 2) < 0.2 * signal.var()


def test_encoders_fit_into_what_devices_store() -> None:
    X, signal = table(500)
    knots = 8 * 67 * 6
    full = fitted(X, signal[:, None], VALUES)
    assert len(full.encoder.values) <= MOST_LEAVES  # type: ignore[attr-defined]
    sizes = [full.bytes]
    for room in (full.bytes - 1, knots + 12 * 400):
        found = fitted(X, signal[:, None], VALUES, most_bytes=MANIFEST + room)
        assert found.bytes <= room
        # A few folds' models say nearly what all of them say.
        assert np.mean((found.encoder(X)[:, 0] - full.encoder(X)[:, 0]) ** 2) < 0.05 * signal.var()
        sizes.append(found.bytes)
    assert sizes[0] > sizes[1] >= sizes[2]
    nothing = fitted(X, signal[:, None], VALUES, most_bytes=0)  # one model at least: candidates leave it out
    assert nothing.bytes < sizes[0]


def test_a_seed_decides_everything() -> None:
    X, signal = table(150)
    first, again, other = (fitted(X, signal[:, None], VALUES, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.held_out, again.held_out)
    assert np.array_equal(first.encoder(X), again.encoder(X))
    assert not np.array_equal(first.held_out, other.held_out)
