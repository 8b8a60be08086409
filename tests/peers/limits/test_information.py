from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.client.mechanisms import Response
from taskveil.designs.moments import gaussian_distortion, water_level
from taskveil.errors import BudgetError
from taskveil.peers.limits import information_limit


@given(st.floats(1e-4, 200.0), st.integers(2, 400), st.data())
def test_no_response_carries_more_than_the_limit(epsilon: float, size: int, data: st.DataObject) -> None:
    """K-ary randomised response on a uniform input: its mutual information is known in closed form."""
    m = data.draw(st.integers(1, size - 1))
    if epsilon > 100:
        return
    response = Response.calibrated(size=size, favoured=m, epsilon=epsilon)
    a, b = response.a / response.total, response.b / response.total
    information = m * a * math.log(a * size) + (size - m) * b * math.log(b * size)
    assert information <= information_limit(epsilon) * (1 + 1e-9) + 1e-15


def test_the_limit_is_reached_by_a_suitable_response() -> None:
    """The proof's optimum w = 1/c − 1/ε is a response with m/K = w·a: the bound cannot be improved."""
    for epsilon in (0.5, 2.0, 5.0):
        c = -math.expm1(-epsilon)
        w = 1 / c - 1 / epsilon
        share = w * math.exp(-epsilon) / (1 - w * c)
        m, size = round(share * 10**6), 10**6
        response = Response.calibrated(size=size, favoured=m, epsilon=epsilon)
        a, b = response.a / response.total, response.b / response.total
        information = m * a * math.log(a * size) + (size - m) * b * math.log(b * size)
        assert information == pytest.approx(information_limit(epsilon), rel=1e-6)


def test_small_and_large_budgets() -> None:
    assert information_limit(1e-3 * 0.999) == pytest.approx(information_limit(1e-3 * 1.001), rel=0.01)
    assert information_limit(1e-6) == pytest.approx(1e-12 / 8)
    assert information_limit(100.0) == pytest.approx(99 - math.log(100))
    with pytest.raises(BudgetError):
        information_limit(0.0)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=10), st.floats(0, 40))
def test_water_filling_spends_exactly_the_rate(variances: list[float], nats: float) -> None:
    level = water_level(variances, nats)
    spent = sum(0.5 * math.log(v / level) for v in variances if v > level)
    assert spent == pytest.approx(nats, abs=1e-9)
    assert gaussian_distortion(variances, nats) <= sum(variances) * (1 + 1e-12)
