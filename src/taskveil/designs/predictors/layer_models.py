"""torch modules as the layers that devices run, or None.

A module is traced: the trace lists the elementary operations of torch on a probe. Every operation must be a layer, go
into the layer beside it (a scaler, a batch normalisation), or only change a shape. Then the layers are compared with
the module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from taskveil.arrays import Floats
from taskveil.client.networks import Window
from taskveil.designs.predictors.trees import CLOSE
from taskveil.designs.predictors.whole_layers import Convolution, Dense, Layer, Layers, Pooling
from taskveil.tasks.models.frozen import PROBES
from taskveil.tasks.models.modules import rows_of


class Foreign(Exception):
    """The module contains an operation that is not a supported layer."""


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
        """The layers of the complete chain, with so many outputs; Foreign if it has no weights."""
        if self._scale is not None:
            self.dense(np.eye(self.size), np.zeros(self.size))
        if self._pads or outputs != self.size or all(isinstance(layer, Pooling) for layer in self._layers):
            raise Foreign("a chain without end, or without weights")
        return Layers(layers=tuple(self._layers), width=self.width, outputs=outputs, shifted=self._shifted)

    def dense(self, weights: Floats, offset: Floats) -> None:
        """Add the layer x ↦ weights · x + offset, with weights (out, in) and offset (out,)."""
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
        """Add a convolution: weights (out, channels / groups, rows, columns) under a window, offset (out,)."""
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
        """Add a layer with the largest number under a window, or else the mean."""
        window = self._padded(window, -np.inf if maximum else np.nan)
        if self._scale is not None:
            scale, shift = self._of_channels(window)
            if maximum and not (scale > 0).all():
                raise Foreign("the largest of numbers that change their order")
            self._scale, self._shift = np.repeat(scale, window.places), np.repeat(shift, window.places)
        self._layers.append(Pooling(window=window, maximum=maximum))
        self.size = window.channels * window.places

    def relu(self) -> None:
        """Add positive parts. They may move before a maximum: it gives the same."""
        self._check(padded=False)
        place = len(self._layers) - 1
        while place >= 0 and isinstance(layer := self._layers[place], Pooling) and layer.maximum:
            place -= 1
        if self._scale is not None or place < 0 or isinstance(self._layers[place], Pooling):
            raise Foreign("a ReLU that follows no weights")
        self._layers[place] = replace(self._layers[place], relu=True)  # type: ignore[arg-type]

    def affine(self, scale: Floats, shift: Floats) -> None:
        """Add the map x ↦ scale · x + shift, number by number."""
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
        """Add edges of that value around pictures, for the window that comes next."""
        self._check(padded=False)
        self._pads = (above, left, value) if above or left else None

    def log_softmax(self) -> None:
        """Add a log-softmax, which must be the end of the chain."""
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


aten = torch.ops.aten


def as_layers(module: nn.Module, width: int) -> Layers | None:
    """The module as layers from records (N, width) to outputs (N, Z), exactly up to rounding; None where it is made of
    anything else.

    Args:
        module: any torch module, as a model is frozen: also those of scikit-learn's estimators and of ONNX files.
        width: how many attributes a record has.
    """
    try:
        double = copy.deepcopy(module).cpu().double().eval().requires_grad_(False)
        probe = torch.rand(PROBES, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        layers = _read(double, probe)
        return layers if _agrees(double, layers) else None
    except Exception:  # whatever someone else's module raises when it is traced: it is not made of layers
        return None


def _agrees(module: nn.Module, layers: Layers) -> bool:
    """Whether the layers give the module's outputs, on records of several sizes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, layers.width)) * np.repeat([0.1, 1.0, 10.0], 8)[:, None]
    with torch.no_grad():
        theirs = rows_of(module(torch.from_numpy(X))).numpy()
    mine = layers(X)
    if layers.shifted:
        mine, theirs = mine - mine.mean(axis=1, keepdims=True), theirs - theirs.mean(axis=1, keepdims=True)
    return mine.shape == theirs.shape and bool((np.abs(mine - theirs) <= CLOSE * np.abs(theirs).max()).all())


def _read(module: nn.Module, probe: Tensor) -> Layers:
    """The layers of a module, or Foreign."""
    trace = _Trace()
    with torch.no_grad(), trace:
        answer = module(probe)
    chain, flow = Chain(width=probe.shape[1]), probe
    depends = {id(probe)}
    for step in trace.steps:
        given = [each for each in tree_leaves((step.args, step.options)) if id(each) in depends]
        if not given:
            continue
        if len(given) > 1 or given[0] is not flow:
            raise Foreign("operations that are no chain")
        _OPERATIONS.get(step.target, _number_by_number)(chain, replace(step, given=flow))
        flow = step.result
        depends.add(id(flow))
    if answer is not flow:
        raise Foreign("an output that is not the end of the chain")
    return chain.layers(rows_of(answer).shape[1])


class _Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers every operation that torch does inside, and keeps its tensors: while they live, ids are theirs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[_Step] = []

    def __torch_dispatch__(self, target: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = target(*args, **(kwargs or {}))
        self.steps.append(_Step(target, args, kwargs or {}, result[0] if isinstance(result, tuple) else result))
        return result


@dataclass(frozen=True)
class _Step:
    """One operation on the probe, and its result, the first if there are several. `given` is what the records had
    become before it."""

    target: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: Any
    given: Any = None

    def arg(self, place: int, default: Any = None) -> Any:
        return self.args[place] if len(self.args) > place else default

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what a record has become, before this operation."""
        if self.args[0] is not self.given or self.given.shape[:1] != (PROBES,):
            raise Foreign("records are not along the first axis")
        return tuple(self.given.shape[1:])


def _pair(given: Any, default: int) -> tuple[int, int]:
    """torch's ways to say two numbers, for rows and columns; one number of a series of records is for columns."""
    numbers = list(given) if isinstance(given, (list, tuple)) else [given]
    return (default, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _window(shape: tuple[int, ...], size: Any, stride: Any, padding: Any) -> Window:
    channels, height, width = shape if len(shape) == 3 else (shape[0], 1, shape[1])
    (rows, columns), (down, across), (above, left) = _pair(size, 1), _pair(stride, 1), _pair(padding, 0)
    return Window(
        channels=channels, height=height, width=width, rows=rows, columns=columns,
        row_stride=down, column_stride=across, row_padding=above, column_padding=left,
    )  # fmt: skip


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().double().numpy())


# What each operation is to the chain.


def _dense(chain: Chain, step: _Step) -> None:
    """mm(x, w), or addmm(offset, x, w)."""
    *offset, x, weights = step.args[: 3 if step.target is aten.addmm.default else 2]
    if step.options or x is not step.given or x.shape != (PROBES, chain.size) or weights.shape[0] != chain.size:
        raise Foreign("a product that is no dense layer")
    start = np.broadcast_to(_array(offset[0]), (weights.shape[1],)) if offset else np.zeros(weights.shape[1])
    chain.dense(_array(weights).T, np.array(start))


def _convolution(chain: Chain, step: _Step) -> None:
    _, weights, offset, stride, padding, dilation, transposed, _, groups = step.args
    if transposed:
        raise Foreign("a transposed convolution")
    kernel = _array(weights)
    kernel = kernel[:, :, None] if kernel.ndim == 3 else kernel
    apart = _pair(dilation, 1)
    if apart != (1, 1):  # zeros between the weights
        rows, columns = ((n - 1) * d + 1 for n, d in zip(kernel.shape[2:], apart, strict=True))
        spread = np.zeros((*kernel.shape[:2], rows, columns))
        spread[:, :, :: apart[0], :: apart[1]] = kernel
        kernel = spread
    window = _window(step.shape, kernel.shape[2:], stride, padding)
    chain.convolution(window, kernel, np.zeros(len(kernel)) if offset is None else _array(offset), groups)


def _pooling(maximum: bool) -> Callable[[Chain, _Step], None]:
    """max_pool2d_with_indices or avg_pool2d."""

    def read(chain: Chain, step: _Step) -> None:
        size, padding = step.args[1], step.arg(3, 0)
        stride = step.arg(2) or size
        odd = step.arg(5, False) or set(_pair(step.arg(4, 1), 1)) != {1} if maximum else step.arg(4, False)
        if odd or step.options or (not maximum and (any(_pair(padding, 0)) or step.arg(6) is not None)):
            raise Foreign("pooling with dilation, padding of means, or windows that overlap the edge")
        chain.pooling(_window(step.shape, size, stride, padding), maximum)

    return read


def _over_positions(maximum: bool) -> Callable[[Chain, _Step], None]:
    """mean.dim or amax over all places of a picture."""

    def read(chain: Chain, step: _Step) -> None:
        shape, axes = step.shape, {axis % step.args[0].dim() for axis in step.args[1]}
        if len(shape) not in (2, 3) or axes != set(range(2, len(shape) + 1)):
            raise Foreign("a mean over something else than places")
        chain.pooling(_window(shape, list(shape[1:]), 1, [0] * len(shape[1:])), maximum)

    return read


def _adaptive(chain: Chain, step: _Step) -> None:
    channels, height, width = step.shape
    down, across = step.args[1]
    if height % down or width % across:
        raise Foreign("pooling with windows of several sizes")
    size = (height // down, width // across)
    chain.pooling(_window((channels, height, width), size, size, (0, 0)), maximum=False)


def _relu(chain: Chain, step: _Step) -> None:
    if step.arg(1, 0) != 0 or step.arg(2) is not None:
        raise Foreign("a limit other than zero")
    chain.relu()


def _number_by_number(chain: Chain, step: _Step) -> None:
    """Any other operation, which must be affine in every number by itself: scalers, batch normalisation, sums and
    products with numbers that are the same for all records, changes of shape. It is asked and not read."""

    def asked(numbers: Tensor) -> Floats:
        args, options = tree_map(lambda each: numbers if each is step.given else each, (step.args, step.options))
        found = step.target(*args, **options)
        found = found[0] if isinstance(found, tuple) else found
        if not isinstance(found, Tensor) or found.numel() != numbers.numel():
            raise Foreign(str(step.target))
        return _array(found.reshape(len(numbers), -1))

    like = step.given.double()
    # Of many sizes, so that no limit of an operation is overlooked.
    sizes = 10.0 ** torch.linspace(-3, 30, like.numel(), dtype=torch.float64)
    numbers = torch.randn(like.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * sizes
    numbers = numbers[torch.randperm(len(numbers), generator=torch.Generator().manual_seed(1))].reshape(like.shape)
    shift, far = asked(torch.zeros_like(like)), 2.0**60  # so far that the shift does not blur the scale
    scale = (asked(torch.full_like(like, far)) - shift) / far
    wanted = scale * _array(numbers.reshape(len(like), -1))
    error = np.abs(asked(numbers) - wanted - shift)
    alike = (scale == scale[0]).all() and (shift == shift[0]).all()
    if not alike or (error > CLOSE * (np.abs(wanted) + np.abs(shift))).any():
        raise Foreign(str(step.target))
    if (scale != 1.0).any() or (shift != 0.0).any():
        chain.affine(scale[0], shift[0])


def _padding(chain: Chain, step: _Step) -> None:
    pads, value = step.args[1], float(step.arg(2, 0.0))
    left, right, above, below = [*pads, 0, 0, 0, 0][:4]
    if left != right or above != below or len(pads) > 4 or min(left, above) < 0:
        raise Foreign("padding of one side")
    chain.pad(above, left, value)


def _log_softmax(chain: Chain, step: _Step) -> None:
    if step.args[1] not in (1, -1) or len(step.shape) != 1:
        raise Foreign("a softmax over something else than classes")
    chain.log_softmax()


_OPERATIONS: dict[Any, Callable[[Chain, _Step], None]] = {
    **dict.fromkeys((aten.addmm.default, aten.mm.default), _dense),
    aten.convolution.default: _convolution,
    aten.max_pool2d_with_indices.default: _pooling(maximum=True),
    aten.avg_pool2d.default: _pooling(maximum=False),
    aten.mean.dim: _over_positions(maximum=False),
    aten.amax.default: _over_positions(maximum=True),
    aten._adaptive_avg_pool2d.default: _adaptive,
    **dict.fromkeys((aten.relu.default, aten.relu_.default, aten.clamp_min.default, aten.clamp.default), _relu),
    aten.constant_pad_nd.default: _padding,
    aten._log_softmax.default: _log_softmax,
}
