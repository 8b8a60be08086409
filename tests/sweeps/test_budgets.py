"""Which designs surely keep enough, and the budget that follows. How often it is right is in tests/statistical."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest

from taskveil.sweeps.budgets import Budget, share_interval, smallest_budget, surely_kept, surplus
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.veil.loss_intervals import bounds

RNG = np.random.default_rng(0)
COUNT = 171


def noisy(mean: float, spread: float = 1.0) -> np.ndarray:
    drawn = RNG.normal(size=COUNT)
    return mean + spread * (drawn - drawn.mean()) / drawn.std(ddof=1)


ERROR = 1 / math.sqrt(COUNT)


def test_the_surplus_is_what_the_share_keeps_above_what_was_asked() -> None:
    losses, clear, constant = RNG.random((2, 50)), RNG.random(50), 2 + RNG.random(50)
    shares = (constant.mean() - losses.mean(axis=1)) / (constant.mean() - clear.mean())
    for kept in (0.2, 0.8):
        assert ((surplus(losses, clear, constant, kept).mean(axis=1) >= 0) == (shares >= kept)).all()
    assert surplus(losses[0], clear, constant, shares[0]).mean() == pytest.approx(0.0, abs=1e-12)


def test_one_design_is_sure_where_its_own_bound_is() -> None:
    for mean in (1.2 * ERROR, 1.4 * ERROR):
        values = noisy(mean)[None]
        sure, _ = surely_kept(values, confidence=0.9)
        assert sure[0] == (bounds(values[0], confidence=0.9)[0] >= 0)


def test_the_luckiest_of_many_needs_more_and_copies_count_once() -> None:
    """1.7 standard errors are enough for one, not for the best of twenty that are no better than it should be."""
    lucky = noisy(1.7 * ERROR)
    assert surely_kept(lucky[None], confidence=0.9)[0].all()
    assert surely_kept(np.array([lucky] * 20), confidence=0.9)[0].all()
    others = np.array([noisy(0.0) for _ in range(19)])
    assert not surely_kept(np.vstack([lucky, others]), confidence=0.9)[0].any()


def test_what_falls_short_or_is_sure_beyond_doubt_costs_nothing() -> None:
    lucky = noisy(1.7 * ERROR)
    short = np.array([noisy(-9 * ERROR) for _ in range(20)])
    far = np.array([noisy(9 * ERROR) for _ in range(20)])
    sure, possible = surely_kept(np.vstack([lucky, short, far]), confidence=0.9)
    assert sure.tolist() == possible.tolist() == [True] + [False] * 20 + [True] * 20


def test_the_same_records_give_the_same_answer() -> None:
    values = np.array([noisy(m * ERROR) for m in (0.5, 1.0, 1.5, 2.0)])
    first, second = (surely_kept(values, confidence=0.9)[0] for _ in range(2))
    assert (first == second).all()


def test_the_best_of_the_sure_methods_is_named() -> None:
    constant, clear = noisy(10.0), np.zeros(COUNT)
    designs = [("a", 1.0), ("b", 1.0), ("c", 0.5), ("b", 4.0)]
    losses = np.array([noisy(m) for m in (2.0, 1.5, 6.0, 0.5)])
    found = smallest_budget(designs, losses, clear, constant, kept=0.7, confidence=0.9)
    assert (found, found.method, found.low) == (1.0, "b", 1.0)


def test_the_most_that_is_sure_is_less_than_what_was_asked() -> None:
    constant, clear = noisy(1.0, 0.1), np.zeros(COUNT)
    losses = np.array([noisy(0.3, 1.0), noisy(0.32, 1.0)])
    designs = [("a", 1.0), ("b", 2.0)]
    none = smallest_budget(designs, losses, clear, constant, kept=0.65, confidence=0.9)
    assert math.isinf(none)
    (most,) = map(int, re.findall(r"(\d+)% is the most that is sure", none.statement))
    assert 50 < most < 65
    assert smallest_budget(designs, losses, clear, constant, kept=most / 100, confidence=0.9) < math.inf
    hopeless = smallest_budget(designs, losses + 5.0, clear, constant, kept=0.65, confidence=0.9)
    assert "there is no share that is sure" in hopeless.statement


def test_a_signal_that_is_not_sure_names_no_budget() -> None:
    clear, constant = np.zeros(COUNT), noisy(0.5 * ERROR)
    found = smallest_budget([("a", 1.0)], clear[None] - 1.0, clear, constant, kept=0.5, confidence=0.9)
    assert math.isinf(found)
    assert math.isnan(found.low)
    assert "better than a constant prediction at all. Test on more records." in found.statement


def test_a_few_records_that_decide_are_counted_in_words() -> None:
    constant, clear = np.ones(COUNT), np.zeros(COUNT)
    constant[:3] = 1000.0
    found = smallest_budget([("a", 1.0)], 0.1 * constant[None], clear, constant, kept=0.01, confidence=0.9)
    assert found == 1.0
    assert "it rests on 2 of them: test on more." in found.statement


def test_shares_have_intervals_that_agree_with_the_test() -> None:
    constant, clear, losses = noisy(1.0, 0.3), noisy(0.1, 0.1), noisy(0.4, 0.3)
    low, high = share_interval(losses, clear, constant, confidence=0.8)
    share = (constant - losses).mean() / (constant - clear).mean()
    assert low < share < high
    for kept, sure in ((low - 1e-3, True), (low + 1e-3, False)):
        assert surely_kept(surplus(losses, clear, constant, kept)[None], confidence=0.9)[0].all() == sure
    assert share_interval(0.5 * constant, np.zeros(COUNT), constant) == pytest.approx((0.5, 0.5))
    assert share_interval(losses, constant, clear) == (None, None)
    faint = noisy(0.01, 1.0)
    assert None in share_interval(losses, np.zeros(COUNT), faint)


def test_a_budget_is_a_number() -> None:
    budget = Budget(2.5, low=1.0, method="a", kept=0.8, confidence=0.9, statement="so")
    assert f"{budget:g} {budget}" == "2.5 2.5"
    assert budget.high == 2.5
    assert type(budget.high) is float
    for again in (copy.copy(budget), copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        assert (again, vars(again)) == (budget, vars(budget))


def test_a_signal_that_single_precision_cannot_hold_promises_nothing() -> None:
    rng = np.random.default_rng(0)
    clear = np.full(200, 1e8)
    constant = clear + 1 + 0.3 * rng.normal(size=200)
    losses = constant - 0.2 * (constant - clear)
    frontier = Frontier(
        points=(Point.of("mine", 1.0, 0, losses),),
        clear=float(clear.mean()),
        constant=float(constant.mean()),
        clear_per_record=clear,
        constant_per_record=constant,
    )

    assert math.isinf(frontier.epsilon_for(0.95))  # it keeps 20%


def test_what_all_tested_have_alike_says_nothing_about_others() -> None:
    """Ten people whom a design serves as well as the model does: nobody knows how it serves the eleventh."""
    constant, clear = noisy(1.0, 0.1), noisy(0.2, 0.1)
    found = smallest_budget([("a", 1.0)], clear[None], clear, constant, kept=1.0, confidence=0.9)
    assert found == math.inf


def test_the_statement_names_how_rare_people_may_be_missing() -> None:
    constant, clear, losses = noisy(1.0, 0.1), noisy(0.1, 0.1), noisy(0.2, 0.1)
    found = smallest_budget([("a", 1.0)], losses[None], clear, constant, kept=0.5, confidence=0.9)
    share = 1 - 0.1 ** (1 / COUNT)
    assert f"kinds of people rarer than {share:.1%} may be missing" in found.statement
