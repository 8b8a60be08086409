"""The literature's formulas for means against what is drawn, and real reports of people unlike the volunteers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import taskveil as tv
from taskveil.peers.literature import LITERATURE, PrivUnit, Scaled

DRAWS = 100_000
TOLERANCE = 5.0
"""Standard errors: one wrong alarm in a million."""

Draw = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]


def duchi(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 3 of Wang et al. (2019), by rejection."""
    count, d = x.shape
    signs = np.where(rng.random(x.shape) < (1 + x) / 2, 1, -1)
    agree = rng.random(count) < math.exp(epsilon) / (math.exp(epsilon) + 1)
    drawn = np.zeros(x.shape)
    left = np.arange(count)
    while len(left):
        tried = rng.choice([-1, 1], (len(left), d))
        product = (tried * signs[left]).sum(axis=1) * np.where(agree[left], 1, -1)
        drawn[left[product >= 0]] = tried[product >= 0]
        left = left[product < 0]
    if d % 2:
        scale = 2 ** (d - 1) / math.comb(d - 1, (d - 1) // 2)
    else:
        scale = (2 ** (d - 1) + math.comb(d, d // 2) / 2) / math.comb(d - 1, d // 2)
    return drawn * scale * (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)


def piecewise_alone(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Algorithm 2 of Wang et al. (2019)."""
    root = math.exp(epsilon / 2)
    reach = (root + 1) / (root - 1)
    left = (reach + 1) / 2 * x - (reach - 1) / 2
    right = left + reach - 1
    near = left + rng.random(x.shape) * (right - left)
    below = left + reach
    far = -reach + rng.random(x.shape) * (2 * reach - (right - left))
    far = np.where(far < -reach + below, far, far + right - left)
    return np.where(rng.random(x.shape) < root / (root + 1), near, far)


def hybrid_alone(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    e = math.exp(epsilon)
    sign = np.where(rng.random(x.shape) < (x * (e - 1) / (e + 1) + 1) / 2, 1, -1) * (e + 1) / (e - 1)
    share = 1 - math.exp(-epsilon / 2) if epsilon > 0.61 else 0.0
    return np.where(rng.random(x.shape) < share, piecewise_alone(x, epsilon, rng), sign)


def sampled(alone: Draw) -> Draw:
    """Algorithm 4 of Wang et al. (2019)."""

    def draw(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        count, d = x.shape
        k = max(1, min(d, math.floor(epsilon / 2.5)))
        chosen = rng.permuted(np.tile(np.arange(d) < k, (count, 1)), axis=1)
        return np.where(chosen, alone(x, epsilon / k, rng) * d / k, 0.0)

    return draw


def privunit(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Lifted onto the sphere of radius √d, then a direction from its cap or from the rest, by rejection."""
    count, d = x.shape
    radius, norm = math.sqrt(d), np.linalg.norm(x, axis=1)
    unit = x / norm[:, None] * np.where(rng.random(count) < (1 + norm / radius) / 2, 1, -1)[:, None]
    best = PrivUnit.of(d, epsilon)
    sphere = rng.normal(size=(200_000, d))
    above = float(((sphere[:, 0] / np.linalg.norm(sphere, axis=1)) >= best.threshold).mean())
    cap = rng.random(count) < above * math.exp(epsilon) / (above * math.exp(epsilon) + 1 - above)
    drawn, left = np.zeros(x.shape), np.arange(count)
    while len(left):
        tried = rng.normal(size=(len(left), d))
        tried /= np.linalg.norm(tried, axis=1, keepdims=True)
        fits = ((tried * unit[left]).sum(axis=1) >= best.threshold) == cap[left]
        drawn[left[fits]] = tried[fits]
        left = left[~fits]
    return drawn * radius / best.mean


def laplace(x: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    return x + rng.laplace(scale=2 * x.shape[1] / epsilon, size=x.shape)


DRAWN: dict[str, Draw] = {
    "duchi": duchi,
    "piecewise": sampled(piecewise_alone),
    "hybrid": sampled(hybrid_alone),
    "privunit": privunit,
    "laplace_split": laplace,
}


@pytest.mark.parametrize(("d", "epsilon"), [(3, 1.0), (4, 5.5)])
@pytest.mark.parametrize("way", LITERATURE, ids=lambda way: way.name)
def test_formulas_say_what_is_drawn(way: object, d: int, epsilon: float) -> None:
    """One record, a task that mixes attributes: the mean of squared errors, and no bias."""
    rng = np.random.default_rng(d)
    x, K = rng.uniform(-0.8, 0.8, d), rng.normal(size=(2, d))
    drawn = DRAWN[way.name](np.tile(x, (DRAWS, 1)), epsilon, rng)  # type: ignore[attr-defined]
    errors = (((drawn - x) @ K.T) ** 2).sum(axis=1)
    (formula,) = way.formula(Scaled.of(x[None], K, tv.Box(-np.ones(d), np.ones(d))), epsilon)  # type: ignore[attr-defined]
    assert abs(errors.mean() - formula) < TOLERANCE * errors.std() / math.sqrt(DRAWS)
    assert (np.abs(drawn.mean(axis=0) - x) < TOLERANCE * drawn.std(axis=0) / math.sqrt(DRAWS)).all()
    # A formula that is a tenth off would be seen.
    assert abs(errors.mean() - 1.1 * formula) > TOLERANCE * errors.std() / math.sqrt(DRAWS)


def test_real_reports_of_people_unlike_the_volunteers_have_their_mean() -> None:
    """Volunteers at the low end, people at the high end: what shrinking gets most wrong."""
    rng = np.random.default_rng(0)
    volunteers, people = rng.beta(1, 6, (300, 3)), rng.beta(6, 1, (40_000, 3))
    veil = tv.design(volunteers, tv.MeanTask(np.eye(3)), epsilon=4.0, domain=tv.Box(np.zeros(3), np.ones(3)))
    decoded = veil.estimates(veil.privatize(people))
    error = decoded.std(axis=0) / math.sqrt(len(people))
    assert (np.abs(decoded.mean(axis=0) - people.mean(axis=0)) < TOLERANCE * error).all()
    assert (np.abs(decoded.mean(axis=0) - volunteers.mean(axis=0)) > TOLERANCE * error).all()
