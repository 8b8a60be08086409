"""Every loss object gives one account of itself: pairwise and per record, numpy and torch, in floats and in whole
numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from taskveil.designs.domain import box_region
from taskveil.errors import TaskError
from taskveil.tasks.costs import Cost, CrossEntropy, Learnable, LinearInTruth, OwnLoss, SquaredError, ZeroOne, as_cost
from taskveil.tasks.costs.own_loss import drawn_together

RNG = np.random.default_rng(4)
OUTPUTS = 2.0 * RNG.normal(size=(30, 3))
FEW = 2.0 * RNG.normal(size=(5, 3))
SOFT = RNG.dirichlet(np.ones(3), size=30)  # in range of both: values, and probabilities
OWN = OwnLoss(lambda out, y: (out[:, 0] - y[:, 1]).abs() + out[:, 2].square())
LEARNT: list[Learnable] = [SquaredError(), CrossEntropy()]


def each(*costs: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cost", costs, ids=lambda cost: type(cost).__name__)


ALL = each(*LEARNT, ZeroOne(), OWN)
LINEAR = each(*LEARNT, ZeroOne())
WITH_GRADIENTS = each(*LEARNT, OWN)
LEARNABLE = each(*LEARNT)


def model(outputs: int = 3, classes: np.ndarray | None = None) -> SimpleNamespace:
    return SimpleNamespace(outputs=outputs, classes=classes)


def nothing() -> np.ndarray:
    raise AssertionError("a formula needs no candidates")


def test_names_and_callables_lead_to_their_objects() -> None:
    assert as_cost("mse") == SquaredError()
    assert as_cost("cross_entropy") == CrossEntropy()
    assert as_cost("zero_one") == ZeroOne() != CrossEntropy()
    assert as_cost(min) == OwnLoss(min)
    with pytest.raises(TaskError, match='"mse", "cross_entropy", "zero_one" or a callable'):
        as_cost("l1")


def test_the_textbook_formulas() -> None:
    assert SquaredError().losses(OUTPUTS, SOFT) == pytest.approx(np.square(OUTPUTS - SOFT).sum(axis=1) / 3)
    assert CrossEntropy().losses(OUTPUTS, SOFT) == pytest.approx(-(SOFT * log_softmax(OUTPUTS, axis=1)).sum(axis=1))
    assert CrossEntropy().answers(OUTPUTS) == pytest.approx(softmax(OUTPUTS, axis=1))


@ALL
def test_pairs_cost_what_each_costs(cost: Cost) -> None:
    pairs = cost.pairwise_losses(FEW, SOFT)
    assert pairs.shape == (30, 5)
    for place, outputs in enumerate(FEW):
        assert pairs[:, place] == pytest.approx(cost.losses(np.tile(outputs, (30, 1)), SOFT))


@WITH_GRADIENTS
def test_every_replica_costs_what_numpy_says(cost: Cost) -> None:
    outputs = RNG.normal(size=(4, 30, 3))
    found = cost.replica_losses(torch.tensor(outputs), torch.tensor(SOFT)).numpy()
    assert found == pytest.approx(np.stack([cost.losses(replica, SOFT) for replica in outputs]))


@LEARNABLE
def test_tensors_cost_and_say_what_arrays_do(cost: Learnable) -> None:
    outputs, truth = torch.tensor(OUTPUTS), torch.tensor(SOFT)
    assert cost.tensor_losses(outputs, truth).numpy() == pytest.approx(cost.losses(OUTPUTS, SOFT))
    shift, scale = cost.standard(truth)
    assert shift.shape == scale.shape == (3,)
    assert (scale > 0).all()


@LINEAR
def test_scores_are_losses_up_to_a_term_of_the_truth(cost: LinearInTruth) -> None:
    scores = cost.scores(cost.answers(FEW), SOFT)
    assert scores + cost.left_out(SOFT)[:, None] == pytest.approx(cost.pairwise_losses(FEW, SOFT))
    # Linear: the expected score is the score at the expected truth.
    assert scores.mean(axis=0) == pytest.approx(cost.scores(cost.answers(FEW), SOFT.mean(axis=0, keepdims=True))[0])
    assert np.diag(cost.scores(cost.answers(OUTPUTS), SOFT)) == pytest.approx(
        cost.paired_scores(cost.answers(OUTPUTS), SOFT)
    )


@LINEAR
def test_outputs_say_what_answers_say(cost: Learnable) -> None:
    answers = cost.answers(OUTPUTS)
    assert cost.answers(cost.outputs(answers)) == pytest.approx(answers)
    assert cost.linear_form(SOFT, nothing) == (cost, SOFT)
    assert isinstance(cost.learned_by, SquaredError | CrossEntropy)


def test_outputs_of_one_unit_are_learned_in_it() -> None:
    truth = RNG.normal(size=(200, 2)) * [1.0, 100.0]
    shift, own = SquaredError().standard(truth)
    again, one = SquaredError(one_unit=True).standard(truth)
    assert (shift == again).all()
    assert own[1] > 50 * own[0]
    assert one[0] == one[1] == pytest.approx(float(np.sqrt((own**2).mean())))


@LINEAR
def test_no_answer_scores_less_than_the_truth(cost: LinearInTruth) -> None:
    least = cost.least_scores(SOFT)
    assert np.diag(cost.scores(SOFT, SOFT)) == pytest.approx(least)
    assert (cost.scores(RNG.dirichlet(np.ones(3), size=200), SOFT) >= least[:, None] - 1e-12).all()
    certain = np.eye(3)
    assert np.isfinite(cost.scores(certain, certain)).all()
    assert np.isfinite(cost.least_scores(certain)).all()


@LINEAR
def test_softened_answers_rule_nothing_out(cost: LinearInTruth) -> None:
    answers = np.eye(3)[np.arange(21) % 3]
    soft = cost.softened(answers)
    assert soft.sum(axis=1) == pytest.approx(np.ones(21))
    # A third of the answers name each class, and a tenth of their mean is in every one of them: 1/30 at least.
    assert cost.scores(soft, np.eye(3)).max() <= np.log(30) + 1e-9
    assert np.array_equal(soft.argmax(axis=1), answers.argmax(axis=1))


@WITH_GRADIENTS
def test_the_best_constant_is_best(cost: Cost) -> None:
    candidates = RNG.normal(size=(40, 3))
    found = cost.best_constant(SOFT, nothing if isinstance(cost, LinearInTruth) else lambda: candidates)
    value = cost.losses(np.tile(found, (30, 1)), SOFT).mean()
    if isinstance(cost, OwnLoss):
        drawn = drawn_together(candidates)  # codebooks may answer with these too
        assert value == pytest.approx(cost.pairwise_losses(drawn, SOFT).mean(axis=0).min(), rel=1e-12)
        assert value <= cost.pairwise_losses(candidates, SOFT).mean(axis=0).min()
        return
    # Cross-entropy counts one more record, of any class alike, so it is best for those.
    more = np.concatenate([SOFT, np.full((1, 3), 1 / 3)]) if isinstance(cost, CrossEntropy) else SOFT

    def mean_loss(outputs: np.ndarray) -> float:
        return float(cost.losses(np.tile(outputs, (len(more), 1)), more).mean())

    least = minimize(mean_loss, np.zeros(3), method="BFGS").fun
    assert mean_loss(found) == pytest.approx(least, rel=1e-6)


@LINEAR
def test_devices_rank_answers_by_whole_numbers_as_by_scores(cost: LinearInTruth) -> None:
    predicted = RNG.dirichlet(np.ones(3), size=300)
    answers = RNG.dirichlet(np.ones(3), size=6)
    low, high = cost.latent_range(predicted)
    assert (low <= predicted).all()
    assert (predicted <= high).all()
    region = box_region(low, high)
    vectors, offsets = cost.whole_scores(answers, region.step)
    assert vectors.dtype == offsets.dtype == np.int64
    ranked = region.enforce(predicted) @ vectors.T + offsets
    assert np.array_equal(ranked.argmax(axis=1), cost.scores(answers, predicted).argmin(axis=1))


@WITH_GRADIENTS
def test_mismatch_is_what_is_lost_above_the_best(cost: Cost) -> None:
    wanted, given, spread = torch.tensor(OUTPUTS), torch.tensor(OUTPUTS[::-1].copy()), torch.tensor([1.0, 2.0, 3.0])
    assert float(cost.mismatch(wanted, wanted, spread)) == pytest.approx(0.0, abs=1e-12)
    found = float(cost.mismatch(given, wanted, spread))
    if isinstance(cost, OwnLoss):
        assert found == pytest.approx(np.square((OUTPUTS - OUTPUTS[::-1]) / [1.0, 2.0, 3.0]).mean())
        return
    truth = cost.answers(OUTPUTS)
    lost = cost.losses(OUTPUTS[::-1], truth) - cost.losses(OUTPUTS, truth)
    assert found == pytest.approx(lost.mean())


@ALL
def test_learned_outputs_start_in_their_frame(cost: Cost) -> None:
    values = RNG.normal(size=(50, 3)) * [1.0, 0.0, 2.0]
    centre, spread, centring = cost.frame(SOFT, nothing if isinstance(cost, LinearInTruth) else lambda: values)
    assert (centre.shape, spread.shape, centring.shape) == ((3,), (3,), (3, 3))
    assert (spread > 0).all()
    assert cost.losses(OUTPUTS @ centring, SOFT) == pytest.approx(cost.losses(OUTPUTS, SOFT))
    if isinstance(cost, LinearInTruth):
        assert np.array_equal(centre, cost.best_constant(SOFT, nothing))
    else:
        assert centre == pytest.approx(values.mean(axis=0))
        assert spread[1] == 1.0


def test_labels_become_truth() -> None:
    entropy, squares = CrossEntropy(), SquaredError()
    named = model(3, np.array(["low", "mid", "high"]))
    assert np.array_equal(squares.own_truth(OUTPUTS), OUTPUTS)
    assert np.array_equal(entropy.own_truth(OUTPUTS), entropy.answers(OUTPUTS))
    with pytest.raises(TaskError, match="needs y"):
        OWN.own_truth(OUTPUTS)
    numbers = entropy.labels(np.array(["high", "low"]), named)
    assert numbers.tolist() == [2, 0]
    assert entropy.truth(numbers, named).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert entropy.labels(np.array([[2.0], [1.0]]), model()).tolist() == [2, 1]
    assert squares.labels(np.array([1, 2]), model(1)).tolist() == [[1.0], [2.0]]
    anything = np.array([["a"], ["b"]])
    assert np.array_equal(OWN.truth(OWN.labels(anything, model()), model()), anything)
    with pytest.raises(TaskError, match="must be numbers"):
        OWN.losses(OUTPUTS[:2], anything)


def test_a_loss_that_gives_no_number_per_record_is_refused() -> None:
    for function in (lambda out, y: out.mean(), lambda out, y: out[:, 0] / 0.0, lambda out, y: out):
        with pytest.raises(TaskError, match="one finite number per record"):
            OwnLoss(function).losses(OUTPUTS, SOFT)


def test_a_loss_of_ones_own_gets_arrays_or_tensors() -> None:
    """Arrays first; tensors where these do not suit it."""
    given: list[type] = []

    def seen(function: Callable[[Any, Any], Any]) -> OwnLoss:
        def loss(out: Any, y: Any) -> Any:
            given.append(type(out))
            assert type(out) is type(y)
            return function(out, y)

        return OwnLoss(loss)

    wanted = np.abs(OUTPUTS[:, 0] - SOFT[:, 1])
    ways: list[tuple[Callable[[Any, Any], Any], list[type]]] = [
        (lambda out, y: abs(out[:, 0] - y[:, 1]), [np.ndarray]),
        (lambda out, y: np.abs(out[:, 0] - y[:, 1]).tolist(), [np.ndarray]),
        (lambda out, y: torch.as_tensor(out[:, 0] - y[:, 1]).abs(), [np.ndarray]),
        (lambda out, y: (out[:, 0] - y[:, 1]).abs(), [np.ndarray, torch.Tensor]),
        (lambda out, y: torch.abs(out[:, 0] - y[:, 1]), [np.ndarray, torch.Tensor]),
        (lambda out, y: (out[:, :1] - y[:, 1:2]).abs().max(1)[0], [np.ndarray, torch.Tensor]),
    ]
    for function, kinds in ways:
        given.clear()
        assert seen(function).losses(OUTPUTS, SOFT) == pytest.approx(wanted)
        assert given == kinds


def test_an_error_of_ones_own_loss_is_shown() -> None:
    """Both refusals, the one for tensors last."""
    with pytest.raises(AttributeError, match="Tensor") as caught:
        OwnLoss(lambda out, y: out.nonsense).losses(OUTPUTS, SOFT)
    assert "ndarray" in str(caught.value.__cause__)


def test_a_loss_for_arrays_alone_cannot_be_learned_through() -> None:
    outputs = torch.tensor(OUTPUTS, requires_grad=True)[None]
    loss = OwnLoss(lambda out, y: np.abs(out[:, 0] - y[:, 1]))
    with pytest.raises(TaskError, match="does not take torch tensors with gradients"):
        loss.replica_losses(outputs, torch.tensor(SOFT))


@pytest.mark.parametrize("cost", [SquaredError(), CrossEntropy()])
def test_slopes_are_the_derivatives_of_losses(cost: Learnable) -> None:
    for truth in (SOFT, 2.0 * SOFT):
        outputs = torch.tensor(OUTPUTS, requires_grad=True)
        (wanted,) = torch.autograd.grad(cost.tensor_losses(outputs, torch.tensor(truth)).sum(), outputs)
        assert cost.slopes(OUTPUTS, truth) == pytest.approx(wanted.numpy())


def test_losses_need_no_torch() -> None:
    code = "import sys, taskveil.tasks.costs; print([m for m in ('torch', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_answers_leave_no_class_impossible_that_no_record_has() -> None:
    truth = np.eye(3)[[0, 0, 1, 0]]
    answers = np.array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0]])
    cautious = CrossEntropy().cautious(answers, truth)
    np.testing.assert_allclose(cautious, 0.8 * answers + 0.2 / 3)  # one record of five, of any class
    np.testing.assert_array_equal(SquaredError().cautious(answers, truth), answers)
