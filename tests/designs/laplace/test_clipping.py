"""Bounds and scales found together: the right slope, and what they become at small and large budgets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import taskveil as tv
from taskveil.designs.laplace import closed_form
from taskveil.designs.laplace.closed_form import _loss_and_gradient, _start, refined_maps
from taskveil.designs.moments import LinearProblem


@given(st.integers(0, 10**6))
def test_the_gradient_of_the_refinement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coordinates, outputs = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    outputs += coordinates[:, :2]
    at = _start(coordinates, np.array([3.0, 2.0, 1.0]), 1.0) + 0.2 * rng.normal(size=9)
    _, gradient = _loss_and_gradient(at, coordinates, outputs, 4.0)
    for i in range(9):
        step = np.zeros(9)
        step[i] = 1e-6
        up, down = (_loss_and_gradient(at + s, coordinates, outputs, 4.0)[0] for s in (step, -step))
        # A record may cross its clipping bound inside the step: allow for one such kink.
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=2e-4)


def problem(X: np.ndarray, task: tv.LinearTask, latent_dim: int | None = None) -> LinearProblem:
    return LinearProblem(X=X, task=task, domain=tv.Points(X), latent_dim=latent_dim)


def test_at_small_budgets_bounds_shrink_towards_a_sign(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    """The share of records that are clipped falls as the budget grows."""
    clipped = []
    for epsilon in (0.1, 100.0):
        found = refined_maps(problem(volunteers, task, latent_dim=1), epsilon)
        outside = []
        for map_ in found:
            latents = volunteers @ map_.weights.T + map_.offset
            reach = map_.region.high * map_.region.step
            outside.append(float((np.abs(latents) > reach).mean()))
        clipped.append(min(outside))
    assert clipped[0] > 0.5 > 0.1 > clipped[1]


@pytest.mark.parametrize("latent_dim", [None, 1, 3])
def test_no_more_latents_than_allowed(volunteers: np.ndarray, task: tv.LinearTask, latent_dim: int | None) -> None:
    found = refined_maps(problem(volunteers, task, latent_dim), 30.0)
    sizes = {len(map_.offset) for map_ in found}
    assert max(sizes) <= (latent_dim or 5)
    assert all(map_.weights.shape == (len(map_.offset), 6) for map_ in found)


def test_one_thread_and_the_callers_setting_afterwards(volunteers: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, original = set(), closed_form._loss_and_gradient

    def spy(*arguments: object) -> object:
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return original(*arguments)

    monkeypatch.setattr(closed_form, "_loss_and_gradient", spy)
    with threadpool_limits(2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        refined_maps(problem(volunteers, tv.LinearTask(np.eye(6)), 1), 1.0)
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert threads == {1}
