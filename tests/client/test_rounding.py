from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from taskveil.client.rounding import round_up, rounded_up


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
