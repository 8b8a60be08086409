"""Laplace noise on predictions and on attributes: as a user would write it, with exact noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import simple_ways as referee
import taskveil as tv
from taskveil.designs.selection import folds_of
from taskveil.errors import TaskError

X, Y = make_friedman1(260, 5, noise=1.0, random_state=2)
DESIGN, TEST = slice(0, 160), slice(160, None)
FOREST = RandomForestRegressor(20, min_samples_leaf=3, random_state=0).fit(X[DESIGN], Y[DESIGN])
TASK = tv.ModelTask(FOREST)
INSIDE = np.clip(X[TEST], X[DESIGN].min(axis=0), X[DESIGN].max(axis=0))


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_noise_on_the_prediction_is_shrunk(epsilon: float) -> None:
    veil = tv.design(X[DESIGN], TASK, epsilon=epsilon, y=Y[DESIGN], method="prediction_laplace")
    fold = folds_of(np.arange(160), 5, np.random.default_rng(0))
    predicted = referee.out_of_fold(FOREST, X[DESIGN], Y[DESIGN], fold)[:, 0]
    expected = referee.prediction_laplace(predicted, Y[DESIGN], FOREST.predict(INSIDE), Y[TEST], epsilon)
    loss = veil.loss(X[TEST], Y[TEST])
    assert loss.exact
    assert loss.mean == pytest.approx(expected, rel=1e-4)  # the grid


def test_the_formula_is_the_mean_over_real_reports() -> None:
    veil = tv.design(X[DESIGN], TASK, epsilon=2.0, y=Y[DESIGN], method="prediction_laplace")
    records, labels = np.repeat(X[160:165], 4000, axis=0), np.repeat(Y[160:165], 4000)
    drawn = TASK.output_losses(veil.predict(veil.privatize(records)), records, labels)
    expected = veil.loss(X[160:165], Y[160:165]).mean
    assert drawn.mean() == pytest.approx(expected, abs=4 * drawn.std() / np.sqrt(len(drawn)))


@pytest.mark.parametrize("epsilon", [2.0, 20.0])
def test_noise_on_attributes_goes_through_the_model(epsilon: float) -> None:
    veil = tv.design(X[DESIGN], TASK, epsilon=epsilon, y=Y[DESIGN], method="attribute_laplace")
    drawn = referee.attribute_laplace(FOREST.predict, X[DESIGN], X[TEST], epsilon, 100, np.random.default_rng(0))
    expected = ((drawn - Y[TEST]) ** 2).mean(axis=1)
    loss = veil.loss(X[TEST], Y[TEST])
    assert not loss.exact
    assert loss.mean == pytest.approx(expected.mean(), abs=5 * expected.std() / np.sqrt(100))


def test_an_attribute_that_never_varies_costs_no_budget() -> None:
    wider = np.hstack([X, np.full((260, 1), 3.0)])
    linear = tv.LinearTask(np.eye(6)[:1])
    with_it = tv.design(wider, linear, epsilon=2.0, method="attribute_laplace")
    without = tv.design(X, tv.LinearTask(np.eye(5)[:1]), epsilon=2.0, method="attribute_laplace")
    assert with_it.mechanism.noise_variance == pytest.approx(without.mechanism.noise_variance, rel=1e-5)
    estimates = with_it.decode(with_it.privatize(wider))
    assert (estimates[:, 5] == 3.0).all()
    assert (estimates.min(axis=0) >= wider.min(axis=0) - 1e-12).all()


@pytest.mark.parametrize("method", ["prediction_laplace", "attribute_laplace"])
def test_guarantee_release_and_audit(method: str, tmp_path: Path) -> None:
    task = tv.ModelTask(LinearRegression().fit(X, Y))  # quick to ask record by record
    veil = tv.design(X[DESIGN], task, epsilon=1.5, y=Y[DESIGN], method=method)
    assert 1.49 < veil.guarantee.epsilon <= 1.5
    veil.save(tmp_path / "r")
    named = {"encoder": task.predict} if method == "prediction_laplace" else {}
    loaded = tv.Veil.load(tmp_path / "r", task=task, **named)
    assert loaded.method == method
    assert (loaded.encode(X[TEST]) == veil.encode(X[TEST])).all()
    assert tv.audit(veil, trials=2000, finalists=2, structural=False).passed


def test_what_is_no_number_is_refused() -> None:
    task = tv.ModelTask(LogisticRegression().fit(X, Y > 14), "cross_entropy")
    with pytest.raises(TaskError, match="one predicted number judged by mse"):
        tv.design(X, task, epsilon=1.0, y=Y > 14, method="prediction_laplace")
