"""The choice of a shape: without labels, nothing simple out of reach, and more budget never costs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from taskveil.designs.codebooks.alternation import (
    CodeShape,
    Halved,
    Sample,
    SpreadOut,
    choose_shape,
    final_code,
    group_sizes,
)
from taskveil.tasks.costs import CrossEntropy, SquaredError

RNG = np.random.default_rng(5)


def of_classes(classes: int, count: int, skill: float) -> Sample:
    """Predictions that are right with a chance of `skill`, and say so."""
    truth = RNG.integers(0, classes, count)
    said = np.where(RNG.random(count) < skill, truth, RNG.integers(0, classes, count))
    sure = skill + (1 - skill) / classes
    other = (1 - sure) / (classes - 1)
    predicted = np.full((count, classes), other)
    predicted[np.arange(count), said] = sure
    return Sample(predicted=predicted, truth=np.eye(classes)[truth], cost=CrossEntropy())


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_no_label_is_looked_at(epsilon: float) -> None:
    for sample in (of_classes(3, 200, 0.7), of_values(200)):
        unlabelled = replace(sample, truth=np.full_like(sample.truth, np.nan))
        assert choose_shape(Halved(sample, 0), epsilon) == choose_shape(Halved(unlabelled, 0), epsilon)


def of_values(count: int) -> Sample:
    values = RNG.normal(size=(count, 1))
    return Sample(predicted=values, truth=values + 0.1 * RNG.normal(size=(count, 1)), cost=SquaredError())


def test_a_seed_gives_the_same_shape_and_code_again() -> None:
    sample = of_values(300)
    shapes = [choose_shape(Halved(sample, 4), 2.0) for _ in range(2)]
    assert shapes[0] == shapes[1]
    one, two = (final_code(sample, shapes[0], 2.0, 4) for _ in range(2))
    np.testing.assert_array_equal(one.answers, two.answers)


def test_devices_that_store_little_get_short_lists() -> None:
    for sample in (of_values(2000), of_classes(20, 2000, 0.8)):
        assert choose_shape(Halved(sample, 0), 8.0).size > 8  # so that every limit below shortens the list
        for most in (0, 2, 8):
            assert choose_shape(Halved(replace(sample, most=most), 0), 8.0).size <= max(2, most)


def test_a_handful_of_predictions_has_a_shape() -> None:
    for sample in (of_values(4), of_classes(2, 4, 0.5), replace(of_values(6), predicted=np.ones((6, 1)))):
        shape = choose_shape(Halved(sample, 0), 2.0)
        assert np.isfinite(final_code(sample, shape, 2.0, 0).answers).all()


def test_a_label_is_never_out_of_reach() -> None:
    """At ε = 0.5 the budget tells 1.6 groups apart, but a response over all ten labels must be possible."""
    assert 10 in group_sizes(0.5, 1000, 10)
    assert max(group_sizes(2.0, 10_000, 3)) <= 1.5 * math.exp(2.0) + 3
    assert max(group_sizes(8.0, 240, 3)) <= 30


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_never_worse_than_a_response_on_the_label(epsilon: float) -> None:
    for classes, skill in ((2, 0.3), (3, 0.7), (8, 0.5)):
        sample, others = of_classes(classes, 800, skill), of_classes(classes, 20_000, skill)
        code = final_code(sample, choose_shape(Halved(sample, 0), epsilon), epsilon, 0)
        simple = CodeShape(classes, 1, by_label=True).fit(sample, epsilon, SpreadOut(sample, RNG))
        assert code.losses(others).mean() <= 1.01 * simple.losses(others).mean()


def test_more_budget_never_costs() -> None:
    sample, others = of_classes(4, 300, 0.6), of_classes(4, 20_000, 0.6)
    losses = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 28.0):
        code = final_code(sample, choose_shape(Halved(sample, 0), epsilon), epsilon, 0)
        losses.append(code.losses(others).mean())
    assert all(after <= 1.01 * before for before, after in itertools.pairwise(losses))
    assert losses[0] > 1.2 * losses[-1]


def test_more_starts_are_never_worse() -> None:
    sample = of_values(300)
    shape = choose_shape(Halved(sample, 0), 3.0)
    values = [final_code(sample, shape, 3.0, 0, starts).value for starts in (1, 2, 6)]
    assert values == sorted(values, reverse=True)
