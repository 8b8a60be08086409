"""Listed codes: what the fit believes in floats is what the integer device does."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.designs.codebooks.codes import ListedChoice, ListedCode, smoothed


def test_smoothing_keeps_the_covariance() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(500, 3)) * [3.0, 1.0, 0.1]
    draws = smoothed(Z, 200_000, rng)
    assert np.cov(draws.T) == pytest.approx(np.cov(Z.T), abs=0.03 * 9)


def test_alternation_beats_a_random_codebook() -> None:
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(600, 2)) * [2.0, 0.5]
    code = ListedChoice(size=12, favoured=3, dim=2, smoothing=0.0).fit(Z, 3.0, rng)
    random = type(code)(codewords=Z[:12], response=code.response)
    assert code.losses(Z).mean() < 0.9 * random.losses(Z).mean()


def test_losses_are_the_expectation_over_all_codewords() -> None:
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(50, 3)) * [2.0, 1.0, 0.3]
    code = ListedChoice(size=8, favoured=2, dim=2, smoothing=1.0).fit(Z, 2.0, rng)
    points = np.column_stack([code.codewords, np.zeros(8)])  # what is not coded is decoded as zero
    distances = ((Z[:, None] - points) ** 2).sum(axis=2)
    chance = np.full(distances.shape, code.response.base)
    np.put_along_axis(chance, np.argsort(distances, axis=1)[:, :2], code.response.base + code.response.extra, axis=1)
    assert chance.sum(axis=1) == pytest.approx(np.ones(50))
    assert code.losses(Z) == pytest.approx((chance * distances).sum(axis=1))


def test_deployed_codes_lose_what_was_expected(volunteers: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    mean = volunteers.mean(axis=0)
    encoder = LinearEncoder.of(low=volunteers.min(axis=0), high=volunteers.max(axis=0), weights=np.eye(6), offset=-mean)
    latents = encoder(volunteers)
    code = ListedChoice(size=12, favoured=3, dim=4, smoothing=0.0).fit(latents, 3.0, rng)
    mechanism, decoder = code.parts(np.abs(latents).max(axis=0), np.eye(6), mean)
    task = tv.LinearTask(np.eye(6))
    veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method="codebook")
    loss = veil.loss(volunteers)
    assert loss.exact
    assert loss.mean == pytest.approx(code.losses(latents).mean(), rel=1e-3)


def test_fewer_distinct_records_than_codewords() -> None:
    rng = np.random.default_rng(6)
    code = ListedChoice(size=4, favoured=1, dim=1, smoothing=0.0).fit(np.ones((9, 1)), 1.0, rng)
    assert isinstance(code, ListedCode)
    assert code.codewords == pytest.approx(np.ones((4, 1)))
