from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile import hostile_records
from taskveil.client.concentrated import best_order, epsilon_bound, exact_epsilon
from taskveil.client.mechanisms import Gaussian, Laplace
from taskveil.client.regions import BallRegion, BoxRegion
from taskveil.errors import MechanismError

SQUARED_RADII = st.one_of(st.integers(1, 100), st.integers(1, 2**52))
DELTAS = st.floats(2.0**-100, 0.5)
SMALL_DELTAS = st.builds(lambda power: 2.0**-power, st.floats(1, 100))
ORDERS = st.builds(lambda power: 1 + 2.0**power, st.floats(-20, 19.99))


def ball(squared_radius: int, dim: int = 1) -> BallRegion:
    return BallRegion(step=0.5, center=np.arange(dim), squared_radius=squared_radius)


def formula(rho: Fraction, delta: float, order: float) -> mpmath.mpf:
    """The ε of the conversion in the shape of Proposition 12 of Canonne, Kamath and Steinke, solved for ε."""
    with mpmath.workdps(100):
        a, exact = mpmath.mpf(order), mpmath.mpf(rho.numerator) / rho.denominator
        # δ = exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α
        return a * exact - (mpmath.log(mpmath.mpf(delta) * (a - 1)) - a * mpmath.log(1 - 1 / a)) / (a - 1)


@given(SQUARED_RADII, st.floats(2.0**-10, 2.0**40), st.one_of(DELTAS, SMALL_DELTAS), ORDERS)
def test_the_bound_is_the_formula_rounded_up(squared_radius: int, scale: float, delta: float, order: float) -> None:
    rho = 2 * squared_radius / Fraction(scale) ** 2
    exact, stated = formula(rho, delta, order), epsilon_bound(rho, delta, order)
    with mpmath.workdps(100):
        assert mpmath.mpf(stated) >= exact
        assert stated == 0 or mpmath.mpf(math.nextafter(stated, 0)) < exact + mpmath.mpf(2) ** -120
        other = exact_epsilon(rho, delta, order)
        assert abs(mpmath.mpf(str(other)) - exact) <= mpmath.mpf(10) ** -55 * (abs(exact) + 1)


EDGES = [1 + 2.0**-20, math.nextafter(1 + 2.0**-20, 2), 2.0, math.nextafter(2.0**20, 0), 2.0**20]


@pytest.mark.parametrize("order", EDGES)
@pytest.mark.parametrize("delta", [2.0**-100, math.nextafter(2.0**-100, 1), 1e-6, math.nextafter(0.5, 0), 0.5])
@pytest.mark.parametrize("rho", [Fraction(0), Fraction(1, 2**200), Fraction(1, 3), Fraction(2**73)])
def test_the_bound_at_the_edges_of_what_is_allowed(rho: Fraction, delta: float, order: float) -> None:
    exact, stated = formula(rho, delta, order), epsilon_bound(rho, delta, order)
    with mpmath.workdps(100):
        assert mpmath.mpf(stated) >= exact
        assert stated == 0 or mpmath.mpf(math.nextafter(stated, 0)) < exact + mpmath.mpf(2) ** -120


@pytest.mark.parametrize("delta", [0.0, -1e-6, 2.0**-101, 0.6, 1.0, math.nan, math.inf])
def test_impossible_deltas_are_refused(delta: float) -> None:
    with pytest.raises(MechanismError, match="delta"):
        Gaussian(region=ball(8), scale=4.0, delta=delta, order=8.0)


@pytest.mark.parametrize("order", [1.0, 0.5, -3.0, 1 + 2.0**-21, 2.0**20 + 1, math.nan, math.inf])
def test_impossible_orders_are_refused(order: float) -> None:
    with pytest.raises(MechanismError, match="order"):
        Gaussian(region=ball(8), scale=4.0, delta=1e-6, order=order)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-9, 2.0**41])
def test_impossible_scales_are_refused(scale: float) -> None:
    with pytest.raises(MechanismError, match="scale"):
        Gaussian(region=ball(8), scale=scale, delta=1e-6, order=8.0)


def test_noise_that_keeps_an_epsilon_of_zero_is_refused() -> None:
    with pytest.raises(MechanismError, match="epsilon = 0"):
        Gaussian(region=ball(1), scale=2.0**30, delta=0.5, order=100.0)


def test_regions_that_are_no_ball_are_refused_and_balls_are_for_this_mechanism_alone() -> None:
    box = BoxRegion(step=1.0, low=np.array([-1]), high=np.array([1]))
    with pytest.raises(MechanismError, match="ball"):
        Gaussian(region=box, scale=4.0, delta=1e-6, order=8.0)  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match="box"):
        Laplace(region=ball(8), scale=4.0)  # type: ignore[arg-type]


@given(SQUARED_RADII, st.floats(1e-2, 60), st.builds(lambda power: 2.0**-power, st.floats(1, 60)))
def test_calibrated_noise_keeps_what_was_asked_for_and_is_the_least(
    squared_radius: int, epsilon: float, delta: float
) -> None:
    made = Gaussian.calibrated(region=ball(squared_radius), epsilon=epsilon, delta=delta)
    assert 0 < made.epsilon <= epsilon
    assert made.delta == delta
    if made.scale > 2.0**-10:
        less = math.nextafter(made.scale, 0)
        assert epsilon_bound(2 * squared_radius / Fraction(less) ** 2, delta, made.order) > epsilon
        # No other order needs less noise, up to the last digits.
        for order in 1 + (made.order - 1) * np.array([0.2, 0.8, 0.99, 1.01, 1.25, 5]):
            if 1 + 2.0**-20 <= order <= 2.0**20:
                rho = made.rho * Fraction(1 + 1e-9)
                assert epsilon_bound(rho, delta, float(order)) > epsilon * (1 - 1e-12)
        assert best_order(float(made.rho), delta) == pytest.approx(made.order, rel=1e-2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.nan, 1e-6), (math.inf, 1e-6),
                                                 (1.0, 0.0), (1.0, 1.0), (1.0, math.nan), (1e-12, 1e-9)])  # fmt: skip
def test_budgets_without_noise_for_them_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(MechanismError):
        Gaussian.calibrated(region=ball(8), epsilon=epsilon, delta=delta)


def hockey_stick(scale: float, shift: int, epsilon: float) -> mpmath.mpf:
    """Σ max(0, P[x] − e^ε P[x − shift]) of the discrete Gaussian, by direct sums in sixty digits.

    The ratio of the two rises as x falls, so the terms are above zero up to one x. All terms above 2^-400 are summed,
    and the rest of P is added, so that the sum is an upper bound, by less than 2^-300.
    """
    with mpmath.workdps(60):
        s, e = mpmath.mpf(scale), mpmath.exp(mpmath.mpf(epsilon))
        reach = int(scale * 24) + shift + 3
        weights = [mpmath.exp(-((x / s) ** 2) / 2) for x in range(reach + shift + 1)]
        mass = weights[0] + 2 * mpmath.fsum(weights[1:])
        terms = (weights[abs(x)] - e * weights[abs(x - shift)] for x in range(-reach, reach + 1))
        return mpmath.fsum(t for t in terms if t > 0) / mass + mpmath.mpf(2) ** -300


CHECKED = [
    (epsilon, delta, squared_radius)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    for delta in (0.3, 1e-2, 1e-4, 1e-6, 1e-9, 1e-15)
    for squared_radius in (1, 16, 400)
]


@pytest.mark.parametrize(("epsilon", "delta", "squared_radius"), CHECKED)
def test_the_stated_delta_is_never_too_small(epsilon: float, delta: float, squared_radius: int) -> None:
    """One latent, the two farthest inputs: the hockey-stick divergence, which is the exact δ for this ε."""
    made = Gaussian.calibrated(region=ball(squared_radius), epsilon=epsilon, delta=delta)
    low, high = made.region.reach
    assert hockey_stick(made.scale, int(high[0] - low[0]), made.epsilon) <= delta


def test_the_check_of_delta_objects_to_too_little_noise() -> None:
    """By 20% less, which is more than the conversion loses: by √2 in any case."""
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-6), (4.0, 1e-4), (8.0, 1e-9)):
        made = Gaussian.calibrated(region=ball(400), epsilon=epsilon, delta=delta)
        assert hockey_stick(made.scale / 1.2, 40, made.epsilon) > delta


def test_the_conversion_costs_little_noise() -> None:
    """Against the least noise that the exact divergence allows: up to 8% at this δ."""
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-6), (2.0, 1e-6), (4.0, 1e-6), (8.0, 1e-6)):
        made = Gaussian.calibrated(region=ball(400), epsilon=epsilon, delta=delta)
        assert hockey_stick(made.scale / 1.08, 40, epsilon) > delta


@pytest.mark.parametrize(("epsilon", "times"), [(0.5, 9), (1.0, 5), (2.0, 3), (8.0, 1)])
def test_how_frequent_reports_are_that_exceed_epsilon(epsilon: float, times: int) -> None:
    """docs/theory/guarantee.md, "What δ means": of noise so wide that it counts as continuous."""
    made = Gaussian.calibrated(region=ball(2**40), epsilon=epsilon, delta=1e-6)
    apart = 2.0**21 / made.scale  # the logarithm of the ratio is normal, of mean apart²/2 and deviation apart
    assert round(float(mpmath.ncdf(apart / 2 - made.epsilon / apart)) / 1e-6) == times


def test_reports_lie_on_the_grid_and_in_the_layout_whatever_comes_in() -> None:
    made = Gaussian.calibrated(region=ball(900, 3), epsilon=0.5, delta=1e-6)
    reports = made(hostile_records(3))
    assert reports.dtype == np.int64
    assert made.possible(reports).all()
    assert np.array_equal(made.values(reports), reports * 0.5)
    high = np.array(made.layout.high) - made.region.center
    assert (high == 30 + math.ceil(10 * made.scale)).all()


def test_reports_beyond_ten_scales_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Gaussian.calibrated(region=ball(900, 2), epsilon=0.5, delta=1e-6)
    far = "taskveil.client.mechanisms.gaussian.discrete_gaussian"
    monkeypatch.setattr(far, lambda scale, count: np.resize([2**50, -(2**50)], count))
    assert made(np.zeros((1, 2))).tolist() == [[made.layout.high[0], made.layout.low[1]]]


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.9, 4.0, 11.3])
def test_likelihoods_of_all_reports_sum_to_one(scale: float) -> None:
    made = Gaussian(region=ball(4), scale=scale, delta=1e-6, order=4.0)
    reports = np.arange(-400, 400)[:, None]
    latents = np.array([[-1.0], [0.0], [1.0]])
    assert np.exp(made.log_likelihood(reports, latents)).sum(axis=0) == pytest.approx(1.0, abs=1e-12)
    plane = Gaussian(region=ball(4, 2), scale=scale, delta=1e-6, order=4.0)
    grid = np.stack(np.meshgrid(np.arange(-130, 131), np.arange(-130, 131)), axis=-1).reshape(-1, 2)
    assert np.exp(plane.log_likelihood(grid, np.zeros((1, 2)))).sum() == pytest.approx(1.0, abs=1e-12)


def test_rho_and_the_exact_epsilon() -> None:
    made = Gaussian(region=ball(8), scale=4.0, delta=1e-6, order=8.0)
    assert made.rho == 1  # (2√8)² / (2·4²)
    expected = 8 + math.log(7 / 8) - (math.log(1e-6) + math.log(8)) / 7
    assert made.epsilon == pytest.approx(expected, rel=1e-14)
    assert made.exact_epsilon <= Decimal(made.epsilon) <= made.exact_epsilon * (1 + Decimal(2) ** -52)


class Cube(BallRegion):
    """Lets a cube through and is charged for the ball."""

    def contains(self, k: np.ndarray) -> np.ndarray:
        return np.abs(k - self.center).max(axis=1) <= self.farthest


def test_members_outside_the_ball_are_a_fault() -> None:
    cube = Cube(step=1.0, center=np.array([3, -1]), squared_radius=100)
    broken = Gaussian(region=cube, scale=10.0, delta=1e-6, order=8.0)
    said = broken.fault(cube.center + np.array([[0, 0], [10, 10]]))
    assert said is not None
    assert said.endswith(".")
    assert broken.fault(cube.center + np.array([[0, 0], [10, 0], [6, 8]])) is None


def test_mechanisms_cannot_be_changed() -> None:
    made = Gaussian(region=ball(8), scale=4.0, delta=1e-6, order=8.0)
    with pytest.raises(AttributeError):
        made.delta = 1e-9  # type: ignore[misc]
    with pytest.raises(TypeError, match="delta"):
        Gaussian(region=ball(8), scale=4.0, order=8.0)  # type: ignore[call-arg]
