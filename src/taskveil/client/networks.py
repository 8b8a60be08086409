"""Small networks that a device can run: dense layers, convolutions, ReLU and pooling, in whole numbers.

A weighted layer adds up weights · inputs + offset, halves every sum `shift` times, rounding down, and cuts off what
lies beyond its `top`. So whatever the record, inputs of the next layer are bounded and its sums stay within the range
in which a double holds integers exactly: latents depend on no order of summation, processor or language.
Where sums stay below 2^24, single precision is as exact and twice as fast.

Several networks side by side are one: convolutions and dense layers of several groups, and a last layer that adds up.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taskveil.arrays import Array, Floats, Integers, Integers8, Integers16, Integers32, check_arrays, own_arrays
from taskveil.client.layers import EXACT, portable_softmax
from taskveil.client.levels import LEVELS, levels
from taskveil.client.regions import LARGEST_STEP, LEAST_STEP
from taskveil.client.windows import MOST_NUMBERS, MOST_SHIFT, PoolingLayer, Window
from taskveil.errors import DataError

MOST_LAYERS = 64
MOST_OPERATIONS = 2**28
"""Products that the networks of a release may take for a record: about a second in a browser."""

_SINGLE = 2**24  # integers up to here are exact in single precision
_AT_ONCE = 2**18  # numbers laid out together: the work arrays stay in the processor's cache

Weights = Integers8 | Integers16 | Integers32


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseLayer:
    """hᵢ = ⌊(weights · q + offset)ᵢ / 2^shiftᵢ⌋, cut off at ±top, or at 0 and top with `relu`.

    Shapes: weights (outputs, inputs / groups), offset and shift (outputs,). Every group sees its own inputs.
    """

    weights: Weights
    offset: Integers
    shift: Integers
    top: int
    relu: bool
    groups: int

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_weights(self, dimensions=2)

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""
        return int(self.weights.shape[1]) * self.groups

    @property
    def outputs(self) -> int:
        """How many numbers it gives."""
        return len(self.offset)

    @property
    def operations(self) -> int:
        """Products for a record."""
        return int(self.weights.size)

    @property
    def laid_out(self) -> int:
        """Numbers in memory for a record."""
        return max(self.inputs, self.outputs)

    def reach(self, largest: int) -> float:
        """What no sum over inputs up to `largest` exceeds."""
        return _reach(self, largest)

    def largest(self, reach: float) -> int:
        """What no output exceeds when no sum exceeds `reach`."""
        return min(self.top, int(reach))

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        weights = self._matrices[q.dtype.itemsize == 4]
        if self.groups == 1:
            sums = q @ weights[0].T
        else:
            parts = q.reshape(len(q), self.groups, -1).transpose(1, 0, 2)
            sums = np.matmul(parts, weights.transpose(0, 2, 1)).transpose(1, 0, 2).reshape(len(q), -1)
        return _cut_off(self, sums[:, :, None])[:, :, 0]

    @cached_property
    def _matrices(self) -> tuple[Array, Array]:
        return _floating(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class ConvolutionLayer:
    """A dense layer on what lies under a window, wherever it stands: of pictures (channels, height, width), channel
    after channel, it makes pictures (outputs of a place, down, across).

    Shapes: weights (out, channels / groups, rows, columns), offset and shift (out,), and `fill` (channels,), what the
    edges are padded with.
    """

    window: Window
    weights: Weights
    offset: Integers
    shift: Integers
    fill: Integers
    top: int
    relu: bool
    groups: int

    def __post_init__(self) -> None:
        own_arrays(self)
        _check_weights(self, dimensions=4)
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
    def outputs(self) -> int:
        """How many numbers it gives."""
        return len(self.offset) * self.window.places

    @property
    def operations(self) -> int:
        """Products for a record."""
        return int(self.weights.size) * self.window.places

    @property
    def laid_out(self) -> int:
        """Numbers in memory for a record."""
        w = self.window
        return max(w.channels * w.rows * w.columns * w.places, self.inputs, self.outputs)

    def reach(self, largest: int) -> float:
        """What no sum over inputs up to `largest` exceeds."""
        return _reach(self, max(largest, int(np.abs(self.fill).max())))

    def largest(self, reach: float) -> int:
        """What no output exceeds when no sum exceeds `reach`."""
        return min(self.top, int(reach))

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        patches = self.window.patches(q, self.fill).reshape(len(q), self.groups, -1, self.window.places)
        sums = np.matmul(self._matrices[q.dtype.itemsize == 4], patches)
        return _cut_off(self, sums.reshape(len(q), -1, self.window.places)).reshape(len(q), -1)

    @cached_property
    def _matrices(self) -> tuple[Array, Array]:
        return _floating(self)


Layer = DenseLayer | ConvolutionLayer | PoolingLayer


@dataclass(frozen=True, kw_only=True, eq=False)
class LayeredEncoder:
    """φ = step · (the last layer's numbers) + start, and class probabilities of that if `softmax`. What the first layer
    takes are the levels of the record's values.

    Shapes: low and high (n,), step and start (Z,).
    """

    low: Floats
    high: Floats
    layers: tuple[Layer, ...]
    step: Floats
    start: Floats
    softmax: bool

    def __post_init__(self) -> None:
        own_arrays(self)
        if not (isinstance(self.layers, tuple) and 1 <= len(self.layers) <= MOST_LAYERS):
            raise DataError(f"a layered encoder has 1 to {MOST_LAYERS} layers.")
        if not all(isinstance(layer, Layer) for layer in self.layers) or type(self.softmax) is not bool:
            raise DataError("a layered encoder is made of layers, and says whether its latents are probabilities.")
        for layer, following in zip(self.layers, self.layers[1:], strict=False):
            if layer.outputs != following.inputs:
                raise DataError(f"a layer of {following.inputs:,} inputs after one of {layer.outputs:,} outputs.")
        if self.operations > MOST_OPERATIONS:
            raise DataError(f"a network may take at most {MOST_OPERATIONS:,} products for a record.")
        shape = (self.layers[-1].outputs,)
        check_arrays(low=(self.low, (self.width,)), high=(self.high, (self.width,)))
        check_arrays(step=(self.step, shape), start=(self.start, shape))
        if not ((self.step >= LEAST_STEP) & (self.step <= LARGEST_STEP) & (np.abs(self.start) <= LARGEST_STEP)).all():
            raise DataError("steps must lie between 2^-1000 and 2^900, and starts within ±2^900.")
        if not max(self._reaches) < EXACT:
            raise DataError("a network's weights are too large for exact sums.")

    @property
    def width(self) -> int:
        """How many attributes a record has."""
        return self.layers[0].inputs

    @property
    def latent_dim(self) -> int:
        """How many latents it computes."""
        return self.layers[-1].outputs

    @property
    def operations(self) -> int:
        """Products for a record."""
        return sum(layer.operations for layer in self.layers)

    @cached_property
    def _reaches(self) -> tuple[float, ...]:
        """For every layer what none of its sums exceeds."""
        found, largest = [], LEVELS
        for layer in self.layers:
            found.append(layer.reach(largest))
            largest = layer.largest(min(found[-1], EXACT))
        return tuple(found)

    @np.errstate(all="ignore")  # whatever the caller asked numpy to raise, no value is an error here
    def __call__(self, X: Floats) -> Floats:
        """Records of any quality (N, n) → latents (N, Z)."""
        q = levels(X, self.low, self.high)
        lost = np.isnan(q)  # of ranges that a double cannot divide by or hold
        if lost.any():
            q[lost] = LEVELS // 2
        rows = max(1, _AT_ONCE // max(layer.laid_out for layer in self.layers))
        numbers = np.empty((len(X), self.latent_dim))
        for first in range(0, len(X), rows):
            numbers[first : first + rows] = self._run(q[first : first + rows])
        latents = numbers * self.step + self.start
        return portable_softmax(latents) if self.softmax else latents

    def _run(self, q: Array) -> Array:
        """The last layer's numbers for the levels of some records."""
        for layer, reach in zip(self.layers, self._reaches, strict=True):
            q = layer(q.astype(np.float32 if reach < _SINGLE else np.float64, copy=False))
        return q


def _check_weights(layer: DenseLayer | ConvolutionLayer, dimensions: int) -> None:
    weights, outputs, groups = layer.weights, layer.offset.shape, layer.groups
    if weights.dtype not in (np.int8, np.int16, np.int32) or weights.ndim != dimensions or weights.size > MOST_NUMBERS:
        raise DataError(f"weights must be 8-, 16- or 32-bit integers, {MOST_NUMBERS:,} at most.")
    if layer.offset.dtype != np.int64 or layer.shift.dtype != np.int64 or outputs != weights.shape[:1]:
        raise DataError("a layer needs a 64-bit offset and shift for every output.")
    if layer.shift.shape != outputs or not ((layer.shift >= 0) & (layer.shift <= MOST_SHIFT)).all():
        raise DataError(f"shift must hold a whole number from 0 to {MOST_SHIFT} per output.")
    if type(layer.relu) is not bool or type(layer.top) is not int or not 1 <= layer.top < EXACT:
        raise DataError("the top of a layer must be a whole number from 1 to 2^53 - 1, and relu true or false.")
    if type(groups) is not int or groups < 1 or outputs[0] % groups or weights.shape[1] * groups > MOST_NUMBERS:
        raise DataError("the groups of a layer must divide its outputs.")


def _reach(layer: DenseLayer | ConvolutionLayer, largest: int) -> float:
    sums = np.abs(layer.weights.astype(np.float64)).reshape(len(layer.offset), -1).sum(axis=1)
    return float((sums * largest + np.abs(layer.offset.astype(np.float64))).max())


def _floating(layer: DenseLayer | ConvolutionLayer) -> tuple[Array, Array]:
    """The weights (groups, outputs / groups, inputs of one) in double and in single precision."""
    matrices = layer.weights.reshape(layer.groups, len(layer.offset) // layer.groups, -1)
    return matrices.astype(np.float64), matrices.astype(np.float32)


def _cut_off(layer: DenseLayer | ConvolutionLayer, sums: Array) -> Array:
    """Sums (N, outputs, places) without the offset → the layer's numbers, in the same memory."""
    sums += layer.offset.astype(sums.dtype)[:, None]
    sums *= np.ldexp(np.ones(1, sums.dtype), -layer.shift)[:, None]
    np.floor(sums, out=sums)
    return np.clip(sums, 0 if layer.relu else -layer.top, layer.top, out=sums)
