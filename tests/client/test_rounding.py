from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.client.promise import exact_log_ratio, floor_exp_times, log_ratio, round_up, rounded_up


@given(st.fractions(min_value=0, max_value=10**12))
def test_round_up_is_the_least_double_that_is_not_below(exact: Fraction) -> None:
    found = round_up(exact)
    assert Fraction(found) >= exact
    assert found == 0 or Fraction(math.nextafter(found, -math.inf)) < exact


@given(st.floats(1e-300, 1e300))
def test_printed_budgets_are_never_smaller_than_they_are(epsilon: float) -> None:
    printed = float(rounded_up(epsilon))
    assert epsilon <= printed <= epsilon * (1 + 1.1e-5)


def test_short_numbers_stay_short() -> None:
    assert [rounded_up(epsilon) for epsilon in (2.0, 0.1, 1 / 3, 0.0)] == ["2", "0.1", "0.333334", "0"]


@pytest.mark.parametrize("b", [1, 3, 2**20, 2**40, 3**30, 2**64])
def test_a_log_ratio_is_the_least_certified_double(b: int) -> None:
    """Found by walking up from well below, one double at a time: every release so far states this number."""
    rng = random.Random(b)
    for ratio in (1, 1 + 2.0**-40, 1.5, 2.0, 2.1, 3.7, 1e3, 1e15, 2.0**300):
        a = max(b, int(b * ratio * (1 + rng.random() / 16)))
        bound = float(mpmath.log(mpmath.mpf(a) / b)) * (1 - 2.0**-46)
        while floor_exp_times(bound, b) < a:
            bound = math.nextafter(bound, math.inf)
        assert log_ratio(a, b) == bound


@given(st.integers(1, 2**60), st.integers(0, 2**60))
def test_a_certified_log_ratio_is_never_too_small(b: int, more: int) -> None:
    with mpmath.workdps(60):
        truth = mpmath.log1p(mpmath.mpf(more) / b)
        assert truth <= mpmath.mpf(log_ratio(b + more, b)) <= truth * (1 + mpmath.mpf(2) ** -51)
        assert abs(mpmath.mpf(str(exact_log_ratio(b + more, b))) - truth) <= mpmath.mpf(10) ** -58 * (truth + 1)
