"""A chain of layers as it grows, operation by operation: scalers and normalisations go into the layers beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.networks import Window
from taskveil.designs.predictors.whole_layers import Convolution, Dense, Layer, Layers, Pooling


class Foreign(Exception):
    """What was met is no part of such a chain."""


class Chain:
    """The layers so far, and what waits for the next of them: a scale and shift of every number, and padding.

    `size` is how many numbers a record has become.
    """

    def __init__(self, width: int) -> None:
        self.width = self.size = width
        self._layers: list[Layer] = []
        self._scale: Floats | None = None
        self._shift = np.zeros(0)
        self._pads: tuple[int, int, float] | None = None
        self._shifted = False

    def layers(self, outputs: int) -> Layers:
        """The chain, at its end."""
        if self._scale is not None:
            self.dense(np.eye(self.size), np.zeros(self.size))
        if self._pads or outputs != self.size or all(isinstance(layer, Pooling) for layer in self._layers):
            raise Foreign("a chain without end, or without weights")
        return Layers(layers=tuple(self._layers), width=self.width, outputs=outputs, shifted=self._shifted)

    def dense(self, weights: Floats, offset: Floats) -> None:
        """x ↦ weights · x + offset: (out, in), (out,)."""
        self._check(padded=False)
        if weights.shape[1] != self.size:
            raise Foreign("weights for other inputs")
        if self._scale is not None:
            weights, offset = weights * self._scale, offset + weights @ self._shift
            self._scale = None
        last = self._layers[-1] if self._layers else None
        if isinstance(last, Dense) and not last.relu and weights.size + last.weights.size >= len(offset) * self._inputs:
            self._layers.pop()  # two in a row are one
            weights, offset = weights @ last.weights, weights @ last.offset + offset
        self._layers.append(Dense(weights=weights, offset=offset))
        self.size = len(offset)

    def convolution(self, window: Window, weights: Floats, offset: Floats, groups: int) -> None:
        """Weights (out, channels / groups, rows, columns) under a window, offset (out,)."""
        window = self._padded(window, 0.0)
        fill = np.zeros(window.channels)
        if self._scale is not None:
            scale, shift = self._of_channels(window)
            parts = np.arange(window.channels).reshape(groups, -1)[np.repeat(np.arange(groups), len(offset) // groups)]
            offset = offset + (weights.sum(axis=(2, 3)) * shift[parts]).sum(axis=1)
            weights = weights * scale[parts][:, :, None, None]
            if window.row_padding or window.column_padding:
                if not scale.all():
                    raise Foreign("padding that no input stands for")
                fill = -shift / scale
            self._scale = None
        self._layers.append(Convolution(window=window, weights=weights, offset=offset, fill=fill, groups=groups))
        self.size = len(offset) * window.places

    def pooling(self, window: Window, maximum: bool) -> None:
        """The largest number under a window, or else the mean."""
        window = self._padded(window, -np.inf if maximum else np.nan)
        if self._scale is not None:
            scale, shift = self._of_channels(window)
            if maximum and not (scale > 0).all():
                raise Foreign("the largest of numbers that change their order")
            self._scale, self._shift = np.repeat(scale, window.places), np.repeat(shift, window.places)
        self._layers.append(Pooling(window=window, maximum=maximum))
        self.size = window.channels * window.places

    def relu(self) -> None:
        """Positive parts; the largest of positive parts is the positive part of the largest."""
        self._check(padded=False)
        place = len(self._layers) - 1
        while place >= 0 and isinstance(layer := self._layers[place], Pooling) and layer.maximum:
            place -= 1
        if self._scale is not None or place < 0 or isinstance(self._layers[place], Pooling):
            raise Foreign("a ReLU that follows no weights")
        self._layers[place] = replace(self._layers[place], relu=True)  # type: ignore[arg-type]

    def affine(self, scale: Floats, shift: Floats) -> None:
        """x ↦ scale · x + shift, number by number."""
        self._check(padded=False)
        last = self._layers[-1] if self._layers else None
        if self._scale is None and not (last is None or isinstance(last, Pooling) or last.relu):
            outputs = len(last.offset)
            rows, starts = scale.reshape(outputs, -1), shift.reshape(outputs, -1)
            if (rows == rows[:, :1]).all() and (starts == starts[:, :1]).all():
                factor = rows[:, 0].reshape(-1, *[1] * (last.weights.ndim - 1))
                self._layers[-1] = replace(
                    last, weights=last.weights * factor, offset=last.offset * rows[:, 0] + starts[:, 0]
                )
                return
        if self._scale is None:
            self._scale, self._shift = np.ones(self.size), np.zeros(self.size)
        self._scale, self._shift = scale * self._scale, scale * self._shift + shift

    def pad(self, above: int, left: int, value: float) -> None:
        """Edges of that value around pictures, for the window that comes next."""
        self._check(padded=False)
        self._pads = (above, left, value) if above or left else None

    def log_softmax(self) -> None:
        """At the end only: what comes after it is no layer."""
        self._check(padded=False)
        if self._scale is not None:
            self.dense(np.eye(self.size), np.zeros(self.size))
        self._shifted = True

    @property
    def _inputs(self) -> int:
        """Of the last dense layer."""
        return int(self._layers[-1].weights.shape[1])  # type: ignore[union-attr]

    def _check(self, *, padded: bool) -> None:
        if self._shifted or (self._pads and not padded):
            raise Foreign("something after a softmax, or padding before something without a window")

    def _padded(self, window: Window, neutral: float) -> Window:
        """The window with the padding that waits for it, which must have the value that counts as none."""
        self._check(padded=True)
        if self._pads:
            above, left, value = self._pads
            own = window.row_padding or window.column_padding
            if value != neutral or (own and neutral != 0):
                raise Foreign("padding with another value")
            window = replace(
                window,
                height=window.height - 2 * above,
                width=window.width - 2 * left,
                row_padding=window.row_padding + above,
                column_padding=window.column_padding + left,
            )
            self._pads = None
        if window.inputs != self.size:
            raise Foreign("a window on other pictures")
        return window

    def _of_channels(self, window: Window) -> tuple[Floats, Floats]:
        """What waits, as one scale and shift per channel."""
        scale, shift = (np.asarray(v).reshape(window.channels, -1) for v in (self._scale, self._shift))
        if not ((scale == scale[:, :1]).all() and (shift == shift[:, :1]).all()):
            raise Foreign("scales that differ within a picture")
        return scale[:, 0], shift[:, 0]
