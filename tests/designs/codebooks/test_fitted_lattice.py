"""Lattices fitted to samples: as many codewords as the rate allows, losses that are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.designs.codebooks.codes import LEVELS_PER_DIRECTION, LatticeChoice
from taskveil.designs.moments import Moments
from taskveil.veil.decoders import LatticeDecoder

RNG = np.random.default_rng(0)  # not used by lattices


def test_exact_lattice_losses_are_the_mean_of_what_really_happens(volunteers: np.ndarray) -> None:
    """With a budget at which wrong codewords are common enough to be seen (real designs make them one in 10^4)."""
    task = tv.LinearTask(np.eye(6))
    moments = Moments.of(volunteers, task)
    weights = np.sqrt(moments.eigenvalues)[:, None] * moments.principal_map
    latents = (volunteers - moments.mean) @ weights.T
    fitted = LatticeChoice(nats=6.0, spacing=4.0).fit(latents, 5.0, RNG)
    encoder = LinearEncoder.of(
        low=volunteers.min(axis=0), high=volunteers.max(axis=0), weights=weights, offset=-weights @ moments.mean
    )
    back = moments.factor @ moments.directions / np.sqrt(moments.eigenvalues)
    mechanism, decoder = fitted.parts(1.5 * np.abs(latents).max(axis=0), back, moments.mean)
    veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method="codebook")
    loss, drawn = veil.loss(volunteers), np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert loss.exact
    assert abs(realised.mean() - loss.mean) < 6 * realised.std() / np.sqrt(len(realised))
    assert fitted.losses(latents).mean() == pytest.approx(loss.mean, rel=1e-3)


def test_lattice_losses_equal_the_sum_over_all_codewords() -> None:
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 2)) * [2.0, 0.7]
    fitted = LatticeChoice(nats=5.0, spacing=0.8).fit(Z, 6.0, RNG)
    lattice = fitted.lattice
    values = lattice.points(lattice.unrank(lattice.digits(list(range(lattice.size))))) * fitted.step
    distances = ((Z[:, None] - values) ** 2).sum(axis=2)
    brute = fitted.response.extra * distances.min(axis=1) + fitted.response.base * distances.sum(axis=1)
    assert fitted.losses(Z) == pytest.approx(brute, rel=2e-2)
    assert fitted.losses(Z).mean() == pytest.approx(brute.mean(), rel=1e-4)


def test_lattices_in_oblique_directions_are_judged_by_real_reports(volunteers: np.ndarray) -> None:
    veil = tv.design(volunteers, tv.LinearTask(np.eye(6)), epsilon=30.0, method="codebook")
    assert isinstance(veil.decoder, LatticeDecoder)
    oblique = replace(veil, task=tv.LinearTask(np.ones((1, 6)) + np.eye(6)))
    loss = oblique.loss(volunteers[:16])  # too few for anybody to be warned that few of them decide
    assert not loss.exact
    assert loss.mean > 0


@pytest.mark.parametrize("nats", [2.0, 5.0, 11.0])
def test_no_more_codewords_than_the_rate_allows(nats: float) -> None:
    Z = np.random.default_rng(0).normal(size=(200, 3)) * [3.0, 1.0, 0.2]
    lattice = LatticeChoice(nats=nats, spacing=0.5).fit(Z, 8.0, RNG).lattice
    assert 2 <= lattice.size <= np.exp(nats)
    assert lattice.counts.max() <= LEVELS_PER_DIRECTION


def test_moving_levels_to_best_estimates_helps() -> None:
    Z = np.random.default_rng(1).exponential(size=(800, 2)) - 1.0
    plain, moved = (LatticeChoice(nats=4.0, spacing=1.2, rounds=rounds).fit(Z, 6.0, RNG) for rounds in (0, 2))
    assert moved.losses(Z).mean() < plain.losses(Z).mean()
