"""Randomised response on labels and bins: as a user would write it, exactly, with the guarantee of any other veil."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

import simple_ways as referee
import taskveil as tv
from hostile import hostile_records
from taskveil.designs.selection import folds_of
from taskveil.errors import DataError, TaskError
from taskveil.experiments.models import trained

RNG = np.random.default_rng(5)
X, Y = make_friedman1(300, 6, noise=1.0, random_state=1)
CLASS = np.digitize(Y + RNG.normal(size=300), [12.0, 17.0])
DESIGN, TEST = slice(0, 180), slice(180, None)
FOREST = RandomForestClassifier(20, min_samples_leaf=3, random_state=0).fit(X[DESIGN], CLASS[DESIGN])
RIDGE = Ridge().fit(X[DESIGN], Y[DESIGN])
LABELS, VALUES = tv.ModelTask(FOREST, "cross_entropy"), tv.ModelTask(RIDGE)
LOGISTIC = tv.ModelTask(LogisticRegression(max_iter=1000).fit(X[DESIGN], CLASS[DESIGN]), "cross_entropy")
FOLD = folds_of(np.arange(180), 5, np.random.default_rng(0))
INSIDE = np.clip(X[TEST], X[DESIGN].min(axis=0), X[DESIGN].max(axis=0))  # as devices see them


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_label_response_is_bayes_rule(epsilon: float) -> None:
    veil = tv.design(X[DESIGN], LABELS, epsilon=epsilon, y=CLASS[DESIGN], method="label_response")
    predicted = referee.out_of_fold(FOREST, X[DESIGN], CLASS[DESIGN], FOLD, classes=np.arange(3))
    expected, _ = referee.label_response(predicted, CLASS[DESIGN], FOREST.predict(INSIDE), CLASS[TEST], epsilon)
    loss = veil.loss(X[TEST], CLASS[TEST])
    assert loss.exact
    assert loss.mean == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_binned_response_is_the_mean_given_the_bin(epsilon: float) -> None:
    veil = tv.design(X[DESIGN], VALUES, epsilon=epsilon, y=Y[DESIGN], method="binned_response")
    predicted = referee.out_of_fold(RIDGE, X[DESIGN], Y[DESIGN], FOLD)[:, 0]
    expected = referee.binned_response(predicted, Y[DESIGN], RIDGE.predict(INSIDE), Y[TEST], epsilon)
    loss = veil.loss(X[TEST], Y[TEST])
    assert loss.exact
    assert loss.mean == pytest.approx(expected, rel=1e-3)  # one bin's edge may be rounded to the grid's other side


def test_a_bin_is_what_its_edges_say() -> None:
    veil = tv.design(X[DESIGN], VALUES, epsilon=8.0, y=Y[DESIGN], method="binned_response")
    (stage,) = veil.mechanism.stages
    k = veil.mechanism.region.enforce(veil.encoder(X[TEST]))
    bins = np.searchsorted(-np.diff(stage.offsets), k[:, 0])
    assert (stage.favoured(k)[:, 0] == bins).all()
    assert len(np.unique(bins)) > 4


@pytest.mark.parametrize(
    ("task", "y", "method"),
    [
        (LABELS, CLASS, "label_response"),
        (VALUES, Y, "binned_response"),
        (tv.ModelTask(LogisticRegression().fit(X, CLASS > 0), "cross_entropy"), CLASS > 0, "binned_response"),
    ],
    ids=["labels", "values", "two classes"],
)
def test_the_expectation_is_that_of_real_reports(task: tv.ModelTask, y: np.ndarray, method: str) -> None:
    veil = tv.design(X[DESIGN], task, epsilon=2.0, y=y[DESIGN], method=method)
    few = np.arange(180, 190)
    records, labels = np.repeat(X[few], 2000, axis=0), np.repeat(y[few], 2000)
    drawn = task.output_losses(veil.predict(veil.privatize(records)), records, labels)
    assert drawn.mean() == pytest.approx(veil.loss(X[few], y[few]).mean, abs=4 * drawn.std() / np.sqrt(len(drawn)))


@pytest.mark.parametrize(
    ("task", "y", "method"),
    [(LOGISTIC, CLASS, "label_response"), (VALUES, Y, "binned_response")],
    ids=["labels", "bins"],
)
def test_guarantee_release_and_audit(task: tv.ModelTask, y: np.ndarray, method: str, tmp_path: Path) -> None:
    veil = tv.design(X[DESIGN], task, epsilon=1.5, y=y[DESIGN], method=method)
    assert 1.49 < veil.guarantee.epsilon <= 1.5
    likelihood = veil.mechanism.log_likelihood(
        np.arange(veil.mechanism.responses[0].size)[:, None], veil.encoder(np.vstack([X, hostile_records(6)]))
    )
    assert (np.ptp(likelihood, axis=1) <= 1.5 + 1e-9).all()
    veil.save(tmp_path / "r")
    model = task.answers if method == "label_response" else lambda records: task.answers(records)[:, -1:]
    loaded = tv.Veil.load(tmp_path / "r", task=task, encoder=model)
    assert loaded.method == method
    with pytest.raises(DataError, match="probabilities" if method == "label_response" else "Ridge: prediction"):
        tv.Veil.load(tmp_path / "r").privatize(X[TEST])
    assert loaded.loss(X[TEST], y[TEST]).mean == veil.loss(X[TEST], y[TEST]).mean
    assert tv.audit(veil, trials=2000, finalists=2, structural=False).passed


def test_what_has_no_label_or_no_number_is_refused() -> None:
    with pytest.raises(TaskError, match="label that a classifier predicts"):
        tv.design(X, VALUES, epsilon=1.0, y=Y, method="label_response")
    with pytest.raises(TaskError, match="one output, or of two classes"):
        tv.design(X, LABELS, epsilon=1.0, y=CLASS, method="binned_response")
    with pytest.raises(TaskError, match="label that a classifier predicts"):
        tv.design(X, tv.LinearTask(np.eye(6)), epsilon=1.0, method="label_response")


def test_a_class_that_only_one_volunteer_has_is_never_impossible() -> None:
    rare = np.where(np.arange(180) == 7, 2, (Y[DESIGN] > 14).astype(int))
    task = tv.ModelTask(RandomForestClassifier(10, random_state=0).fit(X[DESIGN], rare), "cross_entropy")
    veil = tv.design(X[DESIGN], task, epsilon=8.0, y=rare, method="label_response")
    assert veil.losses(X[TEST], np.full(120, 2)).max() < 12


def test_sweeps_show_simple_ways_beside_ours() -> None:
    methods = ["label_response", "attribute_laplace", "constant"]
    frontier = tv.sweep(X[DESIGN], LABELS, epsilons=[1.0, 4.0], methods=methods, y=CLASS[DESIGN])
    assert frontier.loss("label_response", 4.0) < frontier.loss("label_response", 1.0) < frontier.constant
    assert frontier.loss("attribute_laplace", 1.0) > frontier.loss("label_response", 1.0)


def test_networks_are_trained_anew_unless_they_never_saw_the_volunteers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows its volunteers by heart must not be taken at its word."""
    from taskveil.designs.predictors import networks

    monkeypatch.setattr(networks, "LOOKS", (30, 60))
    torch.manual_seed(0)
    luck = RNG.integers(2, size=120)  # nothing to be known
    network = nn.Sequential(nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 2))
    trained(network, X[:120] * 4, luck, "cross_entropy", epochs=300)
    with torch.no_grad():
        network[0].weight.mul_(4)
    task = tv.ModelTask(network, "cross_entropy")
    assert (task.answers(X[:120]).argmax(axis=1) == luck).mean() > 0.95
    doubting = tv.design(X[:120], task, epsilon=4.0, y=luck, method="label_response")
    believing = tv.design(
        X[:120], task, epsilon=4.0, y=luck, method="label_response", on_device=tv.OnDevice(volunteers_unseen=True)
    )
    assert np.exp(doubting.predict([[0], [1]])).max() < 0.75
    assert np.exp(believing.predict([[0], [1]])).max() > 0.9
