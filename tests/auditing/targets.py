"""Targets for tests of single checks."""

from __future__ import annotations

import numpy as np

import taskveil as tv
from taskveil.auditing.pairs import InputPair
from taskveil.auditing.target import Target


def target(what: object, dim: int = 1, epsilon: float = 1.0) -> Target:
    """A veil with its own claim, or a callable on [−1, 1]^dim."""
    if isinstance(what, tv.Veil):
        return Target.of(what, epsilon=None, delta=0.0, records=None)
    records = np.random.default_rng(3).uniform(-1, 1, size=(50, dim))
    return Target.of(what, epsilon=epsilon, delta=0.0, records=records)


def ends(dim: int = 1) -> InputPair:
    """The two ends of the range."""
    return InputPair(first=np.ones(dim), second=-np.ones(dim), names=("highest", "lowest"))
