from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taskveil.designs.predictors.trees import Trees, together
from taskveil.errors import DataError


def trees(seed: int = 0) -> Trees:
    """A stump, a leaf, and a tree of three leaves, for the first, second and second output."""
    rng = np.random.default_rng(seed)
    return Trees(
        width=3,
        attribute=np.array([0, -1, -1, -1, 2, 0, -1, -1, -1]),
        threshold=np.array([0.0, 1.0, -1.0]),
        values=rng.normal(size=(6, 1)),
        output=np.array([0, 1, 1]),
        offset=np.array([10.0, -3.0]),
        logits=False,
    )


X = np.array([[0.0, 0, 1], [5e-324, 0, 1], [-1.0, 9, 1], [-2.0, 9, 2], [3.0, 0, 1.0000000001]])


def test_values_up_to_a_threshold_go_to_the_left() -> None:
    grown = trees()
    a, b, c, d, e, f = grown.values[:, 0]
    expected = [[10 + a, c + e], [10 + b, c + e], [10 + a, c + d], [10 + a, c + f], [10 + b, c + f]]
    assert grown(X) - [0, -3] == pytest.approx(np.array(expected))


def test_minus_zero_is_zero() -> None:
    grown = trees()
    twice = together(
        [grown, replace(grown, threshold=np.array([-0.0, 1.0, -1.0]))], [np.arange(2)] * 2, grown.offset, 0.5
    )
    assert twice(-0.0 * X) == pytest.approx(grown(0.0 * X))
    assert twice.encoder(np.full(3, -9.0), np.full(3, 9.0)).counts.tolist() == [2, 0, 1]


def test_the_first_trees_and_sums_of_ensembles() -> None:
    grown, other = trees(), trees(1)
    assert np.array_equal(grown.first(3)(X), grown(X))
    only = grown.first(1)(X)
    assert np.array_equal(only[:, 0], grown(X)[:, 0])
    assert (only[:, 1] == -3.0).all()
    both = together([grown, other], [np.array([0, 2]), np.array([1, 0])], np.zeros(3), 0.25)
    one, two = grown(X) - grown.offset, other(X) - other.offset
    assert both(X) == pytest.approx(0.25 * np.c_[one[:, 0] + two[:, 1], two[:, 0], one[:, 1]])


@pytest.mark.parametrize("far", [1.0, 1e12, 1e-250, 1e250])
def test_encoders_are_as_close_as_their_steps_say(far: float) -> None:
    low, high = X.min(axis=0), X.max(axis=0)
    grown = replace(trees(), values=far * trees().values)
    encoder = grown.encoder(low, high, slope=2.0, offset=np.array([1.0, 1e6]))
    wanted = 2.0 * grown(X) + [1.0, 1e6]
    assert (np.abs(encoder(X) - wanted) <= 2.0 * encoder.step + 1e-15 * np.abs(wanted)).all()
    assert (encoder.step <= 1e-8 * np.abs(wanted).max(axis=0)).all()


def test_ensembles_without_a_split_and_of_too_many_thresholds() -> None:
    low, high = np.full(3, -9.0), np.full(3, 9.0)
    flat = replace(Trees.constant(3, trees().offset, logits=trees().logits), values=np.array([[0.5]]))
    assert flat.encoder(low, high)(X) == pytest.approx(np.tile([10.5, -3.0], (5, 1)))
    count = 2**15 + 1
    many = Trees(
        width=1,
        attribute=np.tile([0, -1, -1], count),
        threshold=np.arange(float(count)),
        values=np.zeros((2 * count, 1)),
        output=np.zeros(count, dtype=np.int64),
        offset=np.zeros(1),
        logits=False,
    )
    with pytest.raises(DataError, match="thresholds"):
        many.encoder(np.zeros(1), np.ones(1))
