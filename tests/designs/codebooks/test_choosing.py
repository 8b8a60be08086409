"""The choice among predictors and shapes: no noise memorised, nothing simple out of reach, more budget never costs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from taskveil.designs.codebooks import choosing
from taskveil.designs.codebooks.alternation import Sample
from taskveil.designs.codebooks.choosing import Shape, choose, final_code, group_sizes
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


def test_copies_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions that memorised: they tell copies apart from all else, and nothing about anybody new."""
    person = np.repeat(np.arange(40), 8)
    truth = np.random.default_rng(3).normal(size=(40, 1))[person]
    held: list[np.ndarray] = []
    real = choosing.Code.losses
    monkeypatch.setattr(choosing.Code, "losses", lambda code, sample: held.append(sample.truth) or real(code, sample))
    choose([Sample(predicted=truth, truth=truth, cost=SquaredError())], person, 3.0, 0)
    # Each fold's held-out values are those of eight whole people, eight times each.
    assert {tuple(np.unique(values, return_counts=True)[1]) for values in held} == {(8,) * 8}


def test_the_better_predictor_is_taken() -> None:
    good = of_classes(3, 600, 0.8)
    order = RNG.permutation(600)
    bad = Sample(predicted=good.predicted[order], truth=good.truth, cost=good.cost)
    assert choose([bad, good], np.arange(600), 2.0, 0).place == 1
    assert choose([good, bad], np.arange(600), 2.0, 0).place == 0


def test_a_label_is_never_out_of_reach() -> None:
    """At ε = 0.5 the budget tells 1.6 groups apart, but a response over all ten labels must be possible."""
    assert 10 in group_sizes(0.5, 1000, 10)
    assert max(group_sizes(2.0, 10_000, 3)) <= 1.5 * math.exp(2.0) + 3
    assert max(group_sizes(8.0, 240, 3)) <= 30


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_never_worse_than_a_response_on_the_label(epsilon: float) -> None:
    for classes, skill in ((2, 0.3), (3, 0.7), (8, 0.5)):
        sample, others = of_classes(classes, 800, skill), of_classes(classes, 20_000, skill)
        chosen = choose([sample], np.arange(800), epsilon, 0)
        code = final_code(sample, chosen.shape, epsilon, np.random.default_rng(0))
        simple = Shape(classes, 1, by_label=True).fit(sample, epsilon, sample.predicted)
        assert code.losses(others).mean() <= 1.01 * simple.losses(others).mean()


def test_more_budget_never_costs() -> None:
    sample, others = of_classes(4, 300, 0.6), of_classes(4, 20_000, 0.6)
    losses = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 28.0):
        chosen = choose([sample], np.arange(300), epsilon, 0)
        losses.append(final_code(sample, chosen.shape, epsilon, np.random.default_rng(0)).losses(others).mean())
    assert all(after <= 1.01 * before for before, after in itertools.pairwise(losses))
    assert losses[0] > 1.2 * losses[-1]


def test_noise_is_not_memorised() -> None:
    """A hundred volunteers whose predictions mean nothing: on others the code costs no more than one answer for all."""
    truth = np.eye(2)[RNG.integers(0, 2, 100)]
    sample = Sample(predicted=RNG.dirichlet([1.0, 1.0], size=100), truth=truth, cost=CrossEntropy())
    chosen = choose([sample], np.arange(100), 8.0, 0)
    code = final_code(sample, chosen.shape, 8.0, np.random.default_rng(0))
    others = Sample(
        predicted=RNG.dirichlet([1.0, 1.0], size=5000), truth=np.eye(2)[RNG.integers(0, 2, 5000)], cost=CrossEntropy()
    )
    assert chosen.losses.mean() > 0.68
    assert code.losses(others).mean() < 1.1 * math.log(2)
