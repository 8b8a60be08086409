"""Predictable generators, wherever they hide."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from auditing import exhibits, sound
from taskveil.auditing.sources import foreign_randomness


def uses_random(X: np.ndarray) -> np.ndarray:
    return X + random.random()


def imports_random(X: np.ndarray) -> np.ndarray:
    from random import gauss

    return X + gauss()


class Holds:
    def __init__(self) -> None:
        self.source = {"rng": [np.random.default_rng(0)]}

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X


def through_a_helper(X: np.ndarray) -> np.ndarray:
    return exhibits.fixed_seed(X)


def from_the_system(X: np.ndarray) -> np.ndarray:
    return X + random.SystemRandom().random()


@pytest.mark.parametrize(
    "what",
    [uses_random, imports_random, Holds(), through_a_helper, np.random.default_rng(0).normal, random.gauss],
)
def test_predictable_randomness_within_reach(what: object) -> None:
    assert foreign_randomness(what)


def test_mechanisms_reach_the_operating_system_only() -> None:
    veils = [exhibits.laplace_veil(1.0), sound.codebook_for(1.0), exhibits.lattice_veil(3.0)]
    assert foreign_randomness(*(part for veil in veils for part in (veil.mechanism, veil.encoder))) == []
    assert foreign_randomness(from_the_system) == []


def test_browser_code_never_asks_math_random() -> None:
    sources = [
        path
        for path in (Path(__file__).parents[2] / "js").glob("**/*.[jt]s")
        if "node_modules" not in path.parts and "test" not in path.parts
    ]
    assert [path.name for path in sources if "Math.random" in path.read_text(encoding="utf-8")] == []
