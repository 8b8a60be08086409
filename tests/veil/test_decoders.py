from __future__ import annotations

import numpy as np
import pytest

import releases
from taskveil.errors import DataError
from taskveil.veil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder, Layer, NetworkDecoder


def test_an_affine_decoder_is_its_formula() -> None:
    rng = np.random.default_rng(0)
    weights, offset, values = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(5, 2))
    decoder = AffineDecoder(weights=weights, offset=offset)
    assert decoder.shape == (3, 2)
    assert decoder(values) == pytest.approx(np.stack([weights @ v + offset for v in values]))


def test_a_network_decoder_runs_its_layers_in_order() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(4, 2)), rng.normal(size=(3, 4))
    offsets = rng.normal(size=4), rng.normal(size=3)
    layers = (
        Layer(weights=first, offset=offsets[0], activation="relu"),
        Layer(weights=second, offset=offsets[1], activation="tanh"),
    )
    values = rng.normal(size=(6, 2))
    expected = np.tanh(np.maximum(values @ first.T + offsets[0], 0) @ second.T + offsets[1])
    assert NetworkDecoder(layers=layers)(values) == pytest.approx(expected)
    with pytest.raises(DataError, match="take what the one before gives"):
        NetworkDecoder(layers=layers[::-1])
    with pytest.raises(DataError, match="at least one layer"):
        NetworkDecoder(layers=())
    with pytest.raises(DataError, match="relu"):
        Layer(weights=first, offset=offsets[0], activation="sine")


def test_codewords_of_stages_add_up() -> None:
    codewords = np.arange(10.0).reshape(5, 2)
    decoder = CodewordDecoder(codewords=codewords, sizes=np.array([3, 2]))
    assert decoder.shape == (2, 2)
    assert decoder(np.array([[2, 1], [0, 0]])) == pytest.approx(
        np.stack([codewords[2] + codewords[4], codewords[0] + codewords[3]])
    )
    with pytest.raises(DataError, match="does not exist"):
        decoder(np.array([[3, 0]]))


def test_a_lattice_decoder_finds_the_codeword_behind_the_number() -> None:
    lattice = releases.lattice()
    decoder = LatticeDecoder(lattice=lattice, step=0.5, weights=np.eye(3), offset=np.ones(3))
    places = [0, 7, lattice.size - 1]
    expected = lattice.points(lattice.unrank(lattice.digits(places))) * 0.5 + 1.0
    assert decoder(lattice.digits(places)) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["affine", "codewords", "lattice", "layer"])
def test_decoders_do_not_share_the_callers_memory(kind: str) -> None:
    """What was checked is what is used, whoever writes to the array later."""
    values = np.zeros((2, 3))
    offset, sizes = np.zeros(2), np.array([2])
    made = {
        "affine": lambda: AffineDecoder(weights=values, offset=offset),
        "layer": lambda: Layer(weights=values, offset=offset, activation="none"),
        "codewords": lambda: CodewordDecoder(codewords=values, sizes=sizes),
        "lattice": lambda: LatticeDecoder(lattice=releases.lattice(), step=1.0, weights=values, offset=offset),
    }[kind]()
    values[:] = 7.0
    kept = made.codewords if kind == "codewords" else made.weights
    assert not kept.any()
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 1.0
