"""Networks of dense layers, convolutions, ReLU and pooling, and their closest relatives in whole numbers.

Weights become whole numbers of 8 to 32 bits, row by row as fine as they can be; what a layer gives becomes a whole
number of 8 to 16 bits, unit by unit as large as volunteers make it, and beyond that it is cut off. Scales that this
leaves on a layer's numbers go into the weights of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.arrays import EXACT, Array, Floats, Integers
from taskveil.client.networks import (
    LEVELS,
    SINGLE,
    ConvolutionLayer,
    DenseLayer,
    LayeredEncoder,
    PoolingLayer,
    Window,
    levels,
)
from taskveil.client.networks import Layer as WholeLayer
from taskveil.designs.selection import SEEN
from taskveil.errors import DataError

_HEADROOM = 1.25  # times the largest number of a volunteer: larger numbers of a layer are cut off
_COARSE, _FINE = 8, 16  # bits of a layer's numbers
_EXACT_SUM = SINGLE / 2  # single precision holds twice as much exactly; the other half is for offsets
_MAX_FINE_BYTES = 2**16  # of finer weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense:
    """weights · x + offset, and its positive part with `relu`: weights (out, in / groups), offset (out,)."""

    weights: Floats
    offset: Floats
    relu: bool = False
    groups: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Convolution:
    """The same under a window: weights (out, channels / groups, rows, columns); edges are padded with `fill`
    (channels,)."""

    window: Window
    weights: Floats
    offset: Floats
    fill: Floats
    relu: bool = False
    groups: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Pooling:
    """The largest number under a window, or else the mean."""

    window: Window
    maximum: bool


Layer = Dense | Convolution | Pooling


@dataclass(frozen=True, kw_only=True, eq=False)
class Layers:
    """A network from records (N, width) to outputs (N, Z), layer by layer. With `shifted`, outputs are logits up to a
    constant per record: a last log-softmax was left out."""

    layers: tuple[Layer, ...]
    width: int
    outputs: int
    shifted: bool = False

    @property
    def weights(self) -> int:
        """The number of weights."""
        return sum(layer.weights.size for layer in self.layers if not isinstance(layer, Pooling))

    @property
    def sees_pictures(self) -> bool:
        """Whether its first layer slides over the record, so that all attributes of a channel are alike to it."""
        return not isinstance(self.layers[0], Dense)

    def __call__(self, X: Floats) -> Floats:
        """Records (N, width) → outputs (N, Z), in double precision."""
        values: Array = X
        for layer in self.layers:
            values = _forward(layer, values)
        return values

    def encoder(
        self,
        low: Floats,
        high: Floats,
        X: Floats,
        *,
        slope: float | Floats = 1.0,
        offset: Floats | None = None,
        softmax: bool,
    ) -> LayeredEncoder:
        """The network in whole numbers: latents near slope · outputs + offset, and class probabilities of that.

        Args:
            low, high: the ranges of the attributes (n,). A network that sees pictures gets one range per channel.
            X: records of volunteers (N, n), which say how large a layer's numbers become.
            slope: one positive number, or one for every output (Z,).
            offset: (Z,), nothing if not given.
            softmax: whether latents are class probabilities.
        """
        if self.shifted and not softmax:
            raise DataError("the network ends in a log-softmax, so its outputs are only good for class probabilities.")
        low, high = self._ranges(low, high)
        with np.errstate(all="ignore"):
            q: Array = np.nan_to_num(levels(X[:: max(1, len(X) // SEEN)], low, high), nan=LEVELS / 2)
            extent = high - low
        # Values are scale · q + shift; those of a range that no double holds count as the middle, which says nothing.
        scale, shift = np.where(np.isfinite(extent), extent / LEVELS, 0.0), np.where(np.isfinite(extent), low, 0.0)
        made: list[WholeLayer] = []
        if (halved := self._halvings()) > 0:
            made.append(PoolingLayer(window=_points(self.width), maximum=False, shift=halved))
            q, scale = made[-1](q), scale * 2.0**halved
        for place, layer in enumerate(self.layers):
            if isinstance(layer, Pooling):
                halved = 0 if layer.maximum else int(np.log2(layer.window.rows * layer.window.columns))
                made.append(PoolingLayer(window=layer.window, maximum=layer.maximum, shift=halved))
                grown = 1.0 if layer.maximum else 2.0**halved / (layer.window.rows * layer.window.columns)
                scale, shift = _repeated(scale, layer.window) * grown, _repeated(shift, layer.window)
            else:
                following = self.layers[place + 1 :]
                numbers, scale = _whole(layer, scale, shift, q, self._bits(place), following, self._bits(1))
                shift = np.zeros(len(scale))
                made.append(numbers)
            q = made[-1](q)
        slopes = np.broadcast_to(np.asarray(slope, dtype=np.float64), (self.outputs,))
        start = slopes * shift + (0.0 if offset is None else offset)
        step = np.maximum(slopes * scale, 2.0**-900)
        return LayeredEncoder(low=low, high=high, layers=tuple(made), step=step, start=start, softmax=softmax)

    def _ranges(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """One range per channel for a network that sees pictures, around what their edges are padded with."""
        first = self.layers[0]
        if isinstance(first, Dense):
            return low, high
        shape = (first.window.channels, -1)
        least, most = low.reshape(shape).min(axis=1), high.reshape(shape).max(axis=1)
        padded = first.window.row_padding or first.window.column_padding
        if isinstance(first, Convolution) and padded:
            least, most = np.minimum(least, first.fill), np.maximum(most, first.fill)
        size = self.width // first.window.channels
        return np.repeat(least, size), np.repeat(most, size)

    def _halvings(self) -> int:
        """Of the levels before a large network's first convolution, so that it needs no double precision."""
        first = self.layers[0]
        if not isinstance(first, Convolution) or self._bits(0) > _COARSE:
            return 0
        left = int(np.log2(_EXACT_SUM / (127 * first.weights[0].size)))
        return LEVELS.bit_length() - 1 - left if left > _COARSE + 1 else 0

    def _bits(self, place: int) -> int:
        """Of the weights of the layer at that place: most for a first dense layer, since attributes have ranges of very
        different sizes."""
        layer = self.layers[0]
        if place == 0 and isinstance(layer, Dense) and 2 * layer.weights.size <= 2 * _MAX_FINE_BYTES:
            return 32 if 4 * layer.weights.size <= _MAX_FINE_BYTES else 16
        return 16 if 2 * self.weights <= _MAX_FINE_BYTES else 8


def averaged(networks: Sequence[Layers]) -> Layers | None:
    """Networks of one architecture side by side: their mean output. None where they cannot share the record: their
    first layer has groups, or pads it differently."""
    if len(networks) == 1:
        return networks[0]
    made: list[Layer] = []
    copies, apart = len(networks), False  # whether they have gone their own ways
    for place, alike in enumerate(zip(*(network.layers for network in networks), strict=True)):
        first, last = alike[0], place == len(networks[0].layers) - 1
        if isinstance(first, Pooling):
            made.append(replace(first, window=_wider(first.window, copies if apart else 1)))
            continue
        fills = [layer.fill for layer in alike if isinstance(layer, Convolution)]
        if not apart and (first.groups > 1 or any((fill != fills[0]).any() for fill in fills)):
            return None
        weights, offsets = [layer.weights for layer in alike], [layer.offset for layer in alike]
        if last and isinstance(first, Dense) and not first.relu:
            whole = np.hstack(weights) / copies if apart else np.mean(weights, axis=0)
            made.append(replace(first, weights=whole, offset=np.mean(offsets, axis=0)))
            return replace(networks[0], layers=tuple(made))
        joined: dict[str, Any] = {"weights": np.concatenate(weights), "offset": np.concatenate(offsets)}
        if isinstance(first, Convolution):
            joined["window"] = _wider(first.window, copies if apart else 1)
            joined["fill"] = np.concatenate(fills) if apart else first.fill
        made.append(replace(first, groups=first.groups * (copies if apart else 1), **joined))
        apart = True
    outputs = networks[0].outputs
    made.append(Dense(weights=np.tile(np.eye(outputs) / copies, copies), offset=np.zeros(outputs)))
    return replace(networks[0], layers=tuple(made))


def _wider(window: Window, times: int) -> Window:
    return replace(window, channels=window.channels * times)


def _points(width: int) -> Window:
    """A window on every number by itself."""
    return Window(
        channels=1, height=1, width=width, rows=1, columns=1, row_stride=1, column_stride=1, row_padding=0,
        column_padding=0,
    )  # fmt: skip


def _repeated(values: Floats, window: Window) -> Floats:
    """What holds for the channels of a window's pictures, for every place of the window: (channels · places,)."""
    return np.repeat(values.reshape(window.channels, -1)[:, 0], window.places)


def _forward(layer: Layer, values: Array) -> Array:
    if isinstance(layer, Pooling):
        empty = np.full(layer.window.channels, -np.inf if layer.maximum else 0.0)
        seen = layer.window.seen(values, empty)
        return np.asarray(np.max(seen, (4, 5)) if layer.maximum else np.mean(seen, (4, 5))).reshape(len(values), -1)
    if isinstance(layer, Dense):
        parts = values.reshape(len(values), layer.groups, -1, 1)
    else:
        parts = layer.window.patches(values, layer.fill).reshape(len(values), layer.groups, -1, layer.window.places)
    matrices = layer.weights.reshape(layer.groups, len(layer.offset) // layer.groups, -1)
    sums = np.matmul(matrices, parts).reshape(len(values), len(layer.offset), -1) + layer.offset[:, None]
    return np.asarray(np.maximum(sums, 0.0) if layer.relu else sums).reshape(len(values), -1)


def _whole(
    layer: Dense | Convolution,
    scale: Floats,
    shift: Floats,
    q: Array,
    bits: int,
    following: Sequence[Layer],
    later_bits: int,
) -> tuple[DenseLayer | ConvolutionLayer, Floats]:
    """The layer in whole numbers, for inputs scale · q + shift, and the scale of what it gives."""
    weights, start = _on_numbers(layer, scale, shift)
    numbers, offset, step = _rounded(weights, start, float(np.abs(q).max(initial=1.0)), bits)
    places = 1 if isinstance(layer, Dense) else layer.window.places
    fields: dict[str, Any] = {
        "weights": numbers.reshape(layer.weights.shape),
        "offset": offset,
        "shift": np.zeros(len(offset), dtype=np.int64),
        "top": EXACT - 1,  # unbounded
        "relu": layer.relu,
        "groups": layer.groups,
    }
    if isinstance(layer, Convolution):
        channel = scale.reshape(layer.window.channels, -1)[:, 0]
        level = (layer.fill - shift.reshape(layer.window.channels, -1)[:, 0]) / np.where(channel > 0, channel, 1.0)
        fields |= {"window": layer.window, "fill": np.rint(np.clip(level, -LEVELS, LEVELS)).astype(np.int64)}
    kind = DenseLayer if isinstance(layer, Dense) else ConvolutionLayer
    exact = kind(**fields)
    if not any(not isinstance(other, Pooling) for other in following):
        return exact, np.repeat(step, places)
    sums = np.abs(exact(q)).reshape(len(q), len(offset), -1).max(axis=(0, 2))

    def halvings(bits: int) -> Integers:
        return np.asarray(np.maximum(np.ceil(np.log2(np.maximum(_HEADROOM * sums, 1.0)) - bits), 0).astype(np.int64))

    fine = halvings(_FINE)
    heaviest = _heaviest(following, np.repeat(step * 2.0**fine, places)) * 2.0 ** (later_bits - 1)
    left = int(np.floor(np.log2(_EXACT_SUM / heaviest)))
    kept = min(left, _FINE) if left >= _COARSE else _FINE
    halved = halvings(kept)
    # Half a unit more, and rounding down rounds to the nearest.
    fields |= {"shift": halved, "offset": offset + (1 << halved >> 1), "top": 2**kept - 1}
    return kind(**fields), np.repeat(step * 2.0**halved, places)


def _on_numbers(layer: Dense | Convolution, scale: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Weights (out, inputs of one group) and offset (out,) that take q for scale · q + shift."""
    if isinstance(layer, Convolution):  # all places of a channel have one scale
        area = layer.window.rows * layer.window.columns
        scale, shift = (np.repeat(v.reshape(layer.window.channels, -1)[:, 0], area) for v in (scale, shift))
    rows = len(layer.offset) // layer.groups
    group = np.repeat(np.arange(layer.groups), rows)
    flat = layer.weights.reshape(len(layer.offset), -1)
    scales, shifts = scale.reshape(layer.groups, -1)[group], shift.reshape(layer.groups, -1)[group]
    return flat * scales, layer.offset + (flat * shifts).sum(axis=1)


def _rounded(weights: Floats, offset: Floats, largest: float, bits: int) -> tuple[Array, Integers, Floats]:
    """Whole numbers and steps with weights ≈ numbers · step, offset ≈ … · step, whose sums are exact."""
    most = min(2.0 ** (bits - 1) - 1, 2.0**50 / (largest * weights.shape[1]))
    size = np.abs(weights).max(axis=1)
    # A row of nothing but its offset is as fine as that; where weights are far smaller, they hardly matter.
    step = np.maximum(np.maximum(size / most, np.abs(offset) / 2.0**50), 2.0**-800)
    numbers = np.rint(weights / step[:, None]).astype({8: np.int8, 16: np.int16, 32: np.int32}[bits])
    return numbers, np.rint(offset / step).astype(np.int64), step


def _heaviest(following: Sequence[Layer], scale: Floats) -> float:
    """The largest sum of weights that the next weighted layer has on inputs of that scale, in its largest weight."""
    for layer in following:
        if not isinstance(layer, Pooling):
            weights, _ = _on_numbers(layer, scale, np.zeros(len(scale)))
            rows = np.abs(weights)
            return float((rows.sum(axis=1) / np.maximum(rows.max(axis=1), 1e-300)).max())
        scale = _repeated(scale, layer.window)
    return 1.0
