from __future__ import annotations

from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.client.promise import statement


@given(st.floats(1e-6, 30.0))
def test_the_factor_is_never_smaller_than_the_mathematics(epsilon: float) -> None:
    shown = Decimal(statement(epsilon, 0.0, "").split("more than ")[1].split(" times")[0].replace(",", ""))
    exact = Context(prec=60).exp(Decimal(epsilon))
    assert exact <= shown <= exact * Decimal("1.011")


def test_the_factor_is_rounded_in_decimal() -> None:
    """e^ε = 1.010000000000000009: doubles would print 1.01."""
    assert "more than 1.02 times" in statement(0.009950330853168092, 0.0, "")


@pytest.mark.parametrize(("epsilon", "shown"), [(2.0, "ε = 2)"), (2.0000004, "ε = 2.00001)"), (40.00004, "e^40.0001 ")])
def test_the_budget_is_never_rounded_down(epsilon: float, shown: str) -> None:
    assert shown in statement(epsilon, 0.0, "")


@pytest.mark.parametrize(
    ("epsilon", "odds"), [(5.0, None), (5.01, "150"), (8.0, "2,981"), (16.0, "8,886,111"), (40.0, "e^40")]
)
def test_above_five_the_sentence_says_in_odds_how_weak_it_is(epsilon: float, odds: str | None) -> None:
    told = statement(epsilon, 0.0, "By counting.")
    turned = f"a report can turn even odds between two possible records into odds of up to {odds} to 1."
    assert ("weak" in told) == (odds is not None)
    if odds:
        assert (
            f"(ε = {epsilon:g}). This is weak protection: {turned} By counting. This holds for one report per person"
            in told
        )
        assert f"more than {odds} times as likely" in told  # one factor, however it is put


def test_exceptions_and_enforcement_are_named() -> None:
    assert "except" not in statement(1.0, 0.0, "")
    assert "except with probability 1e-09" in statement(1.0, 1e-9, "")
    assert "By counting." in statement(1.0, 0.0, "By counting.")
