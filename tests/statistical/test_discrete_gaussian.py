"""Is the noise the discrete Gaussian that it claims to be? χ² against the exact pmf.

The tests reject a sound sampler once in a million runs, and must reject noise scaled by 0.97 and 1.03.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chisquare

from taskveil.client.mechanisms import Gaussian
from taskveil.client.noise import discrete_gaussian, discrete_laplace
from taskveil.client.regions import BallRegion

SAMPLES = 1_000_000
ALARM = 1e-6


def p_value(samples: np.ndarray, scale: float) -> float:
    """χ² of integers against the discrete Gaussian pmf, in cells of at least 50 expected samples.

    From 2^12 on, sums of the pmf over a cell are areas of the normal density, up to a relative 2^-20.
    """
    tail, width = max(1, int(3.7 * scale)), max(1, int(scale / 20))
    edges = np.arange(-tail, tail + 1, width)
    if scale < 2**12:
        x = np.arange(-int(12 * scale) - 2, int(12 * scale) + 3)
        pmf = np.exp(-((x / scale) ** 2) / 2)
        cells = np.bincount(np.searchsorted(edges, x, side="right"), pmf, len(edges) + 1)
    else:
        cells = np.diff(ndtr(np.concatenate([[-np.inf], (edges - 0.5) / scale, [np.inf]])))
    counts = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1)
    expected = cells / cells.sum() * len(samples)
    some = expected >= 50
    observed, wanted = counts[some].astype(float), expected[some]
    observed[0] += counts[~some].sum()  # rare values, none of which is a cell of its own
    wanted[0] += expected[~some].sum()
    return float(chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


@pytest.mark.parametrize("scale", [0.3, 0.8, 1.0, 2.5, 40.0, 2.0**20, 1e9])
def test_the_noise_follows_its_pmf(scale: float) -> None:
    assert p_value(discrete_gaussian(scale, SAMPLES), scale) > ALARM


@pytest.mark.parametrize("wrong", [0.97, 1.03])
@pytest.mark.parametrize("scale", [0.8, 1.0, 2.5, 40.0, 2.0**20])
def test_three_percent_are_noticed(scale: float, wrong: float) -> None:
    assert p_value(discrete_gaussian(scale * wrong, SAMPLES), scale) < ALARM


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_proposals_that_are_all_kept_are_noticed(scale: float) -> None:
    assert p_value(discrete_laplace(scale, SAMPLES), scale) < ALARM


def test_the_mechanism_adds_the_noise_it_charges_for() -> None:
    """End to end: reports of one record, in whole steps, minus the bounded latent. By √2 less is what an auditor must
    find; here 3% are."""
    region = BallRegion(step=0.25, center=np.array([3, -1]), squared_radius=25**2)
    mechanism = Gaussian.calibrated(region=region, epsilon=0.7, delta=1e-6)
    latents = np.full((SAMPLES // 2, 2), [1e9, -0.25])  # pulled towards the center: to (28, -1)
    noise = mechanism(latents) - [28, -1]
    assert p_value(noise.ravel(), mechanism.scale) > ALARM
    assert p_value(noise.ravel(), mechanism.scale * 1.03) < ALARM
    assert abs(np.corrcoef(noise.T.astype(float))[0, 1]) < 6 / np.sqrt(len(noise))


def test_draws_are_independent() -> None:
    """Neighbouring draws are uncorrelated, in size too; the whole sequence never repeats."""
    noise = discrete_gaussian(2.0**20, SAMPLES).astype(float)
    for lag in (1, 2, 1 << 14):
        for drawn in (noise, np.abs(noise)):
            assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 6 / np.sqrt(SAMPLES)
    assert not np.array_equal(discrete_gaussian(2.0**20, 100), discrete_gaussian(2.0**20, 100))
