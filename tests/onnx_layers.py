"""Random layers for `onnx_fuzz`: whatever computes new numbers, with common and unusual options."""

from __future__ import annotations

import numpy as np

from onnx_graphs import Graph


def number_by_number(g: Graph) -> None:
    name, shape = g.pick()
    operator = g.choose(["Abs", "Erf", "Exp", "Identity", "Log", "Neg", "Sqrt", "Softplus", "Relu", "Sigmoid", "Tanh",
                         "Clip", "Elu", "LeakyRelu", "Gelu", "Dropout", "Cast"])  # fmt: skip
    inputs, options = [name], {}
    if operator in ("Log", "Sqrt"):
        inputs = [g.add("Add", g.add("Abs", name), g.constant(0.1))]
    elif operator == "Exp":
        inputs = [g.add("Tanh", name)]
    elif operator in ("Elu", "LeakyRelu") and g.chance(0.5):
        options["alpha"] = float(g.rng.uniform(0.1, 1.5))
    elif operator == "Gelu" and g.chance(0.5):
        options["approximate"] = "tanh"
        g.rounds_to(np.float32)  # onnxruntime's constants do, also for doubles
    elif operator == "Clip":
        low, high = np.sort(g.rng.normal(size=2))
        bounds = g.choose([{}, {"min": low}, {"max": high}, {"min": low, "max": high}])
        if g.opset >= 11:
            inputs += [g.constant(bounds[end]) if end in bounds else "" for end in ("min", "max")]
        else:
            options = {end: float(bound) for end, bound in bounds.items()}
    elif operator == "Dropout" and g.opset >= 12 and g.chance(0.6):
        inputs += [g.constant(0.4, np.float32), g.constant(g.chance(0.1), bool)]
    elif operator == "Cast":
        options = {"to": g.kind}
    g.keep(g.add(operator, *inputs, **options), shape)


def pairs(g: Graph) -> None:
    (name, shape), (other, theirs) = g.pick(), g.pick()
    partner = g.choose([(other, theirs), (g.normal(), ()), (g.normal(shape[-1]), (shape[-1],)),
                        (g.normal(1, *shape[1:]), (1, *shape[1:]))])  # fmt: skip
    try:
        result = np.broadcast_shapes(shape, partner[1])
    except ValueError:
        return
    operator = g.choose(["Add", "Sub", "Mul", "Div"])
    if operator == "Div":
        partner = (g.add("Add", g.add("Abs", partner[0]), g.constant(0.3)), partner[1])
    g.keep(g.add(operator, *g.choose([(name, partner[0]), (partner[0], name)])), result)


def products(g: Graph) -> None:
    name, shape = g.pick()
    if len(shape) < 2:
        return
    width = int(g.rng.integers(1, 7))
    if len(shape) == 2 and g.chance(0.5):
        over = g.chance(0.5)
        inputs = [name, g.normal(width, shape[1]) if over else g.normal(shape[1], width)]
        inputs += g.choose(
            [[g.normal(1)] if g.opset < 11 else [], [g.normal(width)], [g.normal(1, width)], [g.normal()]]
        )
        options = {"alpha": float(g.rng.uniform(0.3, 2)), "beta": float(g.rng.uniform(0.3, 2))} if g.chance(0.4) else {}
        g.keep(g.add("Gemm", *inputs, transB=int(over), **options), (shape[0], width))
    else:
        g.keep(g.add("MatMul", name, g.normal(shape[-1], width)), (*shape[:-1], width))


def reductions(g: Graph) -> None:
    name, shape = g.pick()
    axes = sorted({g.axis(shape) % len(shape) for _ in range(int(g.rng.integers(1, 3)))})
    given = [a - len(shape) if g.chance(0.3) else a for a in axes]
    keep, options, inputs = g.chance(0.5), {}, [name]
    if g.chance(0.1):
        axes, given = list(range(len(shape))), None
    if given is not None and g.opset >= 18:
        inputs.append(g.whole(*given))
    elif given is not None:
        options["axes"] = given
    if keep and g.chance(0.5):
        options["keepdims"] = 1
    elif not keep:
        options["keepdims"] = 0
    left = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    g.keep(g.add("ReduceMean", *inputs, **options), left)


def normalisations(g: Graph) -> None:
    name, shape = g.pick()
    if len(shape) < 2:
        return
    operator = g.choose(["Softmax", "LogSoftmax", "BatchNormalization"])
    epsilon = {"epsilon": float(g.rng.uniform(1e-3, 0.1))} if g.chance(0.8) else {}
    if operator in ("Softmax", "LogSoftmax"):
        g.keep(g.add(operator, name, **({"axis": g.axis(shape)} if g.chance(0.8) else {})), shape)
    else:
        variance = g.constant(g.rng.uniform(0.2, 2, shape[1]))
        g.keep(g.add(operator, name, *(g.normal(shape[1]) for _ in range(3)), variance, **epsilon), shape)


def windows(g: Graph) -> None:
    name, shape = g.pick()
    if len(shape) < 3:
        return
    if len(shape) > 5 or g.chance(0.1):
        g.keep(g.add(g.choose(["GlobalAveragePool", "GlobalMaxPool"]), name), (*shape[:2], *[1] * (len(shape) - 2)))
        return
    sizes, rank = shape[2:], len(shape) - 2
    operator = g.choose(["Conv", "MaxPool", "AveragePool"])
    kernel = [int(g.rng.integers(1, min(n, 3) + 1)) for n in sizes]
    strides = [int(g.choose([1, 2, 2, 3, 4, 5])) for _ in sizes] if g.chance(0.6) else [1] * rank
    dilations = [int(g.rng.integers(1, 3)) for _ in sizes] if g.chance(0.2) else [1] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [int(g.rng.integers(0, kernel[i % rank])) for i in range(2 * rank)] if g.chance(0.4) else [0] * 2 * rank
    options: dict = {"strides": strides} if strides != [1] * rank or g.chance(0.5) else {}
    if dilations != [1] * rank and g.opset >= {"AveragePool": 19, "MaxPool": 10}.get(operator, 0):
        options["dilations"] = dilations
    else:
        reach = kernel
    if operator == "AveragePool" and g.chance(0.4):
        options["count_include_pad"] = 1
    if any(pads) or g.chance(0.3):
        options["pads"] = pads
    total = [n + pads[i] + pads[i + rank] for i, n in enumerate(sizes)]
    if any(t < r for t, r in zip(total, reach, strict=True)):
        return
    triples = list(zip(total, reach, strides, strict=True))
    after = [(t - r) // s + 1 for t, r, s in triples]
    channels = shape[1]
    if operator == "Conv":
        group = channels if g.chance(0.3) else 1
        channels = group * int(g.rng.integers(1, 3))
        bias = [g.normal(channels)] if g.chance(0.6) else []
        name = g.add(operator, name, g.normal(channels, shape[1] // group, *kernel), *bias, group=group, **options)
    else:
        name = g.add(operator, name, kernel_shape=kernel, **options)
    g.keep(name, (shape[0], channels, *after))


LAYERS = [number_by_number, number_by_number, pairs, pairs, products, reductions, normalisations, windows, windows]
