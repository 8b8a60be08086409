from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import hand_made_networks
import releases
from hostile import hostile_records
from taskveil.client.latent_encoders import HiddenEncoder, LinearEncoder, MeanEncoder, Plain
from taskveil.client.networks import portable_softmax
from taskveil.errors import DataError


def box(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    low = rng.normal(size=n) * 10 ** rng.uniform(-3, 3, size=n)
    return low, low + 10 ** rng.uniform(-3, 3, size=n)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 8))
def test_linear_encoders_are_close_to_their_floats(seed: int, n: int, z: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = box(rng, n)
    weights, offset = rng.normal(size=(z, n)) / (high - low), rng.normal(size=z)
    encoder = LinearEncoder.of(low=low, high=high, weights=weights, offset=offset)
    X = low + (high - low) * rng.random((50, n))
    # Half a level per attribute, and every weight rounded to a 2^31st of the largest sum.
    reach = np.abs(weights) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(offset)
    allowed = 1e-6 * np.abs(weights * (high - low)).sum(axis=1) + 1e-9 * n * reach
    assert (np.abs(encoder(X) - (X @ weights.T + offset)) <= allowed).all()


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_hidden_encoders_are_close_to_their_floats(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = box(rng, n)
    W1 = rng.normal(size=(12, n)) / (high - low)
    b1 = rng.normal(size=12) - W1 @ low
    W2, skip = rng.normal(size=(3, 12)), rng.normal(size=(3, n)) / (high - low)
    b2 = rng.normal(size=3) - skip @ low
    encoder = HiddenEncoder.of(
        low=low, high=high, hidden_weights=W1, hidden_offset=b1, weights=W2, offset=b2, skip=skip
    )
    X = low + (high - low) * rng.random((50, n))
    assert encoder(X) == pytest.approx(np.maximum(X @ W1.T + b1, 0) @ W2.T + X @ skip.T + b2, abs=1e-3)
    classes = HiddenEncoder.of(
        low=low, high=high, hidden_weights=W1, hidden_offset=b1, weights=W2, offset=b2, softmax=True
    )
    assert classes(X) == pytest.approx(softmax(np.maximum(X @ W1.T + b1, 0) @ W2.T + b2, axis=1), abs=1e-3)


@given(st.integers(0, 10**6))
def test_latents_do_not_depend_on_the_order_of_summation(seed: int) -> None:
    """Bit for bit: permuted attributes, one record at a time, and exact integer arithmetic agree."""
    rng = np.random.default_rng(seed)
    low, high = box(rng, 30)
    encoder = LinearEncoder.of(low=low, high=high, weights=rng.normal(size=(4, 30)), offset=rng.normal(size=4))
    X = np.vstack([low + (high - low) * rng.normal(size=(20, 30)), hostile_records(30)[:40]])
    batch = encoder(X)
    order = rng.permutation(30)
    permuted = LinearEncoder(
        low=low[order], high=high[order], weights=encoder.weights[:, order], offset=encoder.offset, step=encoder.step
    )
    assert np.array_equal(batch, permuted(X[:, order]))
    assert np.array_equal(batch, np.vstack([encoder(row[None]) for row in X]))


def test_hostile_records_give_finite_latents() -> None:
    rng = np.random.default_rng(0)
    low, high = box(rng, 5)
    encoder = HiddenEncoder.of(
        low=low, high=high, hidden_weights=rng.normal(size=(8, 5)), hidden_offset=rng.normal(size=8),
        weights=rng.normal(size=(3, 8)), offset=rng.normal(size=3), softmax=True,
    )  # fmt: skip
    latents = encoder(hostile_records(5))
    assert np.isfinite(latents).all()
    assert latents.sum(axis=1) == pytest.approx(1.0)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=10))
def test_the_portable_softmax_is_a_softmax(logits: list[float]) -> None:
    ours = portable_softmax(np.array([logits]))
    assert ours == pytest.approx(softmax([logits], axis=1), abs=1e-14)


def test_weights_that_would_not_add_up_exactly_are_refused() -> None:
    ones = np.ones(2)
    with pytest.raises(DataError, match="exact"):
        LinearEncoder(low=0 * ones, high=ones, weights=np.full((1, 2), 2**40), offset=np.zeros(1, int), step=np.ones(1))
    with pytest.raises(DataError, match="powers of two"):
        LinearEncoder(
            low=0 * ones, high=ones, weights=np.ones((1, 2), int), offset=np.zeros(1, int), step=0.3 * np.ones(1)
        )
    with pytest.raises(DataError, match="integers"):
        LinearEncoder(low=0 * ones, high=ones, weights=np.ones((1, 2)), offset=np.zeros(1, int), step=np.ones(1))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="low"):
        LinearEncoder(
            low=np.array([0, np.nan]), high=ones, weights=np.ones((1, 2), int), offset=np.zeros(1, int), step=np.ones(1)
        )


def test_a_mean_adds_up_in_order() -> None:
    several = (
        releases.hidden(8, softmax=True), releases.linear(8), releases.tabled(releases.linear(8)),
        releases.trees(width=8), hand_made_networks.encoder(hand_made_networks.dense(8, 3, shift=20, top=255)),
    )  # fmt: skip
    X = hostile_records(8)
    weights, total = np.array([0.1, 0.3, 0.0, 1.0, 1.0 / 3.0]), 0.0
    for encoder, weight in zip(several, weights.tolist(), strict=True):
        total = total + weight * encoder(X)
    mean = MeanEncoder(encoders=several, weights=weights)
    assert np.array_equal(mean(X), total, equal_nan=True)
    assert mean.operations == sum(encoder.operations for encoder in several)
    assert np.array_equal(mean.low, np.min([encoder.low for encoder in several], axis=0))
    assert np.array_equal(mean.high, np.max([encoder.high for encoder in several], axis=0))


def test_what_no_mean_is_made_of_is_refused() -> None:
    def mean(*encoders: Plain | MeanEncoder) -> MeanEncoder:
        return MeanEncoder(encoders=encoders, weights=np.full(len(encoders), 1.0 / 8.0))  # type: ignore[arg-type]

    one, network = releases.linear(8), hand_made_networks.deep_pooling(8, 3)
    mean(*[network] * 5)
    with pytest.raises(DataError, match="products"):
        mean(*[network] * 6)
    for wrong in ((one,), (one,) * 65, (one, mean(one, one))):
        with pytest.raises(DataError, match="2 to 64"):
            mean(*wrong)
    for other in (releases.linear(7), releases.linear(8, 2)):
        with pytest.raises(DataError, match="same attributes"):
            mean(one, other)
    for weights in (np.ones(3), np.array([0.5, 1.1]), np.array([0.5, np.nan]), np.array([-0.1, 1.0]), np.ones(2, int)):
        with pytest.raises(DataError, match="weight"):
            MeanEncoder(encoders=(one, one), weights=weights)


@pytest.mark.parametrize("name", ["laplace_sign_hidden", "layers_dense", "codebook_trees"])
def test_powers_of_two_come_from_their_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some machines round powers. Exponents have 32 bits: on Windows, numpy takes no others."""
    device, real, asked = releases.devices()[name], np.ldexp, []

    def ldexp(x: np.ndarray, exponent: np.ndarray | int, **more: object) -> np.ndarray:
        asked.append(np.asarray(exponent).dtype if isinstance(exponent, np.ndarray) else np.dtype(np.int32))
        return real(x, exponent, **more)  # type: ignore[no-any-return, call-overload]

    monkeypatch.setattr(np, "ldexp", ldexp)
    device.encoder(np.zeros((2, device.encoder.width)))
    assert set(asked) == {np.dtype(np.int32)}
