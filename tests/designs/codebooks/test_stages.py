"""Stages: later ones correct earlier noise, and the device does what was fitted."""

from __future__ import annotations

import numpy as np

import taskveil as tv
from taskveil.client.encoders import LinearEncoder
from taskveil.designs.codebooks.listed import fit_listed
from taskveil.designs.codebooks.stages import fit_staged, left_over


def test_stages_correct_what_earlier_stages_left() -> None:
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(500, 2))
    fitted = fit_staged(Z, stages=3, size=16, favoured=1, dim=2, epsilon=24.0, rng=rng)
    assert sum(code.response.epsilon for code in fitted.stages) <= 24.0
    one = type(fitted)(stages=fitted.stages[:1])
    assert fitted.losses(Z).mean() < 0.3 * one.losses(Z).mean()


def test_what_is_left_over_follows_the_channel() -> None:
    """The nearest codeword is subtracted as often as the response says, every other alike."""
    rng = np.random.default_rng(3)
    code = fit_listed(rng.normal(size=(300, 1)), size=4, favoured=1, dim=1, epsilon=1.5, smooth=False, rng=rng)
    latents = np.tile(code.codewords[2], (60_000, 1))
    residual = left_over(np.column_stack([latents, np.full(60_000, 7.0)]), code, rng)
    assert (residual[:, 1] == 7.0).all()  # what is not coded stays
    for k, codeword in enumerate(code.codewords):
        chance = code.response.base + (code.response.extra if k == 2 else 0.0)
        share = float(np.isclose(latents[:, 0] - residual[:, 0], codeword[0]).mean())
        assert abs(share - chance) < 5 * np.sqrt(chance / 60_000)


def test_deployed_stages_lose_what_was_expected(volunteers: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    mean = volunteers.mean(axis=0)
    encoder = LinearEncoder.of(
        low=volunteers.min(axis=0), high=volunteers.max(axis=0), weights=np.eye(6)[:2], offset=-mean[:2]
    )
    latents = encoder(volunteers)
    fitted = fit_staged(latents, stages=2, size=8, favoured=1, dim=2, epsilon=6.0, rng=rng)
    mechanism, decoder = fitted.parts(1.5 * np.abs(latents).max(axis=0), np.eye(6)[:, :2], mean)
    task = tv.LinearTask(np.eye(6)[:2])
    veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method="codebook")
    drawn = np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    expected = fitted.losses(latents)
    assert abs(realised.mean() - expected.mean()) < 6 * realised.std() / np.sqrt(len(realised)) + 0.02 * expected.mean()
    assert veil.guarantee.epsilon <= 6.0
