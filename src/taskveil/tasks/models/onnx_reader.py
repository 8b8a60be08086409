"""ONNX files as torch modules: the graph is read with the `onnx` package, checked, and run by torch operations.

Only the operators of `onnx_operators.OPERATORS` are known, in operator sets 7 and later. A file with others, or with
options whose effect is not reproduced exactly, is refused before anything is computed. All floating numbers share the
file's widest type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.arrays import Array
from taskveil.errors import TaskError
from taskveil.tasks.models.onnx_nodes import Call, Node
from taskveil.tasks.models.onnx_operators import FLOATING, OPERATORS

OLDEST = 7  # before, broadcasting was another
CONSTANT = "Constant"  # numbers in the place of a node: read with the weights


@dataclass(frozen=True, kw_only=True)
class _Graph:
    """What a file says: its nodes in order, its weights by name, and where records come in and answers out."""

    nodes: list[Node]
    weights: dict[str, Tensor]
    entry: str
    result: str
    shape: tuple[int, ...]
    """Of the input, the number of records first; 0 where that is free."""


def read_onnx(path: Path, *, logits: bool) -> tuple[nn.Module, int]:
    """The module and the number of attributes it takes. `logits`: leave out a softmax at the end."""
    model = _load(path)
    opset = _check_operators(path, model)
    nodes = [_node(n, opset) for n in model.graph.node]
    weights = _weights(path, model.graph, nodes)
    entry, shape = _entry(path, model.graph, weights)
    nodes = [node for node in nodes if node.kind != CONSTANT]
    result = model.graph.output[0].name
    if logits:
        rank = len(model.graph.output[0].type.tensor_type.shape.dim)
        nodes, result = _without_softmax(nodes, result, rank)
    _check_nodes(path, nodes, {*weights, entry})
    graph = _Graph(nodes=nodes, weights=weights, entry=entry, result=result, shape=shape)
    return OnnxModule(graph), math.prod(shape[1:])


def _load(path: Path) -> Any:
    """The file's content, valid by onnx's own checker."""
    try:
        import onnx
    except ImportError as error:
        raise TaskError("ONNX files need the onnx package: pip install 'taskveil[design]'.") from error
    if not path.is_file():
        raise TaskError(
            f"there is no file {path}; a model is an ONNX file, a torch module or a scikit-learn estimator."
        )
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
    except Exception as error:
        raise TaskError(f"{path} is no valid ONNX file: {error}") from error
    return model


def _check_operators(path: Path, model: Any) -> int:
    """The operator set, when all operators are known in it."""
    own = ("", "ai.onnx")
    unknown = {n.op_type for n in model.graph.node if n.op_type not in {*OPERATORS, CONSTANT} or n.domain not in own}
    if unknown:
        raise TaskError(
            f"{path} uses operators that are not supported: {', '.join(sorted(unknown))}. Export the model with plain "
            "layers, or pass the torch module or scikit-learn estimator itself."
        )
    opset = max(entry.version for entry in model.opset_import if entry.domain in own)
    if opset < OLDEST:
        raise TaskError(f"{path} uses operator set {opset}; export it with {OLDEST} or later.")
    return int(opset)


def _node(n: Any, opset: int) -> Node:
    from onnx.helper import get_attribute_value

    return Node(
        kind=n.op_type,
        inputs=tuple(n.input),
        outputs=tuple(n.output),
        options={a.name: get_attribute_value(a) for a in n.attribute},
        opset=opset,
    )


def _weights(path: Path, graph: Any, nodes: list[Node]) -> dict[str, Tensor]:
    """Initialisers and constants by name, floating numbers in one precision."""
    from onnx.numpy_helper import to_array

    try:
        arrays = {t.name: np.array(to_array(t)) for t in graph.initializer}
        arrays |= {node.outputs[0]: _constant(node, to_array) for node in nodes if node.kind == CONSTANT}
        return _one_precision({name: torch.from_numpy(array) for name, array in arrays.items()})
    except (TypeError, ValueError) as error:
        raise TaskError(f"{path} holds weights that torch cannot read: {error}") from error


def _constant(node: Node, to_array: Any) -> Array:
    """The number or numbers of a Constant, in whichever of its forms."""
    (form, value), *more = node.options.items()
    if more or form not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise TypeError(f"a Constant given as {form}")
    if form == "value":
        return np.array(to_array(value))
    return np.array(value, dtype=np.float32 if "float" in form else np.int64)


def _one_precision(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    kinds = [value.dtype for value in weights.values() if value.is_floating_point()]
    widest = max(kinds, key=lambda kind: torch.finfo(kind).bits, default=torch.float32)
    return {name: value.to(widest) if value.is_floating_point() else value for name, value in weights.items()}


def _entry(path: Path, graph: Any, weights: dict[str, Tensor]) -> tuple[str, tuple[int, ...]]:
    """Name and shape (records, …) of the one input."""
    entries = [i for i in graph.input if i.name not in weights]
    if len(entries) != 1 or len(graph.output) != 1:
        raise TaskError(f"{path} must have one input and one output, got {len(entries)} and {len(graph.output)}.")
    entry = entries[0].type.tensor_type
    shape = [d.dim_value for d in entry.shape.dim]
    if len(shape) < 2 or any(d <= 0 for d in shape[1:]):
        raise TaskError(f"{path} must state its input as (records, attributes); it says {shape}.")
    if entry.elem_type not in FLOATING:
        raise TaskError(f"{path} must take floating numbers.")
    return entries[0].name, tuple(shape)


def _without_softmax(nodes: list[Node], result: str, rank: int) -> tuple[list[Node], str]:
    """The graph up to a softmax over the classes at its end, where it has one."""
    last = next((node for node in nodes if result in node.outputs), None)
    if last is None or last.kind != "Softmax" or rank != 2 or last.options.get("axis", 1) not in (1, -1):
        return nodes, result
    return [node for node in nodes if node is not last], last.inputs[0]


def _check_nodes(path: Path, nodes: list[Node], known: set[str]) -> None:
    """Everything a node takes is there, and no option asks for what is not reproduced."""
    for node in nodes:
        missing = [name for name in node.inputs if name and name not in known]
        if missing:
            raise TaskError(f"{path} uses {missing[0]}, a second output or sparse weights, which are not supported.")
        known.add(node.outputs[0])
        wrong = OPERATORS[node.kind].refuse(node)
        if wrong is not None:
            raise TaskError(f"{path} holds {wrong}.")


class OnnxModule(nn.Module):
    """Runs the nodes in file order, which ONNX guarantees to be a valid one: records (N, n) → answers (N, m)."""

    def __init__(self, graph: _Graph) -> None:
        super().__init__()
        self.nodes, self.entry, self.result = graph.nodes, graph.entry, graph.result
        self.batch, self.shape = graph.shape[0], graph.shape[1:]
        # Shapes and axes stay apart from the weights, which follow the module to its device and precision.
        self.integers = {name: value for name, value in graph.weights.items() if not value.is_floating_point()}
        self.places = {name: f"w{i}" for i, name in enumerate(graph.weights) if name not in self.integers}
        for name, place in self.places.items():
            self.register_buffer(place, graph.weights[name])

    def forward(self, x: Tensor) -> Tensor:
        """All records at once; ValueError when a node mixes them up with other axes."""
        known: dict[str, Tensor] = {name: getattr(self, place) for name, place in self.places.items()}
        known |= {name: value.to(x.device) for name, value in self.integers.items()}
        known[self.entry] = x.reshape(len(x), *self.shape)
        for node in self.nodes:
            inputs = [known[name] if name else None for name in node.inputs]
            call = Call(node=node, inputs=inputs, floating=x.dtype, records=len(x), batch=self.batch)
            known[node.outputs[0]] = OPERATORS[node.kind].compute(call)
        answer = known[self.result]
        if answer.dim() == 0 or len(answer) != len(x):
            raise ValueError(f"{len(x)} records gave answers of shape {tuple(answer.shape)}")
        return answer.reshape(len(x), -1)
