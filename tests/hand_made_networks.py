"""Tiny networks for tests of what runs on devices, with every kind of layer and every option of it."""

from __future__ import annotations

import numpy as np

from taskveil.client.networks import ConvolutionLayer, DenseLayer, LayeredEncoder, PoolingLayer, Window

UNBOUNDED = 2**53 - 1


def window(channels: int, height: int, width: int, rows: int, columns: int, *moves: int) -> Window:
    """`moves` are the two strides and the two paddings, 1, 1, 0, 0 unless given."""
    strides_and_paddings = [*moves, *(1, 1, 0, 0)[len(moves) :]]
    names = ("row_stride", "column_stride", "row_padding", "column_padding")
    moved = dict(zip(names, strides_and_paddings, strict=True))
    return Window(channels=channels, height=height, width=width, rows=rows, columns=columns, **moved)


def dense(
    inputs: int, outputs: int, *, kind: type = np.int8, shift: int = 0, top: int = UNBOUNDED, relu: bool = True,
    groups: int = 1,
) -> DenseLayer:  # fmt: skip
    rng = np.random.default_rng(inputs + outputs)
    most = {1: 127, 2: 32767, 4: 2**24}[np.dtype(kind).itemsize]
    return DenseLayer(
        weights=rng.integers(-most, most + 1, size=(outputs, inputs // groups)).astype(kind),
        offset=rng.integers(-(2 ** (shift + 6)), 2 ** (shift + 6), size=outputs),
        shift=np.maximum(shift + rng.integers(-1, 2, size=outputs), 0) if shift else np.zeros(outputs, dtype=np.int64),
        top=top,
        relu=relu,
        groups=groups,
    )


def convolution(
    seen: Window, outputs: int, *, kind: type = np.int8, shift: int, top: int, fill: int = 0, relu: bool = True,
    groups: int = 1,
) -> ConvolutionLayer:  # fmt: skip
    flat = dense(seen.channels * seen.rows * seen.columns, outputs, kind=kind, shift=shift, groups=groups)
    return ConvolutionLayer(
        window=seen,
        weights=flat.weights.reshape(outputs, seen.channels // groups, seen.rows, seen.columns),
        offset=flat.offset,
        shift=flat.shift,
        fill=np.arange(seen.channels) * 1000 + fill,
        top=top,
        relu=relu,
        groups=groups,
    )


def encoder(*layers: ConvolutionLayer | DenseLayer | PoolingLayer, softmax: bool = False) -> LayeredEncoder:
    """With steps that bring latents of ordinary records to about one."""
    width, latents = layers[0].inputs, layers[-1].outputs
    rng = np.random.default_rng(width)
    low = rng.normal(size=width)
    made = LayeredEncoder(
        low=low,
        high=low + np.append(rng.uniform(1, 5, size=width - 1), 0.0),  # the last attribute never varies
        layers=layers,
        step=np.ones(latents),
        start=np.zeros(latents),
        softmax=False,
    )
    values = made(made.low + rng.random((200, width)) * (made.high - made.low))
    step = 1.0 / (values.std(axis=0) + 1e-9)
    return LayeredEncoder(
        low=made.low, high=made.high, layers=layers, step=step, start=-values.mean(axis=0) * step, softmax=softmax
    )


def dense_network() -> LayeredEncoder:
    """Weights of 32, 16 and 8 bits, with groups, with and without ReLU."""
    return encoder(
        dense(6, 8, kind=np.int32, shift=36, top=900),
        dense(8, 6, kind=np.int16, shift=12, top=3000, relu=False, groups=2),
        dense(6, 3, relu=False),
    )


def picture_network() -> LayeredEncoder:
    """Two pictures of 4 × 4: a convolution with padding, overlapping maxima with padding, a convolution with strides
    and signed outputs, the sums of what is left."""
    return encoder(
        convolution(window(2, 4, 4, 3, 3, 1, 1, 1, 1), 5, shift=20, top=4000, fill=2**19),
        PoolingLayer(window=window(5, 4, 4, 3, 2, 1, 2, 1, 0), maximum=True, shift=0),
        convolution(window(5, 4, 2, 2, 2, 2, 1, 0, 1), 4, kind=np.int16, shift=14, top=50_000, relu=False),
        PoolingLayer(window=window(4, 2, 3, 2, 2, 1, 1, 0, 0), maximum=False, shift=1),
        dense(8, 3, kind=np.int16, relu=False),
        softmax=True,
    )


def networks_side_by_side() -> LayeredEncoder:
    """Three networks on one picture of 5 × 6, averaged; sums of single precision in the middle."""
    return encoder(
        convolution(window(1, 5, 6, 2, 2, 1, 2), 6, shift=19, top=255),
        PoolingLayer(window=window(6, 4, 3, 2, 2, 2, 1), maximum=True, shift=0),
        convolution(window(6, 2, 2, 2, 2, 1, 1, 1, 1), 9, shift=8, top=255, groups=3),
        dense(81, 12, shift=8, top=255, groups=3),
        dense(12, 3, relu=False),
        softmax=True,
    )


def overflowing_network() -> LayeredEncoder:
    """Attributes whose ranges a double cannot divide by or hold: they count as the middle."""
    made = dense_network()
    low, high = made.low.copy(), made.high.copy()
    low[:2], high[:2] = (0.0, -1e308), (1e-310, 1e308)
    return LayeredEncoder(low=low, high=high, layers=made.layers, step=made.step, start=made.start, softmax=False)


def deep_pooling(width: int, latents: int) -> LayeredEncoder:
    """As many sums as layers may take of next to nothing: a fifth of all products that a release may take."""
    seen = PoolingLayer(window=window(latents, 1, 1, 512, 512, 512, 512, 511, 511), maximum=True, shift=0)
    return LayeredEncoder(
        low=np.zeros(width),
        high=np.ones(width),
        layers=(dense(width, latents, shift=20, top=255), *[seen] * 63),
        step=np.ones(latents),
        start=np.zeros(latents),
        softmax=False,
    )
