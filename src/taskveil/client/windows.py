"""Windows that slide over pictures: where they stand, what lies under them, and the largest or the sum of it.

This module ships to devices: numpy and the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from taskveil.arrays import Array
from taskveil.errors import DataError

MOST_NUMBERS = 2**22
"""A layer may take, give, or lay out side by side for one record: 32 MB of doubles."""
MOST_SHIFT = 52
"""Halvings of a whole number."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """A window of (rows, columns) on pictures of (channels, height, width), moved by its strides; both sides of the
    pictures are padded, above and below by `row_padding`, left and right by `column_padding`."""

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
        # Every window touches the picture: the largest of nothing would be no number.
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
        """Pictures (N, channels · height · width), padded with the channels' `fill` (channels,) → what lies under the
        window wherever it stands, without copying it: (N, channels, down, across, rows, columns)."""
        everywhere = sliding_window_view(self._padded(q, fill), (self.rows, self.columns), axis=(2, 3))
        return everywhere[:, :, :: self.row_stride, :: self.column_stride]

    def patches(self, q: Array, fill: Array) -> Array:
        """The same laid out: (N, channels · rows · columns, places)."""
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
    """Of what lies under a window the largest number, or else ⌊sum / 2^shift⌋, channel by channel."""

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
        """What no sum over inputs up to `largest` exceeds."""
        return float(largest if self.maximum else largest * self.window.rows * self.window.columns)

    def largest(self, reach: float) -> int:
        """What no output exceeds when no sum exceeds `reach`."""
        return -(-int(reach) >> self.shift)

    def __call__(self, q: Array) -> Array:
        """(N, inputs) → (N, outputs), both of the same precision."""
        combine: Any = np.maximum if self.maximum else np.add
        window = self.window
        seen = window.seen(q, np.full(window.channels, -np.inf if self.maximum else 0.0))
        if window.rows * window.columns > window.places:  # numpy's own loop is the longer one
            out = combine.reduce(seen, axis=(4, 5))
        else:
            out = seen[..., 0, 0].copy()
            for row, column in list(np.ndindex(window.rows, window.columns))[1:]:
                combine(out, seen[..., row, column], out=out)
        if self.shift:
            np.floor(np.ldexp(out, -self.shift, out=out), out=out)
        return np.asarray(out.reshape(len(q), -1))
