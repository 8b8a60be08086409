"""Sums fitted to samples: losses that are exact, codewords refitted under the channel, what the device really does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.designs.codebooks import codes
from taskveil.designs.codebooks.codes import LatticeChoice, SumChoice


def records(count: int, dim: int = 6) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, dim)) * np.arange(dim, 0, -1)


def test_losses_equal_the_sum_over_all_sums() -> None:
    Z = records(60, 3)
    code = SumChoice(stages=3, size=4, dim=2, smoothing=1.0).fit(Z, 4.0, np.random.default_rng(1))
    every = list(itertools.product(*(range(len(stage)) for stage in code.stages)))
    points = np.array([np.sum([s[n] for s, n in zip(code.stages, numbers, strict=True)], axis=0) for numbers in every])
    distances = ((Z[:, None, :2] - points) ** 2).sum(axis=2) + Z[:, 2:] ** 2  # what is not coded is decoded as zero
    code = replace(code, branches=16)  # enough to find the nearest of so few
    brute = code.response.extra * distances.min(axis=1) + code.response.base * distances.sum(axis=1)
    assert code.losses(Z) == pytest.approx(brute)


def test_refitting_under_the_channel_is_the_least_expected_loss() -> None:
    """No codeword can be moved without a larger expected loss of the sample, once enough sweeps were made."""
    rng = np.random.default_rng(2)
    sample = records(500, 2)
    code = SumChoice(stages=2, size=6, dim=2, smoothing=0.0).fit(sample, 3.0, rng)
    numbers = np.column_stack([rng.integers(6, size=500), rng.integers(6, size=500)])
    stages = list(code.stages)
    for _ in range(200):
        stages = codes._refitted(sample, stages, numbers, code.response)

    def loss(stages: list[np.ndarray]) -> float:
        found = stages[0][numbers[:, 0]] + stages[1][numbers[:, 1]]
        middle, spread = stages[0].mean(0) + stages[1].mean(0), stages[0].var(0).sum() + stages[1].var(0).sum()
        told = code.response.extra
        anywhere = ((sample - middle) ** 2).sum(axis=1).mean() + spread
        return float(told * ((sample - found) ** 2).sum(axis=1).mean() + (1 - told) * anywhere)

    least = loss(stages)
    for place, number, move in itertools.product((0, 1), (0, 3), ([0.1, 0.0], [0.0, -0.1])):
        moved = [stage.copy() for stage in stages]
        moved[place][number] += move
        assert loss(moved) > least


def test_alternation_lowers_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = records(1500)
    fits = []
    for rounds in (0, 8):
        monkeypatch.setattr(codes, "_ROUNDS", rounds)
        fits.append(SumChoice(stages=2, size=24, dim=6, smoothing=1.0).fit(Z[:1000], 12.0, np.random.default_rng(3)))
    stage_by_stage, together = (code.losses(Z[1000:]).mean() for code in fits)
    assert together < 0.97 * stage_by_stage


def test_sums_follow_clusters_better_than_lattices() -> None:
    """About e^11 codewords in 12 directions, on records that neither has seen."""
    rng = np.random.default_rng(4)
    Z = 0.5 * records(2000, 12) + (12 * rng.normal(size=(20, 12)))[rng.integers(20, size=2000)]
    Z -= Z[:1000].mean(axis=0)
    code = SumChoice(stages=3, size=40, dim=12, smoothing=0.3).fit(Z[:1000], 16.0, rng)
    lattices = [LatticeChoice(nats=11.0, spacing=spacing).fit(Z[:1000], 16.0, rng) for spacing in (8.0, 16.0, 24.0)]
    assert code.losses(Z[1000:]).mean() < 0.8 * min(lattice.losses(Z[1000:]).mean() for lattice in lattices)


def test_deployed_sums_lose_what_was_expected(volunteers: np.ndarray) -> None:
    mean = volunteers.mean(axis=0)
    encoder = LinearEncoder.of(low=volunteers.min(axis=0), high=volunteers.max(axis=0), weights=np.eye(6), offset=-mean)
    latents = encoder(volunteers)
    code = SumChoice(stages=2, size=12, dim=4, smoothing=1.0).fit(latents, 5.0, np.random.default_rng(5))
    mechanism, decoder = code.parts(1.5 * np.abs(latents).max(axis=0), np.eye(6), mean)
    task = tv.LinearTask(np.eye(6))
    veil = tv.Veil(encoder=encoder, mechanism=mechanism, decoder=decoder, task=task, method="codebook")
    loss, drawn = veil.loss(volunteers), np.tile(volunteers, (60, 1))
    realised = task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert loss.exact
    assert loss.mean == pytest.approx(code.losses(latents).mean(), rel=1e-3)
    assert abs(realised.mean() - loss.mean) < 6 * realised.std() / np.sqrt(len(realised))
    assert veil.guarantee.epsilon <= 5.0


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_latents_of_any_size_fit_the_grid(scale: float) -> None:
    Z = records(50, 2)
    code = SumChoice(stages=2, size=4, dim=2, smoothing=1.0).fit(Z, 5.0, np.random.default_rng(6))
    far = replace(code, stages=tuple(stage * scale for stage in code.stages))
    mechanism, _ = far.parts(np.array([20.0, 20.0]) * scale, np.eye(2), np.zeros(2))
    plain, _ = code.parts(np.array([20.0, 20.0]), np.eye(2), np.zeros(2))
    assert mechanism.region.high.max() < 2**23
    assert np.abs(mechanism.codewords.astype(int)).max() > 2**13
    assert mechanism.response == plain.response
