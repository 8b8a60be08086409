from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile import hostile_records
from taskveil.client.mechanisms import Laplace
from taskveil.client.regions import BoxRegion, DiamondRegion
from taskveil.designs.domain import box_region
from taskveil.errors import MechanismError


def region(width: int) -> BoxRegion:
    return BoxRegion(step=0.5, low=np.array([0]), high=np.array([width]))


@given(st.integers(0, 2**24), st.floats(1e-3, 1e3))
def test_the_claimed_epsilon_is_never_too_small(width: int, epsilon: float) -> None:
    """In exact arithmetic: Δ₁/scale ≤ claimed ≤ asked for."""
    mechanism = Laplace.calibrated(region=region(width), epsilon=epsilon)
    exact = Fraction(width) / Fraction(mechanism.scale)
    assert exact <= Fraction(mechanism.epsilon)
    assert Fraction(mechanism.epsilon) <= Fraction(epsilon)


@given(st.integers(1, 2**24), st.floats(1e-3, 1e3))
def test_no_more_noise_than_needed(width: int, epsilon: float) -> None:
    mechanism = Laplace.calibrated(region=region(width), epsilon=epsilon)
    if mechanism.scale > 2.0**-10:
        less = np.nextafter(mechanism.scale, 0)
        assert Fraction(width) / Fraction(float(less)) > Fraction(epsilon)


def test_privacy_loss_on_exact_values_and_edges() -> None:
    assert Laplace(region=region(0), scale=4.0).epsilon == 0.0
    assert Laplace(region=region(1), scale=4.0).epsilon == 0.25
    assert Laplace(region=region(8), scale=4.0).epsilon == 2.0
    third = Laplace(region=region(1), scale=3.0).epsilon
    assert Fraction(third) >= Fraction(1, 3) > Fraction(float(np.nextafter(third, 0)))


def test_exact_ratios_of_the_output_distribution() -> None:
    """All inputs of a small channel, all nearby outputs: no log-ratio beyond ε, and ε itself is reached."""
    mechanism = Laplace.calibrated(region=DiamondRegion(step=1.0, center=np.array([0, 0]), radius=2), epsilon=1.5)
    inputs = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if abs(i) + abs(j) <= 2]
    outputs = [(i, j) for i in range(-6, 7) for j in range(-6, 7)]
    scale = Fraction(mechanism.scale)
    # ln P(r | k) = const − ‖r − k‖₁/scale, a rational number up to the same constant for every k.
    log_p = {k: [-Fraction(abs(r[0] - k[0]) + abs(r[1] - k[1])) / scale for r in outputs] for k in inputs}
    worst = max(a - b for k in inputs for m in inputs for a, b in zip(log_p[k], log_p[m], strict=True))
    assert worst <= Fraction(1.5)
    assert worst == Fraction(mechanism.region.l1_diameter) / scale


def test_reports_lie_on_the_grid_whatever_comes_in() -> None:
    mechanism = Laplace.calibrated(region=box_region(np.array([-1.0, 0.0]), np.array([1.0, 3.0])), epsilon=0.5)
    reports = mechanism(hostile_records(2))
    assert np.isfinite(reports).all()
    assert np.array_equal(reports / mechanism.region.step, np.rint(reports / mechanism.region.step))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-9, 2.0**41])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(MechanismError):
        Laplace(region=region(8), scale=scale)


def test_mechanisms_cannot_be_changed() -> None:
    mechanism = Laplace(region=region(8), scale=4.0)
    with pytest.raises(AttributeError):
        mechanism.scale = 1.0  # type: ignore[misc]
