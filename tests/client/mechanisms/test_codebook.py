from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from channels import exact_distribution
from hostile import hostile_records
from taskveil.client.mechanisms import Codebook, Response, Stage
from taskveil.client.regions import BoxRegion
from taskveil.errors import MechanismError

REGION = BoxRegion(step=1.0, low=np.array([-2, -2]), high=np.array([2, 2]))


def stage(seed: int, size: int, m: int, epsilon: float, move: int = 1) -> Stage:
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, size=(size, 2))
    return Stage(
        vectors=2 * points,
        offsets=-(points**2).sum(axis=1),
        shifts=move * points,
        response=Response.calibrated(size=size, favoured=m, epsilon=epsilon),
    )


def report_distribution(mechanism: Codebook, k: np.ndarray) -> dict[tuple[int, ...], Fraction]:
    """P[report | latent k] of a two-stage codebook, in exact arithmetic: realised outputs steer the second stage."""
    first, second = mechanism.stages
    chances = {}
    p1 = exact_distribution(first.response, first.favoured(k[None])[0].tolist())
    for i, p in enumerate(p1):
        p2 = exact_distribution(second.response, second.favoured((k - first.shifts[i])[None])[0].tolist())
        for j, q in enumerate(p2):
            chances[i, j] = p * q
    return chances


def test_all_inputs_of_a_small_two_stage_channel() -> None:
    """Every latent of the region, every report: the product of the stages' ratios is never exceeded."""
    mechanism = Codebook(region=REGION, stages=(stage(0, 4, 1, 0.6), stage(1, 5, 2, 0.9)))
    latents = [np.array(k) for k in itertools.product(range(-2, 3), repeat=2)]
    channel = [report_distribution(mechanism, k) for k in latents]
    worst = max(P[r] / Q[r] for P in channel for Q in channel for r in P)
    limit = Fraction(1)
    for s in mechanism.stages:
        limit *= Fraction(s.response.a, s.response.b)
    assert worst <= limit
    assert mechanism.epsilon <= 1.5 + 1e-15
    assert mechanism.epsilon == pytest.approx(1.5, rel=1e-9)


def test_hostile_latents_give_valid_reports_of_the_same_channel() -> None:
    """NaN, infinities and bit patterns end as one of the region's latents, whose channel was checked above."""
    mechanism = Codebook(region=REGION, stages=(stage(0, 4, 1, 0.6), stage(1, 5, 2, 0.9)))
    hostile = hostile_records(2)
    assert mechanism.region.contains(mechanism.region.enforce(hostile)).all()
    reports = mechanism(hostile)
    assert reports.shape == (len(hostile), 2)
    assert ((reports >= 0) & (reports < [4, 5])).all()


def test_later_stages_see_what_earlier_outputs_left_over() -> None:
    """With enormous budgets two stages of residual coding find the latent exactly."""
    points = np.array([[-2, 0], [2, 0], [0, -2], [0, 2]])
    fine = np.array([[0, 0], [1, 1], [-1, -1], [1, -1], [-1, 1]])
    stages = tuple(
        Stage(vectors=2 * p, offsets=-(p**2).sum(axis=1), shifts=p,
              response=Response.calibrated(size=len(p), favoured=1, epsilon=200.0))
        for p in (points, fine)
    )  # fmt: skip
    mechanism = Codebook(region=REGION, stages=stages)
    reports = mechanism(np.array([[-1.0, -1.0], [2.0, 0.0], [1.0, 1.0]]))
    recovered = points[reports[:, 0]] + fine[reports[:, 1]]
    assert recovered.tolist() == [[-1, -1], [2, 0], [1, 1]]


def test_codebooks_that_would_not_be_exact_are_refused() -> None:
    big = stage(0, 4, 1, 1.0)
    huge = Stage(vectors=big.vectors * 2**50, offsets=big.offsets, shifts=big.shifts, response=big.response)
    with pytest.raises(MechanismError, match="exact"):
        Codebook(region=REGION, stages=(huge,))
    with pytest.raises(MechanismError, match="stage"):
        Codebook(region=REGION, stages=())
    with pytest.raises(MechanismError, match="per output"):
        Stage(vectors=big.vectors[:3], offsets=big.offsets, shifts=big.shifts, response=big.response)
    with pytest.raises(MechanismError, match="integers"):
        Stage(vectors=big.vectors * 1.0, offsets=big.offsets, shifts=big.shifts, response=big.response)  # type: ignore[arg-type]
