"""Values that lie far from zero for their spread (years, air pressure, times) rank as any others do."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.designs.domain import box_region
from taskveil.tasks.costs import SquaredError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("far", [0.0, -1e3, 1e6, 1e9])
def test_scores_stay_exact_far_from_zero(far: float, outputs: int) -> None:
    cost = SquaredError()
    near = RNG.normal(size=(300, outputs))
    answers = RNG.normal(size=(8, outputs))
    low, high = cost.latent_range(np.concatenate([near, answers]) + far)
    region = box_region(low, high)
    vectors, offsets = cost.whole_scores(answers + far, region.step)
    response = Response.calibrated(size=8, favoured=1, epsilon=4.0)
    stage = Stage(vectors=vectors, offsets=offsets, shifts=0 * vectors, response=response)
    favoured = Codebook(region=region, stages=(stage,)).stages[0].favoured(region.enforce(near + far))[:, 0]
    distances = ((near[:, None] - answers) ** 2).sum(axis=2)
    chosen, least = distances[np.arange(300), favoured], distances.min(axis=1)
    assert chosen == pytest.approx(least, abs=0.05)  # as coarse as the grid is at worst
