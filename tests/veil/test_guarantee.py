from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.client.promise import statement
from taskveil.errors import BudgetError
from taskveil.veil.veil import Guarantee, as_epsilon


def test_the_statement_is_the_one_devices_show() -> None:
    promise = Guarantee(epsilon=2.0, delta=1e-9, enforced_by="By counting.")
    assert promise.statement == statement(2.0, 1e-9, "By counting.")


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "much", None, [1.0, 2.0], True, np.True_])
def test_what_is_no_budget(wrong: object) -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        as_epsilon(wrong)


def test_budgets() -> None:
    assert as_epsilon("0.5") == 0.5
    assert as_epsilon(3) == 3.0
