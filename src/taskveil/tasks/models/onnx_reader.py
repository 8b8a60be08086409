"""ONNX files as torch modules: the graph is read with the `onnx` package, checked, and run by torch operations.

Only the operators of `onnx_operators.OPERATORS` are known, in operator sets 7 and later. A file with others, or with
options whose effect is not reproduced exactly, is refused before anything is computed for a record. Parts of the graph
that depend on no record are computed while reading.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.errors import TaskError
from taskveil.tasks.models.onnx_operators import OPERATORS
from taskveil.tasks.models.onnx_session import LEARNING_DOMAIN, OWN_DOMAIN, BeyondReaderError, load_onnx
from taskveil.tasks.models.onnx_shapes import KINDS, Call, Node


@dataclass(frozen=True, kw_only=True)
class Graph:
    """What a file says: its nodes in order, its numbers by name, and where records come in and answers out."""

    nodes: list[Node]
    weights: dict[str, Tensor]
    entry: str
    result: str
    shape: tuple[int, ...]
    """Of the input, the number of records first; 0 where that is free."""
    kind: torch.dtype
    """Of the input."""


class OnnxModule(nn.Module):
    """Runs the nodes in file order, which ONNX guarantees to be a valid one: records (N, n) → answers (N, m).

    No axis is taken for the records' and none is guessed. A file for any number of records is run once for all, and for
    one record with two copies of it: with a single one, its axis could be mistaken for others of length 1. A file for
    1 (or 8) records is run for every one (or every 8) of them by itself, all at once through `torch.vmap`.

    Every number has the type that the file gives it, unless the module is moved to another (`.to(torch.float32)`): then
    all floating numbers have that one.
    """

    precision: Tensor

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.nodes, self.entry, self.result = graph.nodes, graph.entry, graph.result
        self.batch, self.shape, self.kind = graph.shape[0], graph.shape[1:], graph.kind
        # First of the buffers, so that a module without other floating numbers says in which precision it computes.
        self.register_buffer("precision", torch.zeros((), dtype=graph.kind))
        # Shapes and axes stay apart from the weights, which follow the module to its device and precision.
        self.integers = {name: value for name, value in graph.weights.items() if not value.is_floating_point()}
        self.places = {name: f"w{i}" for i, name in enumerate(graph.weights) if name not in self.integers}
        for name, place in self.places.items():
            self.register_buffer(place, graph.weights[name])

    def forward(self, x: Tensor) -> Tensor:
        """Answers (N, m) to records (N, n); ValueError when they are not one row per record."""
        given = {name: getattr(self, place) for name, place in self.places.items()}
        given |= {name: value.to(x.device) for name, value in self.integers.items()}
        records = x.to(self.precision.dtype)
        if self.batch == 0:
            records = records if len(x) > 1 else records.repeat(2, 1)
            answer = self._run(records.reshape(-1, *self.shape), given)
        else:
            missing = -len(x) % self.batch
            records = torch.cat([records, records[-1:].expand(missing, -1)]) if missing else records
            parts = records.reshape(-1, self.batch, *self.shape)
            answer = torch.vmap(lambda part: _rows(self._run(part, given), self.batch))(parts).flatten(0, 1)
        answer = _rows(answer, len(records))[: len(x)]
        return answer if answer.is_floating_point() else answer.to(records.dtype)

    def _run(self, records: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        """The file's result for a batch shaped as its input."""
        known = {**given, self.entry: records}
        floating = None if records.dtype == self.kind else records.dtype
        for node in self.nodes:
            inputs = [known[name] if name else None for name in node.inputs]
            known |= outputs(node, Call(node=node, inputs=inputs, floating=floating))
        return known[self.result]


def _rows(answer: Tensor, records: int) -> Tensor:
    """One row per record; whatever a file answers to a single record is its row."""
    if records > 1 and (answer.dim() == 0 or len(answer) != records):
        raise ValueError(f"{records} records gave answers of shape {tuple(answer.shape)}")
    return answer.reshape(records, -1)


def outputs(node: Node, call: Call) -> dict[str, Tensor]:
    """What a node computes, by the names of its outputs."""
    computed = OPERATORS[node.kind].compute(call)
    return dict(zip(node.outputs, computed if isinstance(computed, tuple) else (computed,), strict=False))


OLDEST_OPSET = 7  # older operator sets broadcast in another way


def read_onnx(path: Path, *, logits: bool) -> tuple[nn.Module, int]:
    """The module and the number of attributes it takes. `logits`: leave out a softmax at the end."""
    model = load_onnx(path)
    opset = _check_operators(path, model)
    weights = {t.name: _tensor(path, t) for t in model.graph.initializer}
    entry, shape, kind = _entry(path, model.graph, weights)
    nodes, weights = _folded(path, model.graph, entry, weights, opset)
    result = model.graph.output[0].name
    if logits:
        rank = len(model.graph.output[0].type.tensor_type.shape.dim)
        nodes, result = _without_softmax(nodes, result, rank)
    used = {result, *(name for node in nodes for name in node.inputs)}
    weights = {name: value for name, value in weights.items() if name in used}
    graph = Graph(nodes=nodes, weights=weights, entry=entry, result=result, shape=shape, kind=kind)
    return OnnxModule(graph), math.prod(shape[1:])


def _check_operators(path: Path, model: Any) -> int:
    """The operator set, when all operators are known in it."""
    unknown = [n for n in model.graph.node if n.op_type not in OPERATORS or n.domain not in OWN_DOMAIN]
    if unknown:
        foreign = {n.domain for n in unknown} - {*OWN_DOMAIN, LEARNING_DOMAIN}
        raise (TaskError if foreign else BeyondReaderError)(
            f"{path} uses operators that are not supported: {', '.join(sorted({n.op_type for n in unknown}))}. Export "
            "the model with plain layers, or pass the torch module or scikit-learn estimator itself."
        )
    opset = max((entry.version for entry in model.opset_import if entry.domain in OWN_DOMAIN), default=0)
    if opset < OLDEST_OPSET:
        raise TaskError(f"{path} uses operator set {opset}; export it with {OLDEST_OPSET} or later.")
    return int(opset)


def _tensor(path: Path, proto: Any) -> Tensor:
    from onnx.numpy_helper import to_array

    try:
        return torch.from_numpy(np.array(to_array(proto)))
    except (TypeError, ValueError) as error:
        raise TaskError(f"{path} holds weights that torch cannot read: {error}") from error


def _entry(path: Path, graph: Any, weights: dict[str, Tensor]) -> tuple[str, tuple[int, ...], torch.dtype]:
    """Name, shape (records, …) and type of the one input."""
    entries = [i for i in graph.input if i.name not in weights]
    if len(entries) != 1 or len(graph.output) != 1:
        raise BeyondReaderError(
            f"{path} must have one input and one output, got {len(entries)} and {len(graph.output)}."
        )
    entry = entries[0].type.tensor_type
    shape = [d.dim_value for d in entry.shape.dim]
    if len(shape) < 2 or any(d <= 0 for d in shape[1:]):
        raise BeyondReaderError(f"{path} must state its input as (records, attributes); it says {shape}.")
    kind = KINDS.get(entry.elem_type)
    if kind is None or not kind.is_floating_point:
        raise BeyondReaderError(f"{path} must take floating numbers: FLOAT, DOUBLE or FLOAT16.")
    return entries[0].name, tuple(shape), kind


def _folded(
    path: Path, graph: Any, entry: str, weights: dict[str, Tensor], opset: int
) -> tuple[list[Node], dict[str, Tensor]]:
    """The nodes that depend on the records, and all numbers that do not; TaskError when one asks for what is not
    reproduced."""
    known, later, nodes = dict(weights), {entry}, []
    for n in graph.node:
        node = _node(path, n, opset, known)
        missing = [name for name in node.inputs if name and name not in known and name not in later]
        if missing:
            raise TaskError(f"{path} uses {missing[0]}, a second output or sparse weights, which are not supported.")
        wrong = OPERATORS[node.kind].refuse(node)
        if wrong is not None:
            raise TaskError(f"{path} holds {wrong}.")
        if all(name in known for name in node.inputs if name):
            call = Call(node=node, inputs=[known[name] if name else None for name in node.inputs], reading=True)
            try:
                known |= outputs(node, call)
            except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
                raise TaskError(f"{path} holds a {node.kind} that cannot be computed: {error}") from error
        else:
            nodes.append(dataclasses.replace(node, constants={}))  # or copies of the module would hold them twice
            later |= set(node.outputs) if node.kind == "Split" else {node.outputs[0]}
    return nodes, known


def _node(path: Path, n: Any, opset: int, known: dict[str, Tensor]) -> Node:
    from onnx import TensorProto
    from onnx.helper import get_attribute_value

    def plain(value: Any) -> Any:
        if isinstance(value, TensorProto):
            return _tensor(path, value)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    return Node(
        kind=n.op_type,
        inputs=tuple(n.input),
        outputs=tuple(n.output),
        options={a.name: plain(get_attribute_value(a)) for a in n.attribute},
        opset=opset,
        constants={place: known[name] for place, name in enumerate(n.input) if name in known},
    )


def _without_softmax(nodes: list[Node], result: str, rank: int) -> tuple[list[Node], str]:
    """The graph up to a softmax over the classes at its end, where it has one."""
    last = next((node for node in nodes if result in node.outputs), None)
    if last is None or last.kind != "Softmax" or rank != 2 or last.options.get("axis", 1) not in (1, -1):
        return nodes, result
    return [node for node in nodes if node is not last], last.inputs[0]
