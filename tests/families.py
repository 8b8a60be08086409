"""Families for tests: small designs of the same records."""

from __future__ import annotations

from functools import cache

import numpy as np

import taskveil as tv


def people(count: int = 400, seed: int = 3) -> np.ndarray:
    """Records of two numbers between 0 and 1."""
    return np.random.default_rng(seed).random((count, 2))


@cache
def means(epsilon: float) -> tv.Veil:
    """Means of both numbers."""
    return tv.design(people(), tv.MeanTask(np.eye(2)), epsilon=epsilon, domain=tv.Box([0, 0], [1, 1]))


@cache
def answers(epsilon: float = 2.0) -> tv.Veil:
    """The sum of both, of each person."""
    return tv.design(people(), tv.LinearTask(np.ones((1, 2))), epsilon=epsilon, domain=tv.Box([0, 0], [1, 1]))


@cache
def drawn(share: float = 0.1) -> tv.Family:
    """Answers, and means from a tenth of the reports."""
    return tv.Family({"answers": (answers(), 1 - share if share != 0.1 else 0.9), "survey": (means(1.0), share)})


@cache
def chosen() -> tv.Family:
    """People choose one of three budgets."""
    return tv.Family.of_budgets({0.5: means(0.5), 1.0: means(1.0), 2.0: means(2.0)})
