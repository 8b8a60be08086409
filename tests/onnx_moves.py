"""Random moves for `onnx_fuzz`: whatever reshapes, cuts, copies or joins, and arithmetic on shapes."""

from __future__ import annotations

import math

import numpy as np

from onnx_graphs import RECORDS, Graph, Shape


def shapes(g: Graph) -> None:
    name, shape = g.pick()
    count = math.prod(shape[1:])
    axes_are_inputs = g.opset >= 13
    operator = g.choose(["Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Traced"])
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
    elif operator == "Traced":
        traced(g, name, shape)


def traced(g: Graph, name: str, shape: Shape) -> None:
    """A view with the records' own number, as torch's older exporter writes it."""
    count = math.prod(shape[1:])
    first = g.add("Gather", g.add("Shape", name), g.constant(0, np.int64), axis=0)
    as_list = g.add("Unsqueeze", first, g.whole(0)) if g.opset >= 13 else g.add("Unsqueeze", first, axes=[0])
    g.keep(g.add("Reshape", name, g.add("Concat", as_list, g.whole(count), axis=0)), (shape[0], count))


def parts(g: Graph) -> None:
    name, shape = g.pick()
    axis = g.axis(shape)
    length = shape[axis]
    operator = g.choose(["Concat", "Gather"])
    place = axis % len(shape)

    def resized(n: int) -> Shape:
        return (*shape[:place], n, *shape[place + 1 :])

    if operator == "Concat" and length < 12:
        g.keep(g.add("Concat", name, g.add("Neg", name), axis=axis), resized(2 * length))
    elif operator == "Gather" and place > 0:
        count = g.choose([(), (1,), (2,), (2, 2)])
        places = g.constant(g.rng.integers(-length, length, size=count), np.int64)
        g.keep(g.add("Gather", name, places, axis=axis), (*shape[:place], *count, *shape[place + 1 :]))


MOVES = [shapes, shapes, parts]
