"""Random moves for `onnx_fuzz`: whatever reshapes, cuts, copies or joins, and arithmetic on shapes."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, numpy_helper

from onnx_graphs import KINDS, RECORDS, Graph, Shape, Unavailable


def shapes(g: Graph) -> None:
    name, shape = g.pick()
    count = math.prod(shape[1:])
    axes_are_inputs = g.opset >= 13
    operator = g.choose(["Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Tile", "Pad", "Traced"])
    if operator == "Reshape":
        parts = [d for d in range(1, count + 1) if count % d == 0]
        first = int(g.choose(parts))
        records = g.choose([0, -1, shape[0]]) if g.batch != 1 else g.choose([0, 1, shape[0]])
        rest = g.choose([(count,), (first, count // first), (-1,) if records != -1 else (count,)])
        allow = {"allowzero": 1} if g.opset >= 14 and g.chance(0.4) else {}
        if (records == 0 and shape[0] == 0) or (g.batch == 0 and records == RECORDS):
            return
        sizes = tuple(count if n == -1 else n for n in rest)
        g.keep(g.add("Reshape", name, g.whole(int(records), *rest), **allow), (shape[0], *sizes))
    elif operator == "Flatten":
        axis = int(g.rng.integers(0, len(shape) + 1)) if g.batch == 1 else 1
        options = {"axis": axis} if axis != 1 or g.chance(0.5) else {}
        if len(shape) > 1 or axis <= 1:
            g.keep(g.add("Flatten", name, **options), (math.prod(shape[:axis]), math.prod(shape[axis:])))
    elif operator == "Transpose":
        order = [0, *(1 + g.rng.permutation(len(shape) - 1))] if g.batch != 1 else list(g.rng.permutation(len(shape)))
        if g.chance(0.1):
            g.keep(g.add("Transpose", name), shape[::-1])
        else:
            g.keep(g.add("Transpose", name, perm=[int(i) for i in order]), tuple(shape[i] for i in order))
    elif operator == "Squeeze":
        ones = [i for i, n in enumerate(shape) if n == 1]
        if g.chance(0.5):
            g.keep(g.add("Squeeze", name), tuple(n for n in shape if n != 1))
        elif ones:
            axis = int(g.choose(ones))
            given = axis - len(shape) if g.chance(0.4) else axis
            made = g.add("Squeeze", name, g.whole(given)) if axes_are_inputs else g.add("Squeeze", name, axes=[given])
            g.keep(made, (*shape[:axis], *shape[axis + 1 :]))
    elif operator == "Unsqueeze" and len(shape) < 5:
        axis = int(g.rng.integers(0 if g.batch == 1 else 1, len(shape) + 1))
        given = axis - len(shape) - 1 if g.chance(0.4) else axis
        made = g.add("Unsqueeze", name, g.whole(given)) if axes_are_inputs else g.add("Unsqueeze", name, axes=[given])
        g.keep(made, (*shape[:axis], 1, *shape[axis:]))
    elif operator == "Expand" and g.chance(0.5):
        wanted = [1, *(int(g.rng.integers(1, 4)) if n == 1 else g.choose([1, n]) for n in shape[1:])]
        g.keep(g.add("Expand", name, g.whole(*wanted)), np.broadcast_shapes(shape, wanted))
    elif operator == "Tile" and count < 60:
        repeats = [1, *(int(g.rng.integers(1, 3)) for _ in shape[1:])]
        g.keep(g.add("Tile", name, g.whole(*repeats)), tuple(n * r for n, r in zip(shape, repeats, strict=True)))
    elif operator == "Pad" and g.opset >= 11:
        mode = g.choose(["constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])])
        ends = [[0, *(int(g.rng.integers(0, max(1, min(n, 3)))) for n in shape[1:])] for _ in range(2)]
        value = [g.constant(0.7)] if mode == "constant" and g.chance(0.5) else []
        made = g.add("Pad", name, g.whole(*ends[0], *ends[1]), *value, mode=mode)
        g.keep(made, tuple(n + a + b for n, a, b in zip(shape, *ends, strict=True)))
    elif operator == "Traced":
        traced(g, name, shape)


def traced(g: Graph, name: str, shape: Shape) -> None:
    """Arithmetic on shapes, as torch's older exporter writes it."""
    count = math.prod(shape[1:])
    first = g.add("Gather", g.add("Shape", name), g.constant(0, np.int64), axis=0)
    as_list = g.add("Unsqueeze", first, g.whole(0)) if g.opset >= 13 else g.add("Unsqueeze", first, axes=[0])
    form = g.choose(["flat", "zeros", "slice", "arithmetic", "range"])
    if form == "flat":
        g.keep(g.add("Reshape", name, g.add("Concat", as_list, g.whole(count), axis=0)), (shape[0], count))
    elif form == "zeros":
        zeros = g.add("ConstantOfShape", g.add("Shape", name), value=numpy_helper.from_array(np.ones(1, KINDS[g.kind])))
        g.keep(g.add("Sub", zeros, name), shape)
    elif form == "slice" and len(shape) > 1:
        rest = cut(g, g.add("Shape", name), 1, 2**62, 0, 1)
        flipped = g.add("Concat", as_list, g.whole(1), rest, axis=0)
        g.keep(g.add("Reshape", name, flipped), (shape[0], 1, *shape[1:]))
    elif form == "arithmetic":
        halves = g.add("Div", g.add("Mul", as_list, g.whole(-3)), g.whole(-3))
        whole = g.add("Cast", g.add("Mod", g.add("Size", name), g.whole(2)), to=TensorProto.INT32)
        zero = g.add("Cast", g.add("Sub", whole, whole), to=TensorProto.INT64)
        g.keep(g.add("Reshape", name, g.add("Concat", g.add("Add", halves, zero), g.whole(count), axis=0)),
               (shape[0], count))  # fmt: skip
    elif form == "range" and len(shape) > 1:
        places = g.add("Range", *(g.constant(v, np.int64) for v in (shape[1] - 1, -1, -1)))
        g.keep(g.add("Gather", name, places, axis=1), shape)


def cut(g: Graph, name: str, start: int, end: int, axis: int, step: int) -> str:
    if g.opset < 10:
        if step != 1:
            raise Unavailable("a Slice with steps")
        return g.add("Slice", name, starts=[start], ends=[end], axes=[axis])
    return g.add("Slice", name, *(g.whole(n) for n in (start, end, axis, step)[: 3 if step == 1 else 4]))


def parts(g: Graph) -> None:
    name, shape = g.pick()
    axis = g.axis(shape)
    length = shape[axis]
    operator = g.choose(["Concat", "Split", "Slice", "Gather"])
    place = axis % len(shape)

    def resized(n: int) -> Shape:
        return (*shape[:place], n, *shape[place + 1 :])

    if operator == "Concat" and length < 12:
        g.keep(g.add("Concat", name, g.add("Neg", name), axis=axis), resized(2 * length))
    elif operator == "Split" and length > 1 and length != RECORDS:
        first = int(g.rng.integers(1, length))
        if g.opset >= 18 and g.chance(0.4):
            share, given, options = math.ceil(length / 2), [], {"num_outputs": 2}
            sizes = (share, length - share)
        else:
            sizes, options = (first, length - first), {}
            given = [g.whole(*sizes)] if g.opset >= 13 else []
            options = {} if given else {"split": sizes}
        made = g.add("Split", name, *given, outputs=2, axis=axis, **options)
        if sizes[1]:
            g.keep(made, resized(sizes[0]))
            g.keep(f"{made}.1", resized(sizes[1]))
    elif operator == "Slice" and place > 0:
        start, end = (int(v) for v in g.rng.integers(-length - 2, length + 3, size=2))
        step = int(g.choose([1, 1, 2, -1, -2]))
        end = int(g.choose([end, 2**62 if step > 0 else -(2**62)]))
        left = len(range(*slice(start, end, step).indices(length)))
        if left:
            g.keep(cut(g, name, start, end, axis, step), resized(left))
    elif operator == "Gather" and place > 0:
        count = g.choose([(), (1,), (2,), (2, 2)])
        places = g.constant(g.rng.integers(-length, length, size=count), np.int64)
        g.keep(g.add("Gather", name, places, axis=axis), (*shape[:place], *count, *shape[place + 1 :]))


MOVES = [shapes, shapes, parts]
