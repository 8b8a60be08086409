from __future__ import annotations

import numpy as np
import pytest

from hand_made_networks import window
from taskveil.designs.predictors.layer_models import Chain, Foreign
from taskveil.designs.predictors.whole_layers import Convolution, Dense, Pooling

RNG = np.random.default_rng(0)


def dense(chain: Chain, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    weights, offset = RNG.normal(size=(outputs, chain.size)), RNG.normal(size=outputs)
    chain.dense(weights, offset)
    return weights, offset


def test_two_dense_layers_in_a_row_are_one_unless_that_is_larger() -> None:
    chain = Chain(width=6)
    first, start = dense(chain, 4)
    second, end = dense(chain, 3)
    (layer,) = chain.layers(3).layers
    assert isinstance(layer, Dense)
    assert layer.weights == pytest.approx(second @ first)
    assert layer.offset == pytest.approx(second @ start + end)
    narrow = Chain(width=20)
    dense(narrow, 1)
    dense(narrow, 20)
    assert len(narrow.layers(20).layers) == 2


def test_scalers_go_into_the_layers_beside_them() -> None:
    chain = Chain(width=3)
    scale, shift = RNG.normal(size=3), RNG.normal(size=3)
    chain.affine(scale, shift)  # before the first layer
    weights, offset = dense(chain, 2)
    chain.affine(np.array([2.0, -1.0]), np.array([0.5, 0.0]))  # after it
    chain.relu()
    chain.affine(np.array([3.0, 4.0]), np.array([1.0, 1.0]))  # at the end, where nothing takes it in
    X = RNG.normal(size=(10, 3))
    hidden = np.maximum(((X * scale + shift) @ weights.T + offset) * [2.0, -1.0] + [0.5, 0.0], 0)
    assert chain.layers(2)(X) == pytest.approx(hidden * [3.0, 4.0] + 1.0)


def test_a_relu_behind_the_largest_stands_before_it() -> None:
    chain = Chain(width=16)
    chain.convolution(window(1, 4, 4, 1, 1), np.ones((1, 1, 1, 1)), np.zeros(1), groups=1)
    chain.pooling(window(1, 4, 4, 2, 2, 2, 2), maximum=True)
    chain.relu()
    first, second = chain.layers(4).layers
    assert isinstance(first, Convolution)
    assert isinstance(second, Pooling)
    assert first.relu


def test_padding_waits_for_its_window() -> None:
    chain = Chain(width=16)
    chain.pad(1, 2, 0.0)
    chain.convolution(window(1, 6, 8, 3, 3), RNG.normal(size=(2, 1, 3, 3)), np.zeros(2), groups=1)
    (layer,) = chain.layers(2 * 4 * 6).layers
    assert isinstance(layer, Convolution)
    assert (layer.window.height, layer.window.row_padding, layer.window.column_padding) == (4, 1, 2)


def of_means(chain: Chain) -> None:
    dense(chain, 16)
    chain.pooling(window(1, 4, 4, 2, 2), maximum=False)
    chain.relu()


def reversed_largest(chain: Chain) -> None:
    chain.affine(-np.ones(16), np.zeros(16))
    chain.pooling(window(1, 4, 4, 2, 2), maximum=True)


def uneven_picture(chain: Chain) -> None:
    chain.affine(np.arange(1.0, 17.0), np.zeros(16))
    chain.convolution(window(1, 4, 4, 2, 2), np.ones((1, 1, 2, 2)), np.zeros(1), groups=1)


def padded_dense(chain: Chain) -> None:
    chain.pad(1, 1, 0.0)
    dense(chain, 2)


def padded_with_ones(chain: Chain) -> None:
    chain.pad(1, 1, 1.0)
    chain.convolution(window(1, 6, 6, 2, 2), np.ones((1, 1, 2, 2)), np.zeros(1), groups=1)


def after_the_end(chain: Chain) -> None:
    dense(chain, 3)
    chain.log_softmax()
    dense(chain, 3)


@pytest.mark.parametrize(
    "build", [of_means, reversed_largest, uneven_picture, padded_dense, padded_with_ones, after_the_end, Chain.relu]
)
def test_what_no_layer_can_take_in_is_foreign(build: object) -> None:
    with pytest.raises(Foreign):
        build(Chain(width=16))  # type: ignore[operator]


def test_a_chain_without_weights_is_none() -> None:
    chain = Chain(width=16)
    chain.pooling(window(1, 4, 4, 2, 2), maximum=True)
    with pytest.raises(Foreign, match="weights"):
        chain.layers(9)
