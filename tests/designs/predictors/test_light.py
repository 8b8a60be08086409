"""The light predictor: predicts records it never saw, in any unit, and runs on a device as it was trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fits import CLASSES, VALUES, designed, evidence_of
from taskveil.client.latent_encoders import HiddenEncoder, TabledEncoder
from taskveil.client.networks import LayeredEncoder
from taskveil.designs.crossfit import cross_fit
from taskveil.designs.predictors import light
from taskveil.designs.predictors.light import RECIPES, Light, magnitudes, neurons_for
from taskveil.designs.selection import MANIFEST, folds_of, people

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
VALUE = (X @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * RNG.normal(size=320))[:, None]
LABEL = np.eye(2)[(np.median(VALUE) < VALUE[:, 0]).astype(int)]
LOOKS = (30, 80, 200)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light, "LOOKS", LOOKS)


def test_values_are_predicted_for_records_that_were_not_seen() -> None:
    found = designed(Light(), evidence_of(X, 100.0 + VALUE, VALUES))
    assert np.square(found.held_out - 100.0 - VALUE).mean() < 0.1 * VALUE.var()


def test_values_have_any_unit() -> None:
    usual = designed(Light(), evidence_of(X, VALUE, VALUES))
    large = designed(Light(), evidence_of(X * [1, 1e3, 1e-3, 1e6, 1], 1e6 * VALUE - 1e8, VALUES))
    assert (large.held_out + 1e8) / 1e6 == pytest.approx(usual.held_out, abs=1e-3)


def test_classes_are_predicted_with_probabilities() -> None:
    found = designed(Light(), evidence_of(X, LABEL, CLASSES))
    assert found.held_out.sum(axis=1) == pytest.approx(np.ones(320))
    assert -(LABEL * np.log(found.held_out)).sum(axis=1).mean() < 0.35 < np.log(2)


def test_labels_that_mean_nothing_are_not_memorised() -> None:
    """What codebooks are calibrated on must not have seen its own label: for noise the best prediction is the mean."""
    noise = RNG.normal(size=(320, 1))
    held_out = designed(Light(), evidence_of(X, noise, VALUES)).held_out
    assert np.square(held_out - noise).mean() > 0.95 * noise.var()


def test_copies_of_a_record_are_not_seen_either() -> None:
    noise, records = RNG.normal(size=(32, 1)).repeat(10, axis=0), X[:32].repeat(10, axis=0)
    fold = folds_of(people(records), 5, np.random.default_rng(0))
    held_out = designed(Light(), evidence_of(records, noise, VALUES, fold=fold)).held_out
    assert np.square(held_out - noise).mean() > 0.95 * noise.var()


@pytest.mark.parametrize("kind", ["values", "classes"])
def test_the_device_computes_what_was_trained(kind: str) -> None:
    truth, cost = (100 + VALUE, VALUES) if kind == "values" else (LABEL, CLASSES)
    found = designed(Light(), evidence_of(X, truth, cost))
    assert isinstance(found.encoder, HiddenEncoder)
    assert found.final.slope != 1.0
    assert found.encoder(X) == pytest.approx(found.on_device(X, cost), abs=2e-3)


def test_every_look_is_a_setting_with_and_without_dropout() -> None:
    (fit,) = Light().fit(evidence_of(X, VALUE, VALUES), [np.arange(200)])
    outputs = fit.outputs(X)
    assert outputs.shape == (len(RECIPES) * len(LOOKS), 320, 1)
    assert len(np.unique(outputs.std(axis=(1, 2)))) == len(outputs)


def test_a_class_that_no_volunteer_of_the_other_folds_has_stays_possible() -> None:
    label = np.eye(4)[(VALUE[:, 0] > np.median(VALUE)).astype(int)]
    fold = np.arange(320) % 5
    label[:3], fold[:3] = np.eye(4)[2], 0  # of the fourth class there is nobody at all
    found = designed(Light(), evidence_of(X, label, CLASSES, fold=fold))
    for answers in (found.held_out, found.encoder(X)):
        assert answers.min() > 0
        assert answers.sum(axis=1) == pytest.approx(np.ones(320))
        assert answers[:, 3].mean() < 0.05


def test_soft_truths_are_learnt_as_they_are() -> None:
    chance = 1 / (1 + np.exp(-4 * (VALUE[:, 0] - VALUE.mean())))
    found = designed(Light(), evidence_of(X, np.column_stack([1 - chance, chance]), CLASSES))
    assert np.abs(found.held_out[:, 1] - chance).mean() < 0.05


def test_constant_attributes_say_nothing() -> None:
    records = np.column_stack([X, np.full(320, 3.0), np.zeros(320)])
    found = designed(Light(), evidence_of(records, VALUE, VALUES))
    assert np.square(found.held_out - VALUE).mean() < 0.1 * VALUE.var()
    assert found.encoder(records) == pytest.approx(found.on_device(records, VALUES), abs=2e-3)


def test_a_seed_gives_the_same_predictor_twice_and_another_gives_another() -> None:
    state = torch.random.get_rng_state()
    first, second, other = (designed(Light(), evidence_of(X, VALUE, VALUES, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(first.held_out, second.held_out)
    assert np.array_equal(first.encoder(X), second.encoder(X))
    assert not np.array_equal(first.held_out, other.held_out)


def test_fits_do_not_depend_on_which_others_are_made_with_them() -> None:
    """Random numbers are drawn for all fits at once, so the fits of a design without judging are others; each of them
    is the mean of what it alone may learn from."""
    given = evidence_of(X, VALUE, VALUES)
    judged, alone = (cross_fit(Light(), given, judging=judging).final.outputs for judging in (True, False))
    assert np.square(judged - alone).mean() < 0.05 * VALUE.var()


def test_wide_records_become_layers_of_small_weights() -> None:
    rng = np.random.default_rng(3)
    wide = rng.random((200, 400))
    truth = wide[:, :5].sum(axis=1, keepdims=True)
    full = designed(Light(), evidence_of(wide, truth, VALUES, most_bytes=2**22))
    assert isinstance(full.encoder, HiddenEncoder)
    small = designed(Light(), evidence_of(wide, truth, VALUES, most_bytes=full.bytes + MANIFEST - 1))
    assert isinstance(small.encoder, LayeredEncoder)
    assert small.bytes < 0.5 * full.bytes
    assert small.encoder(wide) == pytest.approx(full.encoder(wide), abs=0.05 * truth.std())


def test_neurons_grow_with_the_root_of_the_records() -> None:
    assert [neurons_for(count) for count in (10, 100, 400, 900, 10**6)] == [16, 30, 60, 90, 96]


def test_magnitudes_are_powers_of_ten() -> None:
    spans = np.array([1e-3, 1.0, 1e4, 10.0, 1e-2])
    assert magnitudes(np.column_stack([X * spans, np.ones(320)])).tolist() == [*spans.tolist(), 1.0]


def test_heavy_tails_are_seen_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    z = np.random.default_rng(3).normal(size=(400, 5))
    records, label = np.exp(2 * z), np.eye(2)[(z @ [1.0, -1.0, 0.5, 0.5, 0.0] > 0).astype(int)]
    given = evidence_of(records, label, CLASSES)
    found = designed(Light(), given)
    assert isinstance(found.encoder, TabledEncoder)
    assert found.encoder(records) == pytest.approx(found.on_device(records, CLASSES), abs=2e-3)
    loss = CLASSES.paired_scores(found.held_out, label).mean()
    assert loss < 0.3
    monkeypatch.setattr(light, "tables_for", lambda _: None)
    as_it_is = designed(Light(), given)
    assert isinstance(as_it_is.encoder, HiddenEncoder)
    assert CLASSES.paired_scores(as_it_is.held_out, label).mean() > loss + 0.1
