"""What people do today, as honestly as our own design: same bounding, same exact noise, best decoder of its kind."""

from __future__ import annotations

import numpy as np

from taskveil.arrays import Floats
from taskveil.decoders import AffineDecoder
from taskveil.designs.domain import Domain
from taskveil.designs.laplace.build import build_linear
from taskveil.designs.laplace.closed_form import loss_bounds
from taskveil.designs.moments import Moments
from taskveil.tasks import LinearTask
from taskveil.veil import Veil


def task_agnostic(X: Floats, task: LinearTask, epsilon: float, domain: Domain) -> Veil:
    """Noise on the record itself (φ = x − μ), with the best affine decoder."""
    moments = Moments.of(X, task)
    bounds = loss_bounds(moments, domain, epsilon)
    weights = np.eye(X.shape[1])
    return build_linear(X, task, domain, weights, -moments.mean, epsilon, method="task_agnostic", bounds=bounds)


def privacy_agnostic(
    X: Floats, task: LinearTask, epsilon: float, domain: Domain, latent_dim: int | None = None
) -> Veil:
    """The top principal directions of the task with equal scales (Z = 3 unless told), with the best affine decoder."""
    moments = Moments.of(X, task)
    bounds = loss_bounds(moments, domain, epsilon)
    weights = moments.principal_map[: latent_dim or 3]
    return build_linear(
        X, task, domain, weights, -weights @ moments.mean, epsilon, method="privacy_agnostic", bounds=bounds
    )


def matrix_factorization(
    X: Floats, task: LinearTask, epsilon: float, domain: Domain, latent_dim: int | None = None
) -> Veil:
    """K = D E with the decoder forced to the pseudo-inverse: unbiased, so it never trades noise for bias.

    On a ball the loss v Σσ² Σλᵢ/σᵢ² is least for σᵢ² ∝ √λᵢ.
    """
    moments = Moments.of(X, task)
    bounds = loss_bounds(moments, domain, epsilon)
    count = min(moments.relevant, latent_dim or moments.relevant)
    scales = np.maximum(moments.eigenvalues[:count], np.finfo(float).tiny) ** 0.25
    weights = scales[:, None] * moments.principal_map[:count]
    decoder = AffineDecoder(weights=moments.factor @ moments.directions[:, :count] / scales, offset=moments.mean)
    return build_linear(
        X,
        task,
        domain,
        weights,
        -weights @ moments.mean,
        epsilon,
        method="matrix_factorization",
        decoder=decoder,
        bounds=bounds,
    )
