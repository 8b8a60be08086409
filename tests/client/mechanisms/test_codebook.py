from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from channels import exact_distribution
from hostile import hostile_records
from taskveil.client import entropy
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


def test_all_inputs_of_a_small_channel() -> None:
    """Every latent of the region, every report, in exact arithmetic: the ratio a/b is never exceeded."""
    mechanism = Codebook(region=REGION, stages=(stage(1, 5, 2, 0.9),))
    latents = np.array(list(itertools.product(range(-2, 3), repeat=2)))
    channel = [exact_distribution(mechanism.response, f.tolist()) for f in mechanism.stage.favoured(latents)]
    worst = max(p / q for P in channel for Q in channel for p, q in zip(P, Q, strict=True))
    assert worst == Fraction(mechanism.response.a, mechanism.response.b)
    assert mechanism.epsilon <= 0.9
    assert mechanism.epsilon == pytest.approx(0.9, rel=1e-9)


def test_hostile_latents_give_valid_reports_of_the_same_channel() -> None:
    """NaN, infinities and bit patterns end as one of the region's latents, whose channel was checked above."""
    mechanism = Codebook(region=REGION, stages=(stage(1, 5, 2, 0.9),))
    hostile = hostile_records(2)
    assert mechanism.region.contains(mechanism.region.enforce(hostile)).all()
    reports = mechanism(hostile)
    assert reports.shape == (len(hostile), 1)
    assert ((reports >= 0) & (reports < 5)).all()


def test_shifts_are_stored_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "system_bytes", lambda count: bytes([0x5A]) * count)
    one, other = (Codebook(region=REGION, stages=(stage(1, 5, 2, 0.9, move),)) for move in (0, 2**40))
    latents = hostile_records(2)
    assert np.array_equal(one(latents), other(latents))


@pytest.mark.parametrize("count", [0, 2, 65])
def test_a_codebook_has_one_stage(count: int) -> None:
    with pytest.raises(MechanismError, match=f"one stage, got {count}"):
        Codebook(region=REGION, stages=(stage(0, 4, 1, 0.6),) * count)  # type: ignore[arg-type]


def test_codebooks_that_would_not_be_exact_are_refused() -> None:
    big = stage(0, 4, 1, 1.0)
    huge = Stage(vectors=big.vectors * 2**50, offsets=big.offsets, shifts=big.shifts, response=big.response)
    with pytest.raises(MechanismError, match="exact"):
        Codebook(region=REGION, stages=(huge,))
    with pytest.raises(MechanismError, match="per output"):
        Stage(vectors=big.vectors[:3], offsets=big.offsets, shifts=big.shifts, response=big.response)
    with pytest.raises(MechanismError, match="integers"):
        Stage(vectors=big.vectors * 1.0, offsets=big.offsets, shifts=big.shifts, response=big.response)  # type: ignore[arg-type]
