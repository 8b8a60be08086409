"""Models as layers: what a torch module computes is traced, and taken where it is made of such layers, or not at all.

The trace is a list of torch's elementary operations on a probe. Every one must be a layer, or something that a layer
can take in (a scaler, a batch normalisation), or a change of shape alone; then the layers are held against the module.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from taskveil.arrays import Floats
from taskveil.client.networks import Window
from taskveil.designs.predictors.chains import Chain, Foreign
from taskveil.designs.predictors.whole_layers import Layers
from taskveil.tasks.models.modules import rows_of

PROBES = 3
_CLOSE = 1e-6  # of the largest output

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
    return mine.shape == theirs.shape and bool((np.abs(mine - theirs) <= _CLOSE * np.abs(theirs).max()).all())


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
        if step.target not in _OPERATIONS:
            raise Foreign(str(step.target))
        _OPERATIONS[step.target](chain, replace(step, given=flow))
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


def _batch_norm(chain: Chain, step: _Step) -> None:
    target = step.target
    _, weight, offset, mean, variance, *rest = step.args
    if target is aten.native_batch_norm.default and rest[0]:
        raise Foreign("normalisation by the batch")
    scale = 1.0 / np.sqrt(_array(variance) + rest[-1])
    scale = scale if weight is None else scale * _array(weight)
    shift = -_array(mean) * scale + (0.0 if offset is None else _array(offset))
    size = math.prod(step.shape[1:])
    chain.affine(np.repeat(scale, size), np.repeat(shift, size))


def _arithmetic(chain: Chain, step: _Step) -> None:
    """Sums and products with numbers that are the same for all records."""
    target, (first, second) = step.target, step.args[:2]
    flows_first = first is step.given
    shape = (PROBES, *step.given.shape[1:])
    numbers = torch.broadcast_to(torch.as_tensor(second if flows_first else first, dtype=torch.float64), shape)
    if step.result.shape != shape or not (numbers == numbers[:1]).all():
        raise Foreign("numbers that differ between records")
    number = _array(numbers[0].reshape(-1))
    one, nothing = np.ones_like(number), np.zeros_like(number)
    sign = float(step.options.get("alpha", 1))
    if target in _PRODUCTS:
        chain.affine(number, nothing)
    elif target in _QUOTIENTS and flows_first:
        chain.affine(1.0 / number, nothing)
    elif target in _SUMS:
        chain.affine(one if flows_first else sign * one, sign * number if flows_first else number)
    elif target in _DIFFERENCES:
        chain.affine(one if flows_first else -sign * one, -sign * number if flows_first else number)
    else:
        raise Foreign("a quotient of numbers by records")


def _same_numbers(_: Chain, step: _Step) -> None:
    """A change of shape alone."""
    if step.result.numel() != step.given.numel():
        raise Foreign("numbers left out or repeated")


def _moved_axes(_: Chain, step: _Step) -> None:
    """Axes may change places where that moves no numbers: those of length one."""
    places = torch.arange(step.given.numel()).reshape(step.given.shape)
    if not torch.equal(step.target(places, *step.args[1:]).reshape(-1), places.reshape(-1)):
        raise Foreign("axes in another order")


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


_PRODUCTS = {aten.mul.Tensor, aten.mul.Scalar}
_QUOTIENTS = {aten.div.Tensor, aten.div.Scalar}
_SUMS = {aten.add.Tensor, aten.add.Scalar}
_DIFFERENCES = {aten.sub.Tensor, aten.sub.Scalar}
_SHAPES = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default, aten.detach.default,
    aten.alias.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default,
    aten._to_copy.default, aten.lift_fresh_copy.default, aten.slice.Tensor, aten.expand.default,
}  # fmt: skip

_OPERATIONS: dict[Any, Callable[[Chain, _Step], None]] = {
    **dict.fromkeys((aten.addmm.default, aten.mm.default), _dense),
    aten.convolution.default: _convolution,
    aten.max_pool2d_with_indices.default: _pooling(maximum=True),
    aten.avg_pool2d.default: _pooling(maximum=False),
    aten.mean.dim: _over_positions(maximum=False),
    aten.amax.default: _over_positions(maximum=True),
    aten._adaptive_avg_pool2d.default: _adaptive,
    **dict.fromkeys((aten.relu.default, aten.relu_.default, aten.clamp_min.default, aten.clamp.default), _relu),
    **dict.fromkeys((aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default), _batch_norm),
    **dict.fromkeys(_PRODUCTS | _QUOTIENTS | _SUMS | _DIFFERENCES, _arithmetic),
    **dict.fromkeys(_SHAPES, _same_numbers),
    **dict.fromkeys((aten.permute.default, aten.transpose.int, aten.t.default), _moved_axes),
    aten.constant_pad_nd.default: _padding,
    aten._log_softmax.default: _log_softmax,
}
