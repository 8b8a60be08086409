"""From reports back to an estimate of the record, on the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taskveil.encoders import check_arrays
from taskveil.errors import DataError
from taskveil.lattice import Lattice

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AffineDecoder:
    """x̂ = weights · report + offset. Shapes: weights (n, Z), offset (n,)."""

    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        check_arrays(weights=(self.weights, self.weights.shape), offset=(self.offset, self.weights.shape[:1]))

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return int(self.weights.shape[0]), int(self.weights.shape[1])

    def __call__(self, reports: Floats) -> Floats:
        """Reports (N, Z) → estimates x̂ (N, n)."""
        return np.asarray(reports, dtype=np.float64) @ self.weights.T + self.offset


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenDecoder:
    """One hidden layer: x̂ = weights · tanh(hidden_weights · report + hidden_offset) + offset.

    Shapes: hidden_weights (H, Z), hidden_offset (H,), weights (n, H), offset (n,).
    """

    hidden_weights: Floats
    hidden_offset: Floats
    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        hidden, latent = self.hidden_weights.shape
        width = len(self.offset)
        check_arrays(
            hidden_weights=(self.hidden_weights, (hidden, latent)),
            hidden_offset=(self.hidden_offset, (hidden,)),
            weights=(self.weights, (width, hidden)),
            offset=(self.offset, (width,)),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return len(self.offset), int(self.hidden_weights.shape[1])

    def __call__(self, reports: Floats) -> Floats:
        """Reports (N, Z) → estimates x̂ (N, n)."""
        hidden = np.asarray(reports, dtype=np.float64) @ self.hidden_weights.T + self.hidden_offset
        return np.tanh(hidden) @ self.weights.T + self.offset


@dataclass(frozen=True, kw_only=True, eq=False)
class CodewordDecoder:
    """x̂ = the sum over stages of the reported codeword. Shapes: codewords (K₁ + K₂ + …, n), sizes (stages,)."""

    codewords: Floats
    sizes: Integers

    def __post_init__(self) -> None:
        check_arrays(codewords=(self.codewords, (int(self.sizes.sum()), self.codewords.shape[1])))

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return int(self.codewords.shape[1]), len(self.sizes)

    def __call__(self, reports: ArrayLike) -> Floats:
        """Reports (N, stages) → estimates x̂ (N, n)."""
        numbers = np.asarray(reports, dtype=np.int64)
        if ((numbers < 0) | (numbers >= self.sizes)).any():
            raise DataError("a report names a codeword that does not exist: was it made with another release?")
        first = np.cumsum(self.sizes) - self.sizes
        return np.asarray(self.codewords[numbers + first].sum(axis=1))


@dataclass(frozen=True, kw_only=True, eq=False)
class LatticeDecoder:
    """x̂ = weights · (the reported codeword · step) + offset. Shapes: weights (n, d), offset (n,)."""

    lattice: Lattice
    step: float
    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        n = len(self.offset)
        check_arrays(weights=(self.weights, (n, self.lattice.dim)), offset=(self.offset, (n,)))

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return len(self.offset), self.lattice.report_width

    def estimates(self, numbers: Integers) -> Floats:
        """Codewords as level numbers (N, d) → estimates x̂ (N, n)."""
        return self.lattice.points(numbers) * self.step @ self.weights.T + self.offset

    def __call__(self, reports: ArrayLike) -> Floats:
        """Reports (N, width) → estimates x̂ (N, n)."""
        places = self.lattice.places(np.asarray(reports, dtype=np.int64))
        numbers = np.array([self.lattice.unrank(place) for place in places], dtype=np.int64)
        return self.estimates(numbers.reshape(-1, self.lattice.dim))


Decoder = AffineDecoder | HiddenDecoder | CodewordDecoder | LatticeDecoder


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
