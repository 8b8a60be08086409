from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv

METHODS = ["task_agnostic", "privacy_agnostic", "matrix_factorization"]


@pytest.mark.parametrize("method", METHODS)
def test_every_baseline_keeps_its_budget_and_loses_to_us(
    method: str, volunteers: np.ndarray, task: tv.LinearTask
) -> None:
    for epsilon in (0.5, 2.0, 10.0):
        baseline = tv.design(volunteers, task, epsilon=epsilon, method=method)  # type: ignore[arg-type]
        assert baseline.guarantee.epsilon <= epsilon
        assert baseline.method == method
        ours = tv.design(volunteers, task, epsilon=epsilon, method="task_aware")
        assert ours.loss(volunteers).mean <= baseline.loss(volunteers).mean


def test_privacy_agnostic_takes_three_latents_by_default(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    three = tv.design(volunteers, task, epsilon=1.0, method="privacy_agnostic")
    five = tv.design(volunteers, task, epsilon=1.0, method="privacy_agnostic", on_device=tv.OnDevice(latent_dim=5))
    assert (three.mechanism.latent_dim, five.mechanism.latent_dim) == (3, 5)


def test_matrix_factorization_is_unbiased_for_the_task(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    veil = tv.design(volunteers, task, epsilon=1.0, method="matrix_factorization")
    recovered = task.predict(veil.decoder(veil.encode(volunteers)))
    assert recovered == pytest.approx(task.predict(volunteers), abs=1e-3)


def test_the_decoder_is_the_best_affine_one(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    """Any change of the decoder makes the design loss larger."""
    from dataclasses import replace

    veil = tv.design(volunteers, task, epsilon=3.0, method="task_agnostic")
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = veil.decoder.weights + 1e-2 * rng.normal(size=veil.decoder.weights.shape)
        other = replace(veil, decoder=replace(veil.decoder, weights=weights))
        assert other.loss(volunteers).mean > veil.loss(volunteers).mean
