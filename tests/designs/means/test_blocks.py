"""Cyclic blocks: the cost of subset selection is exact, and few base blocks come close to it."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from taskveil.client.mechanisms import BlockGroup, Response
from taskveil.designs.means.blocks import best_width, flat_blocks, searched_blocks, subset_variances
from taskveil.veil.surveys import BlockQuestion

RNG = np.random.default_rng(2)


def question(blocks: np.ndarray, size: int, epsilon: float, prior: np.ndarray) -> BlockQuestion:
    part = BlockGroup(
        places=np.array([0]),
        counts=np.array([size]),
        levels=np.arange(size),
        binned=np.array([False]),
        blocks=blocks,
        response=Response.calibrated(size=size, favoured=blocks.shape[1], epsilon=epsilon),
        chance=1,
    )
    return BlockQuestion(
        fields=("one",),
        levels=(tuple(range(size)),),
        binned=(False,),
        prior=prior,
        group=0,
        start=0,
        outputs=part.outputs,
        part=part,
        chance=1.0,
    )


@pytest.mark.parametrize("size", [2, 3, 5, 7])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_costs_of_all_sizes_are_those_of_all_sets(size: int, epsilon: float) -> None:
    """All subsets of a size, listed, give the variances of the formula."""
    shares, functionals = RNG.dirichlet(np.ones(size)), RNG.normal(size=(size, 3))
    weights, costs = np.array([1.0, 2.0, 0.5]), []
    for width in range(1, size):
        sets = np.array(list(combinations(range(size), width)))
        seen = question(sets, size, epsilon, shares).variances(functionals, shares)
        np.testing.assert_allclose(subset_variances(functionals, shares, epsilon, width), seen, rtol=1e-9)
        costs.append(float(weights @ seen))
    assert costs[best_width(functionals, weights, shares, epsilon) - 1] == pytest.approx(min(costs))


@pytest.mark.parametrize("size", [2, 3, 5, 10, 11, 50, 256, 1000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_few_blocks_are_within_a_hundredth_of_all_sets(size: int, epsilon: float) -> None:
    """Uniform shares and Zipf's; of the sizes of blocks, the best one."""
    for shares in (np.ones(size), 1.0 / np.arange(1, size + 1.0)):
        people = shares / shares.sum()
        width = best_width(np.eye(size), np.ones(size), people, epsilon)
        ideal = subset_variances(np.eye(size), people, epsilon, width).sum()
        blocks = np.array(flat_blocks(size, width))
        assert blocks.shape[0] <= 16
        assert question(blocks, size, epsilon, people).variances(np.eye(size), people).sum() <= 1.01 * ideal


def test_large_budgets_select_one_and_small_budgets_many() -> None:
    widths = [best_width(np.eye(20), np.ones(20), np.full(20, 0.05), epsilon) for epsilon in (0.1, 1.0, 5.0)]
    assert widths[0] in (9, 10)
    assert widths[1] == pytest.approx(20 / (math.e + 1), abs=1)
    assert widths[2] == 1


def test_blocks_for_shares_above_levels_beat_flat_ones() -> None:
    size, epsilon, people = 40, 1.0, np.full(40, 1 / 40)
    above = (np.arange(size)[:, None] > np.arange(size - 1)).astype(float)
    width = best_width(above, np.ones(size - 1), people, epsilon)
    costs = (np.abs(np.fft.fft(above, axis=0)) ** 2).sum(axis=1)
    flat, found = np.array(flat_blocks(size, width)), searched_blocks(costs, width)
    variances = [question(one, size, epsilon, people).variances(above, people).sum() for one in (flat, found)]
    assert variances[1] < 0.6 * variances[0]


def test_the_search_is_repeatable() -> None:
    assert flat_blocks(31, 6) == tuple(map(tuple, searched_blocks(np.ones(31), 6).tolist()))
