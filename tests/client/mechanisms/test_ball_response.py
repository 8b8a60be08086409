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
from taskveil.client.mechanisms import BallResponse, CentredBallResponse, Response, SeededCodewords
from taskveil.client.mechanisms.seeded_codewords import seeded_words
from taskveil.errors import MechanismError

HOSTILE = np.array([[np.nan] * 5, [np.inf] * 5, [-np.inf] * 5, [1e308] * 5, [-1e308] * 5, [5e-324] * 5, [-0.0] * 5])
SMALL = ball_response(5, 8, 3, 1.0)
CENTRED = ball_response(5, 8, 3, 1.0, kind=CentredBallResponse)
BOTH = pytest.mark.parametrize("mechanism", [SMALL, CENTRED], ids=["signs", "centre"])


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


@BOTH
def test_the_guarantee_holds_in_fractions_for_any_two_vectors(mechanism: BallResponse) -> None:
    """P[report | k] from both favoured sets and the probability of the first, without logarithms."""
    response = mechanism.response
    k = mechanism.inside(mechanism.region.enforce(np.vstack([HOSTILE, np.random.default_rng(0).normal(size=(9, 5))])))
    part, draws = mechanism._likely(k)
    for seed in seeds(20):
        sides = [mechanism.favoured(np.tile(seed, (len(k), 1)), side[:, None])[:, 0] for side in (k, -k)]
        if mechanism.centres:
            sides[1] = np.tile([8, 9, 10], (len(k), 1))
        for code in range(response.size):
            found = []
            for row in range(len(k)):
                weights = [response.a if code in side[row] else response.b for side in sides]
                likely = Fraction(int(part[row]), draws)
                found.append((likely * weights[0] + (1 - likely) * weights[1]) / response.total)
            assert max(found) / min(found) <= Fraction(response.a, response.b)
            said = mechanism.log_likelihood(np.array([[*seed, code]]), k * mechanism.region.step)[0]
            assert np.allclose(np.exp(said + 64 * math.log(2)), [float(one) for one in found], rtol=1e-9)


@pytest.mark.parametrize("radius", [1000, 2**19])
def test_a_centred_report_favours_the_vector_as_often_as_it_is_long(
    radius: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probability is |k|/radius down to 2^-16 of a grid step: the draw below that number favours the nearest
    codewords, and the next draw the centre."""
    mechanism = ball_response(2, 8, 3, 1.0, radius=radius, kind=CentredBallResponse)
    drawn: list[tuple[int, int]] = []
    sets: list[np.ndarray] = []

    def draws(bound: int, count: int) -> np.ndarray:
        drawn.append((bound, count))
        return np.array([part[0] - 1, part[0]])

    k = np.array([[3, 4], [0, 0], [radius, 0], [1, 1]])
    monkeypatch.setattr(entropy, "uniform_below", draws)
    monkeypatch.setattr(
        "taskveil.client.mechanisms.response.Response.__call__", lambda _, found: sets.append(found) or found[:, 0]
    )
    for vector, length in zip(k, (5 << 16, 0, radius << 16, math.isqrt(2 << 32)), strict=True):
        part, whole = mechanism._likely(vector[None])
        assert (part[0], whole) == (length, radius << 16)
        mechanism(np.tile(vector * mechanism.region.step, (2, 1)))
        assert drawn[-1] == (whole, 2)
        assert sets[-1][0].max() < 8
        assert sets[-1][1].tolist() == [8, 9, 10]


def test_a_centred_report_takes_the_same_work_for_every_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long vectors never favour the centre, zero always does: scores are computed for both, and as much is drawn."""
    work: list[object] = []
    scores = SeededCodewords.scores
    monkeypatch.setattr(
        SeededCodewords, "scores", lambda *given: work.append([one.shape for one in given[1:]]) or scores(*given)
    )
    for value in (0.0, 1.0, 0.2, np.nan):
        rng, taken = np.random.default_rng(3), 0

        def bits(count: int, rng: np.random.Generator = rng) -> bytes:
            nonlocal taken
            taken += count
            return rng.bytes(count)

        monkeypatch.setattr(entropy, "system_bytes", bits)
        CENTRED(np.full((50, 5), value))
        work.append(taken)
    assert work[0] == [(50, 2), (50, 1, 5)]
    assert work == work[:2] * 4


def test_codewords_of_the_centre_have_no_direction() -> None:
    for device in ball_devices().values():
        code = device.mechanism.codewords
        found = code.directions(seeds(3), np.array([code.size - 1, code.size, code.size + 5]))
        assert found[0].any()
        assert not found[1:].any()


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


@BOTH
def test_reports_are_drawn_with_the_probabilities_that_are_stated(
    mechanism: BallResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one seed, the counts of codes; 10% more in the largest is noticed."""
    monkeypatch.setattr("taskveil.client.mechanisms.ball_response._fresh_seeds", lambda n: np.tile([[5, 7]], (n, 1)))
    x = np.array([[0.1, -0.5, 0.2, 0.0, 0.3]])
    count, size = 200_000, mechanism.response.size
    codes = mechanism(np.repeat(x, count, axis=0))[:, 2]
    seen = np.bincount(codes, minlength=size)
    every = np.column_stack([np.tile([[5, 7]], (size, 1)), np.arange(size)])
    chances = np.exp(mechanism.log_likelihood(every, x)[:, 0] + 64 * math.log(2))
    assert abs(chances.sum() - 1) < 1e-9
    assert chisquare(seen, chances * count).pvalue > 1e-6
    wrong = chances.copy()
    wrong[chances.argmax()] *= 1.1
    assert chisquare(seen, wrong / wrong.sum() * count).pvalue < 1e-6


@BOTH
def test_seeds_do_not_depend_on_the_record(mechanism: BallResponse, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for value in (0.0, 1.0, np.nan):
        rng = np.random.default_rng(3)
        monkeypatch.setattr(entropy, "system_bytes", rng.bytes)
        taken.append(mechanism(np.full((50, 5), value))[:, :2])
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
        for mechanism in (SMALL, CENTRED):
            with pytest.raises(MechanismError):
                replace(mechanism, **change)


@pytest.mark.parametrize(("size", "favoured"), [(8, 3), (10, 3), (12, 3), (11, 2), (17, 9)])
def test_as_many_codewords_as_are_favoured_stand_for_the_centre(size: int, favoured: int) -> None:
    """And all favoured ones must be there: of 17, with 9 for the centre, 8 are left."""
    with pytest.raises(MechanismError):
        replace(CENTRED, response=Response.calibrated(size=size, favoured=favoured, epsilon=1.0))


@pytest.mark.parametrize("kind", [BallResponse, CentredBallResponse])
def test_vectors_outside_the_ball_are_pulled_in_before_a_report(
    kind: type[BallResponse], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ε does not depend on it, but the estimate does: without it a corner of the box counted as a longer vector."""
    mechanism, seen, sets = ball_response(4, 32, 5, 2.0, kind=kind), [], kind._sets

    def kept(self: BallResponse, seeds: np.ndarray, k: np.ndarray, own: np.ndarray) -> np.ndarray:
        seen.append(k)
        return sets(self, seeds, k, own)

    monkeypatch.setattr(kind, "_sets", kept)
    mechanism(np.array([[1e9] * 4, [-1.0, 1.0, np.inf, np.nan], [0.1, 0.0, 0.0, 0.0]]))
    assert ((seen[0] ** 2).sum(axis=1) <= mechanism.radius**2).all()
