"""The central guarantee of a crowd, held against exact enumeration of small crowds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import taskveil as tv
from taskveil.client.mechanisms import Laplace, Response
from taskveil.client.regions import BoxRegion, DiamondRegion
from taskveil.errors import BudgetError
from taskveil.veil.central import (
    Central,
    _chords,
    _excess,
    central,
    central_epsilon,
    delta_bound,
    dependence,
    least_epsilon,
)
from taskveil.veil.channels import channel_of

Row = Sequence[Fraction]


def of_all(rows: Sequence[Row]) -> dict[tuple[int, ...], Fraction]:
    """The probability of every set of reports, one report from each row."""
    found: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for row in rows:
        more: dict[tuple[int, ...], Fraction] = {}
        for reports, chance in found.items():
            for output, own in enumerate(row):
                key = tuple(sorted((*reports, output)))
                more[key] = more.get(key, Fraction(0)) + chance * own
        found = more
    return found


def worst_delta(table: Sequence[Row], reports: int, epsilon: float) -> float:
    """The largest δ of any two crowds that differ in one record, by enumeration."""
    e, worst = Fraction(math.exp(epsilon)), Fraction(0)
    for others in combinations_with_replacement(range(len(table)), reports - 1):
        crowd = [table[one] for one in others]
        for x, other in permutations(range(len(table)), 2):
            seen, unseen = of_all([*crowd, table[x]]), of_all([*crowd, table[other]])
            worst = max(worst, sum((max(Fraction(0), seen[key] - e * unseen[key]) for key in seen), Fraction(0)))
    return float(worst)


def of_response(one: Response) -> list[Row]:
    """The probabilities of the outputs for every favoured set."""
    sets = [set(some) for some in combinations(range(one.size), one.favoured)]
    return [[Fraction(one.a if k in own else one.b, one.total) for k in range(one.size)] for own in sets]


def local(table: Sequence[Row]) -> tuple[float, float]:
    """The local ε and the mass of the blanket, from the whole table."""
    columns = list(zip(*table, strict=True))
    return math.log(max(max(column) / min(column) for column in columns)), float(sum(min(column) for column in columns))


def bound(table: Sequence[Row], reports: int, epsilon: float) -> float:
    own, blanket = local(table)
    return delta_bound(epsilon, own * (1 + 1e-12), dependence(own, blanket), reports, 1e-6)


@pytest.mark.parametrize(("size", "favoured"), [(2, 1), (3, 1), (4, 1), (4, 2), (3, 2)])
def test_no_small_crowd_of_responses_is_told_apart_better(size: int, favoured: int) -> None:
    table = of_response(Response(size=size, favoured=favoured, a=3, b=1))
    for reports in range(1, 7 - size):
        for epsilon in (0.0, 0.2, 0.6, 1.0):
            assert worst_delta(table, reports, epsilon) <= bound(table, reports, epsilon)


@given(st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=2, max_size=3), st.integers(1, 4))
def test_no_small_crowd_of_any_table_is_told_apart_better(rows: list[list[int]], reports: int) -> None:
    table = [[Fraction(entry, sum(row)) for entry in row] for row in rows]
    own, _ = local(table)
    if own > 0:
        for share in (0.1, 0.4, 0.8):
            assert worst_delta(table, reports, share * own) <= bound(table, reports, share * own) + 1e-15


def test_the_bound_is_exact_for_crowds_that_favour_other_outputs() -> None:
    """So a bound that is smaller by any factor, or a θ or γ that is wrong, would fail here."""
    one = Response(size=6, favoured=1, a=20, b=1)
    table = of_response(one)
    for reports in (1, 2, 3, 4):
        crowd = [table[2]] * (reports - 1)
        seen, unseen = of_all([*crowd, table[0]]), of_all([*crowd, table[1]])
        for epsilon in (0.0, 0.5, 1.5):
            e = Fraction(math.exp(epsilon))
            exact = float(sum(max(Fraction(0), seen[key] - e * unseen[key]) for key in seen))
            lower = least_epsilon(one, reports, exact * (1 - 1e-4))
            assert lower is not None
            # The exact δ at ε is a little above what is asked for, so the lower bound reaches ε.
            assert lower >= epsilon * (1 - 1e-4) - 1e-4
            assert exact <= bound(table, reports, epsilon)
            assert least_epsilon(one, reports, exact * (1 + 1e-4)) <= epsilon + 1e-9  # type: ignore[operator]


@pytest.mark.parametrize(
    ("epsilon", "size", "favoured", "exact"),
    [(1.0, 8, 2, 0.01175), (2.0, 8, 2, 0.0346), (4.0, 32, 1, 0.1075), (8.0, 512, 1, 1.17)],
)
def test_published_crowds_of_a_hundred_thousand(epsilon: float, size: int, favoured: int, exact: float) -> None:
    """The blanket bound at n = 10⁵ and δ = 10⁻⁷ as others evaluated it, and the best event against it."""
    one = Response.calibrated(size=size, favoured=favoured, epsilon=epsilon)
    found = central_epsilon(one.epsilon, dependence(one.epsilon, one.blanket), 10**5, 1e-7)
    lower = least_epsilon(one, 10**5, 1e-7)
    assert lower is not None
    assert lower <= found <= 1.005 * lower
    assert found == pytest.approx(exact, rel=0.005)
    # Without what is known of the mechanism the bound is larger, and still better than nothing.
    assert found < central_epsilon(one.epsilon, 1.0, 10**5, 1e-7) < epsilon


@pytest.mark.parametrize("local", [1e-11, 1e-6, 0.1])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_small_budgets_lose_no_digits(local: float, share: float) -> None:
    """Differences such as e^local − e^ε, whose terms agree in nearly all digits: against sums in fifty digits."""
    epsilon, reports, theta = share * local, 3, 0.4
    with mpmath.workdps(50):
        e0, e = mpmath.exp(mpmath.mpf(local)), mpmath.exp(mpmath.mpf(epsilon))
        q = mpmath.mpf(theta) / (e0 + 1)
        values = [(e0 - e, q), (1 - e * e0, q), (1 - e, 1 - q * (e0 + 1)), (mpmath.mpf(0), q * (e0 - 1))]
        mean = mpmath.fsum(
            max(0, mpmath.fsum(own for own, _ in drawn)) * mpmath.fprod(chance for _, chance in drawn)
            for drawn in product(values, repeat=reports)
        )
        exact = mean / reports
        assert exact <= delta_bound(epsilon, local, theta, reports, float(exact)) <= exact * mpmath.mpf(1 + 1e-5)


def test_the_lower_bound_is_tight_for_large_crowds_too() -> None:
    one = Response.calibrated(size=8, favoured=2, epsilon=1.0)
    lower = least_epsilon(one, 10**8, 1e-7)
    found = central_epsilon(one.epsilon, dependence(one.epsilon, one.blanket), 10**8, 1e-7)
    assert lower is not None
    assert lower <= found <= 1.005 * lower


def test_more_reports_and_a_larger_delta_never_cost() -> None:
    one = Response.calibrated(size=16, favoured=2, epsilon=2.0)
    theta = dependence(one.epsilon, one.blanket)
    over_reports = [central_epsilon(one.epsilon, theta, count, 1e-6) for count in (1, 100, 10**4, 10**8)]
    assert over_reports[0] == one.epsilon
    assert over_reports == sorted(over_reports, reverse=True)
    over_delta = [central_epsilon(one.epsilon, theta, 10_000, delta) for delta in (1e-12, 1e-8, 1e-2)]
    assert over_delta == sorted(over_delta, reverse=True)


def of_flips(flips: int) -> Iterator[tuple[int, float]]:
    return ((2 * heads - flips, math.comb(flips, heads) / 2**flips) for heads in range(flips + 1))


@pytest.mark.parametrize("flips", [0, 1, 2, 7, 20])
def test_the_excess_has_a_closed_form(flips: int) -> None:
    for subtracted in (0.0, 0.3, 1.0, 2.5, 6.0, 50.0):
        exact = sum(chance * max(0.0, 1.3 * value - subtracted) for value, chance in of_flips(flips))
        assert float(_excess(flips, 1.3, np.array([subtracted]))[0]) == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(("count", "chance"), [(0, 0.3), (5, 0.2), (40, 0.9), (5000, 0.4), (5000, 0.0)])
def test_chords_lie_above_a_convex_function(count: int, chance: float) -> None:
    nodes, weights = _chords(count, chance, 6.0)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    numbers = np.arange(count + 1)
    for scale in (0.001, 0.05):
        exact = float(binom.pmf(numbers, count, chance) @ np.exp(-scale * numbers))
        assert exact * (1 - 1e-9) <= float(weights @ np.exp(-scale * nodes)) <= exact * 1.2 + 1e-6


def volunteers() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(300, 3))


@pytest.mark.parametrize("method", ["codebook", "task_aware", "means", "constant"])
def test_every_method_has_a_central_guarantee(method: str) -> None:
    task = tv.MeanTask() if method == "means" else tv.LinearTask([[1.0, 1.0, 0.5]])
    veil = tv.design(volunteers(), task, epsilon=2.0, method=method)
    found = veil.central(reports=100_000, delta=1e-7)
    generic = central_epsilon(veil.guarantee.epsilon, 1.0, 100_000, 1e-7)
    assert 0 < found.epsilon <= generic
    assert found.at_least is None or found.at_least <= found.epsilon
    for said in ("100,000 reports", "probability 1e-07", "stays ε = "):
        assert said in found.statement
    assert "report honestly" in found.assumes[0]
    assert found.assumes[0] in found._repr_html_()


def test_the_blanket_is_the_mass_that_all_records_share() -> None:
    """Against the probabilities themselves, for records at the corners and inside."""
    rng = np.random.default_rng(2)
    survey = tv.design(volunteers(), tv.MeanTask(), epsilon=1.0)
    channel = channel_of(survey.mechanism, survey.decoder)
    corners = np.array(list(product([-1e9, 1e9], repeat=3)))
    chances = channel.chances(survey.encoder(np.concatenate([corners, rng.normal(size=(200, 3))])))
    assert channel.blanket == pytest.approx(chances.min(axis=0).sum(), rel=1e-9)
    low, high = np.array([-3, -2]), np.array([4, 2])
    for region in (
        BoxRegion(step=1.0, low=low, high=high),
        DiamondRegion(step=1.0, center=np.array([1, 0]), radius=4),
    ):
        mechanism = Laplace.calibrated(region=region, epsilon=1.5)
        grid = np.array(list(product(range(-110, 112), repeat=2)))
        inside = np.array([k for k in product(range(-6, 7), repeat=2) if region.contains(np.array([k]))[0]])
        likelihood = mechanism.log_likelihood(grid, inside.astype(float))
        exact = np.exp(likelihood.min(axis=1)).sum()
        stated = channel_of(mechanism, survey.decoder).blanket
        assert 0.2 * exact < stated <= exact * (1 + 1e-5)  # the grid ends somewhere


def test_a_stated_delta_is_rounded_up() -> None:
    """In six digits 1.0000004e-07 would be 1e-07, which is not what was proved."""
    found = Central(epsilon=0.1, delta=1.0000004e-7, reports=10_000, local=1.0, at_least=None)
    total = tv.compose([tv.Cost.of(found)], delta=1.0000004e-7)
    for said in (found.statement, found._repr_html_(), total.statement, total._repr_html_()):
        assert "1.00001e-07" in said


def test_rounds_compose() -> None:
    one = Response.calibrated(size=8, favoured=2, epsilon=1.0)
    theta = dependence(one.epsilon, one.blanket)
    weekly = Central(
        epsilon=central_epsilon(one.epsilon, theta, 10_000, 1e-9), delta=1e-9, reports=10_000, local=1.0, at_least=None
    )
    year = tv.compose([tv.Cost.of(weekly, times=52)], delta=1e-6)
    assert weekly.epsilon < year.epsilon < 52 * weekly.epsilon
    with pytest.raises(BudgetError, match="deltas add up"):
        tv.compose([tv.Cost.of(weekly, times=52)], delta=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"reports": 0},
        {"reports": 10.0},
        {"reports": True},
        {"reports": 10**12 + 1},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": "1e-7"},
    ],
)
def test_what_cannot_be_answered_is_refused(wrong: dict[str, object]) -> None:
    veil = tv.design(volunteers(), tv.MeanTask(), epsilon=1.0)
    with pytest.raises(BudgetError):
        central(channel_of(veil.mechanism, veil.decoder), **{"reports": 100, "delta": 1e-6, **wrong})  # type: ignore[arg-type]
