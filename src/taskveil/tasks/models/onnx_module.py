"""A graph of ONNX nodes as a torch module: run as the file says, for as many records at once as the file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from taskveil.tasks.models.onnx_nodes import Call, Node
from taskveil.tasks.models.onnx_operators import OPERATORS


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
