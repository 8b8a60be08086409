"""Is the noise what it claims to be? χ² against the exact pmf, and against OpenDP's own samples.

The tests reject a sound sampler once in a million runs, and must reject noise scaled by 0.7 and 1.3.
"""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import chi2_contingency, chisquare

from taskveil.client.mechanisms import Laplace
from taskveil.client.noise import discrete_laplace
from taskveil.designs.domain import box_region

SAMPLES = 1_000_000
ALARM = 1e-6


def p_value(samples: np.ndarray, scale: float) -> float:
    """χ² of integers against the discrete Laplace pmf, in cells of at least 50 expected samples."""
    p = np.exp(-1 / scale)
    tail = max(1, int(scale * np.log(len(samples) / 100)))
    width = max(1, int(scale / 20))
    edges = np.arange(-tail, tail + 1, width)
    # P(X < k) = p^(1−k) / (1 + p) for k ≤ 0, and 1 − p^k / (1 + p) for k > 0.
    below = np.where(edges <= 0, p ** (1.0 - np.minimum(edges, 0)), 1 + p - p ** np.maximum(edges, 0)) / (1 + p)
    cells = np.diff(np.concatenate([[0.0], below, [1.0]]))
    counts = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1)
    return float(chisquare(counts, cells / cells.sum() * len(samples)).pvalue)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0, 2.0**20, 1e9])
def test_the_noise_follows_its_pmf(scale: float) -> None:
    assert p_value(discrete_laplace(scale, SAMPLES), scale) > ALARM


@pytest.mark.parametrize("wrong", [0.7, 1.3])
@pytest.mark.parametrize("scale", [1.0, 40.0, 2.0**20])
def test_wrong_scales_are_rejected(scale: float, wrong: float) -> None:
    assert p_value(discrete_laplace(scale * wrong, SAMPLES), scale) < ALARM


@pytest.mark.parametrize("wrong", [0.97, 1.03])
def test_even_three_percent_are_noticed(wrong: float) -> None:
    assert p_value(discrete_laplace(40.0 * wrong, SAMPLES), 40.0) < ALARM


@pytest.mark.parametrize(("wrong", "agrees"), [(1.0, True), (0.7, False), (1.3, False)])
def test_agreement_with_opendp(wrong: float, agrees: bool) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=3.0)([0] * 200_000))
    ours = discrete_laplace(3.0 * wrong, 200_000)
    cells = [np.bincount(np.clip(x, -20, 20) + 20, minlength=41) for x in (theirs, ours)]
    assert (chi2_contingency(cells).pvalue > ALARM) == agrees


def test_the_mechanism_adds_the_noise_it_charges_for() -> None:
    """End to end: reports of one record, in whole steps, minus the bounded latent."""
    mechanism = Laplace.calibrated(region=box_region(np.array([-1.0]), np.array([1.0])), epsilon=0.7)
    latents = np.full((SAMPLES, 1), 17.0)  # outside: bounded to 1
    noise = mechanism(latents) - mechanism.region.high
    assert p_value(noise[:, 0], mechanism.scale) > ALARM
    assert p_value(noise[:, 0].astype(np.int64), mechanism.scale * np.sqrt(2)) < ALARM


def test_draws_are_independent() -> None:
    """Neighbouring draws and their signs are uncorrelated; the whole sequence never repeats."""
    noise = discrete_laplace(2.0**20, SAMPLES).astype(float)
    for lag in (1, 2, 1 << 14):
        assert abs(np.corrcoef(noise[:-lag], noise[lag:])[0, 1]) < 6 / np.sqrt(SAMPLES)
    assert not np.array_equal(discrete_laplace(2.0**20, 100), discrete_laplace(2.0**20, 100))
