from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskveil as tv
from auditing import exhibits
from taskveil.client.mechanisms import Response
from taskveil.errors import BudgetError
from taskveil.veil.accounting import Cost, compose, reports_within


def optimal(epsilon: float, times: int, delta: float) -> float:
    """Kairouz, Oh and Viswanath (2015), theorem 3.3 for pure ε, by bisection: an independent calculation."""

    def excess(total: float) -> float:
        terms = (
            math.comb(times, j) * max(0.0, math.exp(j * epsilon) - math.exp(total + (times - j) * epsilon))
            for j in range(times + 1)
        )
        return math.fsum(terms) / (1 + math.exp(epsilon)) ** times

    low, high = 0.0, times * epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return high


@given(st.floats(1e-3, 20), st.integers(1, 1000))
def test_pure_budgets_add_up_exactly(epsilon: float, times: int) -> None:
    total = compose([Cost(epsilon=epsilon, times=times), Cost(epsilon=0.1)]).epsilon
    exact = Fraction(epsilon) * times + Fraction(0.1)
    assert Fraction(total) >= exact
    assert Fraction(math.nextafter(total, 0)) < exact


@pytest.mark.parametrize(
    ("epsilon", "times", "delta"), [(0.1, 100, 1e-6), (0.5, 50, 1e-8), (1.0, 10, 1e-3), (2.0, 5, 0.01)]
)
def test_known_values(epsilon: float, times: int, delta: float) -> None:
    """Never below the optimal composition theorem, and within two thousandths of it."""
    total = compose([Cost(epsilon=epsilon, times=times)], delta=delta)
    truth = optimal(epsilon, times, delta)
    assert truth <= total.epsilon <= 1.002 * truth
    assert total.basic_epsilon == pytest.approx(epsilon * times)


def test_a_response_of_two_is_the_worst_case_and_of_many_is_not() -> None:
    two, many = (Response.calibrated(size=size, favoured=m, epsilon=0.5) for size, m in ((2, 1), (16, 4)))
    costs = [Cost(epsilon=r.epsilon, times=40, parts=(r,)) for r in (two, many)]
    worst, mild = (compose([cost], delta=1e-6).epsilon for cost in costs)
    assert worst == pytest.approx(optimal(0.5, 40, 1e-6), rel=2e-3)
    assert mild < 0.8 * worst


@pytest.mark.parametrize(("size", "favoured"), [(4, 1), (4, 3), (5, 2)])
def test_dominating_pairs_of_responses_against_all_pairs_of_sets(size: int, favoured: int) -> None:
    """δ(ε) of one report, computed by brute force over all favoured sets, is never above the account's."""
    from itertools import combinations

    r = Response.calibrated(size=size, favoured=favoured, epsilon=1.0)
    sets = list(combinations(range(size), favoured))
    p = np.array([[r.a if k in s else r.b for k in range(size)] for s in sets]) / r.total
    delta = 0.05
    found = compose([Cost(epsilon=r.epsilon, parts=(r,))], delta=delta).epsilon
    worst = max(np.maximum(a - math.exp(found) * b, 0).sum() for a in p for b in p)
    assert worst <= delta
    tighter = max(np.maximum(a - math.exp(found - 0.01) * b, 0).sum() for a in p for b in p)
    assert found == 0 or tighter > delta


def test_the_response_is_taken_from_the_veil() -> None:
    cost = Cost.of(exhibits.codebook_veil(exhibits.stage(8, 2, 1.0, 1.0)), times=3)
    assert [(part.size, part.favoured) for part in cost.parts] == [(8, 2)]
    assert compose([cost]).epsilon == pytest.approx(3.0)
    assert compose([cost], delta=1e-3).epsilon < 3.0
    assert Cost.of(exhibits.lattice_veil(3.0)).parts[0].favoured == 1
    assert Cost.of(exhibits.laplace_veil(1.0)).parts == ()


def test_several_releases_and_approximate_budgets() -> None:
    mixed = [Cost(epsilon=1.0, delta=1e-7, times=3), Cost(epsilon=0.2, times=20)]
    total = compose(mixed, delta=1e-5)
    assert 1.0 < total.epsilon < total.basic_epsilon == pytest.approx(7.0)
    assert "except with probability 1e-05" in total.statement
    with pytest.raises(BudgetError, match="add up to 3e-07"):
        compose(mixed)


@pytest.mark.parametrize(("delta", "count"), [(0.0, 29), (1e-6, 46)])
def test_how_many_reports_a_budget_pays_for(delta: float, count: int) -> None:
    """30 times the double 0.1 is above 3: one report less. The other count is checked against the theorem."""
    assert reports_within(Cost(epsilon=0.1), epsilon=3.0, delta=delta) == count
    if delta:
        assert optimal(0.1, count, delta) <= 3.0 < optimal(0.1, count + 1, delta)
    assert reports_within(Cost(epsilon=4.0), epsilon=3.0) == 0


def test_the_surprise_that_two_reports_fit_is_explained_where_one_meets_it() -> None:
    """A budget of what n reports cost pays for n; the ledger's twelve digits are said."""
    for times in (3, 6, 7, 10, 100):
        cap = compose([Cost(epsilon=0.1, times=times)]).epsilon
        assert reports_within(Cost(epsilon=0.1), epsilon=cap) == times
        assert reports_within(Cost(epsilon=0.1), epsilon=math.nextafter(cap, 0)) == times - 1
    told = (Path(__file__).parents[2] / "docs" / "theory" / "guarantee.md").read_text(encoding="utf-8")
    assert "`reports_within(Cost(epsilon=0.1), epsilon=0.3)` is 2" in told


@pytest.mark.parametrize("broken", [{"epsilon": 0.0}, {"epsilon": 1.0, "delta": 1.0}, {"epsilon": 1.0, "times": 0}])
def test_impossible_costs_are_refused(broken: dict) -> None:
    with pytest.raises(BudgetError):
        Cost(**broken)


def test_impossible_questions_are_refused() -> None:
    with pytest.raises(BudgetError, match="nothing"):
        compose([])
    with pytest.raises(BudgetError, match="delta"):
        compose([Cost(epsilon=1.0)], delta=-1.0)


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert compose([Cost(epsilon=1.0)]).epsilon == 1.0
    with pytest.raises(BudgetError, match="taskveil\\[design\\]"):
        compose([Cost(epsilon=1.0)], delta=1e-6)


def test_repeated_reports_of_a_veil(veil: tv.Veil) -> None:
    assert compose([Cost.of(veil, times=2)]).epsilon == pytest.approx(2 * veil.guarantee.epsilon)


def test_reports_are_counted_in_whole_numbers() -> None:
    with pytest.raises(BudgetError, match="whole number"):
        Cost(epsilon=1.0, times=3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "favoured", "epsilon"), [(512, 1, 44.0), (64, 4, 50.0)])
def test_hardly_anything_left_over_is_still_counted(size: int, favoured: int, epsilon: float) -> None:
    response = Response.calibrated(size=size, favoured=favoured, epsilon=epsilon)
    cost = Cost(epsilon=response.epsilon, parts=(response,))
    assert compose([cost], delta=1e-6).epsilon <= response.epsilon * 1.001


def test_sums_are_printed_rounded_up() -> None:
    assert "ε = 1.00001" in compose([Cost(epsilon=1.0000004)]).statement


def test_any_number_of_reports_that_tell_nothing_adds_up_at_once() -> None:
    """Composed report by report, 2^36 of them would fill hundreds of gigabytes."""
    response = Response.calibrated(size=2, favoured=1, epsilon=2.0**-36)
    cost = Cost(epsilon=response.epsilon, parts=(response,))
    assert reports_within(cost, epsilon=3.0, delta=1e-6) >= reports_within(cost, epsilon=3.0) > 2**37


def converted(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke (2020), proposition 12: the least ε over a fine grid of orders, in doubles."""
    a = 1 + np.geomspace(1e-4, 1e6, 2_000_001)
    return float((a * rho + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)).min())


def of_discrete_gaussians(sigma: float, shift: int, times: int, delta: float) -> float:
    """The exact ε at δ of so many one-dimensional discrete Gaussians, for two inputs `shift` steps apart: the loss
    depends on the sum of the noise only, whose distribution is a convolution."""
    reach = math.ceil(12 * sigma)
    x = np.arange(-reach, reach + 1)
    noise = np.exp(-(x**2) / (2 * sigma**2))
    total = np.ones(1)
    for _ in range(times):
        total = np.convolve(total, noise / noise.sum())
    moved = times * shift
    p, q = np.concatenate([np.zeros(moved), total]), np.concatenate([total, np.zeros(moved)])

    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            excess = np.maximum(p - np.exp(np.minimum(np.log(q), 0) + middle), 0).sum()
        low, high = (middle, high) if excess > delta else (low, middle)
    return low


@pytest.mark.parametrize(
    ("rho", "times", "delta"), [(0.01, 52, 1e-6), (1e-6, 1, 1e-9), (0.5, 4, 1e-5), (40.0, 2, 1e-3)]
)
def test_concentrated_costs_add_up_before_they_are_converted(rho: float, times: int, delta: float) -> None:
    cost = Cost(epsilon=100.0, delta=delta, times=times, rho=rho)
    parts = [Cost(epsilon=100.0, delta=delta, times=1, rho=rho)] * times
    known = max(0.0, converted(rho * times, delta))
    for costs in ([cost], parts):
        assert known * (1 - 1e-9) <= compose(costs, delta=delta).epsilon <= known * (1 + 1e-6) + 1e-12
    assert compose([cost], delta=delta).epsilon < compose([replace(cost, rho=1.1 * rho)], delta=delta).epsilon


@pytest.mark.parametrize(("sigma", "shift", "times"), [(20.0, 4, 52), (8.0, 8, 1), (8.0, 8, 6), (30.0, 60, 2)])
def test_gaussian_reports_never_cost_less_than_they_reveal(sigma: float, shift: int, times: int) -> None:
    """The true ε, by the hockey-stick divergence of the very distributions, is below, and not far."""
    rho = shift**2 / (2 * sigma**2)
    found = compose([Cost(epsilon=100.0, delta=1e-6, times=times, rho=rho)], delta=1e-6).epsilon
    truth = of_discrete_gaussians(sigma, shift, times, 1e-6)
    assert truth < found < 1.15 * truth
    assert compose([Cost(epsilon=100.0, delta=1e-6, times=times, rho=rho / 2)], delta=1e-6).epsilon < truth  # can fail


def test_pure_and_gaussian_reports_together() -> None:
    """Pure budgets count as ε or as ε²/2, whichever is less; other approximate ones as (ε, δ)."""
    many, one = Cost(epsilon=2.0, delta=1e-6, times=52, rho=0.01), Cost(epsilon=4.0)
    weak = Cost(epsilon=0.01, times=100)
    alone = compose([many], delta=1e-6).epsilon
    assert alone + 3.9 < compose([many, one], delta=1e-6).epsilon <= alone + 4.0 + 1e-9
    assert compose([many, weak], delta=1e-6).epsilon == pytest.approx(converted(0.52 + 100 * 0.01**2 / 2, 1e-6))
    central = Cost(epsilon=0.5, delta=1e-7, times=3)
    beside = converted(0.52, 1e-6 - 3e-7) + 1.5
    assert compose([many, central], delta=1e-6).epsilon == pytest.approx(beside)
    with pytest.raises(BudgetError, match="add up to"):
        compose([many, central], delta=3e-7)


def test_a_pure_budget_is_concentrated_as_bun_and_steinke_say() -> None:
    """The Rényi divergence of a randomised response is at most α ε²/2 for every order."""
    for epsilon in (0.1, 1.0, 5.0):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        for order in (1.01, 1.5, 2.0, 5.0, 50.0):
            moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
            rho = float(Cost(epsilon=epsilon).concentrated or 0)
            assert math.log(moment) / (order - 1) <= order * rho * (1 + 1e-12)
    assert Cost(epsilon=1.0, delta=0.1).concentrated is None


@pytest.mark.parametrize("rho", [-1.0, math.nan, math.inf])
def test_impossible_concentrations_are_refused(rho: float) -> None:
    with pytest.raises(BudgetError, match="rho"):
        Cost(epsilon=1.0, rho=rho)
