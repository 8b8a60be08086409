from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import releases
from hostile import hostile_records
from taskveil.client.networks import portable_softmax
from taskveil.client.trees import MOST_DEPTH, TreeEncoder, Walk
from taskveil.errors import DataError

SHAPES = st.sampled_from([
    {"sizes": (8, 1, 30, 5)},
    {"sizes": (3,), "latents": 1},
    {"sizes": (120, 7), "even": False, "width": 12, "far": 1.7e308},
    {"sizes": (5,) * 40, "per_leaf": 2, "latents": 4},
])  # fmt: skip


def records(encoder: TreeEncoder, seed: int, count: int = 60) -> np.ndarray:
    """Values at knots, next to them, anywhere, and hostile ones."""
    rng = np.random.default_rng(seed)
    X = rng.choice(encoder.knots, size=(count, encoder.width))
    X[::3] = np.nextafter(X[::3], rng.choice([-np.inf, np.inf], size=X[::3].shape))
    X[1::3] = rng.normal(size=X[1::3].shape) * 10
    return np.vstack([X, rng.permutation(hostile_records(encoder.width))[:count]])


def by_hand(encoder: TreeEncoder, x: np.ndarray) -> list[Fraction]:
    """The sums before the softmax as the class says: one comparison after the other, in exact fractions."""
    knots = np.split(encoder.knots, np.cumsum(encoder.counts)[:-1])
    attribute, rank = encoder.attribute.tolist(), iter(encoder.rank.tolist())
    ranks = [next(rank) if looked >= 0 else None for looked in attribute]
    values, place = encoder.values.tolist(), 0
    sums, leaf = [int(v) for v in encoder.offset], 0

    def value(column: int) -> float:
        low, high, given = float(encoder.low[column]), float(encoder.high[column]), float(x[column])
        middle = min(low + (high - low) / 2, high)
        return middle if np.isnan(given) else min(max(given, low), high)

    def read(reached: bool, output: int) -> None:
        """The next node and all below it; those that are `reached` add their leaf."""
        nonlocal place, leaf
        looked, which = attribute[place], ranks[place]
        place += 1
        if looked < 0:
            if reached:
                for more, number in enumerate(values[leaf]):
                    sums[output + more] += number
            leaf += 1
            return
        left = value(looked) <= knots[looked][which]
        read(reached and left, output)
        read(reached and not left, output)

    for output in encoder.output.tolist():
        read(True, output)
    return [number * Fraction(float(step)) for number, step in zip(sums, encoder.step, strict=True)]


@given(SHAPES, st.integers(0, 10**6))
def test_trees_add_up_the_leaves_that_comparisons_lead_to(shape: dict, seed: int) -> None:
    encoder = releases.trees(**shape)
    X = records(encoder, seed, 8)
    assert [[Fraction(v) for v in row] for row in encoder(X).tolist()] == [by_hand(encoder, x) for x in X]


@given(SHAPES, st.integers(0, 10**6))
def test_trees_do_not_depend_on_the_batch_or_on_their_order(shape: dict, seed: int) -> None:
    encoder = releases.trees(**shape)
    X = records(encoder, seed)
    batch = encoder(X)
    assert np.array_equal(batch, np.vstack([encoder(row[None]) for row in X]))
    assert np.array_equal(np.tile(batch, (40, 1)), encoder(np.tile(X, (40, 1))))
    starts = np.append(0, np.cumsum(np.where(encoder.attribute >= 0, 1, -1)))
    roots = [int(np.flatnonzero(starts == -tree)[0]) for tree in range(len(encoder.output) + 1)]
    order = np.random.default_rng(seed).permutation(len(encoder.output))
    nodes = np.concatenate([np.arange(roots[tree], roots[tree + 1]) for tree in order])
    split = encoder.attribute >= 0
    mixed = replace(
        encoder,
        attribute=encoder.attribute[nodes],
        rank=encoder.rank[(np.cumsum(split) - 1)[nodes[split[nodes]]]],
        values=encoder.values[(np.cumsum(~split) - 1)[nodes[~split[nodes]]]],
        output=encoder.output[order],
    )
    assert np.array_equal(batch, mixed(X))


@pytest.mark.parametrize("name", ["laplace_trees_deep", "laplace_trees", "codebook_trees", "codebook_boosted"])
def test_hostile_records_give_finite_latents(name: str) -> None:
    encoder = releases.devices()[name].encoder
    assert isinstance(encoder, TreeEncoder)
    with np.errstate(all="raise"):  # whatever the caller asked of numpy
        latents = encoder(hostile_records(encoder.width))
    assert latents.shape[1] == encoder.latent_dim
    assert np.isfinite(latents).all()
    assert len(np.unique(latents, axis=0)) > 20
    if encoder.softmax:
        assert latents.sum(axis=1) == pytest.approx(1.0)
        plain = replace(encoder, softmax=False)(hostile_records(encoder.width))
        assert np.array_equal(latents, portable_softmax(plain))


def test_nan_is_the_middle_and_what_lies_outside_is_the_nearest_inside() -> None:
    encoder = releases.trees(width=8, far=1.7e308)
    middle = encoder.low + (np.minimum(encoder.high, 1e307) - np.maximum(encoder.low, -1e307)) / 2
    middle[0] = encoder.high[0]  # a range so wide that its middle overflows
    nothing, least, most = encoder(np.array([[np.nan] * 8, [-np.inf] * 8, [np.inf] * 8]))
    assert np.array_equal(nothing, encoder(middle[None])[0])
    assert np.array_equal(least, encoder(encoder.low[None])[0])
    assert np.array_equal(most, encoder(encoder.high[None])[0])


def test_the_walk_counts_its_steps() -> None:
    split = np.array([0, -1, 1, 0, -1, -1, -1, 2, -1, -1, -1], dtype=np.int16)  # depths 3, 1 and 0
    walk = Walk(split, np.zeros(4, dtype=np.int16))
    assert (walk.depth.tolist(), walk.leaves.tolist(), walk.steps) == ([3, 1, 0], [4, 2, 1], 4)
    encoder = releases.trees((64,) * 10, latents=1)
    searches = sum(int(count).bit_length() for count in encoder.counts)
    assert encoder.operations == searches + 10 * 6 + 10


def test_ensembles_that_are_none_are_refused() -> None:
    encoder = releases.trees()
    with pytest.raises(DataError, match="cut short"):
        Walk(np.array([0, -1, 1, -1], dtype=np.int16), np.zeros(2, dtype=np.int16))
    chain = np.array([0, -1] * (MOST_DEPTH + 1) + [-1], dtype=np.int16)
    with pytest.raises(DataError, match="deep"):
        Walk(chain, np.zeros(MOST_DEPTH + 1, dtype=np.int16))
    with pytest.raises(DataError, match="sizes"):
        replace(encoder, values=encoder.values.astype(np.int64))
    with pytest.raises(DataError, match="rise"):
        replace(encoder, knots=encoder.knots[::-1].copy())
    with pytest.raises(DataError, match="exact"):
        replace(encoder, offset=np.full(3, 2**53 - 2**31))
    with pytest.raises(DataError, match="latents"):
        replace(encoder, output=encoder.output + np.int16(3))


def many_latents(trees: int, per_leaf: int, first: int = 0) -> TreeEncoder:
    """A split and leaves alone: tree i adds to the latents first + i … first + i + per_leaf − 1."""
    latents = first + trees + per_leaf
    return TreeEncoder(
        low=np.zeros(1),
        high=np.ones(1),
        knots=np.array([0.5]),
        counts=np.array([1]),
        attribute=np.array([0] + [-1] * (trees + 1), dtype=np.int16),
        rank=np.zeros(1, dtype=np.int16),
        values=np.arange(trees + 1, dtype=np.int32)[:, None] + np.zeros(per_leaf, dtype=np.int32),
        output=np.arange(first, first + trees).astype(np.int16),
        offset=np.zeros(latents, dtype=np.int64),
        step=np.ones(latents),
        softmax=False,
    )


def test_no_trees_take_long() -> None:
    """As many latents as trees, and as many values a leaf: a loop over both would take seconds."""
    encoder = many_latents(1000, 1000)
    begin = time.process_time()
    sums = encoder(np.ones((1, 1)))[0]
    assert time.process_time() - begin < 1
    assert sums[[0, 1, 999, 1998, 1999]].tolist() == [1, 3, 500_500, 1000, 0]


def test_latents_beyond_two_bytes_are_counted() -> None:
    """A tree's first latent has two bytes, the others of its leaves may lie beyond."""
    encoder = many_latents(1, 3, first=2**15 - 1)
    assert np.flatnonzero(encoder(np.ones((1, 1)))[0]).tolist() == [2**15 - 1, 2**15, 2**15 + 1]
    offset = encoder.offset.copy()
    offset[2**15] = 2**53 - 1
    with pytest.raises(DataError, match="exact"):
        replace(encoder, offset=offset)
