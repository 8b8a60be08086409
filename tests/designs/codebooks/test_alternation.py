"""Answers calibrated to the channel, and devices that favour what should cost least."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.client.mechanisms import Response
from taskveil.designs.codebooks.alternation import Sample, SpreadOut, alternate, answer
from taskveil.tasks.costs import CrossEntropy, SquaredError

RNG = np.random.default_rng(0)
X = RNG.random((320, 5))
VALUE = X @ [2.0, -1.0, 0.5, 0.0, 0.0] + 0.05 * RNG.normal(size=320)
LABEL = (np.median(VALUE) < VALUE).astype(int)


def test_alternation_calibrates_answers_to_the_channel() -> None:
    """With hardly any budget every answer is the base rate; with plenty, the classes themselves."""
    truth = np.eye(2)[LABEL]
    sample = Sample(predicted=0.98 * truth + 0.01, truth=truth, cost=CrossEntropy())
    for epsilon, spread in ((0.01, 0.02), (12.0, 0.9)):
        response = Response.calibrated(size=2, favoured=1, epsilon=epsilon)
        answers = alternate(sample, response, np.array([[0.6, 0.4], [0.4, 0.6]])).answers
        assert np.ptp(answers[:, 0]) == pytest.approx(spread, abs=0.1)


def test_a_class_that_no_volunteer_has_stays_possible() -> None:
    """A person of that class would otherwise cost as much as the answers are small: ten million to one."""
    truth = np.eye(3)[LABEL]
    sample = Sample(predicted=0.98 * truth + 1e-8, truth=truth, cost=CrossEntropy())
    response = Response.calibrated(size=2, favoured=1, epsilon=4.0)
    start = np.array([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0]])
    answers = alternate(sample, response, start).answers
    # A third of one volunteer more, less what the predictions say of it: 8 pseudo-records among half of all.
    share = 1 / 3 / (len(truth) + 1)
    assert (answers[:, 2] < share).all()
    np.testing.assert_allclose(answers[:, 2], share, rtol=0.1)
    np.testing.assert_allclose(answers.sum(axis=1), 1.0, rtol=1e-2)


def test_where_predictions_are_the_constant_so_are_the_answers() -> None:
    """Else the constant would be compared with another constant, and cross-validation prefers the more cautious."""
    for cost, truth in ((CrossEntropy(), np.eye(3)[LABEL]), (SquaredError(), VALUE[:, None])):
        constant = cost.answers(cost.best_constant(truth, lambda truth=truth: truth)[None])
        sample = Sample(predicted=np.repeat(constant, len(truth), axis=0), truth=truth, cost=cost)
        response = Response.calibrated(size=4, favoured=1, epsilon=2.0)
        code = alternate(sample, response, SpreadOut(sample, np.random.default_rng(0))(4))
        np.testing.assert_allclose(code.answers, np.repeat(constant, 4, axis=0), rtol=1e-9)


def test_losses_are_expectations_over_the_channel() -> None:
    sample = Sample(predicted=VALUE[:, None], truth=VALUE[:, None], cost=SquaredError())
    response = Response.calibrated(size=6, favoured=2, epsilon=1.5)
    code = alternate(sample, response, SpreadOut(sample, np.random.default_rng(1))(6))
    favoured = code.favoured(sample)
    chances = np.full((320, 6), response.base)
    np.put_along_axis(chances, favoured, response.base + response.extra, axis=1)
    assert chances.sum(axis=1) == pytest.approx(np.ones(320))
    expected = (chances * (code.answers[:, 0] - VALUE[:, None]) ** 2).sum(axis=1)
    assert code.losses(sample) == pytest.approx(expected)


def test_answers_to_labels_are_those_of_bayes() -> None:
    """Randomised response on the likeliest class, answered with what the truth is then: counted by hand."""
    said = np.where(RNG.random(4000) < 0.8, np.repeat([0, 1], 2000), RNG.integers(0, 2, 4000))
    truth = np.eye(2)[np.repeat([0, 1], 2000)]
    sample = Sample(predicted=0.8 * np.eye(2)[said] + 0.1, truth=truth, cost=CrossEntropy())
    response = Response.calibrated(size=2, favoured=1, epsilon=1.0)
    code = answer(sample, response, CrossEntropy().labels_apart(2))
    assert np.array_equal(code.favoured(sample)[:, 0], said)
    report = np.array([[np.e, 1.0], [1.0, np.e]]) / (1 + np.e)
    joint = report[said].T @ truth
    assert code.answers == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=2e-3)
