from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from taskveil.peers.limits.half_space import half_space_reduction


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0, 30.0])
def test_it_is_the_maximum_over_half_spaces(epsilon: float) -> None:
    t = np.linspace(-3.0, 12.0, 300_001)
    ratio = math.expm1(epsilon) * np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) / (1 + math.expm1(epsilon) * ndtr(-t))
    assert half_space_reduction(epsilon) == pytest.approx(ratio.max() ** 2, rel=1e-8)


def test_no_other_likelihood_says_more_about_a_direction() -> None:
    """The bathtub principle, tried: random likelihoods of mean 1 between a and a·e^ε never have a larger E[r g]."""
    rng = np.random.default_rng(0)
    g = np.linspace(-6, 6, 1201)
    masses = np.exp(-(g**2) / 2) / np.exp(-(g**2) / 2).sum()
    for epsilon in (0.5, 2.0, 5.0):
        likelihoods = np.exp(epsilon * rng.beta(0.2, 0.2, (500, len(g))))
        sharp = np.exp(epsilon * (g > rng.uniform(-2, 4, (500, 1))) * rng.choice([1.0, 0.9], (500, 1)))
        r = np.vstack([likelihoods, sharp])
        r /= (r @ masses)[:, None]
        assert ((r @ (masses * g)) ** 2).max() <= half_space_reduction(epsilon) * (1 + 1e-4)
        assert ((r @ (masses * g)) ** 2).max() >= half_space_reduction(epsilon) * 0.98


def test_small_and_large_budgets() -> None:
    for epsilon in (1e-6, 1e-3):
        assert half_space_reduction(epsilon) == pytest.approx(epsilon**2 / (2 * math.pi), rel=2 * epsilon)
    square = half_space_reduction(700.0)  # where e^ε φ(t) ≈ t³, because t Q(t) ≈ (1 − 1/t²) φ(t)
    assert square == pytest.approx(2 * 700.0 - math.log(2 * math.pi) - 3 * math.log(square), rel=1e-4)
