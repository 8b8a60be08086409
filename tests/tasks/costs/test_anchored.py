"""Any loss over a list of answers is linear in what each of them costs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from taskveil.designs.domain import box_region
from taskveil.tasks.costs import Anchored, OwnLoss
from taskveil.tasks.costs.own_loss import ANCHORS

RNG = np.random.default_rng(5)
OUTPUTS = RNG.normal(size=(400, 1))
LABELS = OUTPUTS[:, 0] + 0.3 * RNG.normal(size=400)


def pinball(outputs: Tensor, labels: Tensor) -> Tensor:
    short = labels - outputs[:, 0]
    return torch.maximum(0.9 * short, -0.1 * short)


LOSS = OwnLoss(pinball)


def test_the_truth_is_what_each_anchor_costs() -> None:
    cost, truth = LOSS.linear_form(LABELS, lambda: OUTPUTS)
    assert isinstance(cost, Anchored)
    assert 2 <= len(cost.anchors) <= ANCHORS
    assert np.array_equal(truth, LOSS.pairwise_losses(cost.anchors, LABELS))
    # The first is the best that everybody could be answered with: about the quantile.
    assert abs(np.mean(cost.anchors[0, 0] > LABELS) - 0.9) < 0.03


def test_an_answer_is_the_anchor_of_least_mean_cost() -> None:
    cost, truth = LOSS.linear_form(LABELS, lambda: OUTPUTS)
    given = np.stack([truth[:100].mean(axis=0), truth[300:].mean(axis=0)])
    scores = cost.scores(given, truth)
    assert scores == pytest.approx(LOSS.pairwise_losses(cost.outputs(given), LABELS))
    assert scores.mean(axis=0) == pytest.approx(cost.scores(given, truth.mean(axis=0, keepdims=True))[0])
    assert scores[:100, 0].mean() == truth[:100].mean(axis=0).min()
    assert cost.paired_scores(truth, truth) == pytest.approx(cost.least_scores(truth))
    assert (cost.left_out(truth) == 0).all()


def test_the_list_serves_clear_reports_and_noisy_ones() -> None:
    """Answers to certain classes alone would be dear behind a report that says little."""
    labels = RNG.integers(2, size=300)
    certain = np.where(labels[:, None] == [0, 1], 6.0, -6.0)
    entropy = OwnLoss(lambda out, y: torch.nn.functional.cross_entropy(out, y, reduction="none"))
    cost, truth = entropy.linear_form(labels, lambda: certain)
    assert truth.mean(axis=0).min() < 1.02 * np.log(2)  # anybody's
    assert truth.min(axis=1).max() < 0.01  # somebody's own
    assert len(cost.anchors) > 2


def test_costs_may_be_negative_and_labels_of_any_shape() -> None:
    labels = RNG.normal(size=(400, 2, 2))
    gain = OwnLoss(lambda out, y: -1e3 * torch.tanh(out[:, 0] * y[:, 0, 1]))
    cost, truth = gain.linear_form(labels, lambda: OUTPUTS)
    assert truth.shape == (400, len(cost.anchors))
    assert truth.min() < -500
    assert np.isfinite(truth).all()


def test_a_model_that_always_says_the_same_leaves_one_answer() -> None:
    cost, truth = LOSS.linear_form(LABELS, lambda: np.ones((400, 1)))
    assert cost.anchors.tolist() == [[1.0]]
    assert truth.shape == (400, 1)


def test_devices_rank_anchors_by_whole_numbers_as_by_costs() -> None:
    cost, truth = LOSS.linear_form(LABELS, lambda: OUTPUTS)
    answers = truth[RNG.integers(400, size=8)]
    low, high = cost.latent_range(truth)
    region = box_region(low, high)
    vectors, offsets = cost.whole_scores(answers, region.step)
    ranked = region.enforce(truth) @ vectors.T + offsets
    rows = np.arange(400)
    best = cost.scores(answers, truth)
    chosen = best[rows, ranked.argmax(axis=1)]
    assert chosen == pytest.approx(best.min(axis=1), abs=2 * region.step)
