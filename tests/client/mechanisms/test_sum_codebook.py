"""Sums of codebooks: the search on the device, and one response for all stages together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import releases
from taskveil.client import entropy
from taskveil.client.mechanisms import Response, SumCodebook
from taskveil.client.mechanisms.sum_codebook import nearest_sums
from taskveil.client.networks import MOST_OPERATIONS
from taskveil.client.regions import BoxRegion
from taskveil.errors import MechanismError


def some_stages(*sizes: int, dim: int = 3, most: int = 50) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-most, most + 1, size=(size, dim)).astype(float) for size in sizes)


def test_with_room_for_every_branch_the_nearest_sum_is_found() -> None:
    stages = some_stages(4, 4, 6)
    points = np.random.default_rng(1).integers(-99, 99, size=(300, 3)).astype(float)
    every = np.array(list(itertools.product(*(range(len(stage)) for stage in stages))))
    sums = np.sum([stage[every[:, place]] for place, stage in enumerate(stages)], axis=0)
    least = ((points[:, None] - sums) ** 2).sum(axis=2).min(axis=1)
    found = nearest_sums(points, stages, branches=16)
    distance = ((points - np.sum([s[found[:, i]] for i, s in enumerate(stages)], axis=0)) ** 2).sum(axis=1)
    assert np.array_equal(distance, least)


def test_more_branches_find_nearer_sums() -> None:
    stages = some_stages(16, 16, 16, dim=5)
    points = np.random.default_rng(2).normal(size=(500, 5)) * 60

    def distance(branches: int) -> float:
        found = nearest_sums(points, stages, branches)
        return float(((points - np.sum([s[found[:, i]] for i, s in enumerate(stages)], axis=0)) ** 2).sum())

    assert distance(8) < distance(3) < distance(1)


def one_by_one(point: np.ndarray, stages: tuple[np.ndarray, ...], branches: int) -> list[int]:
    """The search in exact integers, written as its docstring says it."""
    kept: list[tuple[int, list[int]]] = [(0, [])]
    for stage in stages:
        extended = []
        for _, numbers in kept:
            for number in range(len(stage)):
                sum_ = sum(s[n] for s, n in zip(stages, [*numbers, number], strict=False)).astype(int).tolist()
                score = sum(2 * int(k) * s - s * s for k, s in zip(point, sum_, strict=True))
                extended.append((score, [*numbers, number]))
        kept = sorted(extended, key=lambda branch: -branch[0])[:branches]  # stable: ties in the order of appearance
    return kept[0][1]


@pytest.mark.parametrize("most", [3, 40])  # of 3: nearly all scores are shared
def test_ties_go_to_the_earlier_branch_and_the_lower_number(most: int) -> None:
    stages = some_stages(5, 9, 1, 7, dim=2, most=most)
    points = np.random.default_rng(3).integers(-2 * most, 2 * most + 1, size=(60, 2)).astype(float)
    for branches in (1, 2, 16):
        expected = [one_by_one(point, stages, branches) for point in points]
        assert nearest_sums(points, stages, branches).tolist() == expected


def test_a_record_is_coded_alike_alone_and_in_any_company() -> None:
    mechanism = releases.sum_codebook(60, 60, epsilon=9.0)
    k = np.random.default_rng(4).integers(-9000, 9000, size=(5000, 3))
    together = mechanism.nearest(k)
    assert np.array_equal(together[::7], np.concatenate([mechanism.nearest(row[None, :]) for row in k[::7]]))


def test_all_stages_share_one_budget() -> None:
    """The likelihood of a report has two values only: all digits as found, or any other digits."""
    mechanism = releases.sum_codebook(3, 4, 2, epsilon=2.0)
    reports = np.array(list(itertools.product(range(3), range(4), range(2))))
    said = mechanism.log_likelihood(reports, np.zeros((1, 3)))[:, 0]
    found = (reports == mechanism.nearest(np.zeros((1, 3), dtype=np.int64))).all(axis=1)
    assert found.sum() == 1
    assert said[found] == pytest.approx(mechanism.response.log_chances(True))
    assert (said[~found] == mechanism.response.log_chances(False)).all()
    assert said.max() - said.min() == pytest.approx(mechanism.epsilon, abs=1e-12)
    assert mechanism.epsilon <= 2.0


def test_every_draw_is_one_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """All T draws in turn: the sum that was found comes a times, each of the others b times, whatever the record."""
    mechanism = releases.sum_codebook(3, 2, epsilon=1.0)
    mechanism = replace(mechanism, response=Response(size=6, favoured=1, a=5, b=2))
    for latent in ([0.0, 0.0, 0.0], [np.nan, np.inf, -1e300]):
        draws = iter(range(15))

        def below(bound: int, draws: Iterator[int] = draws) -> int:
            assert bound == 15
            return next(draws)

        monkeypatch.setattr(entropy, "wide_uniform_below", below)
        reports = mechanism(np.tile(latent, (15, 1)))
        found = mechanism.nearest(mechanism.region.enforce(np.array([latent])))[0]
        drawn, times = np.unique(reports, axis=0, return_counts=True)
        assert len(drawn) == 6
        assert [*times] == [5 if (row == found).all() else 2 for row in drawn]
        assert next(draws, None) is None


def test_numbers_of_more_than_64_bits() -> None:
    mechanism = releases.sum_codebook(*[100] * 11, epsilon=60.0, latents=12, branches=8)
    assert mechanism.response.size == 10**22
    latents = np.random.default_rng(5).normal(size=(500, 12))
    told = (mechanism(latents) == mechanism.nearest(mechanism.region.enforce(latents))).all(axis=1)
    assert told.mean() > 0.99  # e^60 / 10^22 = 11,000
    alike = replace(mechanism, response=Response(size=10**22, favoured=1, a=1, b=1))
    drawn = alike(np.repeat(latents[:1], 4000, axis=0))
    assert abs(drawn.mean(axis=0) - 49.5).max() < 5 * math.sqrt((100**2 - 1) / 12 / 4000)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(11)).max() < 0.1  # digits of one uniform number are independent


def parts(**changes: object) -> dict[str, object]:
    sound = releases.sum_codebook(7, 20, 9, epsilon=6.0)
    names = ("region", "codewords", "sizes", "branches", "response")
    return {name: getattr(sound, name) for name in names} | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": np.array([7, 20])},
        {"sizes": np.array([9, 18, 9])},
        {"sizes": np.array([7.0, 20.0, 9.0])},
        {"codewords": np.zeros((36, 2), dtype=np.int16)},
        {"codewords": np.zeros((36, 3), dtype=np.int64)},
        {"branches": 0},
        {"branches": 17},
        {"response": Response.calibrated(size=1261, favoured=1, epsilon=6.0)},
        {"response": Response.calibrated(size=1260, favoured=2, epsilon=6.0)},
        {"region": BoxRegion(step=1.0, low=np.full(3, -(2**38)), high=np.full(3, 2**38))},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changes: dict[str, object]) -> None:
    SumCodebook(**parts())  # type: ignore[arg-type]
    with pytest.raises(MechanismError):
        SumCodebook(**parts(**changes))  # type: ignore[arg-type]


def test_a_search_of_too_many_steps_is_refused() -> None:
    dim = 1 << 16
    sizes, branches = np.array([2**5, 2**5]), 8
    few = {
        "region": releases.box(dim),
        "codewords": np.zeros((64, dim), dtype=np.int16),
        "sizes": sizes,
        "response": Response.calibrated(size=2**10, favoured=1, epsilon=6.0),
    }
    assert 64 * dim * branches < MOST_OPERATIONS < 64 * dim * branches * 16
    SumCodebook(**few, branches=branches)  # type: ignore[arg-type]
    many = few | {"codewords": np.zeros((512, dim), dtype=np.int16), "sizes": sizes * 8}
    response = Response.calibrated(size=2**16, favoured=1, epsilon=6.0)
    with pytest.raises(MechanismError, match="branches"):
        SumCodebook(**(many | {"response": response}), branches=branches + 1)  # type: ignore[arg-type]
