"""Linear tasks: y = Kx, without torch, and K stays what it was."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import taskveil as tv
from taskveil.errors import TaskError
from taskveil.tasks.linear import spreads

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 5))
D = RNG.normal(size=(7, 5))


def test_the_loss_is_the_squared_error_of_the_answers() -> None:
    task = tv.LinearTask(RNG.normal(size=(2, 5)))
    estimates = X + RNG.normal(size=X.shape)
    expected = ((X @ task.K.T - estimates @ task.K.T) ** 2).sum(axis=1)
    assert task.losses(estimates, X) == pytest.approx(expected)
    assert task.scale * task.cost.losses(task.predict(estimates), task.truth(X)) == pytest.approx(expected)
    for place, candidate in enumerate(D):
        assert task.pairwise_losses(D, X)[:, place] == pytest.approx(task.losses(candidate[None], X))


def test_the_callers_matrix_is_not_shared() -> None:
    """A weight changed after the design would change what the design claims to be good for."""
    for given in (np.eye(5), np.asfortranarray(np.eye(5)), np.eye(5)[::-1]):
        task = tv.LinearTask(given)
        before = task.losses(X + 1.0, X)
        given[:] = 7.0
        assert np.array_equal(task.losses(X + 1.0, X), before)
        with pytest.raises(ValueError, match="read-only"):
            task.K[0, 0] = 7.0


@pytest.mark.parametrize(
    ("K", "says"),
    [
        ([1.0, 2.0], r"np\.diag"),
        (np.zeros((0, 3)), "finite matrix"),
        ([[np.nan]], "finite matrix"),
        ([["a"]], "matrix of numbers"),
        ([[1.0], [1.0, 2.0]], "matrix of numbers"),
    ],
)
def test_matrices_that_cannot_be_used(K: object, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        tv.LinearTask(K)


def test_records_of_another_width_are_refused() -> None:
    with pytest.raises(TaskError, match="5 columns, but the data has 4"):
        tv.LinearTask(np.eye(5)).check_width(4)


def test_linear_tasks_need_no_torch() -> None:
    """Nor does what they are judged by."""
    code = (
        "import sys, numpy as np, taskveil.tasks as t\n"
        "t.LinearTask(np.eye(2)).constant_loss(np.eye(2), None, np.eye(2), None)\n"
        "print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_same_as_a_torch_module() -> None:
    task = tv.LinearTask(RNG.normal(size=(2, 5)))
    assert task.torch_module(torch.tensor(X)).numpy() == pytest.approx(task.predict(X))


def test_the_best_constant_is_the_mean() -> None:
    task = tv.LinearTask(RNG.normal(size=(2, 5)))
    assert task.constant_loss(X, None, X, None) == pytest.approx(task.predict(X).var(axis=0).sum())
    assert task.constant_loss(X, None, D, None) == pytest.approx(task.losses(X.mean(axis=0)[None], D).mean())


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
def test_pairwise_losses_keep_their_digits_far_from_zero(offset: float) -> None:
    rng = np.random.default_rng(0)
    records, candidates = rng.normal(size=(20, 3)) + offset, rng.normal(size=(4, 3)) + offset
    direct = ((records[:, None] - candidates) ** 2).sum(axis=2)
    assert tv.LinearTask(np.eye(3)).pairwise_losses(candidates, records) == pytest.approx(direct, rel=1e-6)


def test_spreads_are_those_of_columns_or_of_fields() -> None:
    numbers = np.array([[1.0, 7.1, 0.0], [3.0, 7.1, 1.0], [5.0, 7.1, 0.0]])
    plain = tv.Schema.numbers(3)
    assert spreads(numbers, plain) == pytest.approx([np.sqrt(8 / 3), 0.0, np.sqrt(2 / 9)])
    assert spreads(numbers, plain)[1] == 0.0  # whatever the last digits of its mean are
    schema = tv.Schema(
        {"origin": tv.Category(["Europe", "Japan"], missing=True), "power": tv.Number(0, 9, missing=True)}
    )
    rows = schema.expand([{"origin": "Europe", "power": 4.0}, {"origin": "Mars", "power": 8.0}])
    assert spreads(rows, schema) == pytest.approx([0.5, 2.0])
    rows = schema.expand([{"origin": "Europe", "power": None}, {"origin": "Japan", "power": None}])
    assert spreads(rows, schema) == pytest.approx([np.sqrt(0.5), 0.0])
