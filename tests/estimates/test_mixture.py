"""Mixtures of volunteers' groups: the fit solves its problem, and limits and test hold where the assumption does."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize

from mixtures_drawn import Population, plain_em
from taskveil.arrays import Floats, Integers
from taskveil.errors import DataError
from taskveil.estimates.mixture import CLOSE, DEFICIT, ROUNDING, Mixture, maximum_likelihood, profile_ends
from taskveil.veil.volunteers import Groups

DRAWS = 300


def gap(counts: Integers, chances: Floats, shares: Floats) -> float:
    """How far Σ_k counts_k chances_gk / q_k exceeds N in the worst group, relative to N."""
    return float((chances @ (counts / counts.sum() / (shares @ chances))).max() - 1)


def channel(epsilon: float, favoured: Floats) -> Floats:
    codes = favoured.shape[1]
    return (1 + np.expm1(epsilon) * favoured) / (np.exp(epsilon) + codes - 1)


@pytest.mark.parametrize("reports", [10, 3000, 10**8])
@pytest.mark.parametrize(("codes", "rows", "epsilon"), [(2, 2, 0.5), (16, 3, 2.0), (64, 64, 0.5), (64, 64, 8.0)])
def test_the_shares_are_most_likely(codes: int, rows: int, epsilon: float, reports: int) -> None:
    rng = np.random.default_rng(codes + rows)
    chances = channel(epsilon, rng.dirichlet(np.full(codes, 0.1), rows))
    counts = rng.multinomial(reports, rng.dirichlet(np.ones(rows)) @ chances)
    shares = maximum_likelihood(counts, chances)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    allowed = max(DEFICIT / reports, ROUNDING) * 1.01
    assert gap(counts, chances, shares) <= allowed
    assert gap(counts, chances, np.full(rows, 1 / rows)) > 100 * allowed, "a fit had something to do"


def test_five_hundred_groups_converge_too() -> None:
    rng = np.random.default_rng(0)
    chances = channel(4.0, rng.dirichlet(np.full(512, 0.1), 512))
    counts = rng.multinomial(100_000, rng.dirichlet(np.ones(512)) @ chances)
    assert gap(counts, chances, maximum_likelihood(counts, chances)) <= ROUNDING * 1.01


def test_inside_the_simplex_it_is_the_inverse() -> None:
    chances = channel(2.0, 0.7 * np.eye(4) + 0.075)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    counts = np.round(1e7 * shares @ chances).astype(np.int64)
    assert maximum_likelihood(counts, chances) == pytest.approx(
        np.linalg.solve(chances.T, counts / counts.sum()), abs=1e-5
    )


def test_shares_that_the_inverse_calls_negative_are_zero() -> None:
    chances = channel(1.0, np.eye(3))
    counts = np.array([700, 250, 50])  # the third code is rarer than any device sends it
    assert np.linalg.solve(chances.T, counts / 1000)[2] < 0
    shares = maximum_likelihood(counts, chances)
    assert shares[2] == pytest.approx(0, abs=1e-6)
    assert shares == pytest.approx(plain_em(counts[None].astype(float), chances[None])[0], abs=1e-5)


def test_many_fits_at_once_are_those_one_by_one_and_equal_groups_do_no_harm() -> None:
    rng = np.random.default_rng(3)
    chances = channel(2.0, rng.dirichlet(np.ones(8), (5, 1, 4)))
    chances[..., 3, :] = chances[..., 2, :]
    counts = rng.multinomial(500, np.full(8, 1 / 8), size=(5, 6))
    together = maximum_likelihood(counts, chances)
    assert together.shape == (5, 6, 4)
    for i, j in np.ndindex(5, 6):
        alone = maximum_likelihood(counts[i, j], chances[i, 0])
        assert alone @ chances[i, 0] == pytest.approx(together[i, j] @ chances[i, 0], abs=1e-5)


@pytest.mark.parametrize("reports", [300, 30000])
def test_ends_are_the_furthest_shares_within_the_drop(reports: int) -> None:
    rng, quantile = np.random.default_rng(6), 1.96
    chances, sides = channel(2.0, rng.dirichlet(np.ones(6), 4)), rng.normal(size=(3, 4))
    counts = rng.multinomial(reports, np.array([0.6, 0.38, 0.02, 0.0]) @ chances)
    shares = maximum_likelihood(counts, chances)

    def drop(pi: Floats) -> float:
        return float(2 * counts @ np.log((shares @ chances) / (pi @ chances)))

    for first in (1e-3, 0.1, 10.0):  # errors are a first guess only
        ends = profile_ends(counts, chances, shares, sides, quantile, np.full(3, first), lambda d, *_: np.sqrt(d))
        for side, end in zip(sides, ends, strict=True):
            best = minimize(
                lambda pi, side=side: -pi @ side,
                shares,
                bounds=[(0, 1)] * 4,
                constraints=[
                    {"type": "eq", "fun": lambda pi: pi.sum() - 1},
                    {"type": "ineq", "fun": lambda pi: quantile**2 - drop(pi)},
                ],
            )
            assert best.success
            assert (end - shares) @ side == pytest.approx((best.x - shares) @ side, rel=2 * CLOSE)


CASES = {
    "two cells": Population(codes=2, favoured=1, epsilon=0.5, reports=3000, volunteers=300),
    "cells, shifted": Population(codes=8, favoured=1, epsilon=2.0, reports=3000, volunteers=1000, odds=5.0),
    "cells, m = 3": Population(codes=16, favoured=3, epsilon=2.0, reports=30000, volunteers=5000, odds=2.0),
    "classes": Population(codes=8, favoured=1, epsilon=2.0, reports=30000, volunteers=300, classes=3, odds=5.0),
    "classes, m = 3": Population(codes=16, favoured=3, epsilon=2.0, reports=30000, volunteers=300, classes=3, odds=4.0),
    "ten classes": Population(codes=64, favoured=1, epsilon=4.0, reports=3000, volunteers=1000, classes=10, odds=3.0),
    "two classes": Population(codes=8, favoured=1, epsilon=2.0, reports=300, volunteers=300, classes=2, odds=4.0),
    "few reports": Population(codes=16, favoured=4, epsilon=4.0, reports=400, volunteers=400),
}


CONSERVATIVE = {"few reports", "ten classes"}
"""Shares of many groups are near zero, or volunteers are few per class and code: limits are known to be too wide there
(they hold in 98 to 99%)."""


def fits(population: Population, certain: bool = False, wrong: bool = False) -> list[Mixture]:
    """A fit for each draw. `certain`: as if volunteers were many; `wrong`: as if devices sent what they favour."""
    rng, found = np.random.default_rng(1), []
    for _ in range(DRAWS):
        counts, groups = population.draw(rng)
        groups = replace(groups, counts=groups.counts * 10**6) if certain else groups
        base, extra = (1e-6, 1 - 1e-6 * population.codes) if wrong else (population.base, population.extra)
        found.append(Mixture.fit(counts, base, extra, groups))
    return found


def covered(population: Population, found: list[Mixture]) -> Floats:
    """How often the limits of each row hold the truth."""
    limits = np.array([fit.limits for fit in found])
    held: Floats = ((limits[..., 0] <= population.truth) & (population.truth <= limits[..., 1])).mean(axis=0)
    return held


def good(held: Floats, most: float = 0.97) -> bool:
    """Whether coverage is 93% to 97% (`most`) on average over rows, give or take one binomial standard error of a row,
    and at least 92% in every row, less two of them."""
    slack = np.sqrt(0.05 * 0.95 / DRAWS)
    return bool(0.93 - slack <= held.mean() <= most + slack and held.min() >= 0.92 - 2 * slack)


@pytest.mark.parametrize("name", CASES)
def test_limits_hold_and_so_does_the_test_of_the_groups(name: str) -> None:
    population = CASES[name]
    found = fits(population)
    assert good(covered(population, found), most=1.0 if name in CONSERVATIVE else 0.97), covered(population, found)
    errors = np.sqrt(((np.array([fit.estimates for fit in found]) - population.truth) ** 2).mean(axis=0))
    widths = np.mean([np.ptp(fit.limits, axis=1) for fit in found], axis=0) / (2 * 1.96 * errors)
    assert np.median(widths) < 1.3, widths  # the median: estimates of an empty class have hardly any error
    if len(population.sizes) == population.codes:
        assert {(fit.p_value, fit.degrees) for fit in found} == {(None, None)}
    else:
        assert found[0].degrees == population.codes - len(population.sizes)
        rejected = np.mean([fit.p_value is not None and fit.p_value < 0.05 for fit in found])
        assert rejected <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / DRAWS)
        assert rejected > 0


@pytest.mark.parametrize("name", ["classes", "classes, m = 3", "two cells"])
def test_without_the_volunteers_error_limits_would_not_hold(name: str) -> None:
    assert not good(covered(CASES[name], fits(CASES[name], certain=True)))


def test_favoured_codes_in_the_place_of_chances_would_be_noticed() -> None:
    population = CASES["two classes"]
    assert not good(covered(population, fits(population, wrong=True)))


@pytest.mark.parametrize("name", ["classes", "classes, m = 3", "ten classes"])
def test_groups_that_do_not_explain_the_counts_are_noticed(name: str) -> None:
    found = fits(replace(CASES[name], broken=1.0))
    assert np.mean([fit.p_value is not None and fit.p_value < 0.05 for fit in found]) > 0.8


@pytest.mark.parametrize("name", ["cells, shifted", "classes, m = 3", "ten classes"])
def test_estimates_are_as_good_as_those_of_plain_em(name: str) -> None:
    population, rng = CASES[name], np.random.default_rng(2)
    drawn = [population.draw(rng) for _ in range(40)]
    ours = [Mixture.fit(counts, population.base, population.extra, groups).estimates for counts, groups in drawn]
    chances = np.array([population.base + population.extra * groups.measured for _, groups in drawn])
    shares = plain_em(np.array([counts for counts, _ in drawn], dtype=float), chances)
    theirs = np.array([row @ groups.means for row, (_, groups) in zip(shares, drawn, strict=True)])
    ratio = ((np.array(ours) - population.truth) ** 2).mean() / ((theirs - population.truth) ** 2).mean()
    assert np.sqrt(ratio) <= 1.1


def some(counts: list[int], favoured: Floats, means: Floats, variances: float = 0.0) -> Groups:
    return Groups(
        counts=np.array(counts), measured=favoured, means=means, variances=np.full(np.shape(means), variances)
    )


def test_one_group_gives_the_volunteers_mean_with_its_own_limits() -> None:
    groups = some([50], np.array([[0.6, 0.4, 0.0]]), np.array([[2.0]]), 4.9)
    found = Mixture.fit(np.array([40, 40, 20]), 0.2, 0.4, groups)
    assert found.estimates == pytest.approx([2.0])
    assert found.limits[0] == pytest.approx(2.0 + np.array([-1, 1]) * 1.959964 * np.sqrt(0.1))
    assert found.influence == pytest.approx([0.0], abs=1e-9)
    assert found.degrees == 2


def test_a_class_with_few_volunteers_widens_every_limit() -> None:
    favoured, counts = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]), np.array([3500, 3400, 3100])
    many, few = (Mixture.fit(counts, 0.15, 0.55, some([500, 500, n], favoured, np.eye(3))) for n in (500, 10))
    assert (np.ptp(few.limits, axis=1) > np.ptp(many.limits, axis=1)).all()
    assert np.ptp(few.limits[2]) > 2 * np.ptp(many.limits[2])


def test_groups_that_reports_cannot_tell_apart_leave_the_range_of_their_means() -> None:
    favoured = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    means = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    found = Mixture.fit(np.array([400_000, 400_000, 200_000]), 0.1, 0.7, some([10**6] * 3, favoured, means))
    assert np.ptp(found.limits[0]) > 0.85, "7/8 of the people may have 0 or 1"
    assert np.ptp(found.limits[1]) < 0.02, "what does not depend on the two is known"


def test_forged_reports_move_estimates_as_the_influence_says() -> None:
    rng = np.random.default_rng(5)
    groups = some([10**6] * 4, 0.7 * np.eye(4) + 0.075, rng.normal(size=(4, 3)))
    base, extra = 1 / (np.exp(2) + 3), np.expm1(2) / (np.exp(2) + 3)
    counts = np.round(10**6 * (base + extra * np.array([0.4, 0.3, 0.2, 0.1]) @ groups.measured)).astype(np.int64)
    honest = Mixture.fit(counts, base, extra, groups)
    moved = []
    for code, other in permutations(range(4), 2):  # whose reports are replaced is the attacker's choice too
        forged = counts.copy()
        forged[code] += 10**3
        forged[other] -= 10**3
        moved.append(np.abs(Mixture.fit(forged, base, extra, groups).estimates - honest.estimates))
    assert np.max(moved, axis=0) == pytest.approx(0.001 * honest.influence, rel=0.02)


def test_the_same_counts_give_the_same_limits() -> None:
    population = CASES["ten classes"]
    counts, groups = population.draw(np.random.default_rng(0))
    first, again = (Mixture.fit(counts, population.base, population.extra, groups) for _ in range(2))
    assert (first.limits == again.limits).all()


def test_what_is_no_tally_is_refused() -> None:
    groups = some([10, 10], np.eye(2), np.eye(2))
    with pytest.raises(DataError, match="2 numbers from 0 up"):
        Mixture.fit(np.array([1, 2, 3]), 0.3, 0.4, groups)
    with pytest.raises(DataError, match="not all 0"):
        Mixture.fit(np.array([0, 0]), 0.3, 0.4, groups)
    with pytest.raises(DataError, match="positive chances"):
        maximum_likelihood(np.array([1, 2]), np.eye(2))
