"""From reports back to an estimate of the record, on the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.encoders import check_arrays

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AffineDecoder:
    """x̂ = weights · report + offset. Shapes: weights (n, Z), offset (n,)."""

    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        check_arrays(weights=(self.weights, self.weights.shape), offset=(self.offset, self.weights.shape[:1]))

    def __call__(self, reports: Floats) -> Floats:
        """Reports (N, Z) → estimates x̂ (N, n)."""
        return np.asarray(reports, dtype=np.float64) @ self.weights.T + self.offset


def least_squares_decoder(latents: Floats, X: Floats, noise_variance: float) -> AffineDecoder:
    """The affine decoder with the least E‖x̂ − x‖² for reports `latents + noise`, over the given sample.

    D = C_xφ (C_φφ + σ_w² I)⁻¹: not a pseudo-inverse, it shrinks what is mostly noise. It is optimal for every
    squared loss ‖K(x̂ − x)‖² at once. Latents are those after bounding, so clipping bias is accounted for.
    """
    center, mean = latents.mean(axis=0), X.mean(axis=0)
    centred = latents - center
    gram = centred.T @ centred / len(X) + noise_variance * np.eye(latents.shape[1])
    cross = centred.T @ (X - mean) / len(X)
    # lstsq: with next to no noise and dependent latents the Gram matrix is singular.
    weights = np.linalg.lstsq(gram, cross, rcond=None)[0].T
    return AffineDecoder(weights=weights, offset=mean - weights @ center)
