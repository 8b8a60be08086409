"""The task's own model as an encoder: honest about volunteers it has seen, and in the smallest form that says it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from taskveil.designs.predictors.honesty import steepness
from taskveil.designs.predictors.predictor import Evidence
from torch import nn

import taskveil as tv
from taskveil.client.encoders import HiddenEncoder, LinearEncoder
from taskveil.client.named import NamedEncoder
from taskveil.client.networks import LayeredEncoder
from taskveil.client.trees import TreeEncoder
from taskveil.designs.predictors import networks
from taskveil.designs.predictors.own import fit_own, out_of_fold
from taskveil.errors import TaskError
from taskveil.tasks.costs import CrossEntropy, SquaredError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(300, 4))
VALUE = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=300)
LABEL = np.array(["no", "yes"])[(VALUE + RNG.normal(size=300) > 0).astype(int)]
FOLD = np.arange(300) % 5


def evidence(task: tv.ModelTask, y: object) -> Evidence:
    cost, truth = task.linear_form(X, y)
    return Evidence(
        X=X,
        truth=truth,
        cost=cost.learned_by,
        fold=FOLD,
        low=X.min(axis=0),
        high=X.max(axis=0),
        seed=0,
        most_bytes=2**19,
    )


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


@pytest.mark.parametrize(
    ("model", "loss", "form"),
    [
        (RandomForestClassifier(20, random_state=0), "cross_entropy", TreeEncoder),
        (HistGradientBoostingClassifier(max_iter=20), "cross_entropy", TreeEncoder),
        (GradientBoostingRegressor(n_estimators=20, random_state=0), "mse", TreeEncoder),
        (LogisticRegression(), "cross_entropy", HiddenEncoder),
        (LinearRegression(), "mse", LinearEncoder),
        (GaussianNB(), "cross_entropy", NamedEncoder),
    ],
)
def test_strangers_are_predicted_as_the_volunteers_were(model: object, loss: str, form: type) -> None:
    y = VALUE if loss == "mse" else LABEL
    task = tv.ModelTask(model.fit(X, y), loss)  # type: ignore[attr-defined, arg-type]
    found = fit_own(task, y, evidence(task, y), unseen=False)
    assert isinstance(found.encoder, form)
    assert found.held_out.shape == (300, task.outputs)
    # What a device says of a record is what the model says, drawn together as held-out predictions asked for.
    said, device = task.answers(X), found.encoder(X)
    assert np.corrcoef(said[:, -1], device[:, -1])[0, 1] > 0.98
    # Volunteers were not predicted by a model that saw them: a forest is far better on those it has seen.
    cost, truth = task.linear_form(X, y)
    seen, unseen = (cost.paired_scores(p, truth).mean() for p in (np.clip(said, 1e-9, None), found.held_out))
    assert seen < unseen if loss == "cross_entropy" else True


def test_a_model_that_memorised_is_made_less_sure() -> None:
    noise = np.array(["a", "b"])[RNG.integers(0, 2, 300)]
    task = tv.ModelTask(RandomForestClassifier(20, random_state=0).fit(X, noise), "cross_entropy")
    found = fit_own(task, noise, evidence(task, noise), unseen=False)
    assert np.ptp(found.held_out[:, 0]) < 0.3
    assert np.ptp(found.encoder(X)[:, 0]) < 0.5
    trusting = fit_own(task, noise, evidence(task, noise), unseen=True)
    assert np.ptp(trusting.held_out[:, 0]) > 0.9


def test_copies_that_lack_a_class_find_it_next_to_impossible() -> None:
    y = np.where(FOLD == 0, "rare", LABEL)  # held out together: the copy for that part never saw it
    task = tv.ModelTask(GaussianNB().fit(X, y), "cross_entropy")
    said = out_of_fold(task, X, y, FOLD)
    assert (said[FOLD == 0][:, 1] < 1e-9).all()
    assert said.sum(axis=1) == pytest.approx(np.ones(300))


def test_without_labels_the_model_is_taken_at_its_word() -> None:
    task = tv.ModelTask(RandomForestClassifier(20, random_state=0).fit(X, LABEL), "cross_entropy")
    found = fit_own(task, None, evidence(task, None), unseen=False)
    assert found.held_out == pytest.approx(task.answers(X))
    assert found.encoder(X) == pytest.approx(task.answers(X), abs=1e-6)


def test_a_network_is_trained_anew_or_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "STEPS", 60)
    task = tv.ModelTask(network(), "cross_entropy")
    y = (LABEL == "yes").astype(int)
    anew = fit_own(task, y, evidence(task, y), unseen=False)
    assert isinstance(anew.encoder, LayeredEncoder)
    assert -np.log(anew.held_out[np.arange(300), y]).mean() < 0.69  # the weights given know nothing
    as_it_is = fit_own(task, y, evidence(task, y), unseen=True)
    assert np.abs(np.corrcoef(as_it_is.encoder(X)[:, 0], task.answers(X)[:, 0])[0, 1]) > 0.95


def test_a_network_of_other_layers_must_not_have_seen_the_volunteers() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.sin().sum(1), x.cos().sum(1)], dim=1)

    task = tv.ModelTask(Odd(), "cross_entropy")
    task.check_width(4)
    y = (LABEL == "yes").astype(int)
    with pytest.raises(TaskError, match="volunteers_unseen=True"):
        fit_own(task, y, evidence(task, y), unseen=False)
    assert isinstance(fit_own(task, y, evidence(task, y), unseen=True).encoder, NamedEncoder)


def test_steepness_finds_how_sure_one_may_be() -> None:
    logits = RNG.normal(size=(20_000, 2))
    chance = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    truth = np.eye(2)[(RNG.random(20_000) < chance).astype(int)]
    assert steepness(3.0 * logits, truth, logits=True, cost=CrossEntropy()) == pytest.approx(1 / 3, rel=0.1)
    values = RNG.normal(size=(5000, 1))
    noisy = 0.25 * values + RNG.normal(size=(5000, 1))
    assert steepness(values, noisy, logits=False, cost=SquaredError()) == pytest.approx(0.25, abs=0.05)
    assert steepness(np.ones((5, 1)), np.ones((5, 1)), logits=False, cost=SquaredError()) == 1.0
