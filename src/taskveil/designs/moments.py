"""The sample as the linear theory sees it: mean, covariance factor, and the task's principal directions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from taskveil.arrays import Floats
from taskveil.designs.domain import Domain
from taskveil.errors import DataError
from taskveil.tasks import LinearTask


@dataclass(frozen=True, kw_only=True)
class Moments:
    """x = mean + factor h with h of identity covariance, and PᵀP = QΛQᵀ for P = K factor.

    Shapes: mean (n,), factor (n, r), inverse (r, n), eigenvalues (r,) descending, directions Q (r, r). r is the rank of
    the covariance: constant and dependent attributes are normal in real data and simply do not count.
    """

    mean: Floats
    factor: Floats
    inverse: Floats
    eigenvalues: Floats
    directions: Floats

    @classmethod
    def of(cls, X: Floats, task: LinearTask) -> Moments:
        """The moments of records X (N, n) and what the task makes of them."""
        task.check_width(X.shape[1])
        mean = X.mean(axis=0)
        # The singular values of the centred sample are the square roots of the covariance's eigenvalues, without
        # squaring the condition number.
        _, singular, axes = np.linalg.svd((X - mean) / np.sqrt(len(X)), full_matrices=False)
        kept = singular > max(X.shape) * np.finfo(float).eps * singular[0] if singular[0] > 0 else singular > 0
        if not kept.any():
            raise DataError("all volunteers' records are identical: there is nothing to learn or to report.")
        singular, axes = singular[kept], axes[kept]
        factor, inverse = axes.T * singular, axes / singular[:, None]
        P = task.K @ factor
        with np.errstate(over="ignore", invalid="ignore"):
            gram = P.T @ P
        if not np.isfinite(gram).all():
            raise DataError(
                "the volunteers' records are so large that their variance is no number any more: check their units, "
                "or say where records may lie with domain=..."
            )
        eigenvalues, directions = np.linalg.eigh(gram)
        return cls(
            mean=mean,
            factor=factor,
            inverse=inverse,
            eigenvalues=np.maximum(eigenvalues[::-1], 0.0),
            directions=directions[:, ::-1],
        )

    @property
    def principal_map(self) -> Floats:
        """(r, n): x − mean ↦ uncorrelated unit-variance coordinates, the most task-relevant first."""
        return self.directions.T @ self.inverse

    @property
    def relevant(self) -> int:
        """The number of principal directions that matter to the task."""
        return max(1, int((self.eigenvalues > 1e-12 * self.eigenvalues[0]).sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearProblem:
    """Volunteers' records X (N, n), a linear task, where records may lie, the most latents a report may hold, and the
    probability `delta` with which ε may fail."""

    X: Floats
    task: LinearTask
    domain: Domain
    latent_dim: int | None = None
    delta: float = 0.0

    @cached_property
    def moments(self) -> Moments:
        """The moments of the volunteers' records, computed once for all budgets."""
        return Moments.of(self.X, self.task)

    @property
    def most(self) -> int:
        """The largest number of latents: as many as matter to the task, or as the caller allows."""
        return min(self.moments.relevant, self.latent_dim or self.moments.relevant)


def positive_variances(variances: ArrayLike) -> Floats:
    """The variances above zero, the largest first: directions without variance cost nothing and bring nothing."""
    values = np.asarray(variances, dtype=np.float64).ravel()
    return np.sort(values[values > 0])[::-1]


def water_level(variances: ArrayLike, nats: float) -> float:
    """The level θ with Σ ½ ln⁺(λᵢ/θ) = nats; `variances` above zero."""
    ordered = np.sort(np.asarray(variances, dtype=np.float64))[::-1]
    logs = np.log(ordered)
    for active in range(1, len(ordered) + 1):
        level = (logs[:active].sum() - 2.0 * nats) / active
        if active == len(ordered) or level >= logs[active]:
            break
    return math.exp(min(level, logs[0]))


def gaussian_distortion(variances: ArrayLike, nats: float) -> float:
    """The least mean squared error of independent Gaussians with these variances at the given rate: Σ min(λᵢ, θ)."""
    positive = positive_variances(variances)
    return float(np.minimum(positive, water_level(positive, nats)).sum()) if len(positive) else 0.0
