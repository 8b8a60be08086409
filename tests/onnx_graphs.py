"""A random ONNX graph under construction: shapes are tracked while it grows, so that nearly all graphs are valid."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper

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
