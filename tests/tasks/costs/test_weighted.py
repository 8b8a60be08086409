"""Several losses at once: every part keeps its own account, and they add up."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.designs.domain import box_region
from taskveil.tasks.costs import CrossEntropy, OwnLoss, SquaredError, WeightedCost, ZeroOne

RNG = np.random.default_rng(6)
VALUES = 1e6 + 1e3 * RNG.normal(size=(200, 2))
CLASSES = np.eye(3)[RNG.integers(3, size=200)]
ANCHORED, COSTS = OwnLoss(lambda out, y: (out[:, 0] - y).abs()).linear_form(
    RNG.normal(size=200), lambda: RNG.normal(size=(200, 1))
)
FORMS = [
    (SquaredError(), 1e-6, VALUES),
    (CrossEntropy(), 2.0, CLASSES),
    (ZeroOne(), 0.5, CLASSES[::-1]),
    (ANCHORED, 3.0, COSTS),
]
COST, TRUTH = WeightedCost.of(FORMS)


def own_answers(count: int) -> list[np.ndarray]:
    """Mean truths of random groups, in every part's own form."""
    share = RNG.dirichlet(np.ones(200), size=count)
    return [share @ truth for _, _, truth in FORMS]


def together(answers: list[np.ndarray]) -> np.ndarray:
    return np.hstack([part.write(own) for part, own in zip(COST.parts, answers, strict=True)])


def test_scores_are_the_weighted_sum() -> None:
    answers = own_answers(7)
    expected = sum(w * cost.scores(own, truth) for (cost, w, truth), own in zip(FORMS, answers, strict=True))
    assert COST.scores(together(answers), TRUTH) == pytest.approx(expected)
    least = sum(w * cost.least_scores(truth) for cost, w, truth in FORMS)
    assert COST.least_scores(TRUTH) == pytest.approx(least)
    left = sum(w * cost.left_out(truth) for cost, w, truth in FORMS)
    assert COST.left_out(TRUTH) == pytest.approx(left)
    own = own_answers(200)
    assert np.diag(COST.scores(together(own), TRUTH)) == pytest.approx(COST.paired_scores(together(own), TRUTH))


def test_outputs_are_side_by_side() -> None:
    answers = own_answers(5)
    outputs = COST.outputs(together(answers))
    separately = [cost.outputs(own) for (cost, _, _), own in zip(FORMS, answers, strict=True)]
    assert outputs == pytest.approx(np.hstack(separately))


def test_mean_truths_stay_mean_truths() -> None:
    """What is best for some records is their mean, in whichever unit it is written."""
    assert TRUTH[:50].mean(axis=0) == pytest.approx(
        together([truth[:50].mean(axis=0)[None] for _, _, truth in FORMS])[0]
    )


def test_units_weigh_parts_by_what_knowing_them_spares() -> None:
    ends = np.cumsum([2, 3, 3])
    variances = [part.var(axis=0).sum() for part in np.split(TRUTH, ends, axis=1)]
    for (cost, weight, truth), variance in zip(FORMS, variances, strict=True):
        constant = cost.scores(truth.mean(axis=0)[None], truth)[:, 0]
        assert variance == pytest.approx(weight * (constant - cost.least_scores(truth)).mean())
    assert COST.learned_by == SquaredError(one_unit=True)


def test_parts_are_cautious_and_soft_by_themselves() -> None:
    answers = [own[:, :] for own in own_answers(4)]
    answers[1] = np.eye(3)[[0, 1, 0, 1]]
    values, classes, _, _ = np.split(COST.softened(together(answers)), [2, 5, 8], axis=1)
    assert COST.parts[0].read(values) == pytest.approx(answers[0])
    assert COST.parts[1].read(classes) == pytest.approx(CrossEntropy().softened(answers[1]))
    lacking = CLASSES.copy()
    lacking[:, 2] = 0.0
    cost, truth = WeightedCost.of([(SquaredError(), 1.0, VALUES), (CrossEntropy(), 1.0, lacking)])
    written = np.hstack([cost.parts[0].write(answers[0]), cost.parts[1].write(answers[1])])
    cautious = cost.parts[1].read(cost.cautious(written, truth)[:, 2:])
    assert cautious == pytest.approx(CrossEntropy().cautious(answers[1], lacking))


def test_devices_rank_by_whole_numbers_as_by_scores() -> None:
    predicted = TRUTH + 0.1 * RNG.normal(size=TRUTH.shape)
    low, high = COST.latent_range(predicted)
    predicted = np.clip(predicted, low, high)
    region = box_region(low, high)
    answers = together(own_answers(9))
    vectors, offsets = COST.whole_scores(answers, region.step)
    assert vectors.dtype == offsets.dtype == np.int64
    k = region.enforce(predicted)
    assert (np.abs(vectors) @ np.abs(k).max(axis=0) + np.abs(offsets) < 2**53).all()
    scores = COST.scores(answers, predicted)
    chosen = np.take_along_axis(scores, (k @ vectors.T + offsets).argmax(axis=1)[:, None], axis=1)[:, 0]
    assert chosen == pytest.approx(scores.min(axis=1), abs=1e-4 * np.ptp(scores))


def test_a_truth_that_never_changes_is_harmless() -> None:
    cost, truth = WeightedCost.of([(SquaredError(), 1.0, np.ones((20, 1))), (ZeroOne(), 1.0, np.eye(2)[[0] * 20])])
    assert (truth == 0).all()
    assert cost.scores(truth[:1], truth) + cost.left_out(truth)[:, None] == pytest.approx(np.zeros((20, 1)))
    vectors, offsets = cost.whole_scores(truth[:2], 2.0**-20)
    assert np.abs(vectors).max() < 2**53
    assert offsets.tolist() == [0, 0]
