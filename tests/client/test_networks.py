from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hand_made_networks as networks
import releases
from hostile import hostile_records
from taskveil.client.networks import (
    LEVELS,
    MOST_OPERATIONS,
    ConvolutionLayer,
    DenseLayer,
    LayeredEncoder,
    PoolingLayer,
    Window,
    levels,
)
from taskveil.errors import DataError

ENCODERS = {name: device.encoder for name, device in releases.devices().items() if name.startswith("layers")}


def by_hand(layer: DenseLayer | ConvolutionLayer | PoolingLayer, q: list[int]) -> list[int]:
    """One record through a layer, number by number, in Python's own integers."""
    if isinstance(layer, DenseLayer):
        size = layer.inputs // layer.groups
        each = len(layer.offset) // layer.groups
        patches = [[q[o // each * size : (o // each + 1) * size]] for o in range(len(layer.offset))]
        return [cut_off(layer, o, patch) for o, of_output in enumerate(patches) for patch in of_output]
    w, out = layer.window, []
    if isinstance(layer, PoolingLayer):
        for channel in range(w.channels):
            for place in places(w):
                seen = [v for v in under(w, q, channel, place, None) if v is not None]
                out.append(max(seen) if layer.maximum else sum(seen) >> layer.shift)
        return out
    each, channels = len(layer.offset) // layer.groups, w.channels // layer.groups
    for o in range(len(layer.offset)):
        for place in places(w):
            first = o // each * channels
            patch = [v for c in range(first, first + channels) for v in under(w, q, c, place, int(layer.fill[c]))]
            out.append(cut_off(layer, o, patch))
    return out


def places(w: Window) -> list[tuple[int, int]]:
    return [(y * w.row_stride, x * w.column_stride) for y in range(w.down) for x in range(w.across)]


def under(w: Window, q: list[int], channel: int, place: tuple[int, int], fill: int | None) -> list[int | None]:
    seen: list[int | None] = []
    for row in range(w.rows):
        for column in range(w.columns):
            y, x = place[0] + row - w.row_padding, place[1] + column - w.column_padding
            inside = 0 <= y < w.height and 0 <= x < w.width
            seen.append(q[(channel * w.height + y) * w.width + x] if inside else fill)
    return seen


def cut_off(layer: DenseLayer | ConvolutionLayer, output: int, patch: list[int]) -> int:
    weights = layer.weights[output].ravel().tolist()
    total = sum(w * v for w, v in zip(weights, patch, strict=True)) + int(layer.offset[output])
    return min(max(total >> int(layer.shift[output]), 0 if layer.relu else -layer.top), layer.top)


def records(encoder: LayeredEncoder, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        inside = encoder.low + rng.uniform(-0.1, 1.1, size=(count, encoder.width)) * (encoder.high - encoder.low)
    return np.vstack([inside, hostile_records(encoder.width)[:count]])


@pytest.mark.parametrize("name", ENCODERS)
def test_networks_are_what_python_computes_in_its_own_integers(name: str) -> None:
    encoder = ENCODERS[name]
    X = records(encoder, 25)
    with np.errstate(all="ignore"):
        q = levels(X, encoder.low, encoder.high)
    expected = []
    for row in np.where(np.isnan(q), LEVELS // 2, q):
        numbers = [int(v) for v in row]
        for layer in encoder.layers:
            numbers = by_hand(layer, numbers)
        expected.append(numbers)
    plain = replace(encoder, softmax=False, step=np.ones(encoder.latent_dim), start=np.zeros(encoder.latent_dim))
    assert np.array_equal(plain(X), np.array(expected, dtype=float))


@pytest.mark.parametrize("name", ENCODERS)
def test_latents_do_not_depend_on_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = ENCODERS[name]
    X = records(encoder, 60)
    batch = encoder(X)
    assert np.isfinite(batch).all()
    assert np.array_equal(batch, np.vstack([encoder(row[None]) for row in X]))
    assert encoder(X[:0]).shape == (0, encoder.latent_dim)
    monkeypatch.setattr("taskveil.client.networks.SINGLE", 0)  # double precision throughout
    assert np.array_equal(batch, replace(encoder)(X))
    monkeypatch.setattr("taskveil.arrays.NUMBERS_AT_A_TIME", 1000)
    assert np.array_equal(batch, encoder(X))


def test_some_sums_are_taken_in_single_precision() -> None:
    """Or the test above compares nothing."""
    assert any(reach < 2**24 for reach in networks.networks_side_by_side()._reaches[2:4])


def test_operations_count_products() -> None:
    dense = networks.dense_network()
    assert dense.operations == 6 * 8 + 4 * 6 + 6 * 3
    pictures = networks.picture_network()
    assert pictures.operations == (9 * 2 * 5 * 16) + (6 * 5 * 4 * 2) + (4 * 5 * 4 * 6) + (4 * 4 * 2) + 8 * 3


def test_networks_that_a_device_should_not_run_are_refused() -> None:
    wide = networks.window(64, 24, 24, 3, 3, 1, 1, 1, 1)
    layer = networks.convolution(wide, 512, shift=30, top=255)
    assert layer.operations < MOST_OPERATIONS
    again = networks.convolution(networks.window(512, 24, 24, 1, 1), 64, shift=30, top=255)
    with pytest.raises(DataError, match="products"):
        networks.encoder(layer, again, layer)
    with pytest.raises(DataError, match="exact"):
        networks.encoder(networks.dense(6, 3, kind=np.int32), networks.dense(3, 3))
    with pytest.raises(DataError, match="after one of"):
        networks.encoder(networks.dense(6, 3), networks.dense(4, 3))
    with pytest.raises(DataError, match="layers"):
        replace(networks.dense_network(), layers=())
    with pytest.raises(DataError, match="steps"):
        replace(networks.dense_network(), step=np.zeros(3))


def test_layers_are_checked_when_they_are_built() -> None:
    layer = networks.dense(6, 4)
    for wrong in (
        {"weights": layer.weights.astype(np.int64)}, {"offset": layer.offset[:1]}, {"shift": layer.shift + 53},
        {"shift": layer.shift[:1]}, {"top": 0}, {"top": 2**53}, {"relu": 1}, {"groups": 3}, {"groups": 0},
    ):  # fmt: skip
        with pytest.raises(DataError):
            replace(layer, **wrong)
    slides = networks.convolution(networks.window(2, 4, 4, 2, 2), 4, shift=8, top=99)
    for wrong in ({"fill": slides.fill[:1]}, {"fill": slides.fill + 2**21}, {"groups": 2}, {"window": None}):
        with pytest.raises(DataError):
            replace(slides, **wrong)


def test_layers_own_their_weights() -> None:
    layer = networks.dense(6, 4)
    with pytest.raises(ValueError, match="read-only"):
        layer.weights[0, 0] = 1
