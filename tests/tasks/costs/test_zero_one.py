"""Zero-one loss: right or wrong, learned by what has a gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import zero_one_loss

import taskveil as tv
from taskveil.tasks.costs import CrossEntropy, ZeroOne

RNG = np.random.default_rng(8)
OUTPUTS = RNG.normal(size=(50, 4))
LABELS = RNG.integers(4, size=50)
ONE = ZeroOne()


def test_it_is_the_share_of_wrong_classes() -> None:
    truth = np.eye(4)[LABELS]
    assert ONE.losses(OUTPUTS, truth).mean() == pytest.approx(zero_one_loss(LABELS, OUTPUTS.argmax(axis=1)))
    assert set(np.unique(ONE.pairwise_losses(OUTPUTS, truth))) == {0.0, 1.0}


def test_of_equal_outputs_the_first_counts() -> None:
    tied = np.array([[0.0, 2.0, 2.0, 1.0]])
    assert ONE.losses(tied, np.eye(4)[[1]]).tolist() == [0.0]
    assert ONE.losses(tied, np.eye(4)[[2]]).tolist() == [1.0]


def test_the_best_constant_is_the_most_frequent_class() -> None:
    truth = np.eye(4)[np.repeat([0, 2, 1], [5, 9, 7])]
    assert ONE.best_constant(truth, lambda: OUTPUTS).argmax() == 2


def test_it_is_learned_by_cross_entropy_from_the_models_own_class() -> None:
    outputs, truth = torch.tensor(OUTPUTS[None]), torch.tensor(np.eye(4)[LABELS])
    learned = CrossEntropy()
    assert ONE.learned_by == learned
    assert torch.equal(ONE.replica_losses(outputs, truth), learned.replica_losses(outputs, truth))
    assert np.array_equal(ONE.own_truth(OUTPUTS), np.eye(4)[OUTPUTS.argmax(axis=1)])


def test_a_forest_is_judged_by_its_classes() -> None:
    X = RNG.normal(size=(90, 3))
    names = np.array(["low", "mid", "high"])[(X[:, 0] + RNG.normal(size=90) > 0).astype(int) + (X[:, 1] > 1)]
    forest = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, names)
    task = tv.ModelTask(forest, "zero_one")
    assert task.losses(X, X, names).mean() == pytest.approx(1.0 - forest.score(X, names))
    assert (task.losses(X, X) == 0.0).all()  # without labels its own class is the truth
    others = X[::-1]
    assert task.losses(others, X).mean() == pytest.approx(np.mean(forest.predict(others) != forest.predict(X)))


def test_a_classifier_can_be_asked_for_its_accuracy() -> None:
    X = RNG.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    task = tv.ModelTask(forest, "cross_entropy")
    assert task.by_class is not None
    assert task.by_class.losses(X, X, y).mean() == pytest.approx(1.0 - forest.score(X, y))
    assert task.loss == "cross_entropy"
    judged = tv.ModelTask(forest, "zero_one")
    assert judged.by_class is judged
    assert tv.ModelTask(forest, lambda out, y: out[:, 0]).by_class is None
    assert tv.LinearTask(np.eye(2)).by_class is None
    assert tv.MultiTask([(task, 1.0)]).by_class is None
