from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import taskveil as tv
from taskveil.designs.domain import Domain, fit_domain
from taskveil.designs.laplace.closed_form import analytic, ball_loss, water_filling
from taskveil.designs.moments import LinearProblem
from taskveil.errors import NothingToReportWarning, TaskError
from taskveil.experiments import theory


@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(1e-4, 1e3))
def test_water_filling_is_the_constrained_optimum(seed: int, count: int, v: float) -> None:
    rng = np.random.default_rng(seed)
    eigenvalues = np.sort(rng.exponential(size=count) ** 2)[::-1]
    squared = np.zeros(count)
    filled = water_filling(eigenvalues, v)
    squared[: len(filled)] = filled
    assert squared.sum() == pytest.approx(1.0)
    best = (eigenvalues * v / (squared + v)).sum()
    assert best == pytest.approx(ball_loss(eigenvalues, np.sqrt(v / 8), 1.0), rel=1e-9)
    for _ in range(50):  # no other allocation is better
        other = rng.dirichlet(np.full(count, 0.5))
        assert (eigenvalues * v / (other + v)).sum() >= best * (1 - 1e-9)


def test_the_bounds_enclose_the_numerical_optimum() -> None:
    """Minimise over *all* linear encoders numerically; the theorem's two losses must lie on either side."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(60, 2)) @ np.array([[2.0, 0.4], [0.0, 0.7]])
    task, points = tv.LinearTask(np.array([[1.0, 0.3], [0.2, 1.5]])), tv.Points(X)
    problem = LinearProblem(X=X, task=task, domain=points)
    moments = problem.moments
    P = task.K @ moments.factor
    for epsilon in (0.5, 2.0, 8.0, 30.0):

        def loss(flat: np.ndarray, epsilon: float = epsilon) -> float:
            E = flat.reshape(2, 2)
            variance = 2 * (points.l1_sensitivity(E @ moments.inverse) / epsilon) ** 2
            kept = E.T @ np.linalg.solve(E @ E.T + variance * np.eye(2), E)
            return float(np.trace(P.T @ P) - np.trace(P.T @ P @ kept))

        starts = [rng.normal(size=4) for _ in range(12)]
        best = min(minimize(loss, s, method="Nelder-Mead", options={"maxiter": 2000}).fun for s in starts)
        veil = analytic(problem, epsilon)
        bounds = veil.bounds
        assert bounds is not None
        assert bounds.lower <= best <= bounds.upper
        # The analytic solution with its true Δ₁ is no worse than its own upper bound.
        assert best * (1 - 1e-6) <= veil.loss(X).mean <= bounds.upper


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_sphere_in_the_theorems_proof_has_the_radius_root_n(n: int) -> None:
    """docs/theory/corrections.md: the proposition gives the loss on that sphere, not on the proof's; radii cancel."""
    rng = np.random.default_rng(n)
    directions = rng.normal(size=(200_000, n))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    eigenvalues = np.sort(rng.exponential(size=n))[::-1]
    epsilon = 4.0

    def loss(radius: float) -> float:
        """Of the proposition's encoder, its noise and the best decoder, on the sphere of this radius."""
        covariance = np.cov(radius * directions.T)
        assert covariance == pytest.approx(radius**2 / n * np.eye(n), abs=0.02 * radius**2 / n)  # 8 standard errors
        v = 8 * radius**2 / epsilon**2
        squared = np.zeros(n)
        found = water_filling(eigenvalues, v)
        squared[: len(found)] = found
        E = np.diag(np.sqrt(squared))
        kept = covariance @ E @ np.linalg.solve(E @ covariance @ E + v * np.eye(n), E @ covariance)
        return float(eigenvalues @ np.diag(covariance - kept))

    root, papers = np.sqrt(n), 2.0 ** (n - 1)
    assert loss(root) == pytest.approx(ball_loss(eigenvalues, root, epsilon), rel=0.02)
    assert loss(papers) > 1.2 * ball_loss(eigenvalues, papers, epsilon)
    for r_min in (0.3, 2.0):  # the scaled domain contains the sphere of either radius, and the bound is the same
        bounds = [ball_loss(eigenvalues, radius, radius / r_min * epsilon) for radius in (root, papers)]
        assert bounds == pytest.approx([ball_loss(eigenvalues, r_min, epsilon)] * 2, rel=1e-12)


@pytest.mark.parametrize("rest", theory.SETTINGS)
@pytest.mark.parametrize("name", theory.DESIGNS)
def test_closed_forms_equal_exact_and_simulated_losses(name: str, rest: float) -> None:
    eigenvalues = np.array([4.0, rest, rest, rest])
    records = theory.RADIUS * np.vstack([np.eye(4), -np.eye(4)])
    for ratio in (0.05, 0.5):
        epsilon, closed = theory.RADIUS / ratio, theory.closed_form(name, eigenvalues, ratio)
        veil = theory._veil(name, records, tv.LinearTask(np.diag(np.sqrt(eigenvalues))), epsilon)
        assert veil.loss(records).mean == pytest.approx(closed, rel=1e-4)
        drawn = theory.simulate(name, eigenvalues, epsilon)
        assert abs(drawn.mean() - closed) < 6 * drawn.std() / np.sqrt(len(drawn)) + 1e-4 * closed


@pytest.mark.parametrize("domain", [None, tv.Box(-100.0, 100.0), tv.Ball(300.0)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0, 40.0])
def test_refinement_is_never_worse_on_the_design_data(
    volunteers: np.ndarray, task: tv.LinearTask, domain: Domain | None, epsilon: float
) -> None:
    plain = analytic(LinearProblem(X=volunteers, task=task, domain=fit_domain(domain, volunteers)), epsilon)
    refined = tv.design(volunteers, task, epsilon=epsilon, domain=domain, method="task_aware")
    assert refined.loss(volunteers).mean <= plain.loss(volunteers).mean
    assert refined.guarantee.epsilon <= epsilon
    assert plain.bounds is not None
    assert plain.loss(volunteers).mean <= plain.bounds.upper * (1 + 1e-4)


def test_loss_is_the_mean_of_what_really_happens(volunteers: np.ndarray, veil: tv.Veil) -> None:
    drawn = np.tile(volunteers, (300, 1))
    realised = veil._task.losses(veil.decode(veil.privatize(drawn)), drawn)
    assert abs(realised.mean() - veil.loss(volunteers).mean) < 6 * realised.std() / np.sqrt(len(realised))


def test_constant_and_dependent_attributes_are_harmless(volunteers: np.ndarray) -> None:
    X = np.column_stack([volunteers, np.full(300, 3.0), volunteers[:, 0] + volunteers[:, 1]])
    veil = tv.design(X, tv.LinearTask(np.eye(8)), epsilon=3.0, method="task_aware")
    assert np.isfinite(veil.decode(veil.privatize(X))).all()
    assert veil.loss(X).mean < X.var(axis=0).sum()


def test_fewer_volunteers_than_attributes() -> None:
    X = np.random.default_rng(0).normal(size=(5, 20))
    veil = tv.design(X, tv.LinearTask(np.eye(20)), epsilon=1.0, method="task_aware")
    assert veil.loss(X).mean <= X.var(axis=0).sum() * (1 + 1e-9)


def test_a_task_that_ignores_the_data_costs_nothing(volunteers: np.ndarray) -> None:
    with pytest.warns(NothingToReportWarning):
        assert tv.design(volunteers, tv.LinearTask(np.zeros((1, 6))), epsilon=1.0).loss(volunteers).mean == 0.0


def test_units_do_not_matter(volunteers: np.ndarray) -> None:
    """The same people in other units give the same loss for the same task."""
    scale = np.array([1e-9, 1.0, 1e6, 1e3, 1e-3, 1e9])
    losses = [
        tv.design(volunteers * s, tv.LinearTask(np.eye(6) / s), epsilon=4.0, method="task_aware")
        .loss(volunteers * s)
        .mean
        for s in (np.ones(6), scale)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_closed_forms_are_known_by_name() -> None:
    with pytest.raises(TaskError, match="only for task_aware, task_agnostic, privacy_agnostic"):
        theory.closed_form("codebook", np.ones(4), 0.1)
