"""Random layers for `onnx_fuzz`: whatever computes new numbers, with common and unusual options."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from onnx_graphs import KINDS, RECORDS, Graph, Shape


def number_by_number(g: Graph) -> None:
    name, shape = g.pick()
    operator = g.choose(["Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Round",
                         "Sign", "Sin", "Sqrt", "Softplus", "Softsign", "Relu", "Sigmoid", "Tanh", "HardSwish", "Mish",
                         "Clip", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Shrink", "Gelu",
                         "Dropout", "Pow", "PRelu", "Cast", "CastLike"])  # fmt: skip
    inputs, options = [name], {}
    if operator in ("Ceil", "Floor", "Round", "Sign", "Reciprocal"):
        inputs = [g.add("Add", name, g.normal(1))]  # ties and zeros would be matters of rounding
    elif operator in ("Log", "Sqrt"):
        inputs = [g.add("Add", g.add("Abs", name), g.constant(0.1))]
    elif operator == "Exp":
        inputs = [g.add("Tanh", name)]
    elif operator in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Selu") and g.chance(0.5):
        options["alpha"] = float(g.rng.uniform(0.1, 1.5))
    elif operator == "Shrink":
        options = {"lambd": float(g.rng.uniform(0.1, 1)), "bias": float(g.rng.uniform(0, 1))}
        g.rounds_to(np.float32)  # onnxruntime does, also for doubles
    elif operator == "Gelu" and g.chance(0.5):
        options["approximate"] = "tanh"
        g.rounds_to(np.float32)  # so do onnxruntime's constants
    elif operator == "Clip":
        low, high = np.sort(g.rng.normal(size=2))
        bounds = g.choose([{}, {"min": low}, {"max": high}, {"min": low, "max": high}])
        if g.opset >= 11:
            inputs += [g.constant(bounds[end]) if end in bounds else "" for end in ("min", "max")]
        else:
            options = {end: float(bound) for end, bound in bounds.items()}
    elif operator == "Dropout" and g.opset >= 12 and g.chance(0.6):
        inputs += [g.constant(0.4, np.float32), g.constant(g.chance(0.1), bool)]
    elif operator == "Pow":
        inputs += [g.constant(g.choose([2, 3, 0.5, -1]))]
        if g.chance(0.7):
            inputs[0] = g.add("Add", g.add("Abs", name), g.constant(0.1))
    elif operator == "PRelu":
        inputs += [g.normal(*g.choose([(1,), (shape[-1],), (*shape[1:-1], shape[-1])]))]
    elif operator == "Cast":
        there = g.choose([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
        g.rounds_to(KINDS[there])
        inputs, options = [g.add("Cast", name, to=there)], {"to": g.kind}
    elif operator == "CastLike":
        inputs = [g.add("Cast", name, to=TensorProto.DOUBLE), name]
    g.keep(g.add(operator, *inputs, **options), shape)


def pairs(g: Graph) -> None:
    (name, shape), (other, theirs) = g.pick(), g.pick()
    partner = g.choose([(other, theirs), (g.normal(), ()), (g.normal(shape[-1]), (shape[-1],)),
                        (g.normal(1, *shape[1:]), (1, *shape[1:]))])  # fmt: skip
    try:
        result = np.broadcast_shapes(shape, partner[1])
    except ValueError:
        return
    operator = g.choose(["Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "Mod", "Compare"])
    if operator == "Div":
        partner = (g.add("Add", g.add("Abs", partner[0]), g.constant(0.3)), partner[1])
    if operator == "Mod":
        shifted, size = g.add("Add", name, g.normal(1)), g.add("Add", g.add("Abs", partner[0]), g.constant(0.7))
        g.keep(g.add("Mod", shifted, size, fmod=1), result)
    elif operator == "Compare":
        compare(g, g.add("Add", name, g.normal(1)), partner[0], result)
    elif operator in ("Max", "Min", "Mean", "Sum") and g.chance(0.4):
        g.keep(g.add(operator, name, partner[0], g.normal(1)), result)
    else:
        g.keep(g.add(operator, *g.choose([(name, partner[0]), (partner[0], name)])), result)


def compare(g: Graph, a: str, b: str, shape: Shape) -> None:
    operators = [o for o in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal") if g.has(o)]
    truth = g.add(g.choose(operators), a, b)
    if g.chance(0.3):
        truth = g.add("Not", truth)
    if g.chance(0.4):
        truth = g.add(g.choose(["And", "Or", "Xor"]), truth, g.add("Greater", a, g.normal(1)))
    if g.chance(0.5):
        g.keep(g.add("Cast", truth, to=g.kind), shape)
    else:
        g.keep(g.add("Where", truth, *g.choose([(a, b), (a, g.normal()), (b, a)])), shape)


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
    operator = g.choose(["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"])
    if operator == "LogSum":
        name = g.add("Add", g.add("Abs", name), g.constant(0.1))
    axes = sorted({g.axis(shape) % len(shape) for _ in range(int(g.rng.integers(1, 3)))})
    given = [a - len(shape) if g.chance(0.3) else a for a in axes]
    keep, options, inputs = g.chance(0.5), {}, [name]
    if g.chance(0.1):
        axes, given = list(range(len(shape))), None
    if given is not None and g.opset >= (13 if operator == "Sum" else 18):
        inputs.append(g.whole(*given))
    elif given is not None:
        options["axes"] = given
    elif g.opset >= 18 and g.chance(0.5):
        options["noop_with_empty_axes"], axes = 1, []
    if keep and g.chance(0.5):
        options["keepdims"] = 1
    elif not keep:
        options["keepdims"] = 0
    if operator == "LogSumExp" and not axes and not keep:
        return
    left = tuple(1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes)
    g.keep(g.add(f"Reduce{operator}", *inputs, **options), left)


def normalisations(g: Graph) -> None:
    name, shape = g.pick()
    if len(shape) < 2:
        return
    operator = g.choose(["Softmax", "LogSoftmax", "BatchNormalization", "LayerNormalization", "InstanceNormalization",
                         "LpNormalization"])  # fmt: skip
    epsilon = {"epsilon": float(g.rng.uniform(1e-3, 0.1))} if g.chance(0.8) else {}
    if operator in ("Softmax", "LogSoftmax"):
        g.keep(g.add(operator, name, **({"axis": g.axis(shape)} if g.chance(0.8) else {})), shape)
    elif operator == "BatchNormalization":
        variance = g.constant(g.rng.uniform(0.2, 2, shape[1]))
        g.keep(g.add(operator, name, *(g.normal(shape[1]) for _ in range(3)), variance, **epsilon), shape)
    elif operator == "LayerNormalization":
        axis = g.axis(shape)
        rest = shape[axis % len(shape) :]
        if rest[0] == RECORDS:
            return
        offset = [g.normal(*rest)] if g.chance(0.7) else []
        g.keep(g.add(operator, name, g.normal(*rest), *offset, axis=axis, epsilon=0.01), shape)
    elif operator == "InstanceNormalization" and len(shape) > 2:
        g.keep(g.add(operator, name, g.normal(shape[1]), g.normal(shape[1]), **epsilon), shape)
    elif operator == "LpNormalization":
        g.keep(g.add(operator, g.add("Add", name, g.normal(1)), axis=g.axis(shape), p=int(g.rng.integers(1, 3))), shape)


def windows(g: Graph) -> None:
    name, shape = g.pick()
    if len(shape) < 3:
        return
    if len(shape) > 5 or g.chance(0.1):
        g.keep(g.add(g.choose(["GlobalAveragePool", "GlobalMaxPool"]), name), (*shape[:2], *[1] * (len(shape) - 2)))
        return
    sizes, rank = shape[2:], len(shape) - 2
    operator = g.choose(["Conv", "MaxPool", "AveragePool", "ConvTranspose"])
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
    ceil = operator in ("MaxPool", "AveragePool") and g.opset >= 10 and g.chance(0.3)
    if ceil:
        options["ceil_mode"] = 1
    if operator == "AveragePool" and g.chance(0.4):
        options["count_include_pad"] = 1
    automatic = g.choose(["SAME_UPPER", "SAME_LOWER", "VALID"]) if g.chance(0.25) else None
    if automatic is not None:
        options["auto_pad"] = automatic
    elif any(pads) or g.chance(0.3):
        options["pads"] = pads
    ends = [0] * 2 * rank if automatic == "VALID" else pads
    total = [n + ends[i] + ends[i + rank] for i, n in enumerate(sizes)]
    if any(t < r for t, r in zip(total, reach, strict=True)):
        return
    triples = list(zip(total, reach, strides, strict=True))
    after = [math.ceil((t - r) / s) + 1 if ceil else (t - r) // s + 1 for t, r, s in triples]
    if ceil:
        after = [
            m - ((m - 1) * s >= n + ends[i]) for i, (m, n, s) in enumerate(zip(after, sizes, strides, strict=True))
        ]
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        after = [math.ceil(n / s) for n, s in zip(sizes, strides, strict=True)]
    channels = shape[1]
    if operator == "Conv":
        group = channels if g.chance(0.3) else 1
        channels = group * int(g.rng.integers(1, 3))
        bias = [g.normal(channels)] if g.chance(0.6) else []
        name = g.add(operator, name, g.normal(channels, shape[1] // group, *kernel), *bias, group=group, **options)
    elif operator == "ConvTranspose":
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            return
        more = [int(g.rng.integers(0, s)) for s in strides] if g.chance(0.3) else [0] * rank
        after = [s * (n - 1) + m + r - ends[i] - ends[i + rank]
                 for i, (n, s, m, r) in enumerate(zip(sizes, strides, more, reach, strict=True))]  # fmt: skip
        channels = int(g.rng.integers(1, 3))
        options |= {"output_padding": more} if any(more) else {}
        if any(n < 1 for n in after):
            return
        name = g.add(operator, name, g.normal(shape[1], channels, *kernel), **options)
    else:
        name = g.add(operator, name, kernel_shape=kernel, **options)
    g.keep(name, (shape[0], channels, *after))


LAYERS = [number_by_number, number_by_number, pairs, pairs, products, reductions, normalisations, windows, windows]
