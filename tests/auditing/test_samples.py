"""Checks that compare samples, on something sound and on something broken in just that way."""

from __future__ import annotations

import numpy as np
import pytest

from auditing import exhibits, leaks, sound
from auditing.targets import ends, target
from taskveil.auditing.checks import fresh_noise, rows_apart
from taskveil.client import entropy


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        (exhibits.laplace(exhibits.WIDE), "held"),
        (sound.codebook_for(8.0), "held"),
        (exhibits.one_draw_for_all_rows, "broken"),
        (exhibits.fixed_seed, "broken"),
    ],
)
def test_fresh_noise(what: object, outcome: str) -> None:
    assert fresh_noise(target(what)).outcome == outcome


def shared_coin(X: np.ndarray) -> np.ndarray:
    """Randomised response whose neighbours lie together: the one that is known gives the other away."""
    lies = np.repeat(entropy.uniform_below(1000, -(-len(X) // 2)) >= 731, 2)[: len(X)]
    return ((np.nan_to_num(X[:, 0]) > 0) ^ lies)[:, None]


def halves_share(X: np.ndarray) -> np.ndarray:
    half = exhibits.noise(exhibits.WIDE, (-(-len(X) // 2), X.shape[1]))
    return (exhibits.on_grid(X) + np.concatenate([half, half])[: len(X)]) * exhibits.STEP


class OppositeCalls:
    """The next call of the same size gets the noise of the last with the other sign."""

    def __init__(self) -> None:
        self.kept: np.ndarray | None = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if self.kept is not None and self.kept.shape == X.shape:
            drawn, self.kept = -self.kept, None
        else:
            drawn = self.kept = exhibits.noise(exhibits.WIDE, X.shape)
        return (exhibits.on_grid(X) + drawn) * exhibits.STEP


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        (exhibits.laplace(exhibits.WIDE), "held"),
        (exhibits.laplace_veil(2.0, 3), "held"),
        (sound.codebook_for(2.0), "held"),
        (leaks.opposite_noise, "broken"),
        (shared_coin, "broken"),
        (halves_share, "broken"),
        (OppositeCalls(), "broken"),
    ],
)
def test_rows_and_calls_share_no_noise(what: object, outcome: str) -> None:
    made = target(what)
    assert rows_apart(made, ends(made.width), count=10_000).outcome == outcome
