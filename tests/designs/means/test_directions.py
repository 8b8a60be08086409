"""Whichever latents are told, everything that the task weighs can be told from them."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.designs.means.design import directions_of

RNG = np.random.default_rng(1)
MIXED = RNG.normal(size=(4, 4))
X = RNG.normal(size=(50, 4)) @ MIXED
BOX = tv.Box(X.min(axis=0) - 1, X.max(axis=0) + 1)


@pytest.mark.parametrize("domain", [BOX, tv.Ball(20.0, dim=4), tv.Points(X)])
@pytest.mark.parametrize(
    "K",
    [np.eye(4), np.diag([1.0, 0.0, 1e-6, 3.0]), np.ones((1, 4)), RNG.normal(size=(6, 4)), RNG.normal(size=(2, 4))],
)
def test_latents_lie_between_0_and_1_and_lead_back_to_what_counts(K: np.ndarray, domain: tv.Box) -> None:
    ways = list(directions_of(X, K, domain))
    assert len(ways) == 2
    for way in ways:
        latents = X @ way.weights.T + way.offset
        assert latents.min() > -1e-9
        assert latents.max() < 1 + 1e-9
        mean = X.mean(axis=0)
        estimates = mean + (latents - (mean @ way.weights.T + way.offset)) @ way.back.T
        assert estimates @ K.T == pytest.approx(X @ K.T, abs=1e-9)
    assert len(ways[1].weights) == np.linalg.matrix_rank(K)


def test_rotated_directions_are_uncorrelated_for_the_task() -> None:
    K = np.diag([3.0, 1.0, 1.0, 0.5])
    *_, rotated = directions_of(X, K, BOX)
    covariance = np.cov((X @ rotated.weights.T).T)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-9 * covariance.max()


def test_what_cannot_vary_or_does_not_count_is_not_asked() -> None:
    box = tv.Box(np.append(BOX.low[:3], 2.0), np.append(BOX.high[:3], 2.0))
    plain, _ = directions_of(X, np.diag([1.0, 0.0, 1.0, 1.0]), box)
    assert plain.weights.any(axis=0).tolist() == [True, False, True, False]
    (nothing,) = directions_of(X, np.zeros((1, 4)), box)
    assert len(nothing.weights) == 1
    assert not nothing.back.any()
