"""From reports back to an estimate of the record, on the server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taskveil.arrays import Floats, Integers, check_arrays, own_arrays, owned
from taskveil.client.mechanisms.lattice import Lattice
from taskveil.client.mechanisms.seeded_codewords import SeededCodewords
from taskveil.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class AffineDecoder:
    """x̂ = weights · report + offset. Shapes: weights (n, Z), offset (n,)."""

    weights: Floats
    offset: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(weights=(self.weights, self.weights.shape), offset=(self.offset, self.weights.shape[:1]))
        if self.weights.ndim != 2:
            raise DataError("the weights of a decoder are a matrix.")

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return int(self.weights.shape[0]), int(self.weights.shape[1])

    def __call__(self, reports: Floats) -> Floats:
        """Reports (N, Z) → estimates x̂ (N, n)."""
        return np.asarray(reports, dtype=np.float64) @ self.weights.T + self.offset


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """activation(weights · input + offset). Shapes: weights (outputs, inputs), offset (outputs,)."""

    weights: Floats
    offset: Floats
    activation: str

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(weights=(self.weights, self.weights.shape), offset=(self.offset, self.weights.shape[:1]))
        if self.weights.ndim != 2 or self.activation not in ("tanh", "relu", "none"):
            raise DataError(f'a layer is a matrix followed by "tanh", "relu" or "none", got {self.activation!r}.')

    def __call__(self, values: Floats) -> Floats:
        result = values @ self.weights.T
        result += self.offset
        if self.activation == "tanh":
            np.tanh(result, out=result)
        elif self.activation == "relu":
            np.maximum(result, 0.0, out=result)
        return np.asarray(result)


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkDecoder:
    """x̂ = the last of one or more dense layers, the first of which takes the report."""

    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        own_arrays(self)
        if not self.layers or not all(isinstance(layer, Layer) for layer in self.layers):
            raise DataError("a network decoder needs at least one layer.")
        for before, after in zip(self.layers[:-1], self.layers[1:], strict=True):
            if before.weights.shape[0] != after.weights.shape[1]:
                raise DataError("every layer of a decoder must take what the one before gives.")

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return int(self.layers[-1].weights.shape[0]), int(self.layers[0].weights.shape[1])

    def __call__(self, reports: Floats) -> Floats:
        """Reports (N, Z) → estimates x̂ (N, n)."""
        values = np.asarray(reports, dtype=np.float64)
        for layer in self.layers:
            values = layer(values)
        return values


@dataclass(frozen=True, kw_only=True, eq=False)
class CodewordDecoder:
    """x̂ = the sum over stages of the reported codeword. Shapes: codewords (K₁ + K₂ + …, n), sizes (stages,)."""

    codewords: Floats
    sizes: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
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
        own_arrays(self)
        n = len(self.offset)
        check_arrays(weights=(self.weights, (n, self.lattice.dim)), offset=(self.offset, (n,)))
        if not 0 < self.step < np.inf:
            raise DataError("the step of a lattice is a number above zero.")

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return len(self.offset), self.lattice.report_width

    def estimates(self, numbers: Integers) -> Floats:
        """Codewords as level numbers (N, d) → estimates x̂ (N, n)."""
        return self.lattice.points(numbers) * self.step @ self.weights.T + self.offset

    def __call__(self, reports: ArrayLike) -> Floats:
        """Reports (N, width) → estimates x̂ (N, n)."""
        return self.estimates(self.lattice.unrank(np.asarray(reports, dtype=np.int64)))


@dataclass(frozen=True, kw_only=True, eq=False)
class SurveyDecoder:
    """Nothing about one person: the `priors`, smoothed shares of the volunteers (rows,) for every question of a survey,
    with which `taskveil.estimate` weighs reports. `width` is that of a record."""

    priors: tuple[Floats, ...]
    width: int

    def __post_init__(self) -> None:
        if not self.priors or self.width < 1 or not all(isinstance(prior, np.ndarray) for prior in self.priors):
            raise DataError("a survey has a prior for every question.")
        for prior in self.priors:
            check_arrays(prior=(prior, (prior.size,)))
            if not (prior.min(initial=1.0) > 0 and abs(float(prior.sum()) - 1.0) < 1e-6):
                raise DataError("a prior of a survey is shares above 0 that add up to 1.")
        object.__setattr__(self, "priors", tuple(owned(prior) for prior in self.priors))

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return self.width, 1

    def __call__(self, reports: ArrayLike) -> Floats:
        """A DataError that says what to do with the reports (N, 1)."""
        raise DataError(
            f"reports of a survey (here {len(np.asarray(reports))}) say nothing about one person: estimate all people "
            "with tv.estimate(veil, reports), or with taskveil estimate."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class BallDecoder:
    """x̂ = offset + scale · (the reported direction), which has the attributes `places` (d,). Shape: offset (n,)."""

    codewords: SeededCodewords
    places: Integers
    scale: float
    offset: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(offset=(self.offset, (len(self.offset),)))
        places = self.places
        if places.shape != (self.codewords.dim,) or (np.diff(places) <= 0).any() or places[0] < 0:
            raise DataError("a decoder of directions needs a rising place for each of their numbers.")
        if places[-1] >= len(self.offset) or not 0 < self.scale < np.inf:
            raise DataError("a decoder of directions needs places among its attributes, and a scale above zero.")

    @property
    def shape(self) -> tuple[int, int]:
        """(attributes, columns of a report)."""
        return len(self.offset), 3

    def __call__(self, reports: ArrayLike) -> Floats:
        """Reports (N, 3) → estimates x̂ (N, n)."""
        numbers = np.asarray(reports, dtype=np.int64)
        found = np.tile(self.offset, (len(numbers), 1))
        found[:, self.places] += self.scale * self.codewords.directions(numbers[:, :2], numbers[:, 2])
        return found


Decoder = AffineDecoder | NetworkDecoder | CodewordDecoder | LatticeDecoder | SurveyDecoder | BallDecoder


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
