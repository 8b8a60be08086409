"""ONNX files as torch modules: the graph is read with the `onnx` package, checked, and run by torch operations.

Only the operators of `onnx_operators.OPERATORS` are known, in operator sets 7 and later. A file with others, or with
options whose effect is not reproduced exactly, is refused before anything is computed for a record. What the file
computes from its own numbers alone is computed while reading.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from taskveil.errors import TaskError
from taskveil.tasks.models.onnx_files import LEARNING_DOMAIN, OWN_DOMAIN, BeyondReaderError, load_onnx
from taskveil.tasks.models.onnx_module import Graph, OnnxModule, outputs
from taskveil.tasks.models.onnx_nodes import KINDS, Call, Node
from taskveil.tasks.models.onnx_operators import OPERATORS

OLDEST = 7  # before, broadcasting was another


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
    if opset < OLDEST:
        raise TaskError(f"{path} uses operator set {opset}; export it with {OLDEST} or later.")
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
