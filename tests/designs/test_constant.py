"""The constant prediction: reports that no record can influence, and the one answer that is best for all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

import taskveil as tv
from designers import by_record
from hostile import hostile_records
from taskveil.client import Client
from taskveil.designs.auto import ConstantDesigner, folds, refitted
from taskveil.designs.problem import Problem
from taskveil.veil.losses import Considered

RNG = np.random.default_rng(4)
X = RNG.normal(size=(80, 3)) + 2.0
LABEL = (X[:, 0] + RNG.normal(size=80) > 2.3).astype(int)
LINEAR = tv.LinearTask(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]))


def network(outputs: int) -> nn.Module:
    torch.manual_seed(outputs)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, outputs)).eval()


FOREST = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(X, LABEL)
MEAN, CLASSES = tv.ModelTask(network(1)), tv.ModelTask(network(2), "cross_entropy")


def test_no_record_can_influence_a_report() -> None:
    veil = tv.design(X, LINEAR, epsilon=2.0, method="constant")
    latents = veil.encoder(np.vstack([X, hostile_records(3)]))
    likelihood = veil.mechanism.log_likelihood(np.array([[0], [1]]), latents)
    assert (likelihood == likelihood[:, :1]).all()
    assert likelihood[0, 0] == pytest.approx(np.log(0.5))
    assert (veil.decode(np.array([[0], [1]])) == X.mean(axis=0)).all()


def test_nothing_is_spent_whatever_is_asked_for(tmp_path: Path) -> None:
    veil = tv.design(X, LINEAR, epsilon=2.0, method="constant")
    assert 0 < veil.guarantee.epsilon < 1e-9
    assert tv.design(X, LINEAR, epsilon=1e-11, method="constant").guarantee.epsilon <= 1e-11
    veil.save(tmp_path / "r")
    assert tv.Veil.load(tmp_path / "r").method == "constant"
    client = Client.load(tmp_path / "r" / "client", ledger=tmp_path / "ledger", cap=1e-6)
    assert len({bytes(client.report(X[0], round=str(number))) for number in range(30)}) > 1


@pytest.mark.parametrize(
    ("task", "y", "slack"),
    [
        (LINEAR, None, 1e-12),
        (MEAN, None, 1e-3),
        (CLASSES, None, 1e-3),
        (CLASSES, LABEL, 1e-3),
        (tv.ModelTask(network(2), "zero_one"), LABEL, 1e-12),
        (tv.ModelTask(FOREST, "cross_entropy"), LABEL, 1e-2),  # a forest's answers come in steps
        (tv.ModelTask(network(1), lambda out, y: (out[:, 0] - y).abs()), X[:, 0], 1e-2),
        (tv.MultiTask([(CLASSES, 1.0), (MEAN, 2.0)]), None, 0.05),  # one record cannot be best for both
    ],
    ids=["linear", "mse", "own answers", "labels", "zero-one", "forest", "own loss", "several"],
)
def test_the_answer_is_the_best_constant_one(task: tv.ModelTask, y: np.ndarray | None, slack: float) -> None:
    constant = task.constant_loss(X, y, X, y)
    direct = tv.design(X, task, epsilon=1.0, y=y, method="constant").loss(X, y)
    assert direct.exact
    assert direct.mean == pytest.approx(constant, rel=1e-12)
    recorded = tv.design(X, by_record(task), epsilon=1.0, y=y, method="constant")
    assert recorded.answering is None
    assert recorded.loss(X, y).mean == pytest.approx(constant, rel=slack)


def test_sweeps_compare_with_it() -> None:
    frontier = tv.sweep(X, LINEAR, epsilons=[1.0, 2.0], methods=["task_agnostic", "constant"], test=X[:30])
    assert [frontier.loss("constant", e) for e in (1.0, 2.0)] == pytest.approx([frontier.constant] * 2)


def test_it_is_judged_on_everybody_by_answers_they_had_no_part_in() -> None:
    """With two even classes, an answer that lacks a fold leans away from it: a little above ln 2, never below."""
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    task = tv.ModelTask(LogisticRegression().fit(X, y), "cross_entropy")
    problem = Problem.of(X, task, y=y)
    fold, _ = folds(problem, 0)
    ((epsilon, (one,)),) = refitted(ConstantDesigner(name="constant"), problem, [1.0], 0, fold)
    assert epsilon == 1.0
    assert one.method == "constant"
    assert np.isfinite(one.losses).all()
    assert np.log(2) <= one.losses.mean() < 1.05 * np.log(2)
    for part in range(5):
        others = np.bincount(y[fold != part]) + 0.5  # one person more, of either class
        expected = -np.log(others / others.sum())
        np.testing.assert_allclose(one.losses[fold == part], expected[y[fold == part]])


def test_releases_with_the_old_name_are_read_with_the_new_one(tmp_path: Path) -> None:
    tried = Considered(method="nothing", encoder="none", held_out_loss=1.0, standard_error=0.0, bytes=1, operations=0)
    veil = tv.design(X, LINEAR, epsilon=2.0, method="constant")
    replace(veil, method="nothing", considered=(tried,)).save(tmp_path / "r")
    loaded = tv.Veil.load(tmp_path / "r")
    assert (loaded.method, loaded.considered[0].method) == ("constant", "constant")
