"""Expected losses are expectations: a formula where there is one must agree with many real reports."""

from __future__ import annotations

import math

import numpy as np
import pytest

import releases
import taskveil as tv
from taskveil.losses import Loss

RECORDS = 12
DRAWS = 4000


@pytest.mark.parametrize("name", ["laplace_box", "laplace_sign_hidden", "codebook", "lattice"])
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
    drawn = np.concatenate([veil.task.losses(veil.decode(veil.privatize(X)), X) for _ in range(DRAWS)])
    error = drawn.reshape(DRAWS, RECORDS).mean(axis=1).std(ddof=1) / math.sqrt(DRAWS)
    assert abs(drawn.mean() - expected.mean) < 6 * error


def test_what_has_no_formula_is_drawn(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    device = releases.devices()["codebook_stages"]
    veil = releases.veil(device.encoder, device.mechanism)
    loss = veil.loss(np.zeros((50, device.encoder.width)))
    assert not loss.exact
    assert math.isfinite(loss.mean)


def test_the_interval_is_for_other_records() -> None:
    values = np.random.default_rng(0).normal(3.0, 1.0, size=400)
    loss = Loss.of(values, exact=True)
    assert loss.mean == pytest.approx(values.mean())
    assert loss.high - loss.low == pytest.approx(2 * 1.96 * values.std(ddof=1) / 20)
    assert math.isnan(Loss.of(values[:1], exact=True).low)
