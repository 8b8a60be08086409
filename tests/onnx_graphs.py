"""Random ONNX graphs: shapes are tracked while a graph grows, so that nearly all are valid, many of them unusual."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, defs, helper, numpy_helper

RECORDS = 7  # no other axis has this length
KINDS = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16}
Shape = tuple[int, ...]


class Unavailable(Exception):
    """An operator, or a form of it, that the operator set does not have."""


@dataclass
class Graph:
    """A graph under construction: its input is `x`, of shape (batch, …), any number of records when `batch` is 0."""

    rng: np.random.Generator
    opset: int
    batch: int
    shape: Shape
    kind: int
    nodes: list = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: list[tuple[str, Shape]] = field(default_factory=list)
    coarsest: type = np.float64  # the lowest precision that anything is computed in

    def __post_init__(self) -> None:
        self.rounds_to(KINDS[self.kind])

    def rounds_to(self, kind: type) -> None:
        self.coarsest = max(self.coarsest, kind, key=lambda known: np.finfo(known).eps)

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def choose(self, options: list) -> object:
        return options[int(self.rng.integers(len(options)))]

    def has(self, operator: str) -> bool:
        try:
            return bool(defs.get_schema(operator, self.opset))
        except defs.SchemaError:
            return False

    def constant(self, value: object, kind: type | None = None) -> str:
        """A number of the file's own: a weight, or a node as exporters write them."""
        name = f"c{len(self.weights) + len(self.nodes)}"
        array = np.asarray(value, dtype=kind or KINDS[self.kind])
        if self.chance(0.3):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.weights[name] = array
        return name

    def whole(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def normal(self, *shape: int) -> str:
        return self.constant(self.rng.normal(size=shape))

    def add(self, operator: str, *inputs: str, outputs: int = 1, **options: object) -> str:
        """A node; the name of its first output, the others end in .1, .2, …"""
        if not self.has(operator):
            raise Unavailable(operator)
        name = f"t{len(self.nodes)}"
        names = [name, *(f"{name}.{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **options))
        return name

    def keep(self, name: str, shape: Shape) -> None:
        if shape:  # single numbers lead nowhere
            self.tensors.append((name, tuple(int(n) for n in shape)))

    def pick(self) -> tuple[str, Shape]:
        """A tensor to go on from, most often the newest."""
        back = min(int(self.rng.geometric(0.7)), len(self.tensors))
        return self.tensors[-back]

    def axis(self, shape: Shape, *, any_axis: float = 0.03) -> int:
        """An axis, counted from either end; the records' own where a file is for one record, elsewhere hardly ever."""
        free = len(shape) == 1 or self.chance(0.3 if self.batch == 1 else any_axis)
        axis = int(self.rng.integers(0 if free else 1, len(shape)))
        return axis - len(shape) if self.chance(0.4) else axis


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


FAMILIES = [number_by_number, number_by_number, pairs, pairs, products, reductions, normalisations, windows, windows,
            shapes, shapes, parts]  # fmt: skip


def random_model(seed: int) -> tuple[ModelProto, Graph]:
    """A valid model of a few nodes, the same for the same seed."""
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([0, 1, 3], p=[0.45, 0.45, 0.1]))
    rank = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.2, 0.35, 0.05]))
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 6], size=rank, p=[0.15, 0.2, 0.2, 0.2, 0.15, 0.1]))
    kind = int(rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16], p=[0.65, 0.3, 0.05]))
    g = Graph(rng, int(rng.choice([9, 11, 13, 17, 18, 20, 22])), batch, shape, kind)
    g.keep("x", (batch or RECORDS, *shape))
    for _ in range(int(rng.integers(1, 8))):
        before = len(g.nodes), dict(g.weights), list(g.tensors)
        with contextlib.suppress(Unavailable):
            FAMILIES[int(rng.integers(len(FAMILIES)))](g)
        if len(g.tensors) == len(before[2]) or math.prod(g.tensors[-1][1]) > 4000:
            del g.nodes[before[0] :]
            g.weights, g.tensors = before[1], before[2]
    result, last = g.tensors[-1]
    if last and (batch != 1 or g.chance(0.5)):
        result, last = g.add("Flatten", result, axis=1), (1, 1)
    elif result == "x":
        result = g.add("Identity", result)
    graph = helper.make_graph(
        g.nodes, "g",
        [helper.make_tensor_value_info("x", kind, [batch or "N", *shape])],
        [helper.make_tensor_value_info(result, kind, [f"d{i}" for i in range(len(last))])],
        [numpy_helper.from_array(value, name) for name, value in g.weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=8), g
