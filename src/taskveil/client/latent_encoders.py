"""The maps that a device can run, from a record to the latent that is bounded and randomised afterwards.

Encoders compute in whole numbers: every attribute becomes one of 2^20 levels, weights are integers, and no sum leaves
the range in which a double holds integers exactly (`client.networks`). So a latent does not depend on the order of
summation, the batch size, the processor or the language: a browser computes the same bits. The exception is a model
that a release names but does not contain: the Python program that runs the client passes it. Browsers refuse such a
release.

The guarantee does not depend on the encoder: a mechanism bounds every latent, whatever the encoder computed.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers, as_floats, check_arrays, own_arrays, tolerant
from taskveil.client.networks import (
    LEVELS,
    MOST_OPERATIONS,
    MOST_STEPS,
    LayeredEncoder,
    RangedEncoder,
    check_layer,
    levels,
    portable_softmax,
)
from taskveil.client.trees import MOST_KNOTS, TreeEncoder
from taskveil.errors import DataError

Function = Callable[[Floats], Any]
"""A model: records (N, n) inside the ranges → latents (N, Z)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedEncoder:
    """A model that the release names: φ = function(x) for records clipped to `low` and `high` (n,). NaN is the middle.

    If the function raises, or does not give `latents` numbers (complex ones are none), the latents of that record are
    NaN, which mechanisms bring inside. So no value ever shows as an error.

    The function may get many records at once and must compute each alone. A function that mixes records (batch
    normalisation in training mode) or remembers them carries a record into other people's reports, which the guarantee
    does not cover. A `Client` passes one record of one person.
    """

    name: str
    low: Floats
    high: Floats
    latents: int
    _function: Function | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(low=(self.low, self.low.shape), high=(self.high, self.low.shape))
        if self.low.ndim != 1 or not (self.low <= self.high).all() or not 1 <= self.latents <= 2**16:
            raise DataError("a named encoder needs a range for every attribute, and 1 to 65,536 latents.")
        if not (self.name and self.name.isprintable() and len(self.name) <= 200):
            raise DataError("a named encoder needs a name of 1 to 200 printable characters.")

    @classmethod
    def of(cls, function: Function, *, name: str, low: Floats, high: Floats, latents: int) -> NamedEncoder:
        """An encoder that runs `function`. Releases contain its `name` and the other arguments."""
        return cls(name=name, low=low, high=high, latents=latents).running(function)

    def running(self, function: Function) -> NamedEncoder:
        """The same encoder with the function that its name stands for."""
        if not callable(function):
            raise DataError(f"an encoder must be callable, got {type(function).__name__}.")
        bound = NamedEncoder(name=self.name, low=self.low, high=self.high, latents=self.latents)
        object.__setattr__(bound, "_function", function)
        return bound

    @property
    def runs(self) -> bool:
        """Whether it has its function."""
        return self._function is not None

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return len(self.low)

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return self.latents

    @property
    def operations(self) -> int:
        """Unknown for a function: 0."""
        return 0

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        if self._function is None:
            raise DataError(f"this release runs the model {self.name!r}, which it does not contain: {HOW}.")
        inside = np.clip(np.where(np.isnan(X), self.low + (self.high - self.low) / 2, X), self.low, self.high)
        found = self._ask(inside)
        if found is None:  # one bad record must not affect the others
            rows = [self._ask(row[None]) for row in inside]
            silent = np.full((1, self.latents), np.nan)
            found = np.concatenate([silent if row is None else row for row in rows] or [silent[:0]])
        return found

    def _ask(self, inside: Floats) -> Floats | None:
        """The function's latents for some records; None if it gave none."""
        with tolerant:  # a model may raise anything
            found = as_floats(self._function(inside.copy())).copy()  # type: ignore[misc]
            found = found[:, None] if found.ndim == 1 else found
            return found if found.shape == (len(inside), self.latents) else None
        return None


FARTHEST_KNOT = float(np.finfo(np.float64).max) / 2
"""With this bound, the difference of two knots is at most the largest double."""

HOW = "pass it as Client.load(folder, encoder=function) or Veil.load(folder, encoder=function)"


def bring(encoder: Any, function: Function | None, named: str) -> Any:
    """The encoder of a release, with the `function` that it names; DataError if one is missing or not needed.

    `named` is what the message calls the release.
    """
    if not isinstance(encoder, NamedEncoder):
        if function is not None:
            raise DataError(f"{named} contains its encoder: leave out encoder=.")
        return encoder
    if function is None:
        raise DataError(f"{named} runs the model {encoder.name!r}, which it does not contain: {HOW}.")
    return encoder.running(function)


def affine(q: Floats, weights: Integers, offset: Integers | Floats) -> Floats:
    """q · weightsᵀ + offset on whole numbers held in doubles: exact, so any order of summation gives the same."""
    return np.asarray(q @ weights.T.astype(np.float64) + offset)


def on_levels(low: Floats, high: Floats, weights: Floats, offset: Floats) -> tuple[Floats, Floats]:
    """The map weights · x + offset as a map of levels: (weights per level, value at level 0)."""
    return weights * ((high - low) / LEVELS), offset + weights @ low


def to_integers(weights: Floats, offset: Floats, largest: Integers) -> tuple[Integers, Integers, Floats]:
    """Integers and power-of-two steps with weights ≈ integers · step. Sums over inputs up to `largest` stay below 2^51,
    so each row uses all the precision that a double can add up exactly."""
    reach = np.abs(weights) @ largest.astype(np.float64) + np.abs(offset)
    # Rounding moves a weight by up to half a step, which must not push the sum past 2^53 either.
    most = min(2.0**51, 2.0**52 - 2.0 * float(largest.sum()))
    step = 2.0 ** np.ceil(np.log2(np.maximum(reach, 1e-280) / most))
    return (
        np.rint(weights / step[:, None]).astype(np.int64),
        np.rint(offset / step).astype(np.int64),
        step,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearEncoder(RangedEncoder):
    """φ = (weights · levels(x) + offset) · step. NaN counts as the middle of its attribute's range.

    Shapes: weights (Z, n), offset (Z,), step (Z,), low and high (n,). Steps are powers of two.
    """

    weights: Integers
    offset: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        latent, width = self.weights.shape
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)))
        check_layer("encoder", self.weights, self.offset, self.step, np.full(width, LEVELS), latent)

    @classmethod
    def of(cls, *, low: Floats, high: Floats, weights: Floats, offset: Floats) -> LinearEncoder:
        """The integer encoder closest to φ = weights · x + offset."""
        per_level, start = on_levels(low, high, weights, offset)
        integers, shift, step = to_integers(per_level, start, np.full(len(low), LEVELS))
        return cls(low=low, high=high, weights=integers, offset=shift, step=step)

    @property
    def operations(self) -> int:
        """Products and sums for one record."""
        return int(self.weights.size)

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        with np.errstate(all="ignore"):  # too wide or too narrow ranges give NaN, which regions bring inside
            return affine(levels(X, self.low, self.high), self.weights, self.offset) * self.step


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributeEncoder(RangedEncoder):
    """φᵢ = (level of attribute placesᵢ − 2^19) · stepᵢ: attributes as they are, seen from the middle of their ranges.

    Shapes: places and step (Z,), low and high (n,). It is a linear encoder without a matrix, for thousands of
    attributes. NaN counts as the middle.
    """

    places: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        width, latents = len(self.low), len(self.places)
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)))
        ones, zeros = np.ones((latents, 1), dtype=np.int64), np.zeros(latents, dtype=np.int64)
        check_layer("encoder", ones, zeros, self.step, np.full(1, LEVELS), latents)
        named = self.places.dtype == np.int64 and self.places.ndim == 1 and 1 <= latents <= width
        if not named or (np.diff(self.places) <= 0).any() or self.places[0] < 0 or self.places[-1] >= width:
            raise DataError("an encoder of attributes names places of attributes, rising.")

    @property
    def operations(self) -> int:
        """One difference for each latent."""
        return len(self.places)

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        with np.errstate(all="ignore"):  # as in `LinearEncoder`
            return (levels(X, self.low, self.high)[:, self.places] - LEVELS // 2) * self.step


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenEncoder(RangedEncoder):
    """One hidden layer: hᵢ = ⌊max(0, hidden_weights · levels + hidden_offset)ᵢ / 2^hidden_shiftᵢ⌋, then
    φ = (weights · h + skip · levels + offset) · step, and class probabilities of that if `softmax`.

    Shapes: hidden_weights (H, n), hidden_offset and hidden_shift (H,), weights (Z, H), skip (Z, n), offset and step
    (Z,).
    """

    hidden_weights: Integers
    hidden_offset: Integers
    hidden_shift: Integers
    weights: Integers
    skip: Integers
    offset: Integers
    softmax: bool = False

    def __post_init__(self) -> None:
        own_arrays(self)
        hidden, width = self.hidden_weights.shape
        latent = len(self.offset)
        check_arrays(low=(self.low, (width,)), high=(self.high, (width,)))
        full = np.full(width, LEVELS)
        check_layer("hidden layer", self.hidden_weights, self.hidden_offset, np.ones(hidden), full, hidden)
        if self.hidden_shift.shape != (hidden,) or not ((self.hidden_shift >= 0) & (self.hidden_shift < 64)).all():
            raise DataError("hidden_shift must hold one whole number from 0 to 63 per hidden unit.")
        if self.weights.shape != (latent, hidden) or self.skip.shape != (latent, width):
            raise DataError("an encoder's output needs a weight for every hidden unit and a skip for every attribute.")
        both = np.hstack([self.weights, self.skip])
        check_layer("output layer", both, self.offset, self.step, np.concatenate([self._largest, full]), latent)

    @property
    def _largest(self) -> Integers:
        """The largest value every hidden unit can take."""
        top = np.maximum(self.hidden_weights, 0).sum(axis=1) * LEVELS + self.hidden_offset
        return np.asarray(np.maximum(top, 0) >> self.hidden_shift)

    @classmethod
    def of(
        cls,
        *,
        low: Floats,
        high: Floats,
        hidden_weights: Floats,
        hidden_offset: Floats,
        weights: Floats,
        offset: Floats,
        skip: Floats | None = None,
        softmax: bool = False,
    ) -> HiddenEncoder:
        """The integer encoder closest to φ = weights · relu(hidden_weights · x + hidden_offset) + skip · x + offset."""
        skip = np.zeros((len(offset), len(low))) if skip is None else skip
        full = np.full(len(low), LEVELS)
        per_level, start = on_levels(low, high, hidden_weights, hidden_offset)
        first, first_offset, first_step = to_integers(per_level, start, full)
        top = np.maximum(np.maximum(first, 0).sum(axis=1) * LEVELS + first_offset, 1)
        shift = np.maximum(np.ceil(np.log2(top)).astype(np.int64) - 20, 0)
        largest = top >> shift
        skip_level, skip_start = on_levels(low, high, skip, offset)
        combined = np.hstack([weights * (first_step * 2.0**shift), skip_level])
        second, second_offset, step = to_integers(combined, skip_start, np.concatenate([largest, full]))
        return cls(
            low=low,
            high=high,
            hidden_weights=first,
            hidden_offset=first_offset,
            hidden_shift=shift,
            weights=second[:, : len(shift)],
            skip=second[:, len(shift) :],
            offset=second_offset,
            step=step,
            softmax=softmax,
        )

    @property
    def operations(self) -> int:
        """Products and sums for one record."""
        return int(self.hidden_weights.size + self.weights.size + self.skip.size)

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        with np.errstate(all="ignore"):  # too wide or too narrow ranges give NaN, which regions bring inside
            q = levels(X, self.low, self.high)
            raw = np.maximum(affine(q, self.hidden_weights, self.hidden_offset), 0.0)
            hidden = np.floor(np.ldexp(raw, -self.hidden_shift.astype(np.int32)))
            latents = (affine(hidden, self.weights, self.offset) + affine(q, self.skip, np.zeros(1))) * self.step
            return portable_softmax(latents) if self.softmax else latents


@dataclass(frozen=True, kw_only=True, eq=False)
class MonotoneTables:
    """A bent scale for attributes with heavy tails, where evenly spaced levels would not distinguish most people: a
    capped scale, a logarithm or ranks, without logarithms, whose last bits differ between machines.

    One table per attribute: the value knots[i, j] has the level levels[i, j], both of shape (n, k). Neither falls
    along a row. Between two knots, levels lie on a straight line, rounded.

    Values below the first knot and above the last one count as that knot. NaN has the middle level, 2^19. Where a knot
    repeats, the level jumps; the knot itself has the last of its levels.
    """

    knots: Floats
    levels: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.knots.dtype != np.float64 or self.levels.dtype != np.int64 or self.knots.shape != self.levels.shape:
            raise DataError("tables need 64-bit levels, one for every knot.")
        if self.knots.ndim != 2 or not 1 <= self.knots.shape[1] <= MOST_KNOTS:
            raise DataError(f"tables need 1 to {MOST_KNOTS:,} knots, as many for every attribute.")
        if not (np.abs(self.knots) <= FARTHEST_KNOT).all() or not (np.diff(self.knots) >= 0).all():
            raise DataError("knots must be finite, within half the range of doubles, and must not fall.")
        if not ((self.levels >= 0) & (self.levels <= LEVELS)).all() or not (np.diff(self.levels) >= 0).all():
            raise DataError("levels of a table must lie between 0 and 2^20 and must not fall.")

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return int(self.knots.shape[0])

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def __call__(self, X: Floats) -> Floats:
        """Values of any quality (N, n) → whole numbers 0 … 2^20, (N, n)."""
        # After clipping no value is above the last knot: the line that starts there never ends and does not rise.
        lengths = np.diff(self.knots, append=np.inf)
        rises = np.diff(self.levels, append=self.levels[:, -1:])
        q = np.empty(X.shape)
        for column, (knots, level) in enumerate(zip(self.knots, self.levels, strict=True)):
            values = np.minimum(np.maximum(X[:, column], knots[0]), knots[-1])
            place = np.searchsorted(knots, values, side="right") - 1
            share = (values - knots[place]) / lengths[column, place]
            q[:, column] = level[place] + np.floor(share * rises[column, place] + 0.5)
        lost = np.isnan(X)
        if lost.any():
            q[lost] = LEVELS // 2
        return q


@dataclass(frozen=True, kw_only=True, eq=False)
class TabledEncoder:
    """An encoder that gets levels 0 … 2^20 from a table per attribute, instead of the values.

    For attributes with heavy tails: evenly spaced levels would not distinguish most people. The inner encoder has
    ranges 0 … 2^20, so it takes every level unchanged.
    """

    tables: MonotoneTables
    encoder: LinearEncoder | HiddenEncoder

    def __post_init__(self) -> None:
        if not isinstance(self.tables, MonotoneTables) or not isinstance(self.encoder, LinearEncoder | HiddenEncoder):
            raise DataError("a tabled encoder is made of tables and of an encoder without any.")
        if self.tables.width != self.encoder.width:
            raise DataError(f"tables of {self.tables.width} attributes before an encoder of {self.encoder.width}.")

    @property
    def low(self) -> Floats:
        """(n,): values below these count as these."""
        return self.tables.knots[:, 0]

    @property
    def high(self) -> Floats:
        """(n,): values above these count as these."""
        return self.tables.knots[:, -1]

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return self.encoder.width

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return self.encoder.latent_dim

    @property
    def operations(self) -> int:
        """Products, sums and comparisons for one record."""
        return self.encoder.operations + self.width * int(self.tables.knots.shape[1]).bit_length()

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        return self.encoder(self.tables(X))


Plain = LinearEncoder | HiddenEncoder | TabledEncoder | TreeEncoder | LayeredEncoder
"""The encoders that a mean can contain."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanEncoder:
    """φ = w₁φ₁ + w₂φ₂ + …, added up in this order, so that every machine rounds alike. The weights (count,) are shares
    that add up to about one. A mean of encoders with different errors has a smaller error."""

    encoders: tuple[Plain, ...]
    weights: Floats

    def __post_init__(self) -> None:
        several = 2 <= len(self.encoders) <= MOST_STEPS
        if not several or not all(isinstance(encoder, Plain) for encoder in self.encoders):
            raise DataError(f"a mean is made of 2 to {MOST_STEPS} encoders, none of which is a mean or a name.")
        own_arrays(self)
        shares = self.weights.shape == (len(self.encoders),) and bool(((self.weights >= 0) & (self.weights <= 1)).all())
        if self.weights.dtype != np.float64 or not shares:
            raise DataError("a mean needs a weight between 0 and 1 for each of its encoders.")
        first = self.encoders[0]
        if any((other.width, other.latent_dim) != (first.width, first.latent_dim) for other in self.encoders):
            raise DataError("encoders of a mean must take the same attributes and give as many latents.")
        networks = [encoder for encoder in self.encoders if isinstance(encoder, LayeredEncoder)]
        if sum(network.operations for network in networks) > MOST_OPERATIONS:
            raise DataError(f"the networks of a mean may take at most {MOST_OPERATIONS:,} products for a record.")

    @property
    def low(self) -> Floats:
        """(n,): values below these count as these."""
        return np.asarray(np.min([encoder.low for encoder in self.encoders], axis=0))

    @property
    def high(self) -> Floats:
        """(n,): values above these count as these."""
        return np.asarray(np.max([encoder.high for encoder in self.encoders], axis=0))

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return self.encoders[0].width

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return self.encoders[0].latent_dim

    @property
    def operations(self) -> int:
        """The sum over all encoders, for one record."""
        return sum(encoder.operations for encoder in self.encoders)

    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        total = np.zeros((len(X), self.latent_dim))
        with np.errstate(all="ignore"):  # overflow gives NaN or infinity, which regions bring inside
            for encoder, weight in zip(self.encoders, self.weights, strict=True):
                total = total + encoder(X) * weight
        return total


Encoder = Plain | AttributeEncoder | MeanEncoder | NamedEncoder
