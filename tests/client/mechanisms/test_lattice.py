from __future__ import annotations

import itertools
import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile import hostile_records
from taskveil.client.mechanisms import LatticeCodebook, Response
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.regions import BoxRegion
from taskveil.errors import MechanismError


def random_lattice(seed: int, dim: int = 3) -> Lattice:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, size=dim)
    lengths = [np.concatenate([[0], rng.integers(0, 9, size=c - 1)]) for c in counts]
    return Lattice(
        levels=rng.integers(-50, 50, size=int(counts.sum())),
        lengths=np.concatenate([rng.permutation(x) for x in lengths]).astype(np.int64),
        counts=counts.astype(np.int64),
        budget=int(rng.integers(0, 14)),
    )


def listed(lattice: Lattice) -> list[tuple[int, ...]]:
    """All codewords as level numbers, by brute force, in lexicographic order."""
    numbers = itertools.product(*(range(c) for c in lattice.counts))
    lengths = [d[1] for d in lattice.directions]
    return [n for n in numbers if sum(int(x[i]) for x, i in zip(lengths, n, strict=True)) <= lattice.budget]


@given(st.integers(0, 10**6))
def test_counting_ranking_and_sharing_agree_with_the_list(seed: int) -> None:
    lattice = random_lattice(seed)
    words = listed(lattice)
    assert lattice.size == len(words)
    assert [lattice.rank(list(w)) for w in words] == list(range(len(words)))
    assert [tuple(word) for word in lattice.unrank(lattice.digits(list(range(len(words))))).tolist()] == words
    for i, share in enumerate(lattice.level_shares()):
        counted = np.bincount([w[i] for w in words], minlength=lattice.counts[i]) / len(words)
        assert share == pytest.approx(counted)


@given(st.integers(0, 10**6))
def test_the_nearest_codeword_is_the_nearest(seed: int) -> None:
    lattice = random_lattice(seed)
    points = lattice.points(np.array(listed(lattice)))
    k = np.random.default_rng(seed).integers(-80, 80, size=(20, 3))
    found = lattice.points(lattice.nearest(k))
    distance = ((k - found) ** 2).sum(axis=1)
    assert np.array_equal(distance, ((k[:, None] - points) ** 2).sum(axis=2).min(axis=1))


@given(st.lists(st.integers(0, 2**200), max_size=5))
def test_numbers_of_any_size_survive_their_digits(places: list[int]) -> None:
    wide = Lattice(levels=np.arange(2 * 210), lengths=np.zeros(420, np.int64), counts=np.full(210, 2), budget=0)
    assert wide.size == 2**210
    found = wide.digits(places).astype(object) @ [2 ** (62 * power) for power in reversed(range(wide.report_width))]
    assert found.tolist() == places


@given(st.integers(2, 30), st.integers(0, 150), st.integers(0, 10**6))
def test_numbers_of_any_size_are_found_again(directions: int, budget: int, seed: int) -> None:
    """Of one to four digits of 62 bits, with places at the ends of levels, where digits are borrowed."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 300, size=directions)
    lengths = np.concatenate([np.append(rng.integers(0, 12, size=count - 1), 0) for count in counts])
    lattice = Lattice(levels=np.arange(len(lengths)), lengths=lengths, counts=counts, budget=budget)
    chosen = random.Random(seed)
    places = [chosen.randrange(lattice.size) for _ in range(20)] + [0, lattice.size - 1]
    ends = [
        start - below for start in lattice._starts(0, budget) for below in (0, 1) if 0 <= start - below < lattice.size
    ]
    found = lattice.unrank(lattice.digits(places + ends))
    assert [lattice.rank(row) for row in found.tolist()] == places + ends
    assert lattice.holds(lattice.digits(places)).all()
    spent = sum(lengths[found[:, i]] for i, (_, lengths) in enumerate(lattice.directions))
    assert (spent <= budget).all()


def test_reports_whatever_comes_in() -> None:
    lattice = random_lattice(5)
    mechanism = LatticeCodebook(
        region=BoxRegion(step=0.5, low=np.full(3, -100), high=np.full(3, 100)),
        lattice=lattice,
        response=Response.calibrated(size=lattice.size, favoured=1, epsilon=2.0),
    )
    reports = mechanism(hostile_records(3))
    assert ((reports >= 0) & (reports < lattice.size)).all()
    assert mechanism.epsilon <= 2.0


def test_impossible_lattices_are_refused() -> None:
    good = random_lattice(5)
    with pytest.raises(MechanismError, match="no codeword"):
        good.unrank(good.digits([0, good.size]))
    with pytest.raises(MechanismError, match="no codeword"):
        good.unrank(np.array([[-1]]))
    with pytest.raises(MechanismError, match="length 0"):
        Lattice(levels=np.array([0]), lengths=np.array([3]), counts=np.array([1]), budget=5)
    with pytest.raises(MechanismError, match="at least one level"):
        Lattice(levels=np.array([0]), lengths=np.array([0]), counts=np.array([1, 0]), budget=5)
    with pytest.raises(MechanismError, match="one codeword"):
        LatticeCodebook(
            region=BoxRegion(step=0.5, low=np.full(3, -100), high=np.full(3, 100)),
            lattice=good,
            response=Response.calibrated(size=good.size + 1, favoured=1, epsilon=2.0),
        )


def test_a_search_of_many_steps_is_refused() -> None:
    """Two million levels and a budget of 0 took 8 s a report: the product of both was bounded, and not the levels."""
    count = 2**15
    with pytest.raises(MechanismError, match="too large"):
        Lattice(
            levels=np.zeros(63 * count, int), lengths=np.zeros(63 * count, int), counts=np.full(63, count), budget=0
        )
    most = Lattice(
        levels=np.zeros(2 * count, int), lengths=np.zeros(2 * count, int), counts=np.full(2, count), budget=0
    )
    start = time.process_time()
    most.nearest(np.zeros((1, 2), dtype=np.int64))
    assert time.process_time() - start < 2


def test_a_lattice_has_fewer_than_2_to_the_1500_codewords() -> None:
    """Exactly so many were accepted in Python, and refused by browsers."""

    def of(*counts: int) -> Lattice:
        return Lattice(levels=np.zeros(sum(counts), int), lengths=np.zeros(sum(counts), int),
                       counts=np.array(counts), budget=0)  # fmt: skip

    with pytest.raises(MechanismError, match="fewer than 2"):
        of(*[4] * 750)
    assert of(*[4] * 749, 3).size == 3 * 2**1498


def test_more_directions_than_distances_can_add_up_are_refused() -> None:
    with pytest.raises(MechanismError, match="directions"):
        Lattice(levels=np.tile([-(2**24), 0], 1100), lengths=np.tile([1, 0], 1100), counts=np.full(1100, 2), budget=2)
    least = np.iinfo(np.int64).min
    with pytest.raises(MechanismError, match="out of range"):
        Lattice(levels=np.array([least, 0]), lengths=np.array([1, 0]), counts=np.array([2]), budget=2)
