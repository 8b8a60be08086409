"""The task's own model as an encoder: honest about volunteers it has seen, and in the smallest form that says it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

import taskveil as tv
from fits import designed
from taskveil.client.latent_encoders import HiddenEncoder, LinearEncoder, NamedEncoder
from taskveil.client.networks import LayeredEncoder
from taskveil.client.trees import TreeEncoder
from taskveil.designs.codebooks.model import families
from taskveil.designs.crossfit import Evidence
from taskveil.designs.predictors import networks
from taskveil.designs.predictors.networks import Architecture
from taskveil.designs.predictors.own import Own, own_model, refitted
from taskveil.designs.problem import OnDevice
from taskveil.errors import TaskError, UnusedModelWarning
from taskveil.peers.own_model import as_it_is

RNG = np.random.default_rng(2)
X = RNG.normal(size=(300, 4))
VALUE = X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * RNG.normal(size=300)
LABEL = np.array(["no", "yes"])[(VALUE + RNG.normal(size=300) > 0).astype(int)]
FOLD = np.arange(300) % 5


def evidence(task: tv.ModelTask, y: Any) -> Evidence:
    cost, truth = task.linear_form(X, y)
    box = {"low": X.min(axis=0), "high": X.max(axis=0)}
    return Evidence(X=X, truth=truth, cost=cost.learned_by, fold=FOLD, **box, seed=0, most_bytes=2**19)


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
def test_volunteers_are_predicted_by_copies_that_did_not_see_them(model: Any, loss: Any, form: type) -> None:
    y = VALUE if loss == "mse" else LABEL
    task = tv.ModelTask(model.fit(X, y), loss)
    given = evidence(task, y)
    found = designed(own_model(task, y, given, unseen=False), given)
    assert isinstance(found.encoder, form)
    # The device runs the model itself, with the slope and shift that the copies asked for.
    assert found.encoder(X) == pytest.approx(found.on_device(X, given.cost), abs=1e-4)
    assert (found.final.slope == 1.0) == (form is NamedEncoder)
    # Every volunteer's prediction is that of a copy fitted without its fold.
    outputs = found.fitted.final.outputs[0]
    for part in range(5):
        said = refitted(task, X[part != FOLD], y[part != FOLD])(X[part == FOLD])
        said = given.cost.outputs(said) if found.fitted.final.logits else said
        np.testing.assert_array_equal(outputs[part == FOLD], said)


def test_a_model_that_memorised_is_made_less_sure() -> None:
    noise = np.array(["a", "b"])[RNG.integers(0, 2, 300)]
    task = tv.ModelTask(RandomForestClassifier(20, random_state=0).fit(X, noise), "cross_entropy")
    given = evidence(task, noise)
    found = designed(own_model(task, noise, given, unseen=False), given)
    assert np.ptp(found.held_out[:, 0]) < 0.3
    assert np.ptp(found.encoder(X)[:, 0]) < 0.5
    trusting = designed(own_model(task, noise, given, unseen=True), given)
    assert np.ptp(trusting.held_out[:, 0]) > 0.9


def test_copies_that_lack_a_class_find_it_next_to_impossible() -> None:
    y = np.where(FOLD == 0, "rare", LABEL)  # held out together: the copy for that part never saw it
    task = tv.ModelTask(GaussianNB().fit(X, y), "cross_entropy")
    task.check_width(4)
    said = refitted(task, X[FOLD > 0], y[FOLD > 0])(X)
    assert (said[:, 1] < 1e-9).all()
    assert said.sum(axis=1) == pytest.approx(np.ones(300))


def test_without_labels_the_model_is_taken_at_its_word() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X, LABEL)
    task = tv.ModelTask(forest, "cross_entropy")
    given = evidence(task, None)
    family = own_model(task, None, given, unseen=False)
    assert not family.fits_again
    found = designed(family, given)
    assert found.held_out == pytest.approx(task.answers(X))
    assert found.encoder(X) == pytest.approx(task.answers(X), abs=1e-6)


class Counting(LogisticRegression):  # type: ignore[misc]
    """Counts how often it is fitted."""

    fits = 0

    def fit(self, X: Any, y: Any) -> Counting:
        Counting.fits += 1
        super().fit(X, y)
        return self


def test_only_models_that_saw_the_volunteers_are_fitted_again() -> None:
    task = tv.ModelTask(Counting().fit(X, LABEL), "cross_entropy")
    given, rows = evidence(task, LABEL), [np.flatnonzero(FOLD > 0), np.arange(300)]
    Counting.fits = 0
    own_model(task, LABEL, given, unseen=True).fit(given, rows)
    assert Counting.fits == 0
    own_model(task, LABEL, given, unseen=False).fit(given, rows)
    assert Counting.fits == 1  # the model of all volunteers is there already


def test_a_network_is_trained_anew_or_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LOOKS", (30, 60))
    task = tv.ModelTask(network(), "cross_entropy")
    y = (LABEL == "yes").astype(int)
    given = evidence(task, y)
    (anew,) = families(task, y, given, OnDevice(encoder="own", share_model=True))
    assert isinstance(anew, Architecture)
    assert anew.name == "own"
    found = designed(anew, given)
    assert isinstance(found.encoder, LayeredEncoder)
    assert -np.log(found.held_out[np.arange(300), y]).mean() < 0.69  # the weights given know nothing
    (believed,) = families(task, y, given, OnDevice(encoder="own", share_model=True, volunteers_unseen=True))
    assert isinstance(believed, Own)
    said = designed(believed, given)
    assert isinstance(said.encoder, LayeredEncoder)
    assert said.encoder(X) == pytest.approx(said.on_device(X, given.cost), abs=0.02)


def test_a_network_of_other_layers_must_not_have_seen_the_volunteers() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([x.sin().sum(1), x.cos().sum(1)], dim=1)

    task = tv.ModelTask(Odd(), "cross_entropy")
    task.check_width(4)
    y = (LABEL == "yes").astype(int)
    given = evidence(task, y)
    with pytest.raises(TaskError, match="cannot be fitted again"):
        own_model(task, y, given, unseen=False)
    with pytest.raises(TaskError, match="volunteers_unseen=True"):
        families(task, y, given, OnDevice(encoder="own", share_model=True))
    with pytest.warns(UnusedModelWarning, match="takes no part"):
        found = families(task, y, given, OnDevice(share_model=True))
    assert [each.name for each in found] == ["linear", "light", "trees"]
    assert isinstance(designed(own_model(task, y, given, unseen=True), given).encoder, NamedEncoder)


def test_what_is_run_as_it_is_has_no_encoder() -> None:
    task = tv.ModelTask(LogisticRegression().fit(X, LABEL), "cross_entropy")
    family = as_it_is(task, LABEL)
    assert family.as_it_is
    with pytest.raises(TaskError, match="no encoder"):
        family.encoder(evidence(task, LABEL), [], 0, 1.0, np.zeros(2))
