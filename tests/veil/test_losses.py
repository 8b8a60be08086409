"""Expected losses are expectations: a formula where there is one must agree with many real reports."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import releases
import taskveil as tv
from taskveil.client import entropy
from taskveil.errors import FewRecordsWarning
from taskveil.veil.channels import channel_of
from taskveil.veil.loss_intervals import interval
from taskveil.veil.losses import Loss, expected_losses, warn_of_few

RECORDS = 12
DRAWS = 4000


@pytest.mark.parametrize("name", ["laplace_box", "laplace_sign_hidden", "codebook", "lattice", "sums", "levels"])
def test_formulas_agree_with_real_reports(name: str) -> None:
    device = releases.devices()[name]
    veil = releases.veil(device.encoder, device.mechanism)
    low, high = device.encoder.low, device.encoder.high
    X = low + np.random.default_rng(0).random((RECORDS, device.encoder.width)) * (high - low)
    if name == "lattice":  # a formula needs directions that the task sees as orthogonal
        assert not veil.loss(X).exact
        return
    expected = veil.loss(X)
    assert expected.exact
    many = np.tile(X, (DRAWS, 1))
    drawn = veil.task.losses(veil.decode(veil.privatize(many)), many)
    error = drawn.reshape(DRAWS, RECORDS).mean(axis=1).std(ddof=1) / math.sqrt(DRAWS)
    assert abs(drawn.mean() - expected.mean) < 6 * error


def test_what_has_no_formula_is_drawn(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    device = releases.devices()["lattice"]
    veil = releases.veil(device.encoder, device.mechanism)
    loss = veil.loss(np.zeros((50, device.encoder.width)))
    assert not loss.exact
    assert math.isfinite(loss.mean)


def test_the_interval_is_for_other_records() -> None:
    values = np.random.default_rng(0).normal(3.0, 1.0, size=400)
    loss = Loss.of(values, exact=True)
    assert loss.mean == pytest.approx(values.mean())
    assert (loss.low, loss.high) == tuple(map(float, interval(values)))
    assert loss.high - loss.low == pytest.approx(2 * 1.966 * values.std(ddof=1) / 20, rel=0.01)
    assert math.isnan(Loss.of(values[:1], exact=True).low)


def test_records_in_the_order_of_time_belong_together() -> None:
    alike = np.repeat(np.random.default_rng(0).random(40), 10)
    loss, together = Loss.of(alike, exact=True), Loss.of(alike, exact=True, block=10)
    assert together.mean == loss.mean
    assert together.high - together.low > 2 * (loss.high - loss.low)


def test_a_mean_that_few_records_carry_is_said_to_whoever_asked() -> None:
    losses = np.r_[np.full(3, 500.0), np.ones(397)]
    with pytest.warns(
        FewRecordsWarning, match=r"of 400, 2 records carry half of what the losses differ.*more records"
    ) as said:
        warn_of_few(losses)
    assert "500" not in str(said[0].message)
    with pytest.warns(FewRecordsWarning, match="of 400, 1 record carries half"):
        warn_of_few(np.r_[1e6, np.ones(399)])
    for harmless in (
        losses[:20],
        np.random.default_rng(0).exponential(size=400),
        np.ones(400),
        np.zeros(400),
        losses + 1e6,
    ):
        warn_of_few(harmless)  # every warning is an error here
    Loss.of(losses, exact=True)


@pytest.mark.parametrize(
    "name", ["laplace_box", "laplace_sign_hidden", "codebook", "codebook_ties", "lattice", "sums", "levels"]
)
def test_simulated_reports_have_the_mechanisms_probabilities(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design time draws from a seed, without the device's entropy; its reports must be worth what real ones are."""
    device = releases.devices()[name]
    veil = releases.veil(device.encoder, device.mechanism)
    low, high = device.encoder.low, device.encoder.high
    X = np.repeat(low + np.random.default_rng(0).random((2, len(low))) * (high - low), 1500, axis=0)
    latents = device.encoder(X)
    real = veil.decoder(veil.mechanism.values(veil.mechanism(latents)))
    monkeypatch.setattr(entropy, "system_bytes", None)
    drawn = [
        channel_of(veil.mechanism, veil.decoder).simulate(latents, np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    assert veil.mechanism.possible(drawn[0]).all()
    simulated = veil.decoder(veil.mechanism.values(drawn[0]))
    for person in (slice(0, 1500), slice(1500, 3000)):
        for power in (1, 2):  # means and spreads
            a, b = (values[person] - real[person].mean(axis=0) for values in (real, simulated))
            error = np.hypot((a**power).std(axis=0), (b**power).std(axis=0)) / math.sqrt(1500)
            assert (np.abs((a**power).mean(axis=0) - (b**power).mean(axis=0)) <= 6 * error + 1e-12).all()


def test_expectations_without_a_formula_are_the_same_for_the_same_seed() -> None:
    device = releases.devices()["lattice"]
    veil = releases.veil(device.encoder, device.mechanism)
    X = np.zeros((50, device.encoder.width))

    def simulated(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        found, exact = expected_losses(veil.device, veil.decoder, veil.task, X, None, rng=rng)
        assert not exact
        return found

    np.testing.assert_array_equal(simulated(0), simulated(0))
    assert (simulated(0) != simulated(1)).any()
    assert simulated(0).mean() == pytest.approx(veil.loss(X).mean, rel=0.1)


def test_no_interval_of_squares_goes_below_zero() -> None:
    """One record that costs nearly everything: Student's lower limit is negative, which no mean of squares can be."""
    costs = np.append(np.full(99, 1e-3), 100.0)
    assert interval(costs)[0] < 0
    assert Loss.of(costs, exact=True).low == 0.0
    assert Loss.of(costs - 1.0, exact=True).low < -1.0  # a loss of one's own may be negative
    assert np.isnan(Loss.of(costs[:1], exact=True).low)


@pytest.mark.filterwarnings("ignore::taskveil.errors.FewRecordsWarning")
@pytest.mark.parametrize(("method", "judged_by"), [("codebook", "cross_entropy"), ("task_aware", "zero_one")])
def test_a_classifiers_accuracy_comes_with_its_loss(
    method: str, judged_by: Literal["cross_entropy", "zero_one"]
) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    task = tv.ModelTask(model, judged_by)
    veil = tv.design(X, task, epsilon=3.0, y=y, method=method, on_device=tv.OnDevice(encoder="linear"))
    loss = veil.loss(X, y)
    drawn = np.tile(X, (60, 1))
    right = veil.predict(veil.privatize(drawn)).argmax(axis=1) == np.tile(y, 60)
    assert loss.accuracy == pytest.approx(right.mean(), abs=5 * np.sqrt(0.25 * (1 / len(right) + 1 / (16 * 300))))
    assert loss.accuracy > np.mean(y == np.bincount(y).argmax()) + 0.1  # gradients of cross-entropy serve zero-one too
    judged = replace(veil, task=tv.ModelTask(model, "zero_one")).loss(X, y)
    assert judged.accuracy == 1.0 - judged.mean
    assert judged.accuracy == pytest.approx(loss.accuracy, abs=1e-12 if loss.exact else 0.04)
    assert replace(veil, task=tv.ModelTask(model, lambda out, y: out[:, 0] - y)).loss(X, y).accuracy is None
