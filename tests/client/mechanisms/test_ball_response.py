"""Vectors in a ball: probabilities in fractions, numbers bit by bit, and everything that must be refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from balls import ball_devices, ball_response
from taskveil.client import entropy
from taskveil.client.mechanisms import BallResponse, SeededCodewords
from taskveil.client.mechanisms.seeded_codewords import seeded_words
from taskveil.errors import MechanismError

HOSTILE = np.array([[np.nan] * 5, [np.inf] * 5, [-np.inf] * 5, [1e308] * 5, [-1e308] * 5, [5e-324] * 5, [-0.0] * 5])
SMALL = ball_response(5, 8, 3, 1.0)


def seeds(count: int, start: int = 0) -> np.ndarray:
    return np.random.default_rng(start).integers(0, 2**32, size=(count, 2))


def written_out(code: SeededCodewords, seed: list[int], vector: list[int]) -> list[float]:
    """The scores as the docstrings say them, number by number in Python's whole numbers."""
    table = [*code.quantiles.tolist(), *(-code.quantiles.astype(int)).tolist()]

    def mix(x: int) -> int:
        x = (x ^ x >> 16) * 0x21F0AAAD % 2**32
        x = (x ^ x >> 15) * 0x735A2D97 % 2**32
        return x ^ x >> 15

    def row(start: int, width: int) -> list[int]:
        words = [mix(mix((start + i + seed[0]) % 2**32) ^ seed[1]) for i in range(math.ceil(width / 2))]
        return [table[half % len(table)] for half in [*words, *(word >> 16 for word in words)]][:width]

    each, half = math.ceil(code.inner / 2), code.size // 2
    if code.rows:
        lines = [row(half * each + i * math.ceil(code.dim / 2), code.dim) for i in range(code.rows)]
        vector = [sum(a * b for a, b in zip(line, vector, strict=True)) // code.largest for line in lines]
    words = [row(j * each, code.inner) for j in range(half)]
    found = [sum(a * b for a, b in zip(w, vector, strict=True)) / math.sqrt(sum(a * a for a in w)) for w in words]
    return [*found, *(-one for one in found)]


@pytest.mark.parametrize("name", ball_devices())
def test_scores_are_those_of_whole_numbers_bit_by_bit(name: str) -> None:
    mechanism = ball_devices()[name].mechanism
    assert isinstance(mechanism, BallResponse)
    drawn = seeds(3)
    k = mechanism.inside(
        np.random.default_rng(1).integers(-mechanism.radius, mechanism.radius, (3, mechanism.region.dim))
    )
    scores = mechanism.codewords.scores(drawn, k[:, None])[:, 0]
    for seed, vector, found in zip(drawn.tolist(), k.tolist(), scores, strict=True):
        assert found.tolist() == written_out(mechanism.codewords, seed, vector)


def test_the_guarantee_holds_in_fractions_for_any_two_vectors() -> None:
    """P[report | k] from both favoured sets and the probability of the sign, without logarithms."""
    mechanism, response = SMALL, SMALL.response
    k = mechanism.inside(mechanism.region.enforce(np.vstack([HOSTILE, np.random.default_rng(0).normal(size=(9, 5))])))
    part, draws = mechanism._likely(k)
    for seed in seeds(20):
        sides = [mechanism.favoured(np.tile(seed, (len(k), 1)), side[:, None])[:, 0] for side in (k, -k)]
        for code in range(response.size):
            found = []
            for row in range(len(k)):
                weights = [response.a if code in side[row] else response.b for side in sides]
                likely = Fraction(int(part[row]), draws)
                found.append((likely * weights[0] + (1 - likely) * weights[1]) / response.total)
            assert max(found) / min(found) <= Fraction(response.a, response.b)
            said = mechanism.log_likelihood(np.array([[*seed, code]]), k * mechanism.region.step)[0]
            assert np.allclose(np.exp(said + 64 * math.log(2)), [float(one) for one in found], rtol=1e-9)


def test_every_favoured_set_has_m_members() -> None:
    for device in ball_devices().values():
        mechanism = device.mechanism
        k = mechanism.region.enforce(np.random.default_rng(2).normal(size=(200, mechanism.region.dim)))
        assert mechanism.fault(np.vstack([k, 0 * k[:1]])) is None


def test_vectors_end_inside_the_ball_and_keep_their_direction() -> None:
    mechanism = ball_response(5, 8, 3, 1.0, radius=1000)
    k = np.random.default_rng(4).integers(-1000, 1001, size=(3000, 5))
    inside = mechanism.inside(k)
    squares = (k**2).sum(axis=1)
    assert ((inside**2).sum(axis=1) <= 1000**2).all()
    assert (inside[squares <= 1000**2] == k[squares <= 1000**2]).all()
    out = squares > 1000**2
    wanted = k[out] / np.sqrt(squares[out])[:, None] * 1000
    assert np.abs(inside[out] - wanted).max() < 2.0
    assert (mechanism.inside(mechanism.region.enforce(HOSTILE))[[0, -1]] == 0).all()


def test_reports_are_drawn_with_the_probabilities_that_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one seed, the counts of codes; 10% more in the largest is noticed."""
    monkeypatch.setattr("taskveil.client.mechanisms.ball_response._fresh_seeds", lambda n: np.tile([[5, 7]], (n, 1)))
    x = np.array([[0.1, -0.5, 0.2, 0.0, 0.3]])
    count = 200_000
    codes = SMALL(np.repeat(x, count, axis=0))[:, 2]
    seen = np.bincount(codes, minlength=8)
    every = np.column_stack([np.tile([[5, 7]], (8, 1)), np.arange(8)])
    chances = np.exp(SMALL.log_likelihood(every, x)[:, 0] + 64 * math.log(2))
    assert abs(chances.sum() - 1) < 1e-9
    assert chisquare(seen, chances * count).pvalue > 1e-6
    wrong = chances.copy()
    wrong[chances.argmax()] *= 1.1
    assert chisquare(seen, wrong / wrong.sum() * count).pvalue < 1e-6


def test_seeds_do_not_depend_on_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for value in (0.0, 1.0, np.nan):
        rng = np.random.default_rng(3)
        monkeypatch.setattr(entropy, "system_bytes", rng.bytes)
        taken.append(SMALL(np.full((50, 5), value))[:, :2])
    assert (taken[0] == taken[1]).all()
    assert (taken[0] == taken[2]).all()
    assert len(np.unique(taken[0])) == 100


def test_words_look_random_within_a_seed_and_across_seeds() -> None:
    """Every bit of a word, of the exclusive or with its neighbour, and with the same word of a neighbouring seed, is
    set in half of all cases."""
    drawn = seeds(400)
    words = seeded_words(drawn, np.arange(1000))
    beside = seeded_words((drawn + np.array([1, 0])) % 2**32, np.arange(1000))
    above = seeded_words((drawn + np.array([0, 1])) % 2**32, np.arange(1000))
    for some in (words, words[:, 1:] ^ words[:, :-1], words ^ beside, words ^ above, words[1:] ^ words[:-1]):
        shares = np.array([(some >> np.uint32(bit) & np.uint32(1)).mean() for bit in range(32)])
        assert np.abs(shares - 0.5).max() < 5 * 0.5 / math.sqrt(some.size)


@pytest.mark.parametrize(
    "broken",
    [
        {"dim": 0},
        {"rows": -1},
        {"size": 7},
        {"size": 0},
        {"size": 2**23},
        {"quantiles": np.array([1, 2, 3], dtype=np.int16)},
        {"quantiles": np.array([0, 2], dtype=np.int16)},
        {"quantiles": np.array([1, 2])},
        {"quantiles": np.ones((2, 2), dtype=np.int16)},
    ],
)
def test_codewords_that_cannot_be_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(MechanismError):
        replace(SMALL.codewords, **broken)


def test_parts_that_do_not_fit_are_refused() -> None:
    region = SMALL.region
    for change in (
        {"codewords": replace(SMALL.codewords, dim=4)},
        {"codewords": replace(SMALL.codewords, size=10)},
        {"region": replace(region, low=region.low + 1)},
        {"region": replace(region, high=region.high + np.arange(5))},
        {"region": replace(region, low=0 * region.low, high=0 * region.high)},
        {"region": replace(region, low=-(2**40) + 0 * region.low, high=2**40 + 0 * region.high)},
    ):
        with pytest.raises(MechanismError):
            replace(SMALL, **change)
