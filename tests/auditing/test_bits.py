"""Numbers as bits and as points of a grid."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.auditing.scores import Residues, bit_patterns, raw_bits, whole_reports


def test_bit_patterns_name_exponent_and_lowest_bit() -> None:
    values = np.array([[1.0], [1.5], [3.0], [-3.0], [np.nan], [np.inf], [0.0]])
    codes = bit_patterns(values)[:, 0]
    assert codes[2] == codes[3]  # the sign is no bit pattern
    assert len(set(codes.tolist())) == 6


def test_raw_bits_tell_zeros_and_nans_apart() -> None:
    other_nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    values = np.array([[0.0], [-0.0], [np.nan], [other_nan], [1.0]])
    assert len(set(raw_bits(values)[:, 0].tolist())) == 5
    assert len(set(whole_reports(values)[:, 0].tolist())) == 5
    assert raw_bits(np.array([[3], [-1]])).tolist() == [[3], [-1]]


@pytest.mark.parametrize("unit", [1, 2.0**-20, 2.0**30, 0.01, 0.25])
def test_residues_modulo_the_gcd_of_differences(unit: float) -> None:
    """Multiples of 6 added to 1 and to 3: modulo 6 they never meet."""
    rng = np.random.default_rng(0)
    first, second = ((start + 6 * rng.integers(-500, 500, size=(400, 1))) * unit for start in (1, 3))
    residues = Residues.of(first, second)
    assert [modulus for _, _, modulus in residues.entries] == [6 * max(1, round(unit * residues.entries[0][1]))]
    a, b = set(residues(first)[:, 0].tolist()), set(residues(second)[:, 0].tolist())
    assert len(a) == len(b) == 1
    assert a != b


def test_each_input_may_have_its_own_grid() -> None:
    rng = np.random.default_rng(0)
    first, second = 3 * rng.integers(-500, 500, size=(400, 1)), rng.integers(-500, 500, size=(400, 1))
    residues = Residues.of(first, second)
    assert [modulus for _, _, modulus in residues.entries] == [3]
    assert len(set(residues(second)[:, 0].tolist())) == 3


def test_what_lies_on_no_grid_has_no_residues() -> None:
    noise = np.random.default_rng(0).laplace(size=(400, 1))
    assert Residues.of(noise, noise + 1).entries == ()
    assert Residues.of(np.full((5, 1), np.nan), np.ones((5, 1))).entries == ()
    assert Residues.of(np.full((5, 1), 1e300), np.full((5, 1), 5e-324)).entries == ()
    grid = Residues.of(np.arange(0.0, 20, 2)[:, None], np.arange(0.0, 20, 2)[:, None])
    assert grid(np.array([[2.0], [0.5], [np.nan], [np.inf], [3.0]])).tolist() == [[0], [-1], [-1], [-1], [1]]
