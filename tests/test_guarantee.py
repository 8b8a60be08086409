from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.errors import BudgetError
from taskveil.guarantee import Guarantee, as_epsilon


def test_the_statement_never_rounds_the_budget_down() -> None:
    assert "e^40.0001" in Guarantee(epsilon=40.00004, enforced_by="").statement
    assert "ε = 2.00001" in Guarantee(epsilon=2.0000004, enforced_by="").statement


@given(st.floats(1e-6, 30.0))
def test_the_factor_is_never_smaller_than_the_mathematics(epsilon: float) -> None:
    statement = Guarantee(epsilon=epsilon, enforced_by="").statement
    factor = float(statement.split("more than ")[1].split(" times")[0].replace(",", ""))
    assert math.exp(epsilon) <= factor <= 1.02 * math.exp(epsilon)


def test_an_exception_is_named() -> None:
    assert "except" not in Guarantee(epsilon=1.0, enforced_by="").statement
    assert "except with probability 1e-09" in Guarantee(epsilon=1.0, delta=1e-9, enforced_by="").statement


def test_the_statement_says_how_it_is_enforced() -> None:
    assert "By counting." in Guarantee(epsilon=1.0, enforced_by="By counting.").statement


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "much", None, [1.0, 2.0]])
def test_what_is_no_budget(wrong: object) -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        as_epsilon(wrong)


def test_budgets() -> None:
    assert as_epsilon("0.5") == 0.5
    assert as_epsilon(3) == 3.0
