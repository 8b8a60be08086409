"""Mean, covariance factor and principal directions of samples, full or degenerate."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.designs.moments import LinearProblem, Moments
from taskveil.errors import DataError, TaskError


def test_records_are_whitened_and_the_task_made_diagonal(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    moments = Moments.of(volunteers, task)
    centred = volunteers - moments.mean
    assert moments.factor @ moments.factor.T == pytest.approx(np.cov(volunteers.T, bias=True), rel=1e-9)
    coordinates = centred @ moments.principal_map.T
    assert coordinates.T @ coordinates / len(centred) == pytest.approx(np.eye(6), abs=1e-9)
    # In principal coordinates the task is a sum of independent terms, the largest first.
    gain = task.K @ moments.factor @ moments.directions
    assert gain.T @ gain == pytest.approx(np.diag(moments.eigenvalues), abs=1e-9 * moments.eigenvalues[0])
    assert (np.diff(moments.eigenvalues) <= 0).all()
    assert moments.relevant == 5  # the task ignores one attribute


def test_constant_and_dependent_attributes_do_not_count(volunteers: np.ndarray) -> None:
    X = np.column_stack([volunteers[:, :2], np.full(300, 3.0), volunteers[:, 0] - volunteers[:, 1]])
    moments = Moments.of(X, tv.LinearTask(np.eye(4)))
    assert moments.factor.shape == (4, 2)
    assert moments.inverse @ moments.factor == pytest.approx(np.eye(2), abs=1e-9)


def test_what_has_no_moments() -> None:
    with pytest.raises(DataError, match="identical"):
        Moments.of(np.ones((5, 2)), tv.LinearTask(np.eye(2)))
    with pytest.raises(TaskError, match="columns"):
        Moments.of(np.eye(3), tv.LinearTask(np.eye(2)))
    with pytest.raises(DataError, match="units"):
        Moments.of(np.diag([1e300, 1.0, 2.0]), tv.LinearTask(np.eye(3)))


def test_no_more_latents_than_matter(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    def most(latent_dim: int | None) -> int:
        return LinearProblem(X=volunteers, task=task, domain=tv.Points(volunteers), latent_dim=latent_dim).most

    assert [most(None), most(6), most(2)] == [5, 5, 2]
