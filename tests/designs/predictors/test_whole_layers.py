from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hostile import hostile_records
from taskveil.client.networks import PoolingLayer
from taskveil.designs.predictors.layer_models import as_layers
from taskveil.designs.predictors.whole_layers import Layers, averaged
from taskveil.errors import DataError


def pictures(channels: int = 4, *last: nn.Module) -> nn.Sequential:
    """Of 8 × 8 points to three numbers."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(24, 3), *last,
    )  # fmt: skip


def layers_of(module: nn.Module, width: int) -> Layers:
    found = as_layers(module.eval(), width)
    assert found is not None
    return found


def copies(make: type[nn.Module] | object, count: int = 3) -> list[nn.Module]:
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(make())  # type: ignore[operator]
    return made


def answers(module: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return module.double().eval()(torch.from_numpy(X)).numpy()


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_dense_networks_of_attributes_of_any_size_are_close_to_their_floats(seed: int, n: int) -> None:
    """Wide and narrow ranges, near zero and far from it, folded into the first layer."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    low = rng.normal(size=n) * 10 ** rng.uniform(-3, 6, size=n)
    high = low + 10 ** rng.uniform(-3, 6, size=n)
    module = nn.Sequential(nn.Linear(n, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with torch.no_grad():  # as if it had been trained behind a scaler
        module[0].weight /= torch.from_numpy(high - low)
        module[0].bias -= module[0].weight @ torch.from_numpy(low)
    X = low + (high - low) * rng.random((200, n))
    encoder = layers_of(module, n).encoder(low, high, X, softmax=False)
    assert np.abs(encoder(X) - answers(module, X)).max() < 2e-3


def test_slope_and_offset_are_applied_before_the_softmax() -> None:
    torch.manual_seed(0)
    module = pictures()
    X = np.random.default_rng(0).random((100, 64))
    layers, offset = layers_of(module, 64), np.array([1.0, -2.0, 0.5])
    expected = torch.from_numpy(3.0 * answers(module, X) + offset).softmax(1).numpy()
    encoder = layers.encoder(np.zeros(64), np.ones(64), X, slope=3.0, offset=offset, softmax=True)
    assert encoder(X) == pytest.approx(expected, abs=1e-3)
    slopes = np.array([1.0, 2.0, 4.0])
    plain = layers.encoder(np.zeros(64), np.ones(64), X, slope=slopes, softmax=False)
    assert plain(X) == pytest.approx(slopes * answers(module, X), abs=1e-3)


@pytest.mark.parametrize(("low", "high"), [(-0.4, 2.8), (-3.0, -1.0), (1.0, 2.0), (0.0, 255.0)])
def test_edges_of_pictures_are_zero_whatever_the_range(low: float, high: float) -> None:
    torch.manual_seed(1)
    module = pictures()
    X = low + (high - low) * np.random.default_rng(1).random((60, 64))
    encoder = layers_of(module, 64).encoder(np.full(64, low), np.full(64, high), X, softmax=False)
    truth = answers(module, X)
    assert np.abs(encoder(X) - truth).max() < 2e-3 * np.abs(truth).max()


def test_a_point_that_no_volunteer_has_is_seen_where_others_are() -> None:
    """One range for all points of a picture: a convolution cannot tell them apart."""
    module = pictures()
    X = np.random.default_rng(2).random((60, 64))
    high = np.ones(64)
    high[:8] = 0.0
    encoder = layers_of(module, 64).encoder(np.zeros(64), high, X, softmax=False)
    assert (encoder.high == 1.0).all()


@pytest.mark.parametrize("shape", ["pictures", "dense", "linear", "ends in a mean"])
def test_networks_side_by_side_are_averaged(shape: str) -> None:
    def make() -> nn.Module:
        if shape == "pictures":
            return pictures()
        if shape == "ends in a mean":
            return nn.Sequential(*pictures()[:6], nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3)) if shape == "dense" else nn.Linear(64, 3)

    networks = copies(make)
    both = averaged([layers_of(network, 64) for network in networks])
    assert both is not None
    X = np.random.default_rng(3).random((80, 64))
    mean = np.mean([answers(network, X) for network in networks], axis=0)
    assert both(X) == pytest.approx(mean, abs=1e-12)
    encoder = both.encoder(np.zeros(64), np.ones(64), X, softmax=False)
    assert np.abs(encoder(X) - mean).max() < 5e-3 * np.abs(mean).max()


def test_networks_that_cannot_share_a_record_are_not_put_together() -> None:
    def grouped() -> nn.Module:
        return nn.Sequential(nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(16, 2))

    networks = [layers_of(network, 32) for network in copies(grouped)]
    assert averaged(networks) is None
    assert averaged(networks[:1]) is networks[0]


def test_large_networks_have_small_numbers_and_sums_of_single_precision() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 40, 3), nn.ReLU(), nn.Conv2d(40, 120, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(1920, 10),
    )  # fmt: skip
    X = np.random.default_rng(4).random((100, 64))
    encoder = layers_of(module, 64).encoder(np.zeros(64), np.ones(64), X, softmax=False)
    weighted = [layer for layer in encoder.layers if not isinstance(layer, PoolingLayer)]
    assert {layer.weights.dtype.itemsize for layer in weighted} == {1}
    assert max(encoder._reaches[1:3]) < 2**24  # both convolutions; levels are halved before them
    truth = answers(module, X)
    assert np.abs(encoder(X) - truth).max() < 0.1 * truth.std()


def test_records_beyond_all_volunteers_are_cut_off_and_nothing_overflows() -> None:
    torch.manual_seed(0)
    module = pictures()
    faint = 0.01 * np.random.default_rng(5).random((60, 64))
    encoder = layers_of(module, 64).encoder(np.zeros(64), np.ones(64), faint, softmax=True)
    latents = encoder(hostile_records(64))
    assert np.isfinite(latents).all()
    assert latents.sum(axis=1) == pytest.approx(1.0)


def test_logits_up_to_a_constant_are_good_for_probabilities_alone() -> None:
    torch.manual_seed(0)
    module = pictures(4, nn.LogSoftmax(dim=1))
    layers = layers_of(module, 64)
    assert layers.shifted
    assert not replace(layers, shifted=False).shifted
    X = np.random.default_rng(0).random((50, 64))
    chances = layers.encoder(np.zeros(64), np.ones(64), X, softmax=True)(X)
    assert chances == pytest.approx(np.exp(answers(module, X)), abs=1e-3)
    with pytest.raises(DataError, match="log-softmax"):
        layers.encoder(np.zeros(64), np.ones(64), X, softmax=False)
