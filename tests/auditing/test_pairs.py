"""Inputs worth telling apart are found where mechanisms fail."""

from __future__ import annotations

import numpy as np
import pytest

from auditing import exhibits, leaks
from auditing.targets import target
from taskveil.auditing.pairs import InputPair, find_pairs, hostile_records


def pairs(what: object) -> list[InputPair]:
    return find_pairs(target(what), count=4, pilot=500, rng=np.random.default_rng(0))


@pytest.mark.parametrize("factor", [1.01, 2.0, 10.0, 1e4])
def test_inputs_beyond_the_range_are_tried(factor: float) -> None:
    """A mechanism that echoes just around this many times the range, on one side."""
    made = target(exhibits.laplace(exhibits.WIDE))
    edge = float(made.middle[0] + factor * (made.high - made.middle)[0])

    def echo(X: np.ndarray) -> np.ndarray:
        near = np.abs(X - edge) < 1e-3 * abs(edge - made.high[0])
        return np.where(near, X, exhibits.laplace(exhibits.WIDE)(X))

    found = [float(record[0]) for pair in pairs(echo) for record in (pair.first, pair.second)]
    assert any(value == pytest.approx(edge) for value in found)


def test_inputs_of_different_residues_are_chosen() -> None:
    chosen = pairs(leaks.coarse_noise(3))
    steps = [[int(exhibits.on_grid(record)[0]) % 3 for record in (pair.first, pair.second)] for pair in chosen]
    assert any(first != second for first, second in steps)


def test_every_finalist_brings_two_new_inputs() -> None:
    chosen = pairs(exhibits.laplace(exhibits.WIDE))
    names = [name for pair in chosen for name in pair.names]
    assert len(chosen) == 4
    assert len(set(names)) == len(names)


def test_hostile_records_are_of_all_sorts() -> None:
    made = hostile_records(np.zeros(2), np.ones(2), np.random.default_rng(0), 5000)
    assert made.shape == (5000, 2)
    assert np.isnan(made).any()
    assert np.isinf(made).any()
    assert ((made >= 0) & (made <= 1)).all(axis=1).sum() > 500
