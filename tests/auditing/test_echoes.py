"""Records that come back, rarely or only from far out of range."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from auditing import exhibits, leaks, sound
from auditing.targets import target
from taskveil.auditing.checks import _identified, nothing_echoed


def rare_call(every: int) -> object:
    calls = itertools.count(1)
    return lambda X: X if next(calls) % every == 0 else exhibits.laplace(exhibits.WIDE)(X)


def far_out_in_one_column(X: np.ndarray) -> np.ndarray:
    """Echoes attribute 1 between 50 and 300, where the range ends at 1."""
    private = exhibits.laplace(2 * exhibits.WIDE)(X)
    private[:, 1] = np.where((np.abs(X[:, 1]) > 50) & (np.abs(X[:, 1]) < 300), X[:, 1], private[:, 1])
    return private


@pytest.mark.parametrize(
    ("what", "dim", "outcome"),
    [
        (exhibits.laplace(exhibits.WIDE), 1, "held"),
        (exhibits.laplace(exhibits.WIDE / 4000), 1, "broken"),  # barely any noise is an echo too
        (exhibits.laplace_veil(1.0), 1, "held"),
        (sound.codebook_for(1.0), 1, "not applicable"),
        (rare_call(100), 1, "broken"),
        (leaks.echoed_between_two_and_three, 1, "broken"),
        (far_out_in_one_column, 2, "broken"),
    ],
)
def test_echoes(what: object, dim: int, outcome: str) -> None:
    found = nothing_echoed(target(what, dim), np.random.default_rng(0), calls=2000, rows=10_000)
    assert found.outcome == outcome


def test_the_bound_by_naming_one_of_many_is_rarely_wrong() -> None:
    """M-ary randomised response tells the truth as often as its ε allows, and never seems to allow less."""
    rng = np.random.default_rng(0)
    inputs, epsilon, alpha = 200, 2.0, 0.2
    own = np.exp(epsilon) / (np.exp(epsilon) + inputs - 1)
    shown = []
    for _ in range(200):
        truth = rng.integers(inputs, size=2000)
        others = (truth + rng.integers(1, inputs, size=2000)) % inputs
        reports = np.where(rng.random(2000) < own, truth, others).astype(float)
        shown.append(_identified(reports, truth, np.arange(float(inputs)), alpha=alpha, delta=0.0))
    assert np.mean(np.array(shown) > epsilon) <= alpha
    assert np.mean(shown) > epsilon / 2
