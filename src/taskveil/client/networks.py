"""Layers that a device can run, in whole numbers, and small networks of them: dense, convolution, ReLU and pooling.

An attribute's value first becomes one of 2^20 levels. Layers add up whole numbers that are held in doubles. The sums
are exact, so the order of summation, the processor and the language do not matter.

A weighted layer computes weights · inputs + offset, divides every sum by 2^shift, rounds down and clips the result to
its `top`. So the inputs of the next layer are bounded for every record, and all sums stay in the range in which a
double holds integers exactly: latents do not depend on the order of summation, the processor or the language. Where
sums stay below 2^24, single precision is exact too, and twice as fast.

Several networks can run as one: convolutions and dense layers with several groups, and a last layer that adds up.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from taskveil.arrays import (
    EXACT,
    Array,
    Floats,
    Integers,
    Integers8,
    Integers16,
    Integers32,
    blocks,
    check_arrays,
    own_arrays,
)
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.errors import DataError

LEVELS = 2**20
"""Steps of an attribute's range, and roughly the largest output of a hidden unit."""
MOST_NUMBERS = 2**22
"""Numbers that a layer may take, give, or lay out for one record: 32 MB of doubles."""
MOST_SHIFT = EXACT.bit_length() - 2
"""Divisions by two of a whole number: one more leaves nothing of any sum."""
MOST_STEPS = 64
"""Layers of a network, encoders of a mean, stages of a sum of codebooks, or latents of a group: they are computed one
after the other."""
MOST_OPERATIONS = 2**28
"""Products that the networks or the codewords of a release may take for a record: about a second in a browser."""

SINGLE = 2**24  # single precision holds all integers up to this one exactly

Weights = Integers8 | Integers16 | Integers32


@dataclass(frozen=True, kw_only=True, eq=False)
class RangedEncoder:
    """What encoders share that take values between `low` and `high` (n,) and give latents in steps (Z,)."""

    low: Floats
    high: Floats
    step: Floats

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return len(self.low)

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return len(self.step)


def levels(X: Floats, low: Floats, high: Floats) -> Floats:
    """Whole numbers 0 … 2^20: the place of each value between low and high. Values outside are clipped, NaN is the
    middle."""
    lost = np.isnan(X)
    if lost.any():
        X = np.where(lost, low + (high - low) / 2, X)
    gain = np.divide(LEVELS, high - low, out=np.zeros_like(low), where=high > low)
    q = np.maximum(X, low)  # one array from here on: in a batch, memory is what takes the time
    np.minimum(q, high, out=q)
    q -= low
    q *= gain
    q += 0.5
    np.floor(q, out=q)
    return np.minimum(q, LEVELS, out=q)


def portable_softmax(z: Floats) -> Floats:
    """Class probabilities, from additions, products and divisions only, which round alike on every machine."""
    shifted = np.maximum(z - z.max(axis=1, keepdims=True), -700.0)
    power = np.floor(shifted * 1.4426950408889634 + 0.5)
    rest = (shifted - power * 0.693147180369123816490) - power * 1.90821492927058770002e-10
    e = np.full_like(rest, 1.0 / 6227020800.0)
    for denominator in (479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1):
        e = e * rest + 1.0 / denominator
    e = np.ldexp(e, power.astype(np.int32))
    total = np.zeros((len(e), 1))
    for column in range(e.shape[1]):
        total = total + e[:, column : column + 1]
    return np.asarray(e / total)


def check_layer(name: str, weights: Integers, offset: Integers, step: Floats, largest: Integers, outputs: int) -> None:
    """A DataError unless shapes fit, steps are powers of two, and doubles hold every possible sum exactly."""
    shapes = weights.shape == (outputs, len(largest)) and offset.shape == (outputs,) and step.shape == (outputs,)
    if not shapes or weights.dtype != np.int64 or offset.dtype != np.int64:
        raise DataError(f"{name}: weights and offset must be 64-bit integers of matching shapes.")
    reach = np.abs(weights.astype(np.float64)) @ largest.astype(np.float64) + np.abs(offset.astype(np.float64))
    if not (reach < EXACT).all():
        raise DataError(f"{name}: weights are too large for exact sums.")
    if not ((step >= LEAST_STEP) & (step <= LARGEST_STEP) & (np.frexp(step)[0] == 0.5)).all():
        raise DataError(f"{name}: steps must be powers of two between 2^-1000 and 2^900.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """A window of (rows, columns) that slides over pictures of (channels, height, width) by its strides. Pictures are
    padded above and below by `row_padding`, left and right by `column_padding`."""

    channels: int
    height: int
    width: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    row_padding: int
    column_padding: int

    def __post_init__(self) -> None:
        sizes = {field.name: getattr(self, field.name) for field in fields(self)}
        if not all(type(n) is int and ("padding" not in name) <= n <= MOST_NUMBERS for name, n in sizes.items()):
            raise DataError(f"the sizes of a window must be whole numbers from 1 (paddings: 0) to {MOST_NUMBERS:,}.")
        # Every window touches the picture: an empty window would have no largest number.
        if self.row_padding >= self.rows or self.column_padding >= self.columns:
            raise DataError("a window must be larger than the padding of its pictures.")
        if self.rows > self.height + 2 * self.row_padding or self.columns > self.width + 2 * self.column_padding:
            raise DataError("a window must fit into its padded pictures.")
        padded = (self.height + 2 * self.row_padding) * (self.width + 2 * self.column_padding)
        if max(padded, self.rows * self.columns * self.places) * self.channels > MOST_NUMBERS:
            raise DataError(f"a layer may lay out at most {MOST_NUMBERS:,} numbers for a record.")

    @property
    def inputs(self) -> int:
        """Numbers of a record's pictures."""
        return self.channels * self.height * self.width

    @property
    def down(self) -> int:
        """Places of the window from top to bottom."""
        return (self.height + 2 * self.row_padding - self.rows) // self.row_stride + 1

    @property
    def across(self) -> int:
        """Places of the window from left to right."""
        return (self.width + 2 * self.column_padding - self.columns) // self.column_stride + 1

    @property
    def places(self) -> int:
        """All places of the window."""
        return self.down * self.across

    def seen(self, q: Array, fill: Array) -> Array:
        """Pictures (N, channels · height · width), padded with `fill` (channels,) → the numbers under the window at all
        its places, not copied: (N, channels, down, across, rows, columns)."""
        everywhere = sliding_window_view(self._padded(q, fill), (self.rows, self.columns), axis=(2, 3))
        return everywhere[:, :, :: self.row_stride, :: self.column_stride]

    def patches(self, q: Array, fill: Array) -> Array:
        """The numbers of `seen`, copied to (N, channels · rows · columns, places)."""
        return self.seen(q, fill).transpose(0, 1, 4, 5, 2, 3).reshape(len(q), -1, self.places)

    def _padded(self, q: Array, fill: Array) -> Array:
        above, left = self.row_padding, self.column_padding
        pictures = q.reshape(-1, self.channels, self.height, self.width)
        if not above and not left:
            return pictures
        out = np.empty((len(q), self.channels, self.height + 2 * above, self.width + 2 * left), dtype=q.dtype)
        out[...] = fill[:, None, None]
        out[:, :, above : above + self.height, left : left + self.width] = pictures
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class PoolingLayer:
    """The largest number under a window, or else ⌊sum / 2^shift⌋, channel by channel."""

    window: Window
    maximum: bool
    shift: int

    def __post_init__(self) -> None:
        if not isinstance(self.window, Window) or type(self.maximum) is not bool:
            raise DataError("a pooling layer needs a window, and must say whether it takes the largest.")
        if type(self.shift) is not int or not 0 <= self.shift <= MOST_SHIFT * (not self.maximum):
            raise DataError(
                f"the shift of a pooling layer is a whole number from 0 to {MOST_SHIFT}, 0 for the largest."
            )

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""
        return self.window.inputs

    @property
    def outputs(self) -> int:
        """How many numbers it gives."""
        return self.window.channels * self.window.places

    @property
    def operations(self) -> int:
        """Numbers looked at for a record."""
        return self.outputs * self.window.rows * self.window.columns

    @property
    def laid_out(self) -> int:
        """Numbers in memory for a record."""
        return self.inputs

    def reach(self, largest: int) -> float:
        """An upper bound of all sums over inputs up to `largest`."""
        return float(largest if self.maximum else largest * self.window.rows * self.window.columns)

    def largest(self, reach: float) -> int:
        """An upper bound of all outputs if no sum exceeds `reach`."""
        return -(-int(reach) >> self.shift)

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        combine: Any = np.maximum if self.maximum else np.add
        window = self.window
        seen = window.seen(q, np.full(window.channels, -np.inf if self.maximum else 0.0))
        if window.rows * window.columns > window.places:  # numpy's reduction is faster for these shapes
            out = combine.reduce(seen, axis=(4, 5))
        else:
            out = seen[..., 0, 0].copy()
            for row, column in list(np.ndindex(window.rows, window.columns))[1:]:
                combine(out, seen[..., row, column], out=out)
        if self.shift:
            np.floor(np.ldexp(out, -self.shift, out=out), out=out)
        return np.asarray(out.reshape(len(q), -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedLayer:
    """What dense layers and convolutions share: weighted sums, divided by powers of two, rounded down and clipped."""

    weights: Weights
    offset: Integers
    shift: Integers
    top: int
    relu: bool
    groups: int

    @property
    def places(self) -> int:
        """How often the weights are used for a record."""
        return 1

    @property
    def outputs(self) -> int:
        """How many numbers it gives."""
        return len(self.offset) * self.places

    @property
    def operations(self) -> int:
        """Products for a record."""
        return int(self.weights.size) * self.places

    def check(self, dimensions: int) -> None:
        """A DataError unless the weights have so many dimensions and everything fits them."""
        weights, outputs, groups = self.weights, self.offset.shape, self.groups
        whole = weights.dtype in (np.int8, np.int16, np.int32)
        if not whole or weights.ndim != dimensions or weights.size > MOST_NUMBERS:
            raise DataError(f"weights must be 8-, 16- or 32-bit integers, {MOST_NUMBERS:,} at most.")
        if self.offset.dtype != np.int64 or self.shift.dtype != np.int64 or outputs != weights.shape[:1]:
            raise DataError("a layer needs a 64-bit offset and shift for every output.")
        if self.shift.shape != outputs or not ((self.shift >= 0) & (self.shift <= MOST_SHIFT)).all():
            raise DataError(f"shift must hold a whole number from 0 to {MOST_SHIFT} per output.")
        if type(self.relu) is not bool or type(self.top) is not int or not 1 <= self.top < EXACT:
            raise DataError("the top of a layer must be a whole number from 1 to 2^53 - 1, and relu true or false.")
        if type(groups) is not int or groups < 1 or outputs[0] % groups or weights.shape[1] * groups > MOST_NUMBERS:
            raise DataError("the groups of a layer must divide its outputs.")

    def reach(self, largest: int) -> float:
        """An upper bound of all sums over inputs up to `largest`."""
        sums = np.abs(self.weights.astype(np.float64)).reshape(len(self.offset), -1).sum(axis=1)
        return float((sums * largest + np.abs(self.offset.astype(np.float64))).max())

    def largest(self, reach: float) -> int:
        """An upper bound of all outputs if no sum exceeds `reach`."""
        return min(self.top, int(reach))

    @cached_property
    def matrices(self) -> tuple[Array, Array]:
        """The weights (groups, outputs / groups, inputs of one) in double and in single precision."""
        matrices = self.weights.reshape(self.groups, len(self.offset) // self.groups, -1)
        return matrices.astype(np.float64), matrices.astype(np.float32)

    def clipped(self, sums: Array) -> Array:
        """Sums (N, outputs, places) without the offset → the layer's numbers, in place."""
        sums += self.offset.astype(sums.dtype)[:, None]
        sums *= np.ldexp(np.ones(1, sums.dtype), -self.shift.astype(np.int32))[:, None]
        np.floor(sums, out=sums)
        return np.clip(sums, 0 if self.relu else -self.top, self.top, out=sums)


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseLayer(WeightedLayer):
    """hᵢ = ⌊(weights · q + offset)ᵢ / 2^shiftᵢ⌋, clipped to ±top, or to 0 … top with `relu`.

    Shapes: weights (outputs, inputs / groups), offset and shift (outputs,). Every group sees its own inputs.
    """

    def __post_init__(self) -> None:
        own_arrays(self)
        self.check(dimensions=2)

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""
        return int(self.weights.shape[1]) * self.groups

    @property
    def laid_out(self) -> int:
        """Numbers in memory for a record."""
        return max(self.inputs, self.outputs)

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        weights = self.matrices[q.dtype.itemsize == 4]
        if self.groups == 1:
            sums = q @ weights[0].T
        else:
            parts = q.reshape(len(q), self.groups, -1).transpose(1, 0, 2)
            sums = np.matmul(parts, weights.transpose(0, 2, 1)).transpose(1, 0, 2).reshape(len(q), -1)
        return self.clipped(sums[:, :, None])[:, :, 0]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvolutionLayer(WeightedLayer):
    """A dense layer on the numbers under a window, at all its places: pictures (channels, height, width) in, pictures
    (outputs of a place, down, across) out.

    Shapes: weights (out, channels / groups, rows, columns), offset and shift (out,), and `fill` (channels,) for the
    padding.
    """

    window: Window
    fill: Integers

    def __post_init__(self) -> None:
        own_arrays(self)
        self.check(dimensions=4)
        w = self.window
        if not isinstance(w, Window) or self.fill.shape != (w.channels,) or self.fill.dtype != np.int64:
            raise DataError("a convolution needs a window, and a 64-bit fill for every channel.")
        if self.weights.shape[1:] != (w.channels / self.groups, w.rows, w.columns) or self.outputs > MOST_NUMBERS:
            raise DataError("a convolution's weights must fit its window and the channels of its groups.")
        if not (np.abs(self.fill) <= LEVELS).all():
            raise DataError("a convolution's fill must lie within ±2^20.")

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""
        return self.window.inputs

    @property
    def places(self) -> int:
        """All places of the window."""
        return self.window.places

    @property
    def laid_out(self) -> int:
        """Numbers in memory for a record."""
        w = self.window
        return max(w.channels * w.rows * w.columns * w.places, self.inputs, self.outputs)

    def reach(self, largest: int) -> float:
        """An upper bound of all sums over inputs up to `largest`."""
        return super().reach(max(largest, int(np.abs(self.fill).max())))

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        patches = self.window.patches(q, self.fill).reshape(len(q), self.groups, -1, self.window.places)
        sums = np.matmul(self.matrices[q.dtype.itemsize == 4], patches)
        return self.clipped(sums.reshape(len(q), -1, self.window.places)).reshape(len(q), -1)


Layer = DenseLayer | ConvolutionLayer | PoolingLayer


@dataclass(frozen=True, kw_only=True, eq=False)
class LayeredEncoder(RangedEncoder):
    """φ = step · (the last layer's numbers) + start, and class probabilities of that if `softmax`. The first layer
    takes the levels of the record's values.

    Shapes: low and high (n,), step and start (Z,).
    """

    layers: tuple[Layer, ...]
    start: Floats
    softmax: bool

    def __post_init__(self) -> None:
        own_arrays(self)
        if not (isinstance(self.layers, tuple) and 1 <= len(self.layers) <= MOST_STEPS):
            raise DataError(f"a layered encoder has 1 to {MOST_STEPS} layers.")
        if not all(isinstance(layer, Layer) for layer in self.layers) or type(self.softmax) is not bool:
            raise DataError("a layered encoder is made of layers, and says whether its latents are probabilities.")
        for layer, following in zip(self.layers, self.layers[1:], strict=False):
            if layer.outputs != following.inputs:
                raise DataError(f"a layer of {following.inputs:,} inputs after one of {layer.outputs:,} outputs.")
        if self.operations > MOST_OPERATIONS:
            raise DataError(f"a network may take at most {MOST_OPERATIONS:,} products for a record.")
        taken, shape = (self.layers[0].inputs,), (self.layers[-1].outputs,)
        check_arrays(low=(self.low, taken), high=(self.high, taken))
        check_arrays(step=(self.step, shape), start=(self.start, shape))
        if not ((self.step >= LEAST_STEP) & (self.step <= LARGEST_STEP) & (np.abs(self.start) <= LARGEST_STEP)).all():
            raise DataError("steps must lie between 2^-1000 and 2^900, and starts within ±2^900.")
        if not max(self._reaches) < EXACT:
            raise DataError("a network's weights are too large for exact sums.")

    @property
    def operations(self) -> int:
        """Products for a record."""
        return sum(layer.operations for layer in self.layers)

    @cached_property
    def _reaches(self) -> tuple[float, ...]:
        """For every layer an upper bound of its sums."""
        found, largest = [], LEVELS
        for layer in self.layers:
            found.append(layer.reach(largest))
            largest = layer.largest(min(found[-1], EXACT))
        return tuple(found)

    @np.errstate(all="ignore")  # no value is an error here, even if the caller made numpy raise
    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        q = levels(X, self.low, self.high)
        lost = np.isnan(q)  # of ranges that a double cannot hold or divide by
        if lost.any():
            q[lost] = LEVELS // 2
        numbers = np.empty((len(X), self.latent_dim))
        for rows in blocks(len(X), max(layer.laid_out for layer in self.layers)):
            numbers[rows] = self._run(q[rows])
        latents = numbers * self.step + self.start
        return portable_softmax(latents) if self.softmax else latents

    def _run(self, q: Array) -> Array:
        """The last layer's numbers for the levels of some records."""
        for layer, reach in zip(self.layers, self._reaches, strict=True):
            q = layer(q.astype(np.float32 if reach < SINGLE else np.float64, copy=False))
        return q
