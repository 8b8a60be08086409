"""The light maps a device can run, from a record to the latent that will be bounded and randomised.

Nothing here carries any part of the guarantee: a mechanism bounds whatever an encoder computes.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearEncoder:
    """φ = weights · clip(x, low, high) + offset; NaN counts as the middle of its attribute's range.

    Shapes: weights (Z, n), offset (Z,), low and high (n,).
    """

    low: Floats
    high: Floats
    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        latent, width = self.weights.shape
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)), offset=(self.offset, (latent,)))
        check_arrays(weights=(self.weights, (latent, width)))

    @property
    def width(self) -> int:
        return int(self.weights.shape[1])

    @property
    def latent_dim(self) -> int:
        return int(self.weights.shape[0])

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        return bring_inside(X, self.low, self.high) @ self.weights.T + self.offset


def bring_inside(X: Floats, low: Floats, high: Floats) -> Floats:
    """Clip every attribute to its range; NaN becomes the middle of it."""
    return np.clip(np.where(np.isnan(X), low + (high - low) / 2, X), low, high)


def check_arrays(**arrays: tuple[Floats, tuple[int, ...]]) -> None:
    """Every named array has the expected shape and holds finite numbers, or a DataError names the one that does not."""
    for name, (array, shape) in arrays.items():
        if array.shape != shape or not np.isfinite(array).all():
            raise DataError(f"{name} must be finite numbers of shape {shape}, got shape {array.shape}.")
