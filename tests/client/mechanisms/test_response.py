from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chisquare

from channels import exact_distribution
from taskveil.client import entropy
from taskveil.client.mechanisms import Response
from taskveil.client.mechanisms.response import top
from taskveil.errors import MechanismError

SMALL = [(2, 1, 0.5), (4, 2, 1.0), (5, 1, 3.0), (6, 3, 0.1)]


@pytest.mark.parametrize(("size", "m", "epsilon"), SMALL)
def test_every_log_ratio_of_every_pair_of_inputs_is_at_most_epsilon(size: int, m: int, epsilon: float) -> None:
    response = Response.calibrated(size=size, favoured=m, epsilon=epsilon)
    sets = [list(s) for s in itertools.combinations(range(size), m)]
    channel = [exact_distribution(response, s) for s in sets]
    assert all(sum(p) == 1 for p in channel)
    worst = max(p / q for P in channel for Q in channel for p, q in zip(P, Q, strict=True))
    assert worst == Fraction(response.a, response.b)
    with mpmath.workdps(60):
        assert mpmath.mpf(worst.numerator) / worst.denominator <= mpmath.exp(mpmath.mpf(epsilon))
        # and nothing is given away: the ratio is within a billionth of the budget
        assert mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator) > epsilon * (1 - 1e-9)


@given(st.integers(2, 2000), st.floats(0.001, 900.0))
def test_the_certified_epsilon_is_never_too_small(size: int, epsilon: float) -> None:
    response = Response.calibrated(size=size, favoured=1, epsilon=epsilon)
    with mpmath.workdps(500):
        truth = mpmath.log(mpmath.mpf(response.a) / response.b)
        assert truth <= mpmath.mpf(response.epsilon)
        assert response.epsilon <= epsilon
        assert mpmath.mpf(response.epsilon) < truth * (1 + mpmath.mpf(2) ** -40)


def test_a_ratio_one_percent_too_large_shows_in_epsilon() -> None:
    good = Response.calibrated(size=8, favoured=2, epsilon=1.0)
    bad = Response(size=8, favoured=2, a=good.a * 101 // 100, b=good.b)
    assert bad.epsilon > 1.0


def feed_counter(monkeypatch: pytest.MonkeyPatch, words: list[int]) -> None:
    stream = iter(words)
    monkeypatch.setattr(
        entropy, "system_bytes", lambda n: b"".join(next(stream).to_bytes(8, "little") for _ in range(n // 8))
    )


def test_each_draw_leads_to_the_output_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """All T draws of a tiny channel, one by one: exactly a of them give a favoured output, b any other."""
    response = Response(size=5, favoured=2, a=3, b=1)
    assert response.total == 9
    shift = 64 - (response.total - 1).bit_length()
    outputs = []
    for u in range(9):
        feed_counter(monkeypatch, [u << shift])
        outputs.append(int(response(np.array([[4, 1]]))[0]))
    assert np.bincount(outputs, minlength=5).tolist() == [1, 3, 1, 1, 3]


def test_wide_and_narrow_draws_agree_in_distribution() -> None:
    response = Response.calibrated(size=6, favoured=2, epsilon=1.0)
    expected = np.array([float(p) for p in exact_distribution(response, [5, 0])]) * 60_000
    narrow = response(np.tile([5, 0], (60_000, 1)))
    wide = [response.respond([5, 0]) for _ in range(60_000)]
    for outputs in (narrow, np.array(wide)):
        assert chisquare(np.bincount(outputs, minlength=6), expected).pvalue > 1e-6


def test_wrong_odds_are_rejected() -> None:
    response = Response.calibrated(size=6, favoured=2, epsilon=1.0)
    expected = np.array([float(p) for p in exact_distribution(response, [5, 0])]) * 500_000
    for wrong in (0.7, 1.3):
        other = Response.calibrated(size=6, favoured=2, epsilon=wrong)
        outputs = other(np.tile([5, 0], (500_000, 1)))
        assert chisquare(np.bincount(outputs, minlength=6), expected).pvalue < 1e-6


def test_huge_budgets_use_wide_integers() -> None:
    response = Response.calibrated(size=3, favoured=1, epsilon=300.0)
    assert response.total > 2**400
    assert response(np.tile([2], (50, 1))).tolist() == [2] * 50


@pytest.mark.parametrize(
    "make",
    [
        lambda: Response.calibrated(size=4, favoured=4, epsilon=1.0),
        lambda: Response.calibrated(size=4, favoured=0, epsilon=1.0),
        lambda: Response.calibrated(size=4, favoured=1, epsilon=0.0),
        lambda: Response.calibrated(size=4, favoured=1, epsilon=1e-13),
        lambda: Response.calibrated(size=4, favoured=1, epsilon=float("nan")),
        lambda: Response.calibrated(size=4, favoured=1, epsilon=1e6),
        lambda: Response(size=4, favoured=1, a=1, b=2),
        lambda: Response(size=4, favoured=1, a=1, b=0),
    ],
)
def test_impossible_channels_are_refused(make: object) -> None:
    with pytest.raises(MechanismError):
        make()  # type: ignore[operator]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=12, max_size=12), st.integers(1, 11))
@example([-1.5e308, -1e308] * 6, 11)  # finite, but their sum is not
@example([0.0] * 12, 5)  # one chosen must not be chosen again
@example([1.0] + [0.0] * 11, 3)
@example([math.nan, -math.inf, 1.7e308, 1.6e308] * 3, 7)
def test_any_scores_give_exactly_m_distinct_outputs(scores: list[float], count: int) -> None:
    chosen = top(np.array([scores]), count)[0]
    assert len(set(chosen.tolist())) == count
    order = sorted(range(12), key=lambda k: (1, 0.0, k) if math.isnan(scores[k]) else (0, -scores[k], k))
    assert chosen.tolist() == order[:count]
