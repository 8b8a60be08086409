"""Estimates from a MeanTask's reports: of what the task weighs, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv

RNG = np.random.default_rng(5)
VOLUNTEERS = RNG.normal(size=(400, 3)) @ np.array([[1.0, 0.9, 0.8], [0.0, 0.3, 0.1], [0.0, 0.0, 0.5]])
PEOPLE = np.clip(RNG.normal(size=(4000, 3)) * 0.3 + [2.0, -1.0, 0.0], -4.0, 4.0)
BOX = tv.Box([-4.0] * 3, [4.0] * 3)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("K", [np.ones((1, 3)), np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])])
def test_a_sum_is_told_and_its_terms_are_not(K: np.ndarray, unit: float) -> None:
    """Told by the sum alone, single attributes would be the volunteers' guess with an interval that promises more."""
    box = tv.Box(BOX.low * unit, BOX.high * unit)
    veil = tv.design(VOLUNTEERS * unit, tv.MeanTask(K), epsilon=4.0, domain=box)
    estimate = tv.estimate(veil, veil.privatize(PEOPLE * unit))
    assert estimate.attributes == ()
    truth = (PEOPLE * unit).mean(axis=0) @ K.T
    for answer, mean in zip(estimate.answers, truth, strict=True):
        assert abs(answer.mean - mean) < 3 * (answer.high - answer.low)


@pytest.mark.parametrize(
    "K", [np.diag([1.0, 0.0, 2.0]), np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])]
)
def test_attributes_that_the_task_determines_are_told(K: np.ndarray) -> None:
    veil = tv.design(VOLUNTEERS, tv.MeanTask(K), epsilon=4.0, domain=BOX)
    estimate = tv.estimate(veil, veil.privatize(PEOPLE))
    weighed = np.flatnonzero(np.abs(K).max(axis=0))
    assert [interval.name for interval in estimate.attributes] == [f"x{place}" for place in weighed]
    for interval, mean in zip(estimate.attributes, PEOPLE.mean(axis=0)[weighed], strict=True):
        assert abs(interval.mean - mean) < 3 * (interval.high - interval.low)
