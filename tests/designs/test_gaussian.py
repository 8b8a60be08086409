"""Designs with Gaussian noise: the closed form, its refinement, learned encoders, and when "auto" takes them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

import taskveil as tv
from hostile import hostile_records
from taskveil.client.regions import BallRegion
from taskveil.designs.auto import Best
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.domain import Domain, fit_domain
from taskveil.designs.gaussian import (
    _loss_and_gradient,
    analytic,
    ball_loss,
    clipped,
    in_unit_ball,
    loss_bounds,
    refined_map,
)
from taskveil.designs.moments import LinearProblem
from taskveil.designs.problem import Problem, Unseeded
from taskveil.errors import BudgetError
from taskveil.tasks import Task

DELTA = 1e-6


def problem(X: np.ndarray, task: tv.LinearTask, domain: Domain | None = None, **options: Any) -> LinearProblem:
    return LinearProblem(X=X, task=task, domain=fit_domain(domain, X), delta=DELTA, **options)


def test_the_noise_of_the_unit_ball_keeps_the_budget() -> None:
    for epsilon in (0.1, 1.0, 20.0):
        mechanism = in_unit_ball(5, epsilon, DELTA)
        assert epsilon * (1 - 1e-9) < mechanism.epsilon <= epsilon
        region = mechanism.region
        assert region.squared_radius * region.step**2 == 1.0
        inside = region.enforce(np.random.default_rng(0).normal(size=(1000, 5)) * 10)
        assert (np.linalg.norm(inside * region.step, axis=1) <= 1.0).all()
        # ρ for two latents at opposite ends, of the noise per coordinate that is stated.
        assert 2.0**2 / (2 * mechanism.noise_variance) == pytest.approx(float(mechanism.rho))


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_no_linear_encoder_is_better_on_a_ball(seed: int, v: float) -> None:
    """tr PᵀP − tr P Eᵀ(EEᵀ + wI)⁻¹E Pᵀ for random E with w = v‖E‖² is never below the closed form, which Qᵀ reaches."""
    rng = np.random.default_rng(seed)
    size, latents = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    P = rng.normal(size=(size, size)) * rng.exponential(size=size)
    eigenvalues, Q = np.linalg.eigh(P.T @ P)

    def loss(E: np.ndarray) -> float:
        w = v * np.linalg.norm(E, ord=2) ** 2
        kept = E.T @ np.linalg.solve(E @ E.T + w * np.eye(len(E)), E)
        return float(np.trace(P.T @ P) - np.trace(P @ kept @ P.T))

    least = ball_loss(eigenvalues, math.sqrt(v), 1.0)
    assert loss(Q.T) == pytest.approx(least, rel=1e-9)
    for _ in range(20):
        assert loss(rng.normal(size=(latents, size))) >= least * (1 - 1e-9)
    fewer = Q.T[-1:]  # the most relevant direction alone leaves all of the others
    assert loss(fewer) == pytest.approx(eigenvalues[:-1].sum() + eigenvalues[-1] * v / (1 + v), rel=1e-9)


def test_the_closed_form_is_the_loss_of_the_veil_on_a_ball() -> None:
    """Records on a sphere in whitened coordinates: stated, exact and realised loss agree."""
    task = tv.LinearTask(np.diag([2.0, 1.0, 0.5, 0.0]))
    records = 2.0 * np.vstack([np.eye(4), -np.eye(4)])  # covariance I
    for epsilon in (2.0, 20.0):
        posed = problem(records, task, tv.Ball(2.0, dim=4))
        veil = analytic(posed, epsilon)
        noise = in_unit_ball(1, epsilon, DELTA).noise_variance
        closed = ball_loss(posed.moments.eigenvalues, 2.0, noise)
        assert veil.loss(records).mean == pytest.approx(closed, rel=1e-4)
        assert veil.mechanism.latent_dim == 3  # as many as matter
        many = np.tile(records, (20_000, 1))
        drawn = task.losses(veil.decode(veil.privatize(many)), many)
        assert abs(drawn.mean() - closed) < 6 * drawn.std() / math.sqrt(len(drawn)) + 1e-4 * closed


def test_the_bounds_enclose_the_numerical_optimum() -> None:
    """Minimise over all linear encoders without clipping; the losses of the two balls lie on either side."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(60, 2)) @ np.array([[2.0, 0.4], [0.0, 0.7]])
    posed = problem(X, tv.LinearTask(np.array([[1.0, 0.3], [0.2, 1.5]])))
    moments = posed.moments
    P, whitened = posed.task.K @ moments.factor, (X - moments.mean) @ moments.inverse.T
    for epsilon in (0.5, 2.0, 8.0, 30.0):
        noise = in_unit_ball(1, epsilon, DELTA).noise_variance

        def loss(flat: np.ndarray, noise: float = noise) -> float:
            E = flat.reshape(2, 2)
            latents = whitened @ E.T
            diameter = np.linalg.norm(latents[:, None] - latents[None], axis=2).max()
            w = noise * (diameter / 2) ** 2
            kept = E.T @ np.linalg.solve(E @ E.T + w * np.eye(2), E)
            return float(np.trace(P.T @ P) - np.trace(P @ kept @ P.T))

        starts = [rng.normal(size=4) for _ in range(12)]
        best = min(minimize(loss, s, method="Nelder-Mead", options={"maxiter": 2000}).fun for s in starts)
        bounds = loss_bounds(posed, noise)
        assert bounds.lower <= best <= bounds.upper
        assert analytic(posed, epsilon).loss(X).mean <= bounds.upper * (1 + 1e-4)


@given(st.integers(0, 10**6))
def test_the_gradient_of_the_refinement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    coordinates, outputs = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    outputs += coordinates[:, :2]
    at = np.concatenate([0.2 * rng.normal(size=3), -0.5 + 0.3 * rng.normal(size=3)])
    _, gradient = _loss_and_gradient(at, coordinates, outputs, 2.0)
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-6
        up, down = (_loss_and_gradient(at + s, coordinates, outputs, 2.0)[0] for s in (step, -step))
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=2e-4)


def test_the_refinement_minimises_the_exact_loss(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    """What it minimises is the loss of the veil, and the latents of other numbers and scales are no better."""
    posed, epsilon = problem(volunteers, task), 8.0
    noise = in_unit_ball(1, epsilon, DELTA).noise_variance
    weights, offset = refined_map(posed, noise)
    veil = clipped(posed, epsilon)
    latents = volunteers @ weights.T + offset
    bounded = latents / np.maximum(np.linalg.norm(latents, axis=1, keepdims=True), 1.0)
    centred, y = bounded - bounded.mean(axis=0), (volunteers - volunteers.mean(axis=0)) @ task.K.T
    A, S = y.T @ centred / 300, centred.T @ centred / 300
    exact = float((y**2).sum() / 300 - np.trace(A @ np.linalg.solve(S + noise * np.eye(len(S)), A.T)))
    assert veil.loss(volunteers).mean == pytest.approx(exact, rel=1e-4)
    moments = posed.moments
    t = (volunteers - moments.mean) @ moments.principal_map.T
    outputs = t * np.sqrt(moments.eigenvalues)
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 6))
        at = np.concatenate([0.3 * rng.normal(size=count), rng.uniform(-3, 1, size=count)])
        assert _loss_and_gradient(at, t[:, :count], outputs, noise)[0] >= exact * (1 - 1e-6)


@pytest.mark.parametrize("domain", [None, tv.Box(-100.0, 100.0), tv.Ball(300.0)])
@pytest.mark.parametrize("epsilon", [0.2, 5.0, 40.0])
def test_refinement_is_never_worse_on_the_design_data(
    volunteers: np.ndarray, task: tv.LinearTask, domain: Domain | None, epsilon: float
) -> None:
    plain = analytic(problem(volunteers, task, domain), epsilon)
    refined = tv.design(volunteers, task, epsilon=epsilon, delta=DELTA, domain=domain, method="gaussian")
    assert refined.loss(volunteers).mean <= plain.loss(volunteers).mean
    assert (refined.method, refined.guarantee.delta) == ("gaussian", DELTA)
    assert refined.guarantee.epsilon <= epsilon


def test_more_budget_never_costs_more(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    def loss(epsilon: float, delta: float) -> float:
        veil = tv.design(volunteers, task, epsilon=epsilon, delta=delta, method="gaussian")
        return veil.loss(volunteers).mean

    by_epsilon = [loss(epsilon, DELTA) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)]
    by_delta = [loss(4.0, delta) for delta in (1e-12, 1e-9, 1e-6, 1e-3)]
    for losses in (by_epsilon, by_delta):
        assert all(after <= before * (1 + 1e-9) for before, after in pairwise(losses))


def test_no_more_latents_than_allowed(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    for latent_dim in (1, 3):
        veil = tv.design(
            volunteers,
            task,
            epsilon=64.0,
            delta=DELTA,
            method="gaussian",
            on_device=tv.OnDevice(latent_dim=latent_dim),
        )
        assert veil.mechanism.latent_dim <= latent_dim


def test_units_do_not_matter(volunteers: np.ndarray) -> None:
    scale = np.array([1e-9, 1.0, 1e6, 1e3, 1e-3, 1e9])
    losses = [
        tv.design(volunteers * s, tv.LinearTask(np.eye(6) / s), epsilon=8.0, delta=DELTA, method="gaussian")
        .loss(volunteers * s)
        .mean
        for s in (np.ones(6), scale)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("delta", [1.0, 2.0, 0.7, -1e-6, math.nan, math.inf, 1e-40, "small", True, None])
def test_impossible_deltas_are_refused_in_words(volunteers: np.ndarray, task: tv.LinearTask, delta: Any) -> None:
    with pytest.raises(BudgetError, match="delta is the probability with which epsilon may fail: 0, or a number"):
        tv.design(volunteers, task, epsilon=1.0, delta=delta)


def test_without_delta_there_is_no_gaussian_design(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    with pytest.raises(BudgetError, match="gaussian is a design for delta > 0: pass delta=1e-6"):
        tv.design(volunteers, task, epsilon=1.0, method="gaussian")
    compared = tv.design(volunteers, task, epsilon=8.0).considered
    assert {entry.method for entry in compared} == {"codebook", "task_aware", "constant"}


def test_a_budget_over_time_takes_no_delta(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    budget = tv.OverTime(lifetime=4.0, rounds=4)
    with pytest.raises(BudgetError, match=r"a tv.OverTime adds up pure budgets, so it has delta = 0"):
        tv.design(volunteers, task, epsilon=budget, delta=DELTA)
    with pytest.raises(BudgetError, match=r"a tv.OverTime adds up pure budgets, so it has delta = 0"):
        tv.sweep(volunteers, task, epsilons=[1.0, budget], delta=DELTA)


def test_auto_compares_it_and_takes_what_is_best(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    found = tv.design(volunteers, task, epsilon=4.0, delta=DELTA)
    assert {entry.method for entry in found.considered} == {"codebook", "task_aware", "gaussian", "constant"}
    assert (found.method, found.guarantee.delta) == ("codebook", 0.0)


def test_gaussian_noise_is_taken_where_it_is_best() -> None:
    """Against Laplace noise, for 40 attributes of equal weight and with much δ."""
    directions = np.random.default_rng(0).normal(size=(600, 40))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    best = Best(name="best", designers=(designer_of("task_aware"), designer_of("gaussian")))
    for delta, method in ((0.1, "gaussian"), (1e-12, "task_aware")):
        posed = Problem.of(directions, tv.LinearTask(np.eye(40)), delta=delta)
        ((_, _, veil),) = design_many(best, posed, epsilons=[40.0], seeds=[0])
        losses = {entry.method: entry.held_out_loss for entry in veil.considered}
        assert veil.method == method == min(losses, key=lambda name: losses[name])
        assert veil.guarantee.delta == (delta if method == "gaussian" else 0.0)


class Careless(Unseeded):
    """Spends more δ than it was given."""

    name = "careless"

    def why_not(self, task: Task) -> str | None:
        return None

    def designs(self, problem: Problem, epsilons: Any, seeds: Any) -> Any:
        yield from designer_of("gaussian").designs(replace(problem, delta=2 * DELTA), epsilons, seeds)


def test_a_designer_that_spends_more_delta_is_refused(volunteers: np.ndarray, task: tv.LinearTask) -> None:
    for delta in (0.0, DELTA):
        posed = Problem.of(volunteers, task, delta=delta)
        with pytest.raises(BudgetError, match="a designer must keep the budget"):
            list(design_many(Careless(), posed, epsilons=[1.0], seeds=[0]))
    posed = Problem.of(volunteers, task, delta=2 * DELTA)
    assert len(list(design_many(Careless(), posed, epsilons=[1.0], seeds=[0]))) == 1


def test_a_sweep_has_one_delta_for_all_budgets(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    options: dict[str, Any] = {"epsilons": [2.0, 8.0], "methods": ["task_aware", "gaussian"]}
    found = tv.sweep(volunteers, task, delta=DELTA, resume=tmp_path / "done.json", **options)
    assert found.loss("gaussian", 8.0) < found.loss("gaussian", 2.0)
    with pytest.raises(tv.TaskveilError, match="done"):  # another delta is another sweep
        tv.sweep(volunteers, task, delta=1e-3, resume=tmp_path / "done.json", **options)
    more = tv.sweep(volunteers, task, delta=1e-3, **options)
    assert more.loss("gaussian", 8.0) < found.loss("gaussian", 8.0)
    assert more.loss("task_aware", 8.0) == found.loss("task_aware", 8.0)


def some_model() -> tuple[np.ndarray, tv.ModelTask]:
    X = np.random.default_rng(11).normal(size=(400, 4))
    torch.manual_seed(1)
    return X, tv.ModelTask(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1)))


@pytest.fixture(scope="module")
def learned() -> tv.Veil:
    X, model = some_model()
    return tv.design(X, model, epsilon=16.0, delta=DELTA, method="gaussian")


def test_a_learned_design_is_worth_its_budget_and_keeps_it(learned: tv.Veil) -> None:
    X, model = some_model()
    outputs = model.truth(X, None)
    constant = float(((outputs - outputs.mean(axis=0)) ** 2).mean())
    assert learned.loss(X).mean < 0.9 * constant
    assert (learned.method, learned.guarantee.delta) == ("gaussian", DELTA)
    assert 16.0 * (1 - 1e-9) < learned.guarantee.epsilon <= 16.0
    region = learned.mechanism.region
    assert isinstance(region, BallRegion)
    hostile = hostile_records(4)
    assert region.contains(region.enforce(learned.encoder(hostile))).all()
    assert np.isfinite(learned.privatize(hostile)).all()


def test_training_sees_the_latents_and_the_noise_of_the_device() -> None:
    """Bounded latents lie in the unit ball, padding is never seen, and the noise has the mechanism's variance."""
    from taskveil.designs.laplace.gradient import BallReports, LightEncoder
    from taskveil.designs.laplace.replicas import Grid, Records

    X, _ = some_model()
    grid = Grid(cells=((4.0, 0),), latent_dims=(1, 3), folds=2)
    replicas = grid.replicas("cpu")
    deviation = math.sqrt(in_unit_ball(1, 4.0, DELTA).noise_variance)
    reports = BallReports(
        u=Records.of(5 * X, "cpu"),
        replicas=replicas,
        noise=torch.full((len(replicas), 1, 1), deviation),
        gain=torch.ones(len(replicas), 1, 3),
        encoder=LightEncoder(4, replicas, 8),
    )
    latents = reports.latents(torch.arange(400)).detach()
    assert (latents.norm(dim=-1) <= 1 + 1e-6).all()
    assert (latents.norm(dim=-1) > 1 - 1e-5).any()
    assert (latents[replicas.latent_dim == 1][..., 1:] == 0).all()
    noise = reports.draw(torch.arange(400), torch.Generator().manual_seed(0), 100).detach() - latents.repeat(1, 100, 1)
    assert float(noise.std()) == pytest.approx(deviation, rel=0.01)
    kurtosis = float((noise**4).mean() / noise.var() ** 2)
    assert kurtosis == pytest.approx(3.0, abs=0.1)  # of Laplace noise it is 6
