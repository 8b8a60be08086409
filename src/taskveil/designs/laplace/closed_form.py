"""The task-aware design for a linear task: the paper's analytic solution, its bounds, and the refined default.

With h the whitened record, P = KL and PᵀP = QΛQᵀ, the best linear encoder for h in a centred ball of radius r is
E = ΣQᵀ with the water-filling scales below; U = I is best because averaging sᵀUΣ²Uᵀs over sign vectors s gives
Σσᵢ² for every rotation U, so no rotation has a smaller Δ₁ = 2r√Σσᵢ².
"""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.laplace.build import build_linear
from taskveil.designs.laplace.clipping import refined_maps
from taskveil.designs.moments import LinearProblem
from taskveil.veil import Veil
from taskveil.veil.losses import LossBounds


def water_filling(eigenvalues: Floats, v: float) -> Floats:
    """Squared scales σ² (Z',), Σσ² = 1, that minimise Σ λᵢ v / (σᵢ² + v) over the largest Z' with all σ² > 0.

    σᵢ² = √λᵢ / Σⱼ√λⱼ · (1 + Z'v) − v. `eigenvalues` descending; v = 8r²/ε² is the noise variance per unit Σσ².
    """
    roots = np.sqrt(eigenvalues)
    for count in range(len(roots), 0, -1):
        total = roots[:count].sum()
        if total > 0:
            squared = roots[:count] / total * (1 + count * v) - v
            if squared[-1] > 0:
                return np.asarray(squared)
    return np.ones(1)  # a task that no direction matters to: report anything


def ball_loss(eigenvalues: Floats, radius: float, epsilon: float) -> float:
    """The least loss when the whitened records fill a centred ball of radius r:

    v / (1 + Z'v) · (Σ_{i≤Z'} √λᵢ)² + Σ_{i>Z'} λᵢ with v = 8r²/ε².
    """
    v = 8 * radius**2 / epsilon**2
    count = len(water_filling(eigenvalues, v))
    return float(v / (1 + count * v) * np.sqrt(eigenvalues[:count]).sum() ** 2 + eigenvalues[count:].sum())


def loss_bounds(problem: LinearProblem, epsilon: float) -> LossBounds:
    """The theorem: the least loss of a linear Laplace design lies between those of two balls.

    The theorem's inner radius can always be taken as at least 1. It enters through Δ₁² ≥ mean over s of width(Eᵀs)²,
    and a distribution of variance ‖u‖² in direction u needs a width of at least 2‖u‖ there (Popoviciu), as if a unit
    ball lay inside the domain.
    """
    inner, outer = _radii(problem)
    eigenvalues = problem.moments.eigenvalues
    return LossBounds(
        lower=ball_loss(eigenvalues, max(inner, 1.0), epsilon),
        upper=ball_loss(eigenvalues, max(outer, 1.0), epsilon),
    )


def analytic(problem: LinearProblem, epsilon: float) -> Veil:
    """The paper's solution: scales for the ball of radius r_max, noise for the true Δ₁ of the resulting encoder."""
    moments = problem.moments
    _, radius = _radii(problem)
    squared = water_filling(moments.eigenvalues[: problem.latent_dim], 8 * max(radius, 1.0) ** 2 / epsilon**2)
    weights = np.sqrt(squared)[:, None] * moments.principal_map[: len(squared)]
    return build_linear(
        problem,
        epsilon,
        weights=weights,
        method="task_aware",
        bounds=loss_bounds(problem, epsilon),
    )


def task_aware(problem: LinearProblem, epsilon: float) -> Veil:
    """The analytic solution or a clipped refinement of it: whichever has the least expected loss on the design data."""
    plain = analytic(problem, epsilon)
    refined = [
        build_linear(
            problem,
            epsilon,
            weights=clipped.weights,
            offset=clipped.offset,
            method="task_aware",
            region=clipped.region,
            bounds=plain.bounds,
        )
        for clipped in refined_maps(problem, epsilon)
    ]
    return min([plain, *refined], key=lambda veil: veil.losses(problem.X).mean())


def _radii(problem: LinearProblem) -> tuple[float, float]:
    moments = problem.moments
    return problem.domain.radii(moments.mean, moments.factor, moments.inverse)
