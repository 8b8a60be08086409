"""What people do today, as honestly as our own design: same bounding, same exact noise, best decoder of its kind.

For models, `learned.py` has the first two.
"""

from __future__ import annotations

import numpy as np

from taskveil.designs.laplace.closed_form import build_linear
from taskveil.designs.moments import LinearProblem
from taskveil.veil import Veil
from taskveil.veil.decoders import AffineDecoder

USUAL_DIM = 3
"""Latents of the privacy-agnostic designs if the caller does not say how many: the paper's choice."""


def task_agnostic(problem: LinearProblem, epsilon: float) -> Veil:
    """The veil with noise on the record itself (φ = x − μ) and the best affine decoder."""
    return build_linear(problem, epsilon, weights=np.eye(problem.X.shape[1]), method="task_agnostic")


def privacy_agnostic(problem: LinearProblem, epsilon: float) -> Veil:
    """The veil that reports the top principal directions of the task at equal scales, with the best affine decoder."""
    weights = problem.moments.principal_map[: problem.latent_dim or USUAL_DIM]
    return build_linear(problem, epsilon, weights=weights, method="privacy_agnostic")


def matrix_factorization(problem: LinearProblem, epsilon: float) -> Veil:
    """The veil with K = D E, whose decoder is the pseudo-inverse: unbiased, so it never trades noise for bias.

    On a ball the loss v Σσ² Σλᵢ/σᵢ² is least for σᵢ² ∝ √λᵢ.
    """
    moments, count = problem.moments, problem.most
    scales = np.maximum(moments.eigenvalues[:count], np.finfo(float).tiny) ** 0.25
    weights = scales[:, None] * moments.principal_map[:count]
    return build_linear(
        problem,
        epsilon,
        weights=weights,
        method="matrix_factorization",
        decoder=AffineDecoder(weights=moments.factor @ moments.directions[:, :count] / scales, offset=moments.mean),
    )
